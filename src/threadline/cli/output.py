"""The console: lines, progress, and tables about cases."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from threadline.cases.model import Entry
    from threadline.cases.store.case import TurnRecord
    from threadline.cases.store.lists import Transition

console = Console(highlight=False)


def print_line(text: str) -> None:
    if text:
        console.print(escape(text), soft_wrap=True)


def cost_text(cost_usd: float | None, digits: int = 4) -> str:
    """Return a cost as text for people. Prices are loaded only here."""
    from threadline.models import prices

    return prices.cost_text(cost_usd, digits=digits)


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


def print_error(text: str) -> None:
    console.print(f"[bold red]✗[/bold red] {escape(text)}", soft_wrap=True)


def transitions(steps: "Iterable[Transition]") -> None:
    table = Table(
        "when", "from", "to", "reason", "by", title="The case's transitions", title_justify="left"
    )
    for step in steps:
        table.add_row(_clock(step.at), step.before or "", step.to, step.reason, step.actor)
    console.print("\n", table)


def conversation(entries: "Iterable[Entry]") -> None:
    table = Table(
        "when", "who", "kind", "text", title="The conversation as stored", title_justify="left"
    )
    for entry in entries:
        words = textwrap.shorten(entry.text, 160, placeholder=" …")
        table.add_row(_clock(entry.at), entry.sender_type, entry.kind, escape(words))
    console.print("\n", table)


def turns(records: "Sequence[TurnRecord]") -> None:
    from threadline.models.model import add_costs

    table = Table(
        "turn",
        "attempt",
        "action",
        "tokens in",
        "tokens out",
        "seconds",
        "cost",
        title_justify="left",
    )
    table.title = "The agent's turns"
    for turn in records:
        figures = (
            str(turn.input_tokens),
            str(turn.output_tokens),
            f"{turn.duration_s:.1f}",
            cost_text(turn.cost_usd),
        )
        table.add_row(str(turn.turn), str(turn.attempt), turn.action or turn.status, *figures)
    total = cost_text(add_costs(turn.cost_usd for turn in records))
    table.caption = f"{total} in all, at a model's list price; the scripted model costs nothing"
    console.print("\n", table)


def _clock(at: datetime) -> str:
    return at.strftime("%H:%M:%S")
