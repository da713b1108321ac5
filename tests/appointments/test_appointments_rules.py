"""Resources are found by name; a slot's UTC offset is derived from its instant and its local
time.
"""

from datetime import UTC, datetime, time, timedelta, timezone

import pytest

from threadline.appointments.model import Resource, Slot, find_resource, local_offset

NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("starts_at", "local", "minutes"),
    [
        (NINE, "2026-03-02 09:00", 0),
        (NINE.replace(second=30), "2026-03-02 10:00", 60),
        (NINE.replace(tzinfo=timezone(timedelta(hours=5))), "2026-03-01 23:00", -300),
        (NINE, "2026-03-02 14:45", 345),
    ],
)
def test_offset_is_derived_from_both_times(starts_at: datetime, local: str, minutes: int) -> None:
    slot = Slot(starts_at, starts_at + timedelta(hours=1), local)
    assert local_offset(slot).utcoffset(None) == timedelta(minutes=minutes)


@pytest.mark.parametrize(
    ("name", "found"),
    [("room", "room"), ("Room", "Room"), (" ROOM ", "Room"), ("stage", "Stage"), ("roof", None)],
)
def test_resource_is_found_by_its_own_name_before_another_case(
    name: str, found: str | None
) -> None:
    resources = [
        Resource(each, "Europe/Berlin", time(9), time(17)) for each in ("Room", "Stage", "room")
    ]
    resource = find_resource(resources, name)
    assert (resource and resource.name) == found
