"""A job shows as its next times those at which Temporal's dev server fires."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleRange,
    ScheduleState,
)
from temporalio.testing import WorkflowEnvironment

from tests.support.temporal import with_schedules
from threadline.jobs.schedules import spec_of
from threadline.jobs.times import parse_cron

MOST = 60
LAST_YEAR = 2100  # Temporal looks no further


@pytest.fixture
async def server() -> AsyncIterator[WorkflowEnvironment]:
    async with with_schedules() as environment:
        yield environment


def _stamp(moment: datetime) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(moment)
    return stamp


async def fired(
    client: Client, name: str, text: str, zone: str, begin: datetime, end: datetime
) -> list[datetime]:
    """The times at which Temporal would fire a cron."""
    action = ScheduleActionStartWorkflow("None", id=f"run-{name}", task_queue="none")
    schedule = Schedule(
        action=action, spec=spec_of(parse_cron(text), zone), state=ScheduleState(paused=True)
    )
    await client.create_schedule(name, schedule)
    asked = ListScheduleMatchingTimesRequest(
        namespace=client.namespace,
        schedule_id=name,
        start_time=_stamp(begin),
        end_time=_stamp(end),
    )
    found = await client.workflow_service.list_schedule_matching_times(asked)
    return [each.ToDatetime(UTC) for each in found.start_time]


def plain(moments: Sequence[datetime], zone: str) -> list[datetime]:
    """The moments without those that the clocks show twice: of these Temporal takes the first, the
    second or both.
    """
    local = (each.astimezone(ZoneInfo(zone)) for each in moments)
    return [
        each for each in local if each.utcoffset() == each.replace(fold=1 - each.fold).utcoffset()
    ]


def shown(moments: Sequence[datetime], zone: str) -> set[datetime]:
    """The times that the clocks show at these moments."""
    return {each.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for each in moments}


def test_consecutive_numbers_are_one_range() -> None:
    """Temporal's UI shows each range as an entry of its own."""
    (calendar,) = spec_of(parse_cron("0 9-17 * * 1-3,5"), "UTC").calendars
    assert (calendar.minute, calendar.hour) == ([ScheduleRange(0)], [ScheduleRange(9, 17)])
    assert (calendar.day_of_month, calendar.month) == (
        [ScheduleRange(1, 31)],
        [ScheduleRange(1, 12)],
    )
    assert calendar.day_of_week == [ScheduleRange(1, 3), ScheduleRange(5)]


@pytest.mark.parametrize(
    "begin", [datetime(2026, 3, 6, tzinfo=UTC), datetime(2026, 10, 23, 5, 7, tzinfo=UTC)]
)
async def test_temporal_fires_at_the_times_shown(
    server: WorkflowEnvironment, begin: datetime
) -> None:
    """Across both changes of the clocks, on both sides of the Atlantic and in a zone that moves
    them by half an hour.
    """
    texts = (
        *(
            "0 9 * * 1-5",
            "0 9 * * 7",
            "0 9 * * 5-7",
            "30 2 * * *",
            "*/30 1-3 * * *",
            "0 9 1 * MON",
            "0 9 */2 * MON",
        ),
        *("15 6 28-31 * *", "*/15 * * * *", "0 0 29 2 *", "45 23 1,15 JAN-JUN,NOV *"),
    )
    zones = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC")
    differing = []
    for number, (text, zone) in enumerate((text, zone) for text in texts for zone in zones):
        told = [
            each for each in parse_cron(text).after(begin, zone, MOST) if each.year < LAST_YEAR
        ]
        by_temporal = await fired(
            server.client, f"s{number}", text, zone, begin, told[-1] + timedelta(seconds=1)
        )
        # A run at the very beginning does not count as a next one.
        kept = [each for each in by_temporal if each > begin][:MOST]
        if plain(kept, zone) != plain(told, zone) or shown(kept, zone) != shown(told, zone):
            differing.append((text, zone, sorted(set(kept) ^ set(told))[:6]))
    assert not differing
