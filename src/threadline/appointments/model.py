"""Appointments: bookable resources, free slots, booked times, and the errors of booking."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timezone

from threadline.errors import Permanent
from threadline.slack.model import Thread

WORKDAYS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Resource:
    """A person or a thing that people book, from `opens` to `closes` by the clocks of its
    `time_zone` (such as `Europe/Berlin`); `weekdays` count from Monday, 1.
    """

    name: str
    time_zone: str
    opens: time
    closes: time
    weekdays: Sequence[int] = WORKDAYS


@dataclass(frozen=True)
class Slot:
    """A free time. `local`: the start by the clocks of the resource, as `2026-03-02 10:00`."""

    starts_at: datetime
    ends_at: datetime
    local: str


@dataclass(frozen=True)
class Appointment:
    """A booked time. `local`: as in `Slot`. `attendee`: the Slack id of the person it is for.
    `revision`: the number of its moves and cancellations.
    """

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
    """Shares invitations in a thread, as calendar files."""

    @abstractmethod
    async def send(self, thread: Thread, appointment_id: str, now: datetime) -> None:
        """Share the invitation to an appointment as it is now, once for each of its revisions.

        Raises:
            Permanent, Transient: the invitation is not shared, or the outcome is unknown; the
                appointment stays valid.
        """


class SlotTaken(Permanent):
    """The time, or a part of it, is booked already."""


def find_resource(resources: Iterable[Resource], name: str) -> Resource | None:
    """Return the resource of exactly this name or, without one, the resource whose name differs
    only in case.
    """
    wanted = name.strip()
    found = [each for each in resources if each.name.casefold() == wanted.casefold()]
    return next((each for each in found if each.name == wanted), found[0] if found else None)


def local_offset(slot: Slot | Appointment) -> timezone:
    """Return the UTC offset of the place's clocks at the start, computed from the moment and the
    local time.
    """
    starts_at = slot.starts_at.astimezone(UTC).replace(second=0, microsecond=0, tzinfo=None)
    return timezone(datetime.fromisoformat(slot.local) - starts_at)
