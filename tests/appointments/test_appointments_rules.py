"""The offset of a place's clocks is told from a slot's moment and its local time."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from threadline.appointments.model import Slot, local_offset

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
def test_offset_is_told_from_both_times(starts_at: datetime, local: str, minutes: int) -> None:
    slot = Slot(starts_at, starts_at + timedelta(hours=1), local)
    assert local_offset(slot).utcoffset(None) == timedelta(minutes=minutes)
