"""What the toolsets on Postgres need: each call is one unit of work."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial

from threadline.appointments.model import Appointment, Resource, Slot
from threadline.appointments.tool_parameters import APPOINTMENTS, Calendar
from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Rate
from threadline.db.unit_of_work import Work
from threadline.estimates.model import (
    BINDING,
    ItemChange,
    NewItem,
    Project,
    ProjectDetails,
    ProjectNotFound,
    Quote,
    WbsItem,
)
from threadline.estimates.tool_port import ESTIMATES, EstimateBook
from threadline.knowledge.search import search
from threadline.knowledge.tools import KNOWLEDGE, Search
from threadline.models.embeddings import Embedder
from threadline.rfps.record_adapters import PostgresMemories, PostgresOpportunities, PostgresRfps, PostgresTeam
from threadline.rfps.record_ports import MEMORIES, OPPORTUNITIES, RFPS, TEAM
from threadline.slack.model import Thread
from threadline.tools.context import Ports
from threadline.tools.operations import Change, Effect, Operation

_MOST_SLOTS = 40
"""Free times of one answer; later ones are asked for by their day."""


def postgres_ports(
    database: Database,
    rate: Rate | None = None,
    ports: Ports | None = None,
    embedder: Embedder | None = None,
) -> Ports:
    """The ports of all toolsets that are on Postgres.

    Args:
        rate: how often one record may be changed; None for as often as one likes.
        ports: what there is besides.
        embedder: by whose vectors documents are found, too; None for by words alone.
    """
    search_knowledge: Search = partial(search, database, embedder)
    return (
        (ports or Ports())
        .having(ESTIMATES, PostgresEstimates(database, rate))
        .having(APPOINTMENTS, PostgresAppointments(database, rate))
        .having(KNOWLEDGE, search_knowledge)
        .having(RFPS, PostgresRfps(database))
        .having(OPPORTUNITIES, PostgresOpportunities(database, rate))
        .having(TEAM, PostgresTeam(database))
        .having(MEMORIES, PostgresMemories(database))
    )


async def bound_project(work: Work, thread: Thread) -> Project | None:
    """The project that a thread is about; while that is locked, nothing may be changed from the thread."""
    project_id = (await work.bindings.of(thread)).get(BINDING)
    return await work.estimates.project(thread.team, project_id) if project_id else None


class PostgresEstimates(EstimateBook):
    def __init__(self, database: Database, rate: Rate | None = None) -> None:
        self._database = database
        self._rate = rate

    async def projects(self, team: str, limit: int) -> Sequence[Project]:
        async with self._database.begin() as work:
            return await work.estimates.projects(team, limit)

    async def use(self, thread: Thread, user_id: str, project: str) -> Project:
        async with self._database.begin() as work:
            named = await work.estimates.project(thread.team, project)
            await work.bindings.bind(thread, BINDING, named.project_id, user_id)
            return named

    async def details(self, thread: Thread, user_id: str, project: str) -> ProjectDetails:
        async with self._database.begin() as work:
            opened = await _opened(work, thread, user_id, project)
            return await work.estimates.details(thread.team, opened.project_id)

    async def create_items(
        self, change: Change, user_id: str, project: str, new: Sequence[NewItem]
    ) -> tuple[Project, Sequence[WbsItem]]:
        async with self._database.begin() as work:
            meant = await _meant(work, change, user_id, project)
            return meant, await work.estimates.create_items(self._limited(change), meant.project_id, new)

    async def update_items(
        self, change: Change, user_id: str, project: str, changes: Sequence[ItemChange]
    ) -> tuple[Project, Sequence[WbsItem]]:
        async with self._database.begin() as work:
            meant = await _meant(work, change, user_id, project)
            return meant, await work.estimates.update_items(self._limited(change), meant.project_id, changes)

    async def update_quote_totals(
        self,
        change: Change,
        user_id: str,
        project: str,
        *,
        number: int,
        discount_percent: Decimal | None,
        tax_percent: Decimal | None,
    ) -> tuple[Project, Quote]:
        async with self._database.begin() as work:
            meant = await _meant(work, change, user_id, project)
            percents = {"discount_percent": discount_percent, "tax_percent": tax_percent}
            limited = self._limited(change)
            return meant, await work.estimates.update_quote_totals(limited, meant.project_id, number, **percents)

    async def effect(self, operation: Operation) -> Effect | None:
        async with self._database.begin() as work:
            return await work.operations.effect(operation)

    def _limited(self, change: Change) -> Change:
        return replace(change, rate=self._rate)


async def _opened(work: Work, thread: Thread, user_id: str, project: str) -> Project:
    """The project that is named, or else the thread's; the first one becomes the thread's."""
    if not project.strip():
        if bound := await bound_project(work, thread):
            return bound
        raise ProjectNotFound("this thread has no project yet: give a project's name or id, such as PRJ-1")
    named = await work.estimates.project(thread.team, project)
    await work.bindings.bind_first(thread, BINDING, named.project_id, user_id)
    return named


async def _meant(work: Work, change: Change, user_id: str, project: str) -> Project:
    """A change that is repeated means the project that it changed, whatever its thread is about by now."""
    if effect := await work.operations.effect(change.operation):
        return await work.estimates.project(change.team, effect.record)
    return await _opened(work, change.operation.thread, user_id, project)


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
