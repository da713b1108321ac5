"""The console: a command's result as text or as JSON, lines, progress, and tables.

Tables fit the terminal. In a pipe or a file each row is one whole line, so that no script loses
data; the variable COLUMNS sets a width there as well.
"""

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from threadline.cases.model import Entry
    from threadline.cases.store.case import TurnRecord
    from threadline.cases.store.lists import Transition

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead of text, for scripts.")
]
"""The option of every command that reads; `show` takes its value."""

console = Console(highlight=False)
_LONGEST_CELL = 160
"""Characters of a cell in a terminal."""
_NO_NAMES: Mapping[str, str] = {}


def show(document: Any, text: Callable[[], None], *, as_json: bool) -> None:
    """Print the result of a command that reads.

    Args:
        document: The result as values that JSON knows, dates and times, enums, numbers and
            dataclasses. Its field names are a promise to scripts.
        text: Prints the same result for people.
        as_json: Print the document, and nothing else.
    """
    if not as_json:
        text()
        return
    from pydantic_core import to_jsonable_python

    plain = to_jsonable_python(document, inf_nan_mode="null")
    # an escaped character is valid in every encoding of the terminal
    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    typer.echo(json.dumps(plain, ensure_ascii=encoding != "utf-8", indent=2))


def print_line(text: str) -> None:
    if text:
        console.print(escape(text), soft_wrap=True)


def print_title(text: str) -> None:
    console.print(f"\n[bold]{escape(text)}[/bold]", soft_wrap=True)


def print_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    fixed: Collection[str] = (),
    longest: int = _LONGEST_CELL,
) -> None:
    """Print a table that fits the terminal; without a terminal, print each row as one whole line.

    Args:
        heads: The heads of the columns. The last column is the widest one.
        rows: The cells of each row.
        fixed: Heads of the columns that are never wrapped, such as numbers.
        longest: Characters of a cell in a terminal; a longer one ends in an ellipsis.
    """
    lines = [[" ".join(cell.split()) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(heads, *lines, strict=True)]
    width = _terminal_width()
    if width is None:
        _print_whole([heads, *lines], widths)
        return
    gap = 2 if sum(widths) + 2 * (len(widths) - 1) <= width else 1
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for head in heads:
        is_fixed = head in fixed
        table.add_column(Text(head), no_wrap=is_fixed, overflow="ellipsis" if is_fixed else "fold")
    for line in lines:
        table.add_row(*(Text(_shortened(cell, longest)) for cell in line))
    console.print(table, width=width)


def _terminal_width() -> int | None:
    """Return the number of columns; None for a pipe or a file without the variable COLUMNS."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    return console.width if console.is_terminal else None


def _print_whole(lines: Iterable[Sequence[str]], widths: Sequence[int]) -> None:
    for line in lines:
        padded = [
            cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True)
        ]
        print_line("  ".join(padded).rstrip())


def _shortened(cell: str, longest: int) -> str:
    """Cut a long cell in place: a text without spaces has no word to cut after."""
    return cell if len(cell) <= longest else f"{cell[: longest - 1].rstrip()}…"


def print_error(text: str) -> None:
    console.print(f"[bold red]✗[/bold red] {escape(text)}", soft_wrap=True)


def cost_text(cost_usd: float | None, digits: int = 4) -> str:
    """Return a cost as text for people. Prices are loaded only here."""
    from threadline.models import prices

    return prices.cost_text(cost_usd, digits=digits)


def person_text(user_id: str, names: Mapping[str, str]) -> str:
    """Return a user's name with the id in parentheses; the id alone without a stored name."""
    from threadline.slack.model import name_with_id

    return name_with_id(names.get(user_id, ""), user_id)


def progress(text: str) -> None:
    console.print(f"[green]✓[/green] {escape(text)}")


@contextmanager
def progress_bar(words: str) -> Iterator[Callable[[int, str, str], None]]:
    """Show progress, only in a terminal. The yielded function takes the total, the name and the
    outcome of each finished part.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[at]}"),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(words, total=None, at="")
        yield lambda size, name, _: bar.update(task, total=size, advance=1, at=escape(name))


def transitions(steps: "Iterable[Transition]", names: Mapping[str, str] = _NO_NAMES) -> None:
    """Print a case's steps. A step starts from the status of the step before it."""
    print_title("The case's transitions")
    rows = [
        (_clock(each.at), each.to, each.reason, person_text(each.actor, names)) for each in steps
    ]
    print_table(("when", "status", "reason", "by"), rows, fixed=("when", "status", "reason"))


def conversation(entries: "Iterable[Entry]", names: Mapping[str, str] = _NO_NAMES) -> None:
    print_title("The conversation as stored")
    rows = [(_clock(each.at), _sender_text(each, names), each.kind, each.text) for each in entries]
    print_table(("when", "who", "kind", "text"), rows, fixed=("when", "kind"))


def _sender_text(entry: "Entry", names: Mapping[str, str]) -> str:
    if entry.sender_type == "bot":
        return entry.sender_type
    return f"{entry.sender_type} {person_text(entry.sender_id, names)}".rstrip()


def turns(records: "Sequence[TurnRecord]") -> None:
    from threadline.models.model import add_costs

    print_title("The agent's turns")
    heads = ("turn", "attempt", "tokens in", "tokens out", "seconds", "cost", "action")
    rows = [
        (
            str(turn.turn),
            str(turn.attempt),
            str(turn.input_tokens),
            str(turn.output_tokens),
            f"{turn.duration_s:.1f}",
            cost_text(turn.cost_usd),
            turn.action or turn.status,
        )
        for turn in records
    ]
    print_table(heads, rows, fixed=heads[:-1])
    total = cost_text(add_costs(turn.cost_usd for turn in records))
    print_line(f"{total} in all, at a model's list price; the scripted model costs nothing")


def _clock(at: datetime) -> str:
    return at.strftime("%H:%M:%S")
