"""Where appointments are kept, and how their times and lengths are told by a model.

A time is told in ISO 8601. With an offset it is that moment; without one it is by the clocks of what is booked.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, ClassVar, Protocol

from pydantic import BeforeValidator, Field

from threadline.appointments.model import Appointment, Resource, Slot
from threadline.tools.model import Change, Effect, Operation

_EXAMPLES = "2026-03-02T10:00, by the clocks of what is booked, or 2026-03-02T10:00+01:00"
_YEARS = range(2000, 2200)


class Calendar(Protocol):
    """A team's appointments. A time without a zone is by the clocks of the resource, whose name is read in any case.

    Raises:
        ResourceNotFound, AppointmentNotFound, NotBookable: the message says what is there instead.
        SlotTaken, RateExceeded: of a change; nothing was changed.
    """

    setup_hint: ClassVar[str] = "Set DATABASE_URL."

    async def resources(self, team: str) -> Sequence[Resource]: ...

    async def free(
        self, team: str, resource: str, after: datetime | None, minutes: int, days: int, now: datetime
    ) -> Sequence[Slot]:
        """The next free times after a moment, and after now."""
        ...

    async def nearest(self, team: str, resource: str, wanted: datetime, minutes: int, now: datetime) -> Sequence[Slot]:
        """A few free times around one that was wanted."""
        ...

    async def upcoming(
        self, team: str, now: datetime, resource: str, attendee: str, limit: int
    ) -> Sequence[Appointment]: ...

    async def get(self, team: str, appointment_id: str) -> Appointment: ...

    async def book(
        self, change: Change, resource: str, starts_at: datetime, minutes: int, title: str, attendee: str
    ) -> Appointment: ...

    async def move(
        self, change: Change, appointment_id: str, starts_at: datetime, minutes: int | None
    ) -> Appointment: ...

    async def cancel(self, change: Change, appointment_id: str) -> Appointment: ...

    async def effect(self, operation: Operation) -> Effect | None:
        """What the operation did; None when it changed nothing."""
        ...


def _time(value: object) -> datetime:
    try:
        told = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
    except ValueError:
        raise ValueError(f"expected a date and time such as {_EXAMPLES}") from None
    if told.year not in _YEARS:
        raise ValueError(f"expected a year from {_YEARS.start} to {_YEARS.stop - 1}")
    return told


Time = Annotated[
    datetime, BeforeValidator(_time, json_schema_input_type=str), Field(description=f"Such as {_EXAMPLES}.")
]
ResourceName = Annotated[str, Field(min_length=1, max_length=200, description="What is booked, by its name.")]
Minutes = Annotated[int, Field(ge=1, le=24 * 60, description="How long, in minutes.")]
AppointmentId = Annotated[str, Field(min_length=1, max_length=40, description="Such as APT-7.")]
