"""Appointments: what can be booked, when, and why not."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timezone

from threadline.errors import Permanent
from threadline.slack.model import Thread

WORKDAYS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Resource:
    """A person or a thing that is booked, from `opens` to `closes` by the clocks of its `time_zone` (such as
    `Europe/Berlin`); `weekdays` count from Monday, 1."""

    name: str
    time_zone: str
    opens: time
    closes: time
    weekdays: Sequence[int] = WORKDAYS


@dataclass(frozen=True)
class Slot:
    """`local`: the start by the clocks of the resource, as `2026-03-02 10:00`."""

    starts_at: datetime
    ends_at: datetime
    local: str


@dataclass(frozen=True)
class Appointment:
    """`local`: as in `Slot`; `attendee`: the Slack id of whom it is booked for; `revision`: how often it was moved or
    cancelled."""

    appointment_id: str
    resource: str
    starts_at: datetime
    ends_at: datetime
    local: str
    title: str
    attendee: str
    cancelled: bool
    revision: int = 0

    @property
    def minutes(self) -> int:
        return int((self.ends_at - self.starts_at).total_seconds() // 60)


class InvitationSender(ABC):
    """Shows invitations in a thread, as files that calendars read."""

    @abstractmethod
    async def send(self, thread: Thread, appointment_id: str, now: datetime) -> None:
        """Show the invitation to an appointment as it is now, once for each of its revisions. Raises `Permanent`,
        `Transient`: it is not shown, or nobody knows; the appointment stands all the same."""


class SlotTaken(Permanent):
    """Somebody else has the time, or a part of it."""


def find_resource(resources: Iterable[Resource], name: str) -> Resource | None:
    """The resource of exactly this name or, without one, of the same letters in another case."""
    wanted = name.strip()
    found = [each for each in resources if each.name.casefold() == wanted.casefold()]
    return next((each for each in found if each.name == wanted), found[0] if found else None)


def local_offset(slot: Slot | Appointment) -> timezone:
    """The offset of the place's clocks at the start, computed from the moment and the local time."""
    starts_at = slot.starts_at.astimezone(UTC).replace(second=0, microsecond=0, tzinfo=None)
    return timezone(datetime.fromisoformat(slot.local) - starts_at)
