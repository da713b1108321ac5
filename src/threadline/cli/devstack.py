"""`threadline up` and `threadline demo`: the whole product on this machine."""

import asyncio
import os
import shutil
import tempfile
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from threadline.cli import output, process
from threadline.cli.connections import stack_home
from threadline.errors import Permanent, Transient

if TYPE_CHECKING:
    from threadline_devstack.stack import Stack
    from threadline_devstack.stories.player import Chapter
    from threadline_devstack.stories.scene import Scene

_MAX_SHOWN = 420
"""Characters of a message in the terminal: the bot's messages are long, and the page shows all of
them.
"""
_SCRIPTED = (
    "[bold]The model's replies are scripted:[/bold] no ANTHROPIC_API_KEY is used. The agent "
    "itself is real: it searches, reads and edits real files with its real tools."
)
PaceOption = Annotated[
    float, typer.Option(help="Seconds before each reply of the scripted model.")
]
FreshOption = Annotated[
    bool,
    typer.Option(
        "--fresh",
        help="Start over: first remove the Slack, Temporal and Postgres of earlier runs.",
    ),
]
PACE = 0.25
"""Seconds: slow enough to follow."""


def up(pace: PaceOption = PACE, fresh: FreshOption = False) -> None:
    """Start every service that the environment does not configure, and run until Ctrl-C.

    The data stays in THREADLINE_HOME: Slack, Temporal and Postgres go on where the last run ended.
    """
    code = process.run_interactive(_up(pace, fresh=fresh))
    output.print_line("Everything is stopped." if code is None else "")
    raise typer.Exit(code or 0)


def demo(pace: PaceOption = PACE) -> None:
    """Play a bug case, a conversation, work on records and a handover, then stop everything."""
    folder = Path(tempfile.mkdtemp(prefix="threadline-demo-"))
    code = process.run_interactive(_demo(folder, pace))
    if code:
        output.print_line(f"The logs are in {folder / 'logs'}.")
        raise typer.Exit(code)
    shutil.rmtree(folder, ignore_errors=True)
    if code is None:
        output.print_line("Stopped before the end of the story.")
        raise typer.Exit(130)


async def _up(pace: float, *, fresh: bool) -> int:
    from threadline_devstack.stack import Stack, StackOptions

    place = stack_home()
    wishes = StackOptions(given=os.environ, pace=pace, usual_ports=True, fresh=fresh)
    async with Stack.running(place.root, wishes, output.progress) as stack:
        _print_addresses(stack)
        try:
            ended = await stack.processes.until_one_ends()
        except asyncio.CancelledError:
            output.print_line("Stopping everything …")
            raise
        raise ended.failure(f"ended with exit code {ended.exit_code}")


async def _demo(folder: Path, pace: float) -> int:
    from threadline_devstack import environment
    from threadline_devstack.stack import Stack, StackOptions
    from threadline_devstack.stories.player import stories
    from threadline_devstack.stories.scene import Scene

    # Leave out real tokens: the story needs scripted people, and must cost nothing.
    wishes = StackOptions(given=environment.pick(os.environ, environment.MACHINE), pace=pace)
    begun = time.monotonic()
    try:
        async with (
            Stack.running(folder, wishes, output.progress) as stack,
            Scene.on(stack, _print_message) as scene,
        ):
            output.console.print(_SCRIPTED)
            for number, story in enumerate(stories(), start=1):
                output.console.print(f"\n[bold]Scene {number}: {escape(story.title)}[/bold]")
                if not await _play(story.chapters, scene):
                    return 1
                if number == 1:
                    output.transitions(await scene.transitions())
                    output.conversation(await scene.conversation())
                    output.turns(await scene.turns())
                    output.print_line(
                        "The workflow in Temporal's UI, while the stack was up: "
                        f"{scene.workflow_url}"
                    )
    except (Permanent, Transient) as error:
        output.print_error(str(error))
        return 1
    output.print_line(
        "The whole story, with starting and stopping everything, took "
        f"{time.monotonic() - begun:.0f} s."
    )
    return 0


async def _play(chapters: "Sequence[Chapter]", scene: "Scene") -> bool:
    """Play the chapters. Return whether the expected outcome of each was observed."""
    from threadline_devstack.stories.player import Verbs

    verbs = Verbs(scene)
    for number, chapter in enumerate(chapters, start=1):
        output.console.print(f"\n[bold cyan]{number}. {escape(chapter.title)}[/bold cyan]")
        try:
            await verbs.all(chapter.steps)
        except (Permanent, Transient) as error:
            output.print_error(f"Step {number} ({chapter.title}) failed: {error}")
            return False
        output.console.print("   [green]✓ observed[/green]")
    return True


def _print_message(said: dict[str, Any]) -> None:
    """Print a message of the sandbox, given as Slack's JSON with its channel."""
    from threadline_devstack.slack.workspace import CHANNELS, PEOPLE
    from threadline_devstack.stories.scene import message_text

    names = {person.id: person.name for person in PEOPLE}
    places = {channel: name for channel, name, _ in CHANNELS}
    who = names.get(said.get("user", ""), "threadline")
    words = textwrap.shorten(said.get("text") or message_text(said), _MAX_SHOWN, placeholder=" …")
    style = "magenta" if who == "threadline" else "yellow"
    output.console.print(
        f"   [dim]#{places.get(said['channel'], said['channel'])}[/dim] "
        f"[{style}]{who}[/{style}]: {escape(words)}"
    )


def _print_addresses(stack: "Stack") -> None:
    table = Table(show_header=False, box=None, padding=(0, 2))
    if not stack.slack_is_real:
        table.add_row("Slack sandbox", f"[bold]{stack.slack.url}[/bold]")
    if stack.ui_url:
        table.add_row("Temporal UI", f"[bold]{stack.ui_url}[/bold]")
    table.add_row("Logs", escape(str(stack.home.logs)))
    output.console.print(Panel(table, title="Threadline is up", expand=False))
    if not stack.slack_is_real:
        output.console.print(
            "Open the Slack sandbox, write “The cart total is too high with the code SAVE10” in "
            "#bug-reports as the reporter,\nand answer the findings in #bug-summaries as the "
            "developer: “Please fix it”. Or mention the bot in #general:\n“@threadline show the "
            "project Web shop”, “@threadline set the status of rfp_abc123 to proposal "
            "submitted”, or “@threadline what does the Starter plan cost?”."
        )
    if stack.words_are_scripted:
        output.console.print(_SCRIPTED)
    output.console.print(
        f"Ctrl-C stops everything; the data stays in {escape(str(stack.home.root))}, and the "
        "next start continues with it. `make up FRESH=1` starts over."
    )
