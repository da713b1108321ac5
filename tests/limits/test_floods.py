"""Floods beyond any real thread: nothing is lost, and each run stays within the server's limits.

In the suite the server stops at a tenth of its default limits, so that a tenth of the messages is
enough, and the threads are fewer; `make limits` runs the same in full size, which takes some
minutes.
"""

import os
from collections import Counter

import pytest
from sqlalchemy import text
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecution

from tests.limits.scene import LoadScene, laid_out
from threadline.cases.model import CaseLimits
from threadline.cases.store.lists import CaseLists
from threadline.db.engine import Database
from threadline_devstack.slack import identity

IN_FULL = os.environ.get("THREADLINE_LIMITS") == "full"
PER_RUN, SUGGESTED = (10_000, 4_096) if IN_FULL else (1_000, 410)
"""The number of signals at which the server stops, and of events at which it suggests
continue-as-new.
"""
SERVER = (
    f"history.maximumSignalsPerExecution={PER_RUN}",
    f"limit.historyCount.suggestContinueAsNew={SUGGESTED}",
)
MANY = PER_RUN + PER_RUN // 20 if IN_FULL else 2 * PER_RUN
THREADS = 1_000 if IN_FULL else 200
SENDERS = 32

_CASES = text("SELECT count(*) FROM cases WHERE status = :status")

pytestmark = [pytest.mark.alone, pytest.mark.timeout(900 if IN_FULL else 120)]


async def test_more_messages_than_a_run_may_have_are_stored_once_in_one_thread(
    database: Database, agent_database: Database
) -> None:
    async with (
        laid_out(database, agent_database, *SERVER) as ground,
        ground.working(reactions=False),
    ):
        thread = ground.thread()
        await ground.deliver(thread, ground.report(thread))
        said = [(thread, ground.message(thread, number)) for number in range(1, MANY)]
        await ground.deliver_all(said, SENDERS)
        await ground.until_stored(300)
        assert len(ground.sent) == MANY
        assert await ground.faults() == []
        runs = [run async for run in ground.client.list_workflows()]
        signals = [await _signals(ground, run) for run in runs]
        assert sum(signals) >= MANY
        assert await ground.runs("ContinuedAsNew") > 0


async def _signals(ground: LoadScene, run: WorkflowExecution) -> int:
    handle = ground.client.get_workflow_handle(run.id, run_id=run.run_id)
    kind = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    return len([1 async for event in handle.fetch_history_events() if event.event_type == kind])


async def test_a_long_run_stores_all_pending_messages_and_continues_before_any_other_step(
    ground: LoadScene,
) -> None:
    """In a flood a message is always pending when a step ends: the next step would keep the run
    for ever.
    """
    thread = ground.thread()
    await ground.deliver(thread, ground.report(thread))
    await ground.deliver_all(
        [(thread, ground.message(thread, number)) for number in range(1, 700)], SENDERS
    )
    first = (await ground.handle(thread).describe()).run_id
    async with ground.working(CaseLimits(max_history_events=15), reactions=False):
        await ground.until_stored()
        assert await ground.faults() == []
    history = await ground.client.get_workflow_handle(
        ground.handle(thread).id, run_id=first
    ).fetch_history()
    scheduled = [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history.events
    ]
    assert [name for name in scheduled if name] == ["flush_messages"] * 2
    assert (
        history.events[-1].event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
    )


async def test_waiting_messages_are_taken_at_once_and_refused_ones_come_again(
    database: Database, agent_database: Database
) -> None:
    """Without a worker no run continues as new, and all waiting messages go to the first task."""
    async with laid_out(database, agent_database, *SERVER) as ground:
        thread = ground.thread()
        await ground.deliver(thread, ground.report(thread))
        said = [(thread, ground.message(thread, number)) for number in range(1, PER_RUN)]
        await ground.deliver_all(said, SENDERS)
        one_more = ground.message(thread, PER_RUN)
        with pytest.raises(AssertionError, match="was refused 3 times"):
            await ground.deliver(thread, one_more, tries=3)
        assert "Temporal refuses" in str(ground.refused[-1].__cause__)
        async with ground.working(reactions=False):
            await ground.deliver(thread, one_more)
            await ground.until_stored(120)
            assert len(ground.sent) == PER_RUN + 1
            assert await ground.faults() == []


@pytest.mark.timeout(1_800)
async def test_many_threads_at_once_are_as_many_cases_and_each_is_answered_once(
    ground: LoadScene,
) -> None:
    threads = [ground.thread() for _ in range(THREADS)]
    async with ground.working(reactions=False, agents=False):
        await ground.deliver_all([(thread, ground.report(thread)) for thread in threads], SENDERS)
        await ground.until(
            lambda: _all_are(ground, "investigating"), "each waits for an agent", 300
        )
        async with ground.database.begin() as tx:
            assert {case.thread for case in await CaseLists(tx).list(limit=2 * THREADS)} == set(
                threads
            )
        assert await ground.runs("Running") == THREADS
    async with ground.working(reactions=False):
        await ground.until(
            lambda: _all_are(ground, "pending_verification"),
            "each is answered",
            1_200 if IN_FULL else 300,
        )
        assert await ground.faults() == []
    posts = ground.slack.workspace.channel(identity.SUMMARIES).messages.values()
    answers = Counter(post.thread_ts for post in posts)
    assert answers.pop("") == THREADS, "one thread for each, and one answer in it"
    assert list(answers.values()) == [1] * THREADS


async def _all_are(ground: LoadScene, status: str) -> bool:
    async with ground.database.begin() as tx:
        return bool(await tx.scalar(_CASES, {"status": status}) == THREADS)
