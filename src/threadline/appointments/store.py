"""AppointmentStore: bookable resources, free times, and bookings that never overlap."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import TextClause, select, text
from sqlalchemy.dialects.postgresql import insert

from threadline.appointments.model import Appointment, Resource, Slot, SlotTaken, find_resource
from threadline.appointments.tables import appointment_resources
from threadline.db.engine import Store
from threadline.db.values import storable
from threadline.errors import Permanent

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
  AND NOT EXISTS (SELECT FROM appointments a
                  WHERE a.team = r.team AND a.resource = r.name AND a.cancelled_at IS NULL
                    AND a.during && tstzrange(slot, slot + l.length))
"""
"""Opening and closing are moments by the clock of the day, and slots are measured in elapsed
minutes. So both are right on days with a clock change.
"""
_FREE = text(f"{_SLOTS} ORDER BY slot LIMIT :limit")
_NEAREST = text(
    f"{_SLOTS} ORDER BY abs(extract(epoch FROM slot - CAST(:wanted AS timestamptz))), slot "
    "LIMIT :limit"
)
_RESOLVE = text("""
SELECT m.moment, m.moment AT TIME ZONE CAST(:zone AS text) = CAST(:local AS timestamp) AS shown
FROM (SELECT CAST(:local AS timestamp) AT TIME ZONE CAST(:zone AS text) AS moment) m
""")
_LOCK = text(
    "SELECT time_zone FROM appointment_resources WHERE team = :team AND name = :resource FOR "
    "NO KEY UPDATE"
)
"""Without this lock, two transactions that each insert a part of the same time wait for each other
in the constraint.
"""
_WHEN = text("""
SELECT to_char(l.start, 'YYYY-MM-DD HH24:MI') AS local,
       to_char(r.opens, 'HH24:MI') || '-' || to_char(r.closes, 'HH24:MI') AS hours,
       extract(isodow FROM l.start) = ANY(r.weekdays)
           AND CAST(:starts_at AS timestamptz)
               >= (l.start::date + r.opens) AT TIME ZONE r.time_zone
           AND CAST(:ends_at AS timestamptz)
               <= (l.start::date + r.closes) AT TIME ZONE r.time_zone AS open,
       EXISTS (SELECT FROM appointments a
               WHERE a.team = r.team AND a.resource = r.name AND a.cancelled_at IS NULL
                 AND a.appointment_id <> :ignore
                 AND a.during && tstzrange(:starts_at, :ends_at)) AS taken
FROM appointment_resources r
CROSS JOIN LATERAL (SELECT CAST(:starts_at AS timestamptz) AT TIME ZONE r.time_zone AS start) l
WHERE r.team = :team AND r.name = :resource
""")
_COLUMNS = """
appointment_id, a.resource, lower(during) AS starts_at, upper(during) AS ends_at,
to_char(lower(during) AT TIME ZONE (SELECT time_zone FROM appointment_resources r
                                    WHERE r.team = a.team AND r.name = a.resource),
        'YYYY-MM-DD HH24:MI') AS local,
title, attendee, cancelled_at IS NOT NULL AS cancelled, revision
"""
_BOOK = text(f"""
INSERT INTO appointments AS a (team, resource, during, title, attendee, created_at)
VALUES (:team, :resource, tstzrange(:starts_at, :ends_at), :title, :attendee, :now)
RETURNING {_COLUMNS}
""")  # noqa: S608 - all of it is written here
_MOVE = text(f"""
UPDATE appointments a SET during = tstzrange(:starts_at, :ends_at), revision = revision + 1
WHERE team = :team AND appointment_id = :id RETURNING {_COLUMNS}
""")  # noqa: S608 - as above
_CANCEL = text(f"""
UPDATE appointments a SET cancelled_at = coalesce(cancelled_at, :now),
    revision = revision + (cancelled_at IS NULL)::int
WHERE team = :team AND appointment_id = :id RETURNING {_COLUMNS}
""")  # noqa: S608 - as above
_ONE = text(f"""
SELECT {_COLUMNS} FROM appointments a WHERE team = :team AND appointment_id = :id
""")  # noqa: S608 - as above
_UPCOMING = text(f"""
SELECT {_COLUMNS} FROM appointments a
WHERE team = :team AND cancelled_at IS NULL AND upper(during) > :now
  AND (:resource = '' OR resource = :resource) AND (:attendee = '' OR attendee = :attendee)
ORDER BY during LIMIT :limit
""")  # noqa: S608 - as above
_MAX_DAYS = 62
_NEAREST_LISTED = 4
_SEARCH_WINDOW = timedelta(days=5)
"""Time before and after a taken time that is searched for free ones."""
_MAX_MINUTES = 24 * 60


