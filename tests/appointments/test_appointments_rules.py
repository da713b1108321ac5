"""Appointments: what their two ways to say when come to."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from threadline.appointments.model import Slot, clock_of


@pytest.mark.parametrize(
    ("starts_at", "local", "minutes"),
    [
        (datetime(2026, 3, 2, 9, tzinfo=UTC), "2026-03-02 10:00", 60),
        (datetime(2026, 3, 2, 9, 0, 30, tzinfo=UTC), "2026-03-02 10:00", 60),
        (datetime(2026, 3, 2, 9, tzinfo=timezone(timedelta(hours=5))), "2026-03-01 23:00", -300),
        (datetime(2026, 3, 2, 9, tzinfo=UTC), "2026-03-02 14:45", 345),
        (datetime(2026, 3, 2, 9, tzinfo=UTC), "2026-03-02 09:00", 0),
    ],
)
def test_the_clocks_of_a_place_are_told_from_both_times(starts_at: datetime, local: str, minutes: int) -> None:
    slot = Slot(starts_at, starts_at + timedelta(hours=1), local)
    assert clock_of(slot).utcoffset(None) == timedelta(minutes=minutes)
