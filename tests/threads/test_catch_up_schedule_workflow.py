"""The schedule that runs the catch-up, on the dev server: the only Temporal here that has schedules."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from temporalio.client import Client, ScheduleActionExecutionStartWorkflow, WorkflowExecutionStatus
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from tests.support.temporal import binary, worker
from threadline.threads.addressing import CATCH_UP_ID
from threadline.threads.catch_up_workflow import CatchUpTickWorkflow
from threadline.wiring.catch_up import ensure_schedule


@pytest.fixture
async def server() -> AsyncIterator[WorkflowEnvironment]:
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=binary("temporal"), data_converter=pydantic_data_converter
    ) as environment:
        yield environment


async def results(client: Client) -> list[str]:
    """How the ticks ended."""
    handle = client.get_schedule_handle(CATCH_UP_ID)
    actions = [each.action for each in (await handle.describe()).info.recent_actions]
    ids = [each.workflow_id for each in actions if isinstance(each, ScheduleActionExecutionStartWorkflow)]
    return [str(await client.get_workflow_handle(each).result()) for each in ids]


async def test_every_tick_starts_the_one_catch_up_or_leaves_it_alone(server: WorkflowEnvironment) -> None:
    client = server.client
    await ensure_schedule(client, 1.0)
    async with worker(server, [CatchUpTickWorkflow], []):  # the catch-up itself is started, and waits for a worker
        handle = client.get_schedule_handle(CATCH_UP_ID)
        found: list[str] = []
        while "it runs already" not in found:
            found = await results(client)
        assert found[0] == "started"
        assert set(found[1:]) == {"it runs already"}
        running = [each async for each in client.list_workflows(f"WorkflowId = '{CATCH_UP_ID}'")]
        assert [each.status for each in running] == [WorkflowExecutionStatus.RUNNING]
        await handle.pause()
        await ensure_schedule(client, 600.0)
        now = (await handle.describe()).schedule
        assert now.spec.intervals[0].every == timedelta(minutes=10)
        assert now.state.paused, "an operator's pause outlives a deploy"