class AppointmentStore(Store):
    """Access to resources and appointments. A time without a zone is refused, except in
    `resolve_time`.
    """

    async def save_resource(self, team: str, resource: Resource) -> None:
        """Store a bookable resource. It replaces one of the same name, whose appointments stay.

        Raises:
            Permanent: there is no such time zone, or it closes before it opens.
        """
        if not (await self._tx.execute(_ZONE_IS_KNOWN, {"zone": resource.time_zone})).scalar_one():
            raise Permanent(
                f"there is no time zone {resource.time_zone!r}; name one such as Europe/Berlin"
            )
        if not resource.opens < resource.closes:
            raise Permanent(f"{resource.name} must open before it closes, on the same day")
        row = {**vars(resource), "weekdays": list(resource.weekdays)}
        new = insert(appointment_resources).values(team=team, **row)
        await self._tx.execute(
            new.on_conflict_do_update(index_elements=["team", "name"], set_=row)
        )

    async def resources(self, team: str) -> list[Resource]:
        """Return the resources, by name."""
        row = appointment_resources.c
        query = select(row.name, row.time_zone, row.opens, row.closes, row.weekdays).where(
            row.team == team
        )
        return [Resource(*each) for each in await self._tx.execute(query.order_by(row.name))]

    async def resource(self, team: str, name: str) -> Resource:
        """Return the resource that `find_resource` finds by this name. Raises `Permanent` without
        one.
        """
        known = await self.resources(team)
        if found := find_resource(known, name):
            return found
        names = ", ".join(each.name for each in known)
        there = f"there are: {names}" if known else "no bookable resource is set up yet"
        raise Permanent(f"nothing called {name!r} can be booked; {there}")

    async def free_slots(
        self,
        team: str,
        resource: Resource,
        after: datetime,
        minutes: int,
        days: int = 7,
        limit: int = 50,
    ) -> list[Slot]:
        """Return free times of `minutes` from `after` on, earliest first.

        Args:
            team: the Slack team.
            resource: the resource.
            after: the earliest start.
            minutes: the length of a slot.
            days: the number of days to search, by the clocks of the resource; the day of `after`
                is the first.
            limit: slots at most.

        Raises:
            Permanent: `minutes` or `days` is out of range, or `after` has no time zone.
        """
        if not 1 <= days <= _MAX_DAYS:
            raise Permanent(f"a search for free times covers 1 to {_MAX_DAYS} days")
        _end(after, minutes)
        given = {
            "team": team,
            "resource": resource.name,
            "after": after,
            "minutes": minutes,
            "days": days,
        }
        return [Slot(*row) for row in await self._tx.execute(_FREE, {**given, "limit": limit})]

    async def nearest_slots(
        self, team: str, resource: Resource, wanted: datetime, minutes: int, now: datetime
    ) -> list[Slot]:
        """Return the four free times of `minutes` after `now` that are closest to a wanted one, in
        their order.

        Raises:
            Permanent: `minutes` is out of range, or `wanted` has no time zone.
        """
        _end(wanted, minutes)
        after = max(wanted - _SEARCH_WINDOW, now)
        days = max(1, min(_MAX_DAYS, (wanted + _SEARCH_WINDOW - after).days + 1))
        given = {
            "team": team,
            "resource": resource.name,
            "after": after,
            "minutes": minutes,
            "days": days,
        }
        rows = await self._tx.execute(
            _NEAREST, {**given, "wanted": wanted, "limit": _NEAREST_LISTED}
        )
        return sorted((Slot(*row) for row in rows), key=lambda slot: slot.starts_at)

    async def resolve_time(self, resource: Resource, when: datetime) -> datetime:
        """Return the moment of a time; a time without a zone is by the clocks of the resource.

        Ambiguous local times (the end of DST) resolve to the later moment, as in Postgres.

        Raises:
            Permanent: the local time does not exist (the start of DST).
        """
        if when.utcoffset() is not None:
            return when
        row = (await self._tx.execute(_RESOLVE, {"zone": resource.time_zone, "local": when})).one()
        if not row.shown:
            there = f"in {resource.time_zone}, where clocks go forward"
            raise Permanent(f"{when:%Y-%m-%d %H:%M} does not exist {there}: name another time")
        moment: datetime = row.moment
        return moment

    async def book(
        self,
        team: str,
        resource: Resource,
        starts_at: datetime,
        minutes: int,
        title: str,
        attendee: str,
        now: datetime,
    ) -> Appointment:
        """Book a time.

        Raises:
            Permanent, SlotTaken: nothing was booked; the message gives the reason.
        """
        times = await self._lock_time(team, resource.name, starts_at, minutes, now)
        row = {
            "team": team,
            "resource": resource.name,
            "title": storable(title),
            "attendee": storable(attendee),
        }
        return await self._change(_BOOK, {**row, **times, "now": now})

    async def move(
        self,
        team: str,
        appointment_id: str,
        starts_at: datetime,
        minutes: int | None,
        now: datetime,
    ) -> Appointment:
        """Move an appointment to another time of the same resource, and change its length if
        `minutes` is given.

        Raises:
            Permanent, SlotTaken: the appointment is unchanged; the message gives the reason.
        """
        booked = await self._lock_appointment(team, appointment_id)
        if booked.cancelled:
            raise Permanent(f"{appointment_id} was cancelled: book a new one")
        length = minutes or booked.minutes
        times = await self._lock_time(
            team, booked.resource, starts_at, length, now, ignore=appointment_id
        )
        return await self._change(_MOVE, {"team": team, "id": appointment_id, **times})

    async def cancel(self, team: str, appointment_id: str, now: datetime) -> Appointment:
        """Cancel an appointment and free its time; a cancelled one stays as it is. Raises
        `Permanent` without one.
        """
        await self._lock_appointment(team, appointment_id)
        return await self._change(_CANCEL, {"team": team, "id": appointment_id, "now": now})

    async def get(self, team: str, appointment_id: str, attendee: str = "") -> Appointment:
        """Return an appointment, also a cancelled one.

        `attendee`: only an appointment for this person; empty for anyone's. Raises `Permanent`
        without one.
        """
        row = (
            (await self._tx.execute(_ONE, {"team": team, "id": storable(appointment_id)}))
            .mappings()
            .one_or_none()
        )
        if row is None or attendee not in ("", row["attendee"]):
            raise Permanent(f"there is no appointment {appointment_id}; list the upcoming ones")
        return Appointment(**row)

    async def upcoming(
        self, team: str, now: datetime, *, resource: str = "", attendee: str = "", limit: int = 50
    ) -> list[Appointment]:
        """Return the appointments that are not over at `now`, earliest first."""
        given = {
            "team": team,
            "now": now,
            "resource": resource,
            "attendee": attendee,
            "limit": limit,
        }
        return [
            Appointment(**row) for row in (await self._tx.execute(_UPCOMING, given)).mappings()
        ]

    async def _change(self, statement: TextClause, given: dict[str, Any]) -> Appointment:
        return Appointment(**(await self._tx.execute(statement, given)).mappings().one())

    async def _lock_appointment(self, team: str, appointment_id: str) -> Appointment:
        """Lock the appointment's resource, so that the appointment cannot change, and return
        it.
        """
        found = await self.get(team, appointment_id)
        await self._tx.execute(_LOCK, {"team": team, "resource": found.resource})
        return await self.get(team, appointment_id)

    async def _lock_time(
        self,
        team: str,
        resource: str,
        starts_at: datetime,
        minutes: int,
        now: datetime,
        ignore: str = "",
    ) -> dict[str, datetime]:
        """Lock the resource, check that the time is free, and return its start and end.

        `ignore`: an appointment whose own time does not count as taken. Raises `Permanent`,
        `SlotTaken`.
        """
        times = {"starts_at": starts_at, "ends_at": _end(starts_at, minutes)}
        place = {"team": team, "resource": resource}
        await self._tx.execute(_LOCK, place)
        when = (await self._tx.execute(_WHEN, {**place, **times, "ignore": ignore})).one()
        if starts_at <= now:
            raise Permanent(f"{when.local} is in the past: name a future time")
        if not when.open:
            raise Permanent(
                f"{resource} cannot be booked at {when.local} for {minutes} minutes: it is "
                f"open {when.hours}"
            )
        if when.taken:
            raise SlotTaken(f"{resource} is taken at {when.local}; look for free times")
        return times


def _end(starts_at: datetime, minutes: int) -> datetime:
    if starts_at.utcoffset() is None:
        raise Permanent("a time needs a time zone, as in 2026-03-02T10:00+01:00")
    if not 1 <= minutes <= _MAX_MINUTES:
        raise Permanent(f"an appointment lasts 1 to {_MAX_MINUTES} minutes")
    return starts_at.astimezone(UTC) + timedelta(minutes=minutes)
