"""The sandbox's Slack is stored on disk: a restarted sandbox shows the same as before."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from threadline.errors import Permanent
from threadline_devstack.slack import identity
from threadline_devstack.slack.app import SlackSandbox
from threadline_devstack.slack.model import Json, SandboxUser, SlackRefusal

REPORTS = identity.REPORTS
GENERAL = identity.GENERAL
REPORTER = identity.REPORTER
DEVELOPER = identity.DEVELOPER


def shown(sandbox: SlackSandbox) -> dict[str, list[Json]]:
    """Return everything visible to people, except for the address of this run."""
    told: dict[str, list[Json]] = {}
    for channel in sandbox.workspace.channels.values():
        told[str(channel.as_slack())] = sandbox.messages(channel.id)
    return told


def acted(sandbox: SlackSandbox) -> None:
    """Make one change of each kind."""
    workspace = sandbox.workspace
    file = workspace.add_file("cart.png", REPORTER, b"\x89PNG\x00\xff")
    root = workspace.post(REPORTS, REPORTER, "The cart is wrong", files=[file.id])
    payload = {"event_type": "threadline_post", "event_payload": {"key": "BUG-1"}}
    answer = workspace.post(
        REPORTS,
        identity.BOT_USER,
        "I look",
        thread_ts=root.ts,
        bot_id=identity.BOT_ID,
        metadata=payload,
        blocks=[{"type": "divider"}],
    )
    workspace.edit(REPORTS, answer.ts, "I am looking", by=identity.BOT_USER)
    workspace.react(REPORTS, root.ts, identity.BOT_USER, "eyes")
    workspace.react(REPORTS, root.ts, DEVELOPER, "tada")
    workspace.unreact(REPORTS, root.ts, DEVELOPER, "tada")
    gone = workspace.post(REPORTS, REPORTER, "My card is 1234", thread_ts=root.ts)
    workspace.delete(REPORTS, gone.ts)
    workspace.post(REPORTS, REPORTER, "Still wrong", thread_ts=root.ts, broadcast=True)
    tombstone = workspace.post(GENERAL, REPORTER, "Never mind")
    workspace.post(GENERAL, DEVELOPER, "Why?", thread_ts=tombstone.ts)
    workspace.delete(GENERAL, tombstone.ts)
    workspace.add_user(SandboxUser("U0EVE", "eve", "Eve", is_stranger=True, team="T0OTHER"))
    random = workspace.create_channel("random", [identity.BOT_USER, REPORTER])
    workspace.join(random.id, DEVELOPER)
    workspace.leave(random.id, REPORTER)
    workspace.archive(random.id)
    workspace.post(workspace.open_im(REPORTER).id, REPORTER, "psst")
    workspace.unfurl(REPORTS, root.ts, [{"title": "A preview"}])


async def test_sandbox_that_starts_again_shows_the_same(tmp_path: Path) -> None:
    kept = tmp_path / "slack.db"
    async with SlackSandbox.running(file=kept) as first:
        acted(first)
        before = shown(first)
        people = dict(first.workspace.users)
        url = first.url
        (file,) = first.workspace.files
    async with SlackSandbox.running(file=kept) as second:
        assert str(shown(second)).replace(second.url, url) == str(before)
        assert second.workspace.users == people
        assert second.workspace.file(file).content == b"\x89PNG\x00\xff"


async def test_thread_continues_after_a_restart_without_a_repeated_timestamp_or_id(
    tmp_path: Path,
) -> None:
    """Even when the clock was set back in between."""
    kept = tmp_path / "slack.db"
    async with SlackSandbox.running(file=kept, clock=lambda: 2_000_000_000.0) as first:
        root = first.say(REPORTER, REPORTS, "The cart is wrong")
        last = first.workspace.react(REPORTS, root, DEVELOPER, "eyes")
        file = first.workspace.add_file("a.txt", REPORTER, b"a")
        direct = first.workspace.open_im(REPORTER)
    async with SlackSandbox.running(file=kept, clock=lambda: 1_000_000_000.0) as second:
        answer = second.say(REPORTER, REPORTS, "Still", thread=root)
        assert float(answer) > float(last) > float(root)
        assert [each["ts"] for each in second.thread(REPORTS, root)] == [root, answer]
        again = second.workspace.add_file("a.txt", REPORTER, b"a")
        assert again.id not in {file.id, direct.id}
        assert second.workspace.open_im(REPORTER).id == direct.id
    async with SlackSandbox.running(file=kept) as third:
        assert [each["ts"] for each in third.thread(REPORTS, root)] == [root, answer]


def killed_while_speaking(file: Path) -> list[str]:
    """Return the timestamps that a sandbox reported before it was killed."""
    source = f"""
import asyncio
from pathlib import Path
from threadline_devstack.slack.app import SlackSandbox

async def main():
    async with SlackSandbox.running(file=Path({str(file)!r})) as sandbox:
        for number in range(10_000):
            print(sandbox.say({REPORTER!r}, {REPORTS!r}, f"Report {{number}}"), flush=True)

asyncio.run(main())
"""
    with subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(50)]
        os.kill(child.pid, signal.SIGKILL)
        told += child.stdout.read().splitlines(keepends=True)
    return [each.strip() for each in told if each.endswith("\n")]


async def test_no_reported_message_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    """Every reported message is on disk; the process reports by printing."""
    told = await asyncio.to_thread(killed_while_speaking, tmp_path / "slack.db")
    async with SlackSandbox.running(file=tmp_path / "slack.db") as sandbox:
        kept = [each["ts"] for each in sandbox.messages(REPORTS)]
    assert kept[: len(told)] == told
    assert len(kept) - len(told) <= 1, "at most one was stored but not reported"


async def test_forgotten_messages_stay_forgotten(tmp_path: Path) -> None:
    async with SlackSandbox.running(file=tmp_path / "slack.db") as first:
        acted(first)
        first.workspace.forget(REPORTS)
    async with SlackSandbox.running(file=tmp_path / "slack.db") as second:
        assert second.messages(REPORTS) == []
        with pytest.raises(SlackRefusal):
            second.workspace.message(REPORTS, "1.0")


@pytest.mark.parametrize("damage", ["another format", "no database"])
async def test_unreadable_file_is_reported_with_the_remedy(tmp_path: Path, damage: str) -> None:
    kept = tmp_path / "slack.db"
    if damage == "another format":
        with sqlite3.connect(kept) as file:
            file.execute("PRAGMA user_version = 99")
    else:
        kept.write_bytes(b"x" * 5000)
    with pytest.raises(Permanent, match="threadline up --fresh"):
        async with SlackSandbox.running(file=kept):
            pass


async def test_sandbox_without_a_file_begins_empty() -> None:
    async with SlackSandbox.running() as first:
        first.say(REPORTER, REPORTS, "The cart is wrong")
    async with SlackSandbox.running() as second:
        assert second.messages(REPORTS) == []
