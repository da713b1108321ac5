"""How commands speak to a person: progress, the chat of a case, and tables."""

import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

if TYPE_CHECKING:
    from threadline.cases.model import Entry
    from threadline.cases.store.case import CaseRecord, PullRequest, TurnRecord
    from threadline.cases.store.lists import Transition
    from threadline.threads.store import QuarantinedMessage
    from threadline_devstack.stack import Stack

LONGEST = 420
"""Characters of a message that are shown: what the bot says is long, and the page shows it whole."""

_SCRIPTED = (
    "[bold]The model's words are scripted:[/bold] no ANTHROPIC_API_KEY is used. The agent itself is real: it searches, "
    "reads and edits real files with its real tools."
)

console = Console(highlight=False)


def line(text: str) -> None:
    if text:
        console.print(escape(text), soft_wrap=True)


def progress(text: str) -> None:
    console.print(f"[green]✓[/green] {escape(text)}")


@contextmanager
def progress_bar(words: str) -> Iterator[Callable[[int, str, str], None]]:
    """Shows how far a work is, in a terminal alone; what is yielded is told its size and each part that is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[at]}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(words, total=None, at="")
        yield lambda size, name, _: bar.update(task, total=size, advance=1, at=escape(name))


def scripted() -> None:
    console.print(_SCRIPTED)


def failed(text: str) -> None:
    console.print(f"[bold red]✗[/bold red] {escape(text)}", soft_wrap=True)


def scene(number: int, title: str) -> None:
    console.print(f"\n[bold]Scene {number}: {escape(title)}[/bold]")


def chapter(number: int, title: str) -> None:
    console.print(f"\n[bold cyan]{number}. {escape(title)}[/bold cyan]")


def seen() -> None:
    console.print("   [green]✓ seen to happen[/green]")


def message(said: dict[str, Any]) -> None:
    """A message of the sandbox, as Slack's JSON with its channel."""
    from threadline_devstack.slack.workspace import CHANNELS, PEOPLE
    from threadline_devstack.stories.scene import message_text

    names = {person.id: person.name for person in PEOPLE}
    places = {channel: name for channel, name, _ in CHANNELS}
    who = names.get(said.get("user", ""), "threadline")
    words = textwrap.shorten(said.get("text") or message_text(said), LONGEST, placeholder=" …")
    style = "magenta" if who == "threadline" else "yellow"
    console.print(
        f"   [dim]#{places.get(said['channel'], said['channel'])}[/dim] [{style}]{who}[/{style}]: {escape(words)}"
    )


def addresses(stack: "Stack") -> None:
    table = Table(show_header=False, box=None, padding=(0, 2))
    if not stack.slack_is_real:
        table.add_row("Slack sandbox", f"[bold]{stack.slack_url}[/bold]")
    if stack.ui_url:
        table.add_row("Temporal UI", f"[bold]{stack.ui_url}[/bold]")
    table.add_row("Logs", escape(str(stack.home.logs)))
    console.print(Panel(table, title="Threadline is up", expand=False))
    if not stack.slack_is_real:
        console.print(
            "Open the Slack sandbox, write “The cart total is too high with the code SAVE10” in #bug-reports as the "
            "reporter,\nand answer the findings in #bug-summaries as the developer: “Please fix it”. "
            "Or mention the bot in #general:\n“@threadline show the project Web shop”, "
            "“@threadline set the status of rfp_abc123 to proposal submitted”, or “@threadline what does the Starter "
            "plan cost?”."
        )
    if stack.words_are_scripted:
        scripted()
    console.print("Ctrl-C stops everything; the data stays.")


def transitions(steps: "Iterable[Transition]") -> None:
    table = Table("when", "from", "to", "reason", "by", title="The case's transitions", title_justify="left")
    for step in steps:
        table.add_row(_clock(step.at), step.before or "", step.to, step.reason, step.actor)
    console.print("\n", table)


def conversation(entries: "Iterable[Entry]") -> None:
    table = Table("when", "who", "kind", "text", title="The conversation as stored", title_justify="left")
    for entry in entries:
        words = textwrap.shorten(entry.text, 160, placeholder=" …")
        table.add_row(_clock(entry.at), entry.sender_type, entry.kind, escape(words))
    console.print("\n", table)


def turns(records: "Iterable[TurnRecord]") -> None:
    records = list(records)
    table = Table("turn", "attempt", "action", "tokens in", "tokens out", "seconds", "cost", title_justify="left")
    table.title = "The agent's turns"
    for turn in records:
        table.add_row(
            str(turn.turn),
            str(turn.attempt),
            turn.action or turn.status,
            str(turn.input_tokens),
            str(turn.output_tokens),
            f"{turn.duration_s:.1f}",
            f"${turn.cost_usd:.4f}",
        )
    total = sum(turn.cost_usd for turn in records)
    table.caption = f"${total:.4f} in all, at a model's list price; the scripted model costs nothing"
    console.print("\n", table)


def cases(records: "Iterable[CaseRecord]") -> None:
    table = Table("case", "status", "severity", "title", "reporter", "opened", "cost", box=None, pad_edge=False)
    for record in records:
        table.add_row(
            record.bug_id,
            record.status,
            record.severity,
            escape(textwrap.shorten(record.title, 60, placeholder="…")),
            record.reporter_id,
            record.created_at.strftime("%Y-%m-%d %H:%M"),
            f"${record.cost_usd:.2f}",
        )
    console.print(table if table.row_count else "There is no case.")


def quarantine(kept: "Iterable[tuple[QuarantinedMessage, str]]") -> None:
    """Each with its whole text, which is what somebody needs who wants to know what it was."""
    told = list(kept)
    for message, bug_id in told:
        console.print(
            f"[bold]{message.at:%Y-%m-%d %H:%M:%S}[/bold] {bug_id or 'no case'}, "
            f"thread {escape(message.thread.key)}, {escape(message.message_id)}"
        )
        line(message.error)
        console.print(escape(message.text), soft_wrap=True)
    if not told:
        line("Nothing is in quarantine.")


def case(record: "CaseRecord", request: "PullRequest | None") -> None:
    console.print(f"[bold]{record.bug_id}[/bold] {escape(record.title)}")
    console.print(f"{record.status}, {record.severity}, reported by {record.reporter_id}")
    if request:
        console.print(f"Pull request ({request.state}): {escape(request.url)}")


def _clock(at: datetime) -> str:
    return at.strftime("%H:%M:%S")
