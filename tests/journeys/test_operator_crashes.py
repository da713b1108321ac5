"""The core worker ends in the middle of an operator's turn: a record is changed, journalled and
reported once.
"""

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest
import pytest_asyncio
from sqlalchemy import TextClause, text

from tests.journeys.crashes import CrashScene, statuses
from threadline.rfps.model import EntryKind, Event, JournalEntry, RfpFacts, RfpStatus
from threadline.rfps.store import RfpStore
from threadline.slack.model import Thread
from threadline.threads.model import turn_id
from threadline.tools.model import Author, Change, Operation
from threadline_devstack.slack.identity import DEVELOPER, TEAM
from threadline_devstack.slack.model import Json
from threadline_devstack.stack import Stack
from threadline_devstack.stories.scene import CONVERSING, message_text

pytestmark = [
    pytest.mark.journey,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(120),
]

HAPPENED = "shortlist_entered"
ORDER = f"set the status of {{}} to shortlisted, then log the event {HAPPENED}"
CALLS = (
    "opportunity.load",
    "opportunity.patch",
    "journal.append",
    "event.append",
    "slack.post.summary",
)

STATE = text("SELECT 1 FROM opportunity_states WHERE rfp_id = :name FOR UPDATE")
CONVERSATION = text("SELECT 1 FROM conversations WHERE thread_ts = :name FOR UPDATE")
ENTRIES = text("LOCK TABLE journal_entries IN EXCLUSIVE MODE")
EVENTS = text("LOCK TABLE events IN EXCLUSIVE MODE")
CALLED = text("LOCK TABLE agent_tool_executions IN EXCLUSIVE MODE")
TURNS = text("LOCK TABLE conversation_turns IN EXCLUSIVE MODE")
"""The lock delays writes to these tables, and no reads."""
MEMORIES_READ = text("LOCK TABLE memories IN ACCESS EXCLUSIVE MODE")
EVENTS_READ = text("LOCK TABLE events IN ACCESS EXCLUSIVE MODE")


class RecordScene(CrashScene):
    """A thread in which somebody has an RFP changed, which no other test uses."""

    async def begin_rfp(self) -> str:
        """Returns its id; its state has version 1, and its journal is empty."""
        name = f"Crash {time.time_ns()}"
        change = Change(
            Operation(Thread(TEAM, "crash", name), 0, 1, "crash"), Author("", "crash"), time.time()
        )
        async with self._database.begin() as tx:
            made = await RfpStore(tx).create(change, RfpFacts(name, status=RfpStatus.IN_PROGRESS))
        return made.rfp.rfp_id

    async def order(self, rfp_id: str) -> str:
        return await self.mention(DEVELOPER, ORDER.format(rfp_id))

    async def journal(self, rfp_id: str) -> Sequence[JournalEntry]:
        async with self._database.begin() as tx:
            return await RfpStore(tx).journal(TEAM, rfp_id)

    async def events(self, rfp_id: str) -> Sequence[Event]:
        async with self._database.begin() as tx:
            return await RfpStore(tx).events(TEAM, rfp_id)


@pytest_asyncio.fixture(loop_scope="session")
async def scene(stack: Stack) -> AsyncIterator[RecordScene]:
    async with RecordScene.ready(stack) as scene:
        yield scene


Reached = Callable[[RecordScene, str], AbstractAsyncContextManager[str]]
"""Bring a turn about an RFP to a moment, and hold it there; yields the thread's root."""


def waiting_for(lock: TextClause) -> Reached:
    """The first step that needs the lock, which is held from the beginning."""

    @asynccontextmanager
    async def reached(scene: RecordScene, rfp_id: str) -> AsyncIterator[str]:
        async with scene.held(lock, rfp_id if ":name" in lock.text else "") as holder:
            root = await scene.order(rfp_id)
            await scene.until_waited_for(holder)
            yield root

    return reached


