"""Shared parts of the tests of the catch-up and of the sweep: a complete pass, and its results."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from sqlalchemy import text
from temporalio.client import WorkflowExecutionStatus

from tests.support.case_scene import FOLLOWED, CaseScene, case_scene, outcome
from threadline.cases.model import Action, CaseStatus
from threadline.cases.store.messages import CaseMessageStore
from threadline.db.engine import Database
from threadline.threads.catch_up_store import CatchUpStore
from threadline.threads.contract import CATCH_UP_ID, CATCH_UP_WORKFLOW, CatchUpState
from threadline.threads.model import CORE_QUEUE, SenderType
from threadline_devstack.slack import identity
from threadline_devstack.slack.model import SandboxMessage

MAX_UNCHANGED = "threadline.threads.catch_up.MAX_UNCHANGED"


@pytest.fixture
async def home(
    database: Database, agent_database: Database, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[CaseScene]:
    """The scene shows every change: a thread without one is not compared."""
    monkeypatch.setattr(MAX_UNCHANGED, 0)
    async with case_scene(database, agent_database, outcome(Action.POST_FINDINGS)) as home:
        yield home


async def look(home: CaseScene, *, deep: bool = True) -> None:
    """Run one pass in real time: waiting for a result would let Temporal skip time."""
    client = home.environment.client
    state = CatchUpState(deep=deep)
    await client.start_workflow(CATCH_UP_WORKFLOW, state, id=CATCH_UP_ID, task_queue=CORE_QUEUE)
    await until_ended(home)


async def until_ended(home: CaseScene, workflow_id: str = CATCH_UP_ID) -> None:
    handle = home.environment.client.get_workflow_handle(workflow_id)

    async def ended() -> bool:
        return (await handle.describe()).status is WorkflowExecutionStatus.COMPLETED

    await home.until(ended, "it ends", 60)


async def look_twice(home: CaseScene) -> None:
    """An inferred deletion is believed after two passes."""
    await look(home)
    await look(home)


async def install(home: CaseScene, *, before_report: bool = False) -> None:
    at = float(home.thread.ts) - 60 if before_report else time.time()
    async with home.database.begin() as tx:
        await CatchUpStore(tx, identity.TEAM).follow_channels(FOLLOWED, at)


async def opened(home: CaseScene) -> None:
    await install(home)
    await home.report()
    await home.until_status(CaseStatus.PENDING_VERIFICATION)


def reply(home: CaseScene, words: str, *, user: str = identity.REPORTER) -> SandboxMessage:
    """Post in the report's thread without an event from Slack."""
    return home.slack.workspace.post(identity.REPORTS, user, words, thread_ts=home.thread.ts)


def say_before_all(home: CaseScene, channel: str) -> None:
    """Post an older message, which shows that Slack has not forgotten its time."""
    place = home.slack.workspace.channel(channel)
    said = home.slack.workspace.post(channel, identity.BYSTANDER, "Good morning")
    del place.messages[said.ts]
    ts = f"{float(home.thread.ts) - 600:.6f}"
    place.messages = {ts: replace(said, ts=ts), **place.messages}


async def entries(home: CaseScene) -> list[tuple[str, str]]:
    """Return people's messages that are stored in the case, as it reads now."""
    async with home.database.begin() as tx:
        page = await CaseMessageStore(tx).page("BUG-1", limit=500)
    return [
        (entry.sender_type, entry.text)
        for entry in page.entries
        if entry.sender_type != SenderType.BOT
    ]


async def until_stored(
    home: CaseScene, words: str, sender: SenderType = SenderType.REPORTER
) -> None:
    async def stored() -> bool:
        return (sender, words) in await entries(home)

    await home.until(stored, f"{words!r} is stored")


async def until_gone(home: CaseScene, words: str) -> None:
    async def gone() -> bool:
        return words not in str(await entries(home))

    await home.until(gone, f"{words!r} is taken out")


async def resent(home: CaseScene) -> int:
    """Return the number of messages that the catch-up has signalled."""
    async with home.database.begin() as tx:
        found = await tx.execute(text("SELECT coalesce(sum(sends), 0) FROM catch_up_messages"))
        return int(found.scalar_one())
