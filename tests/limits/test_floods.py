"""More than any thread has ever seen: nothing is lost, and each run stays within what the server takes."""

import time

import asyncpg
import pytest
from temporalio.service import RPCError

from tests.limits.scene import Ground, laid_out
from threadline.db.engine import Database
from threadline.domain.bug import Limits

MANY, SENDERS = 10_500, 32
THREADS = 1_000
SIGNALS_PER_RUN = 10_000
"""Where the server stops: https://docs.temporal.io/cloud/limits#per-workflow-execution-signal-limit"""


@pytest.mark.promise("intake:flood:one-thread")
async def test_more_messages_than_a_run_may_have_are_stored_once_in_one_thread(ground: Ground) -> None:
    async with ground.working(reactions=False):
        thread = ground.thread()
        began = time.monotonic()
        await ground.deliver(thread, ground.report(thread))
        said = [(thread, ground.message(thread, number)) for number in range(1, MANY)]
        await ground.deliver_all(said, SENDERS)
        print("sent", time.monotonic() - began, len(ground.refused))  # noqa: T201
        await ground.until_stored(60)
        print("stored", time.monotonic() - began)  # noqa: T201
        assert len(ground.sent) == MANY
        assert await ground.faults() == []
        print("faults", time.monotonic() - began)  # noqa: T201
        assert await ground.runs("ContinuedAsNew") > 1
        most = max([await _signals(ground, run) for run in [run async for run in ground.client.list_workflows()]])
        assert most < SIGNALS_PER_RUN * 0.8
        print("end", time.monotonic() - began, most)  # noqa: T201


async def _signals(ground: Ground, run) -> int:  # type: ignore
    handle = ground.client.get_workflow_handle(run.id, run_id=run.run_id)
    return len(
        [
            1
            async for event in handle.fetch_history_events()
            if event.HasField("workflow_execution_signaled_event_attributes")
        ]
    )


@pytest.mark.promise("intake:flood:wall")
async def test_a_signal_that_the_server_refuses_is_refused_to_slack_and_taken_later(
    database: Database, pool: asyncpg.Pool
) -> None:
    """With no worker there is no continue-as-new; here the server stops at 20 signals instead of 10,000."""
    async with laid_out(database, pool, "history.maximumSignalsPerExecution=20") as ground:
        thread = ground.thread()
        said = [ground.report(thread), *(ground.message(thread, number) for number in range(1, 20))]
        for message in said:
            await ground.deliver(thread, message)
        one_more = ground.message(thread, 20)
        with pytest.raises(AssertionError, match="was refused 3 times"):
            await ground.deliver(thread, one_more, tries=3)
        assert isinstance(ground.refused[0].__cause__, RPCError)
        async with ground.working(Limits(history_events=15)):
            await ground.deliver(thread, one_more)
            await ground.until_stored()
            assert len(ground.sent) == 21
            assert await ground.faults() == []


@pytest.mark.promise("intake:flood:many-threads")
async def test_a_thousand_threads_at_once_are_a_thousand_cases(ground: Ground) -> None:
    threads = [ground.thread() for _ in range(THREADS)]
    began = time.monotonic()
    async with ground.working(reactions=False):
        await ground.deliver_all([(thread, ground.report(thread)) for thread in threads], SENDERS)
        print("sent", time.monotonic() - began, len(ground.refused))  # noqa: T201
        await ground.until_stored(90)
        print("stored", time.monotonic() - began)  # noqa: T201
        async with ground.database.begin() as work:
            cases = await work.overview.cases(limit=2 * THREADS)
        assert {case.thread for case in cases} == set(threads)
        assert await ground.faults() == []
        print("end", time.monotonic() - began)  # noqa: T201
        assert len(ground.agent.requests) == THREADS
