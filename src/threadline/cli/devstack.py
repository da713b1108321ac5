"""`threadline up` and `threadline demo`: the whole product on this machine."""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from threadline.cli import output as telling
from threadline.cli import process as stopping
from threadline.cli.running_stack import home
from threadline.errors import Permanent, Transient

if TYPE_CHECKING:
    from threadline_devstack.stories.player import Chapter
    from threadline_devstack.stories.scene import Scene

PACE = 0.25
"""Seconds before each reply of the scripted model, so that one can follow."""


def up(
    pace: Annotated[float, typer.Option(help="Seconds before each reply of the scripted model.")] = PACE,
) -> None:
    """Start every service that the environment does not configure, and run until Ctrl-C."""
    code = stopping.play(_up(pace))
    telling.line("Everything is stopped." if code is None else "")
    raise typer.Exit(code or 0)


def demo(
    pace: Annotated[float, typer.Option(help="Seconds before each reply of the scripted model.")] = PACE,
) -> None:
    """Play a bug case, a conversation, work on records and a handover, then stop everything."""
    folder = Path(tempfile.mkdtemp(prefix="threadline-demo-"))
    code = stopping.play(_demo(folder, pace))
    if code:
        telling.line(f"The logs are in {folder / 'logs'}.")
        raise typer.Exit(code)
    shutil.rmtree(folder, ignore_errors=True)
    if code is None:
        telling.line("Stopped before the end of the story.")
        raise typer.Exit(130)


async def _up(pace: float) -> int:
    from threadline_devstack.stack import Stack, StackOptions

    place, wishes = home(), StackOptions(given=os.environ, pace=pace, usual_ports=True)
    async with Stack.running(place.root, wishes, telling.progress) as stack:
        telling.addresses(stack)
        try:
            ended = await stack.until_one_ends()
        except asyncio.CancelledError:
            telling.line("Stopping everything …")
            raise
        raise ended.failure(f"ended with exit code {ended.exit_code}")


async def _demo(folder: Path, pace: float) -> int:
    from threadline_devstack import environment
    from threadline_devstack.stack import Stack, StackOptions
    from threadline_devstack.stories.player import stories
    from threadline_devstack.stories.scene import Scene

    # Real tokens stay out: the story needs people who answer on cue, and is to cost nothing.
    wishes = StackOptions(given=environment.pick(os.environ, environment.MACHINE), pace=pace)
    begun = time.monotonic()
    try:
        async with Stack.running(folder, wishes, telling.progress) as stack, Scene.on(stack, telling.message) as scene:
            telling.scripted()
            for number, story in enumerate(stories(), start=1):
                telling.scene(number, story.title)
                if not await _play(story.chapters, scene):
                    return 1
                if number == 1:
                    await _retell(scene)
    except (Permanent, Transient) as error:
        telling.failed(str(error))
        return 1
    telling.line(f"The whole story, with starting and stopping everything, took {time.monotonic() - begun:.0f} s.")
    return 0


async def _play(chapters: "Sequence[Chapter]", scene: "Scene") -> bool:
    """Whether every chapter was seen to happen."""
    from threadline_devstack.stories.player import Verbs

    verbs = Verbs(scene)
    for number, chapter in enumerate(chapters, start=1):
        telling.chapter(number, chapter.title)
        try:
            await verbs.all(chapter.steps)
        except (Permanent, Transient) as error:
            telling.failed(f"Step {number} ({chapter.title}) failed: {error}")
            return False
        telling.seen()
    return True


async def _retell(scene: "Scene") -> None:
    telling.transitions(await scene.transitions())
    telling.conversation(await scene.conversation())
    telling.turns(await scene.turns())
    telling.line(f"The workflow in Temporal's UI, while the stack was up: {scene.workflow_url}")
