"""Appointments: free times, and bookings that never overlap."""

from datetime import UTC, datetime, timedelta

from pydantic import TypeAdapter
from sqlalchemy import RowMapping, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.appointments.model import (
    Appointment,
    AppointmentNotFound,
    NotBookable,
    Resource,
    ResourceNotFound,
    Slot,
    SlotTaken,
)
from threadline.appointments.tables import appointment_resources
from threadline.db.values import storable
from threadline.tools.model import Change
from threadline.tools.operation_store import Operations

_ZONE_IS_KNOWN = text("SELECT EXISTS (SELECT FROM pg_timezone_names WHERE name = :zone)")
_SLOTS = """
SELECT slot AS starts_at, slot + l.length AS ends_at,
       to_char(slot AT TIME ZONE r.time_zone, 'YYYY-MM-DD HH24:MI') AS local
FROM appointment_resources r
CROSS JOIN (SELECT make_interval(mins => :minutes) AS length) l
CROSS JOIN generate_series(0, CAST(:days AS int) - 1) AS ahead
CROSS JOIN LATERAL (
    SELECT (CAST(:after AS timestamptz) AT TIME ZONE r.time_zone)::date + ahead AS day) d
CROSS JOIN LATERAL generate_series(
    (d.day + r.opens) AT TIME ZONE r.time_zone,
    (d.day + r.closes) AT TIME ZONE r.time_zone - l.length, l.length) AS slot
WHERE r.team = :team AND r.name = :resource AND extract(isodow FROM d.day) = ANY(r.weekdays)
  AND slot >= :after
  AND NOT EXISTS (SELECT FROM appointments a WHERE a.team = r.team AND a.resource = r.name AND a.cancelled_at IS NULL
                  AND a.during && tstzrange(slot, slot + l.length))
"""
"""Opening and closing are moments, made of the day's own clock, and what lies between them is measured in minutes that
pass: on the days on which clocks are changed both hold."""
_FREE = text(f"{_SLOTS} ORDER BY slot LIMIT :limit")
_NEAREST = text(f"{_SLOTS} ORDER BY abs(extract(epoch FROM slot - CAST(:wanted AS timestamptz))), slot LIMIT :limit")
_MOMENT = text("""
SELECT m.at, m.at AT TIME ZONE r.time_zone = CAST(:local AS timestamp) AS shown, r.time_zone
FROM appointment_resources r
CROSS JOIN LATERAL (SELECT CAST(:local AS timestamp) AT TIME ZONE r.time_zone AS at) m
WHERE r.team = :team AND r.name = :resource
""")
_LOCK = text("SELECT time_zone FROM appointment_resources WHERE team = :team AND name = :resource FOR NO KEY UPDATE")
"""Two transactions that each inserted a part of the same time would wait for each other in the constraint."""
_WHEN = text("""
SELECT to_char(l.start, 'YYYY-MM-DD HH24:MI') AS local,
       to_char(r.opens, 'HH24:MI') || '-' || to_char(r.closes, 'HH24:MI') AS hours,
       extract(isodow FROM l.start) = ANY(r.weekdays)
           AND CAST(:starts_at AS timestamptz) >= (l.start::date + r.opens) AT TIME ZONE r.time_zone
           AND CAST(:ends_at AS timestamptz) <= (l.start::date + r.closes) AT TIME ZONE r.time_zone AS open,
       EXISTS (SELECT FROM appointments a
               WHERE a.team = r.team AND a.resource = r.name AND a.cancelled_at IS NULL AND a.appointment_id <> :but
                 AND a.during && tstzrange(:starts_at, :ends_at)) AS taken
FROM appointment_resources r
CROSS JOIN LATERAL (SELECT CAST(:starts_at AS timestamptz) AT TIME ZONE r.time_zone AS start) l
WHERE r.team = :team AND r.name = :resource
""")
_SHOWN = """
appointment_id, a.resource, lower(during) AS starts_at, upper(during) AS ends_at,
to_char(lower(during) AT TIME ZONE (SELECT time_zone FROM appointment_resources r
                                    WHERE r.team = a.team AND r.name = a.resource), 'YYYY-MM-DD HH24:MI') AS local,
title, attendee, cancelled_at IS NOT NULL AS cancelled, revision
"""
_BOOK = text(f"""
INSERT INTO appointments AS a (team, resource, during, title, attendee, created_at)
VALUES (:team, :resource, tstzrange(:starts_at, :ends_at), :title, :attendee, :now) RETURNING {_SHOWN}
""")  # noqa: S608 - all of it is written here
_MOVE = text(f"""
UPDATE appointments a SET during = tstzrange(:starts_at, :ends_at), revision = revision + 1
WHERE team = :team AND appointment_id = :id RETURNING {_SHOWN}
""")  # noqa: S608 - as above
_CANCEL = text(f"""
UPDATE appointments a SET cancelled_at = coalesce(cancelled_at, :now),
    revision = revision + (cancelled_at IS NULL)::int
WHERE team = :team AND appointment_id = :id RETURNING {_SHOWN}
""")  # noqa: S608 - as above
_ONE = text(f"SELECT {_SHOWN} FROM appointments a WHERE team = :team AND appointment_id = :id")  # noqa: S608 - as above
_UPCOMING = text(f"""
SELECT {_SHOWN} FROM appointments a
WHERE team = :team AND cancelled_at IS NULL AND upper(during) > :now
  AND (:resource = '' OR resource = :resource) AND (:attendee = '' OR attendee = :attendee)
ORDER BY during LIMIT :limit
""")  # noqa: S608 - as above
_ANSWER = TypeAdapter(Appointment)
_MOST_DAYS = 62
_AROUND = timedelta(days=5)
"""How far from a time that was taken others are looked for."""
_MOST_MINUTES = 24 * 60


