"""Appointments: what can be booked, when, and why not."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timezone

from threadline.errors import Permanent

WORKDAYS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Resource:
    """A person or a thing that is booked, from `opens` to `closes` by the clocks of its `time_zone` (such as
    `Europe/Berlin`); `weekdays` count from Monday, 1.
    """

    name: str
    time_zone: str
    opens: time
    closes: time
    weekdays: Sequence[int] = WORKDAYS


@dataclass(frozen=True)
class Slot:
    """`local`: when it begins, by the clocks of the resource, as `2026-03-02 10:00`."""

    starts_at: datetime
    ends_at: datetime
    local: str


@dataclass(frozen=True)
class Appointment:
    """`local`: as in `Slot`; `attendee`: whom it is booked for; `revision`: how often it was moved or cancelled."""

    appointment_id: str
    resource: str
    starts_at: datetime
    ends_at: datetime
    local: str
    title: str
    attendee: str
    cancelled: bool
    revision: int = 0


class ResourceNotFound(Permanent):
    """The team has nothing of this name that can be booked."""


class AppointmentNotFound(Permanent):
    """The team has no such appointment, or it was cancelled."""


class NotBookable(Permanent):
    """The time is past, outside the hours of the resource, or no time at all."""


class SlotTaken(NotBookable):
    """Somebody else has the time, or a part of it."""


def clock_of(slot: Slot | Appointment) -> timezone:
    """How far the clocks of its place are from UTC when it begins, told by the two ways in which it says when."""
    begins = slot.starts_at.astimezone(UTC).replace(second=0, microsecond=0, tzinfo=None)
    return timezone(datetime.fromisoformat(slot.local) - begins)
