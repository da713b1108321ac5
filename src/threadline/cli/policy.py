"""`threadline tools`: show what tools may do, and for whom."""

from collections.abc import Sequence

import typer

from threadline.cli import output

app = typer.Typer(no_args_is_help=True)


@app.callback()
def tools() -> None:
    """Show what tools may do, and for whom."""


@app.command("policy")
def show_policy(as_json: output.Json = False) -> None:
    """Show which calls are made, proposed or refused, and who may make them."""
    from threadline.settings import AccessSettings
    from threadline.tools import policy_table
    from threadline.wiring.toolsets import TOOLS, load_access

    rules, roles = load_access(AccessSettings.load())
    rows = policy_table.policy_rows(TOOLS, rules, roles)
    sentences = [policy_table.rule_sentence(rule) for rule in rules.rules]
    fields = [head.replace(" ", "_") for head in policy_table.COLUMNS]
    document = {
        "tools": [dict(zip(fields, row, strict=True)) for row in rows],
        "rules": sentences,
    }
    output.show(document, lambda: _print_policy(rows, sentences), as_json=as_json)


def _print_policy(rows: Sequence[Sequence[str]], sentences: Sequence[str]) -> None:
    from threadline.tools import policy_table

    first, _, *verdicts = policy_table.COLUMNS[:5]
    output.print_table(policy_table.COLUMNS, rows, fixed=(first, *verdicts))
    output.print_line("The first rule that applies decides:")
    for number, sentence in enumerate(sentences, 1):
        output.print_line(f"{number}. {sentence}")
