"""What the toolsets on Postgres need: each call is one unit of work."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from threadline.appointments.model import Appointment, Resource, Slot
from threadline.appointments.tool_parameters import Calendar
from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Rate
from threadline.db.unit_of_work import Work
from threadline.tools.context import Services
from threadline.tools.model import Change, Effect, Operation

_MOST_SLOTS = 40
"""Free times of one answer; later ones are asked for by their day."""


def postgres_ports(
    database: Database,
    rate: Rate | None = None,
    services: Services | None = None,
) -> Services:
    """The services of all toolsets that are on Postgres.

    Args:
        rate: how often one record may be changed; None for as often as one likes.
        services: what there is besides.
    """
    return (services or Services()).with_service(Calendar, PostgresAppointments(database, rate))


class PostgresAppointments(Calendar):
    def __init__(self, database: Database, rate: Rate | None = None) -> None:
        self._database = database
        self._rate = rate

    async def resources(self, team: str) -> Sequence[Resource]:
        async with self._database.begin() as work:
            return await work.appointments.resources(team)

    async def free(
        self, team: str, resource: str, after: datetime | None, minutes: int, days: int, now: datetime
    ) -> Sequence[Slot]:
        async with self._database.begin() as work:
            name = await _called(work, team, resource)
            begin = max(now, await work.appointments.moment(team, name, after or now))
            return await work.appointments.free_slots(team, name, begin, minutes, days, _MOST_SLOTS)

    async def nearest(self, team: str, resource: str, wanted: datetime, minutes: int, now: datetime) -> Sequence[Slot]:
        async with self._database.begin() as work:
            name = await _called(work, team, resource)
            moment = await work.appointments.moment(team, name, wanted)
            return await work.appointments.nearest_slots(team, name, moment, minutes, now.timestamp())

    async def upcoming(
        self, team: str, now: datetime, resource: str, attendee: str, limit: int
    ) -> Sequence[Appointment]:
        async with self._database.begin() as work:
            name = await _called(work, team, resource) if resource else ""
            moment = now.timestamp()
            return await work.appointments.upcoming(team, moment, resource=name, attendee=attendee, limit=limit)

    async def get(self, team: str, appointment_id: str) -> Appointment:
        async with self._database.begin() as work:
            return await work.appointments.get(team, _id(appointment_id))

    async def book(
        self, change: Change, resource: str, starts_at: datetime, minutes: int, title: str, attendee: str
    ) -> Appointment:
        async with self._database.begin() as work:
            name = await _called(work, change.team, resource)
            moment = await work.appointments.moment(change.team, name, starts_at)
            return await work.appointments.book(self._limited(change), name, moment, minutes, title, attendee)

    async def move(self, change: Change, appointment_id: str, starts_at: datetime, minutes: int | None) -> Appointment:
        async with self._database.begin() as work:
            held = await work.appointments.get(change.team, _id(appointment_id))
            moment = await work.appointments.moment(change.team, held.resource, starts_at)
            return await work.appointments.move(self._limited(change), held.appointment_id, moment, minutes)

    async def cancel(self, change: Change, appointment_id: str) -> Appointment:
        async with self._database.begin() as work:
            return await work.appointments.cancel(self._limited(change), _id(appointment_id))

    async def effect(self, operation: Operation) -> Effect | None:
        async with self._database.begin() as work:
            return await work.operations.effect(operation)

    def _limited(self, change: Change) -> Change:
        return replace(change, rate=self._rate)


async def _called(work: Work, team: str, name: str) -> str:
    """A resource's own name, from one that somebody wrote in letters of any case; an unknown one stays as it is."""
    known = (each.name for each in await work.appointments.resources(team))
    return next((each for each in known if each.casefold() == name.strip().casefold()), name)


def _id(appointment_id: str) -> str:
    return appointment_id.strip().upper()