class Appointments:
    """Times come and go with their zone; one that has none is refused."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._operations = Operations(connection)

    async def save_resource(self, team: str, resource: Resource) -> None:
        """Keep what can be booked; what was known of the same name is replaced, its appointments stay.

        Raises:
            NotBookable: there is no such time zone, or it closes before it opens.
        """
        known = await self._connection.execute(_ZONE_IS_KNOWN, {"zone": resource.time_zone})
        if not known.scalar_one():
            raise NotBookable(f"there is no time zone {resource.time_zone!r}; name one such as Europe/Berlin")
        if not resource.opens < resource.closes:
            raise NotBookable(f"{resource.name} must open before it closes, on the same day")
        row = {**vars(resource), "weekdays": list(resource.weekdays)}
        new = insert(appointment_resources).values(team=team, **row)
        await self._connection.execute(new.on_conflict_do_update(index_elements=["team", "name"], set_=row))

    async def resources(self, team: str) -> list[Resource]:
        row = appointment_resources.c
        query = select(row.name, row.time_zone, row.opens, row.closes, row.weekdays).where(row.team == team)
        return [Resource(*each) for each in await self._connection.execute(query.order_by(row.name))]

    async def free_slots(
        self, team: str, resource: str, after: datetime, minutes: int, days: int = 7, limit: int = 50
    ) -> list[Slot]:
        """Times of `minutes` that could be booked from `after` on, the earliest first.

        Args:
            days: how many to look at, by the clocks of the resource; that of `after` is the first.

        Raises:
            ResourceNotFound, NotBookable: the resource is unknown; the length or the number of days is out of bounds.
        """
        if not 1 <= days <= _MOST_DAYS:
            raise NotBookable(f"a search for free times covers 1 to {_MOST_DAYS} days")
        _end(after, minutes)
        await self._named(team, resource)
        given = {"team": team, "resource": resource, "after": after, "minutes": minutes, "days": days, "limit": limit}
        rows = await self._connection.execute(_FREE, given)
        return [Slot(row.starts_at, row.ends_at, row.local) for row in rows]

    async def nearest_slots(
        self, team: str, resource: str, wanted: datetime, minutes: int, now: float, limit: int = 4
    ) -> list[Slot]:
        """The free times of `minutes` that are closest to the one that was wanted, before it or after, in their order.

        Args:
            now: seconds since 1970; nothing before it is free.

        Raises:
            ResourceNotFound, NotBookable: as `free_slots`.
        """
        _end(wanted, minutes)
        await self._named(team, resource)
        after = max(wanted - _AROUND, datetime.fromtimestamp(now, UTC))
        days = max(1, min(_MOST_DAYS, (wanted + _AROUND - after).days + 1))
        given = {"team": team, "resource": resource, "after": after, "minutes": minutes, "days": days, "limit": limit}
        rows = await self._connection.execute(_NEAREST, {**given, "wanted": wanted})
        return sorted((Slot(row.starts_at, row.ends_at, row.local) for row in rows), key=lambda slot: slot.starts_at)

    async def moment(self, team: str, resource: str, when: datetime) -> datetime:
        """When that is: a time without a zone is one by the clocks of the resource.

        A time that those clocks show twice is the later one, as Postgres has it.

        Raises:
            ResourceNotFound: it is unknown.
            NotBookable: the clocks are put forward, and never show this time.
        """
        if when.utcoffset() is not None:
            return when
        await self._named(team, resource)
        given = {"team": team, "resource": resource, "local": when}
        row = (await self._connection.execute(_MOMENT, given)).one()
        if not row.shown:
            raise NotBookable(
                f"{when:%Y-%m-%d %H:%M} does not exist in {row.time_zone}, where clocks go forward: name another time"
            )
        at: datetime = row.at
        return at

    async def book(
        self, change: Change, resource: str, starts_at: datetime, minutes: int, title: str, attendee: str
    ) -> Appointment:
        """Book a time, once for each operation.

        Raises:
            ResourceNotFound, NotBookable, SlotTaken, RateExceeded: nothing was booked; the message says why.
        """

        async def act() -> Appointment:
            given = {"team": change.team, "resource": resource, **await self._fit(change, resource, starts_at, minutes)}
            given |= {"title": storable(title), "attendee": storable(attendee), "now": _moment(change)}
            return _appointment((await self._connection.execute(_BOOK, given)).mappings().one())

        return await self._operations.once(change, "book", resource, _ANSWER, act)

    async def move(
        self, change: Change, appointment_id: str, starts_at: datetime, minutes: int | None = None
    ) -> Appointment:
        """Give an appointment another time of the same resource, and another length where `minutes` says one.

        Raises:
            AppointmentNotFound, NotBookable, SlotTaken, RateExceeded: it stays where it was; the message says why.
        """

        async def act() -> Appointment:
            booked = await self._held(change, appointment_id)
            if booked.cancelled:
                raise AppointmentNotFound(f"{appointment_id} was cancelled: book a new one")
            length = minutes or int((booked.ends_at - booked.starts_at).total_seconds() // 60)
            fit = await self._fit(change, booked.resource, starts_at, length, but=appointment_id)
            given = {"team": change.team, "id": appointment_id, **fit}
            return _appointment((await self._connection.execute(_MOVE, given)).mappings().one())

        return await self._operations.once(change, "move", appointment_id, _ANSWER, act)

    async def cancel(self, change: Change, appointment_id: str) -> Appointment:
        """Free the time; nothing happens to what was cancelled before. Raises `AppointmentNotFound`, `RateExceeded`."""

        async def act() -> Appointment:
            await self._held(change, appointment_id)
            given = {"team": change.team, "id": appointment_id, "now": _moment(change)}
            return _appointment((await self._connection.execute(_CANCEL, given)).mappings().one())

        return await self._operations.once(change, "cancel", appointment_id, _ANSWER, act)

    async def get(self, team: str, appointment_id: str) -> Appointment:
        """Also one that was cancelled. Raises `AppointmentNotFound`."""
        row = (
            (await self._connection.execute(_ONE, {"team": team, "id": storable(appointment_id)}))
            .mappings()
            .one_or_none()
        )
        if row is None:
            raise AppointmentNotFound(f"there is no appointment {appointment_id}; list the upcoming ones")
        return _appointment(row)

    async def upcoming(
        self, team: str, now: float, *, resource: str = "", attendee: str = "", limit: int = 50
    ) -> list[Appointment]:
        """What is not over yet at `now` (seconds since 1970), the earliest first."""
        which = {"resource": resource, "attendee": attendee, "limit": limit}
        given = {"team": team, "now": datetime.fromtimestamp(now, UTC), **which}
        return [_appointment(row) for row in (await self._connection.execute(_UPCOMING, given)).mappings()]

    async def _named(self, team: str, name: str) -> None:
        known = [resource.name for resource in await self.resources(team)]
        if name not in known:
            there = f"there are: {', '.join(known)}" if known else "no bookable resource is set up yet"
            raise ResourceNotFound(f"nothing called {name!r} can be booked; {there}")

    async def _held(self, change: Change, appointment_id: str) -> Appointment:
        """The appointment, its resource locked, so that it stays as it is read here."""
        found = await self.get(change.team, appointment_id)
        await self._operations.spend(change, f"appointment:{appointment_id}")
        await self._connection.execute(_LOCK, {"team": change.team, "resource": found.resource})
        return await self.get(change.team, appointment_id)

    async def _fit(
        self, change: Change, resource: str, starts_at: datetime, minutes: int, but: str = ""
    ) -> dict[str, datetime]:
        """Beginning and end, if the time can be had; the resource stays locked. `but`: whose own time is no trouble."""
        ends_at = _end(starts_at, minutes)
        await self._named(change.team, resource)
        if not but:
            await self._operations.spend(change, f"resource:{resource}")
        place = {"team": change.team, "resource": resource}
        await self._connection.execute(_LOCK, place)
        times = {"starts_at": starts_at, "ends_at": ends_at}
        when = (await self._connection.execute(_WHEN, {**place, **times, "but": but})).one()
        if starts_at <= _moment(change):
            raise NotBookable(f"{when.local} is in the past: name a future time")
        if not when.open:
            raise NotBookable(
                f"{resource} cannot be booked at {when.local} for {minutes} minutes: it is open {when.hours}"
            )
        if when.taken:
            raise SlotTaken(f"{resource} is taken at {when.local}; look for free times")
        return times


def _end(starts_at: datetime, minutes: int) -> datetime:
    if starts_at.utcoffset() is None:
        raise NotBookable("a time needs a time zone, as in 2026-03-02T10:00+01:00")
    if not 1 <= minutes <= _MOST_MINUTES:
        raise NotBookable(f"an appointment lasts 1 to {_MOST_MINUTES} minutes")
    return starts_at.astimezone(UTC) + timedelta(minutes=minutes)


def _moment(change: Change) -> datetime:
    return datetime.fromtimestamp(change.now, UTC)


def _appointment(row: RowMapping) -> Appointment:
    return Appointment(**row)
