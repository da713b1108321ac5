"""`make up`, Ctrl-C, `make up` again: Slack, cases and conversations are as they were, and the
threads go on.
"""

import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from sqlalchemy import text
from temporalio.client import Client

from tests.support.faulty_sandboxes import FaultySlack
from tests.support.journey_scene import JourneyScene
from threadline.cases.model import CaseStatus
from threadline.db.engine import Database
from threadline.threads.contract import (
    CATCH_UP_ID,
    CATCH_UP_REQUESTED,
    CATCH_UP_WORKFLOW,
    CatchUpState,
)
from threadline.threads.model import CORE_QUEUE
from threadline_devstack import environment
from threadline_devstack.slack.identity import REPORTER, REPORTS, SUMMARIES
from threadline_devstack.stack import Stack, StackOptions

pytestmark = [
    pytest.mark.journey,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(500),
]

CLEAR = "The cart total is too high with the discount code SAVE10 and twelve notebooks."


class SlackOfEarlierToday(FaultySlack):
    """Every message was sent ten minutes ago, so that the catch-up does not leave it to ordinary
    delivery.
    """

    def __init__(
        self, url: str, session: aiohttp.ClientSession, *, clock: Callable[[], float], **more: Any
    ) -> None:
        super().__init__(url, session, clock=lambda: clock() - 600, **more)


OPTIONS = StackOptions(
    given=environment.pick(os.environ, environment.MACHINE), slack=SlackOfEarlierToday
)


@pytest_asyncio.fixture(loop_scope="session")
async def folder() -> AsyncIterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="threadline-twice-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


async def stored(database: Database) -> list[tuple[str, ...]]:
    """The messages of people in cases and conversations, and the titles."""
    query = text("""
        SELECT 'case', message_id, message_text FROM bug_conversations
        UNION ALL SELECT 'conversation', message_id, message_text FROM conversation_messages
        UNION ALL SELECT 'title', bug_id, title FROM cases
        ORDER BY 1, 2
    """)
    async with database.begin() as tx:
        return [tuple(row) for row in await tx.execute(query)]


async def catch_up(stack: Stack, database: Database, passes: int) -> None:
    """Request deep passes one after the other, and wait until each has compared every thread."""
    client = await Client.connect(stack.temporal_address, namespace=stack.temporal_namespace)
    for _ in range(passes):
        asked = time.time()
        await client.start_workflow(
            CATCH_UP_WORKFLOW,
            CatchUpState(),
            id=CATCH_UP_ID,
            task_queue=CORE_QUEUE,
            start_signal=CATCH_UP_REQUESTED,
            start_signal_args=[{"deep": True}],
        )
        async with JourneyScene.on(stack) as scene:
            await scene.until(
                "a pass has compared every thread",
                partial(_compared_since, database, asked),
                seconds=90,
            )


async def _compared_since(database: Database, moment: float) -> bool:
    query = text(
        "SELECT count(*), min(compared_at) FROM catch_up_threads JOIN threads USING (team, "
        "channel, thread_ts)"
    )
    async with database.begin() as tx:
        count, first = (await tx.execute(query)).one()
    return bool(count) and first > moment


async def test_second_up_finds_everything_and_a_fresh_one_starts_empty(folder: Path) -> None:
    async with Stack.running(folder, OPTIONS) as stack, JourneyScene.on(stack) as scene:
        await scene.write_report(CLEAR)
        await scene.until_status(CaseStatus.PENDING_VERIFICATION, seconds=120)
        root = await scene.mention(REPORTER, "what does the Starter plan cost?")
        await scene.until_answer(root)
        await scene.until_delivered()
        report = scene.report
        bug_id = scene.bug_id
        summary = scene.summary
        channel = scene.channel
        file = stack.slack.workspace.add_file("cart.png", REPORTER, b"\x89PNG")
        before = _shown(stack)
        database = Database(stack.database_url, pool_size=1)
        kept = await stored(database)
        await database.dispose()

    async with Stack.running(folder, OPTIONS) as stack, JourneyScene.on(stack) as scene:
        database = Database(stack.database_url, pool_size=1)
        try:
            assert before <= _shown(stack)
            assert stack.slack.workspace.file(file.id).content == b"\x89PNG"
            await catch_up(stack, database, passes=3)
            assert await stored(database) == kept
            async with database.begin() as tx:
                assert (
                    await tx.execute(text("SELECT count(*) FROM catch_up_absences"))
                ).scalar_one() == 0
                assert (
                    await tx.execute(text("SELECT count(*) FROM installation_faults"))
                ).scalar_one() == 0
            scene.report = report
            scene.bug_id = bug_id
            scene.summary = summary
            scene.channel = channel
            await scene.discuss("U0DEV", "Please fix it")
            await scene.until_bot_says(
                channel=SUMMARIES, after=scene.slack.messages(SUMMARIES)[-1]["ts"]
            )
            said = scene.slack.say(
                REPORTER, channel, "<@U0THREADLINE> and the Team plan?", thread=root
            )
            await scene.until_answer(root, after=said)
        finally:
            await database.dispose()

    async with Stack.running(
        folder, StackOptions(OPTIONS.given, slack=SlackOfEarlierToday, fresh=True)
    ) as stack:
        database = Database(stack.database_url, pool_size=1)
        try:
            assert stack.slack.messages(REPORTS) == []
            assert await stored(database) == []
        finally:
            await database.dispose()


def _shown(stack: Stack) -> set[tuple[str, ...]]:
    """Every message of every channel."""
    return {
        (channel.id, each["ts"], each.get("thread_ts", ""), each["user"], each["text"])
        for channel in stack.slack.workspace.channels.values()
        for each in stack.slack.messages(channel.id)
    }