@asynccontextmanager
async def analysing(scene: RecordScene, rfp_id: str) -> AsyncIterator[str]:
    async with scene.held_model(CONVERSING):
        root = await scene.order(rfp_id)
        await scene.model_waits_at(CONVERSING)
        yield root


@asynccontextmanager
async def loading(scene: RecordScene, rfp_id: str) -> AsyncIterator[str]:
    async with AsyncExitStack() as until_killed:
        # The context of the turn was read before that.
        async with analysing(scene, rfp_id) as root:
            holder = await until_killed.enter_async_context(scene.held(EVENTS_READ))
        await scene.until_waited_for(holder)
        yield root


@asynccontextmanager
async def committing_the_patch(scene: RecordScene, rfp_id: str) -> AsyncIterator[str]:
    async with AsyncExitStack() as until_killed:
        async with waiting_for(STATE)(scene, rfp_id) as root:
            holder = await until_killed.enter_async_context(scene.held(CONVERSATION, root))
        # The state is patched, and the result goes into the transcript.
        await scene.until_waited_for(holder)
        yield root


@asynccontextmanager
async def thinking_after_the_patch(scene: RecordScene, rfp_id: str) -> AsyncIterator[str]:
    async with AsyncExitStack() as until_killed:
        async with waiting_for(STATE)(scene, rfp_id) as root:
            await until_killed.enter_async_context(scene.held_model(CONVERSING))
        await scene.model_waits_at(CONVERSING)
        yield root


def speaking(lock: TextClause) -> Reached:
    """The first step that needs the lock, which is held once the model is asked for its last
    words.
    """

    @asynccontextmanager
    async def reached(scene: RecordScene, rfp_id: str) -> AsyncIterator[str]:
        async with AsyncExitStack() as until_killed:
            async with AsyncExitStack() as until_held:
                async with waiting_for(EVENTS)(scene, rfp_id) as root:
                    await until_held.enter_async_context(scene.held_model(CONVERSING))
                await scene.model_waits_at(CONVERSING)
                holder = await until_killed.enter_async_context(scene.held(lock))
            await scene.until_waited_for(holder)
            yield root

    return reached


@dataclass(frozen=True)
class Moment:
    """The moment at which the worker is killed.

    `done`: the number of calls with a result by then; a call in progress leaves none.
    `asked_again`: the replies that were not recorded, each by the number of replies before it.
    `analysed`: the request has an analysis in the end.
    """

    reached: Reached
    done: int = 0
    version: int = 1
    asked_again: tuple[int, ...] = ()
    analysed: bool = True

    @property
    def calls(self) -> list[tuple[str, str | None]]:
        """The calls as they are on record at this moment."""
        return [(name, "ok") for name in CALLS[: self.done]]


MOMENTS = {
    "its way is found": Moment(waiting_for(TURNS)),
    "the context is gathered": Moment(waiting_for(MEMORIES_READ)),
    "the request is analysed": Moment(analysing, analysed=False),
    "the rfp is loaded": Moment(loading),
    "the state is patched": Moment(waiting_for(STATE), 1),
    "the patch is committed": Moment(committing_the_patch, 1),
    "the model thinks after the patch": Moment(
        thinking_after_the_patch, 2, version=2, asked_again=(2,)
    ),
    "the journal is written": Moment(waiting_for(ENTRIES), 2, version=2),
    "the event is logged": Moment(waiting_for(EVENTS), 3, version=2),
    "the words are spoken": Moment(speaking(CALLED), 4, version=2),
    "the turn is settled": Moment(speaking(TURNS), 5, version=2),
}


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
async def test_a_turn_whose_worker_is_killed_changes_journals_and_reports_once(
    scene: RecordScene, stack: Stack, moment: Moment
) -> None:
    rfp_id = await scene.begin_rfp()
    async with moment.reached(scene, rfp_id) as root:
        await stack.processes.kill("core")
    before = await scene.executions(root)
    assert statuses(before) == moment.calls
    assert (await scene.state(rfp_id)).version == moment.version
    assert scene.answers(root) == []
    await stack.processes.restart("core")
    [answer] = await scene.answered(root)
    await assert_changed_once(scene, root, 1, rfp_id, answer)
    calls = await scene.executions(root)
    assert statuses(calls) == [(name, "ok") for name in CALLS]
    assert calls[: moment.done] == before[: moment.done], "no completed call ran again"
    asked = Counter({0: 2} | dict.fromkeys(range(1, len(CALLS)), 1)) + Counter(moment.asked_again)
    assert await scene.asked(rfp_id) == asked, "no recorded reply was requested again"
    assert await scene.paid(root) == [
        (1, step) for step in range(0 if moment.analysed else 1, len(CALLS) + 1)
    ]


