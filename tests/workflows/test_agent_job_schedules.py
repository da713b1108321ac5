"""Crons of jobs on Temporal's own server: what is told beforehand is what it fires by."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.client import Client, Schedule, ScheduleActionStartWorkflow, ScheduleState
from temporalio.testing import WorkflowEnvironment

from tests.workflows.environment import real_time
from threadline.bootstrap.jobs import spec_of
from threadline.domain import crons

MOST = 60


@pytest.fixture
async def server() -> AsyncIterator[WorkflowEnvironment]:
    async with real_time() as environment:
        yield environment


def _stamp(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp


async def fired(client: Client, name: str, text: str, zone: str, begin: datetime, end: datetime) -> list[datetime]:
    """When Temporal would fire a cron, as it is handed over."""
    action = ScheduleActionStartWorkflow("None", id=f"run-{name}", task_queue="none")
    schedule = Schedule(action=action, spec=spec_of(crons.read(text), zone), state=ScheduleState(paused=True))
    await client.create_schedule(name, schedule)
    asked = ListScheduleMatchingTimesRequest(
        namespace=client.namespace, schedule_id=name, start_time=_stamp(begin), end_time=_stamp(end)
    )
    found = await client.workflow_service.list_schedule_matching_times(asked)
    return [each.ToDatetime(UTC) for each in found.start_time]


@pytest.mark.parametrize("begin", [datetime(2026, 3, 6, tzinfo=UTC), datetime(2026, 10, 23, 5, 7, tzinfo=UTC)])
async def test_temporal_fires_at_the_times_that_are_told(server: WorkflowEnvironment, begin: datetime) -> None:
    """Over both changes of the clocks, on both sides of the Atlantic and where they are moved by half an hour."""
    texts = (
        *("0 9 * * 1-5", "0 9 * * 7", "0 9 * * 5-7", "30 2 * * *", "*/30 1-3 * * *", "0 9 1 * MON", "0 9 */2 * MON"),
        *("15 6 28-31 * *", "*/15 * * * *", "0 0 29 2 *", "45 23 1,15 JAN-JUN,NOV *"),
    )
    zones = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC")
    differing = []
    for number, (text, zone) in enumerate((text, zone) for text in texts for zone in zones):
        told = crons.read(text).after(begin, zone, MOST)
        end = told[-1] + timedelta(seconds=1)
        # Both ends may count; a run at the very beginning is none that comes.
        by_temporal = [
            each for each in await fired(server.client, f"s{number}", text, zone, begin, end) if each > begin
        ]
        if by_temporal[:MOST] != told:
            differing.append((text, zone, sorted(set(by_temporal) ^ set(told))[:6]))
    assert not differing
