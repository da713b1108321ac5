"""`threadline tools`: show what tools may do, and for whom."""

import typer
from rich.table import Column, Table

from threadline.cli import output

app = typer.Typer(no_args_is_help=True)


@app.callback()
def tools() -> None:
    """Show what tools may do, and for whom."""


@app.command("policy")
def show_policy() -> None:
    """Show which calls are made, proposed or refused, and who may make them."""
    from threadline.settings import AccessSettings
    from threadline.tools import policy_table
    from threadline.wiring.toolsets import TOOLS, load_access

    rules, roles = load_access(AccessSettings.load())
    first, *others = policy_table.COLUMNS
    table = Table(Column(first, no_wrap=True), *others)
    for row in policy_table.policy_rows(TOOLS, rules, roles):
        table.add_row(*row)
    output.console.print(table)
    output.print_line("The first rule that applies decides:")
    for number, rule in enumerate(rules.rules, 1):
        output.print_line(f"{number}. {policy_table.rule_sentence(rule)}")