async def test_requests_made_while_the_worker_is_away_are_done_in_order_and_answered_once(
    scene: RecordScene, stack: Stack
) -> None:
    rfp_id = await scene.begin_rfp()
    await stack.processes.kill("core")
    root = await scene.mention(DEVELOPER, f"link {rfp_id}")
    await scene.until_delivered()
    scene.slack.say(DEVELOPER, scene.channel, thread=root, text=ORDER.replace(" of {}", ""))
    await scene.until_delivered()
    await stack.processes.restart("core")
    [answer] = await scene.answered(root)
    said = message_text(answer)
    assert said.startswith(f"This thread is now bound to `{rfp_id}`")
    assert said.index("is now bound to") < said.index("shortlisted")
    assert await scene.bound(root) == rfp_id
    await assert_changed_once(scene, root, 1, rfp_id, answer)


async def test_a_request_about_another_rfp_meanwhile_is_answered_after_the_lost_turn(
    scene: RecordScene, stack: Stack
) -> None:
    first = await scene.begin_rfp()
    second = await scene.begin_rfp()
    async with waiting_for(STATE)(scene, first) as root:
        await stack.processes.kill("core")
    scene.slack.say(DEVELOPER, scene.channel, thread=root, text=ORDER.format(second))
    await scene.until_delivered()
    await stack.processes.restart("core")
    answers = await scene.answered(root, turns=2)
    for turn, (rfp_id, answer) in enumerate(zip((first, second), answers, strict=True), start=1):
        await assert_changed_once(scene, root, turn, rfp_id, answer)


async def assert_changed_once(
    scene: RecordScene, root: str, turn: int, rfp_id: str, answer: Json
) -> None:
    """The RFP has the order's values, changed once and by this turn, and every write came before
    the answer.
    """
    correlation_id = turn_id(scene.slack_thread(root), turn)
    by = Author(DEVELOPER, correlation_id)
    said = message_text(answer)
    assert f"Done: the status is shortlisted for `{rfp_id}`" in said
    assert f"I have logged the event {HAPPENED} of `{rfp_id}`" in said
    assert answer["metadata"]["event_payload"]["correlation_id"] == correlation_id
    state = await scene.state(rfp_id)
    assert (state.version, state.document["status"]) == (2, RfpStatus.SHORTLISTED)
    assert Author(state.updated_by, state.correlation_id) == by
    [entry] = await scene.journal(rfp_id)
    [event] = await scene.events(rfp_id)
    assert (entry.kind, entry.author) == (EntryKind.DECISION, by)
    assert (event.event_type, event.author) == (HAPPENED, by)
    assert state.updated_at < entry.created_at < event.created_at
    assert event.created_at.timestamp() < float(answer["ts"])
    result = (await scene.until_turn_ended(root, turn)).result or {}
    assert (result["scope"], result["correlation_id"], result["tools"]) == (
        rfp_id,
        correlation_id,
        list(CALLS),
    )
    protocol = result["protocol"]
    assert all(
        protocol[each]
        for each in ("did_load", "did_patch", "did_journal", "did_post", "write_succeeded")
    )
