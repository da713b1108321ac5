"""Appointments in Postgres: no time is booked twice, and opening hours follow the clocks of the
place.
"""

import asyncio
from datetime import UTC, datetime, time, timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from threadline.appointments.model import (
    Appointment,
    Resource,
    Slot,
    SlotTaken,
)
from threadline.appointments.store import AppointmentStore
from threadline.db.engine import Database
from threadline.db.errors import sqlstate
from threadline.errors import Permanent

NOW = datetime(2026, 2, 25, 6, 13, 20, tzinfo=UTC)
BERLIN = Resource("room", "Europe/Berlin", time(9), time(17))
MONDAY_10 = datetime(2026, 3, 2, 9, tzinfo=UTC)
"""Ten o'clock in Berlin."""
HOUR = timedelta(hours=1)


async def save(database: Database, resource: Resource, team: str = "T1") -> None:
    async with database.begin() as tx:
        await AppointmentStore(tx).save_resource(team, resource)


@pytest.fixture(autouse=True)
async def room(database: Database) -> None:
    await save(database, BERLIN)


async def book(
    database: Database,
    starts_at: datetime = MONDAY_10,
    minutes: int = 60,
    *,
    resource: str = "room",
    attendee: str = "U1",
    team: str = "T1",
) -> Appointment:
    async with database.begin() as tx:
        store = AppointmentStore(tx)
        booked = await store.resource(team, resource)
        return await store.book(team, booked, starts_at, minutes, "Review", attendee, NOW)


async def move(
    database: Database, to: datetime, minutes: int | None = None, *, appointment_id: str = "APT-1"
) -> Appointment:
    async with database.begin() as tx:
        return await AppointmentStore(tx).move("T1", appointment_id, to, minutes, NOW)


async def cancel(database: Database, appointment_id: str = "APT-1") -> Appointment:
    async with database.begin() as tx:
        return await AppointmentStore(tx).cancel("T1", appointment_id, NOW)


async def slots(
    database: Database, resource: Resource, after: datetime, minutes: int, days: int = 1
) -> list[Slot]:
    async with database.begin() as tx:
        return await AppointmentStore(tx).free_slots("T1", resource, after, minutes, days)


async def free(database: Database, after: datetime, minutes: int, days: int = 1) -> list[str]:
    return [slot.local for slot in await slots(database, BERLIN, after, minutes, days)]


async def test_booked_appointment_is_upcoming(database: Database) -> None:
    made = await book(database)
    assert made == Appointment(
        "APT-1",
        "room",
        MONDAY_10,
        MONDAY_10 + HOUR,
        "2026-03-02 10:00",
        "Review",
        "U1",
        cancelled=False,
    )
    async with database.begin() as tx:
        store = AppointmentStore(tx)
        assert await store.upcoming("T1", NOW) == [await store.get("T1", "APT-1")] == [made]


async def test_appointment_of_another_user_is_not_found(database: Database) -> None:
    made = await book(database)
    async with database.begin() as tx:
        store = AppointmentStore(tx)
        assert await store.get("T1", "APT-1", "U1") == made
        with pytest.raises(Permanent, match="no appointment APT-1"):
            await store.get("T1", "APT-1", "U2")


async def test_one_of_fifty_concurrent_bookings_succeeds(
    database: Database, database_url: str
) -> None:
    other = Database(database_url)
    try:
        racing = [
            book((database, other)[n % 2], MONDAY_10 + timedelta(minutes=n % 4 * 10))
            for n in range(50)
        ]
        outcomes = await asyncio.gather(*racing, return_exceptions=True)
    finally:
        await other.dispose()
    assert (
        sorted(type(outcome).__name__ for outcome in outcomes)
        == ["Appointment"] + ["SlotTaken"] * 49
    )
    async with database.begin() as tx:
        assert len(await AppointmentStore(tx).upcoming("T1", NOW)) == 1


async def test_one_of_many_concurrent_moves_to_a_time_succeeds(database: Database) -> None:
    for n in range(1, 7):
        await book(database, MONDAY_10 + timedelta(minutes=30 * n), 30)
    racing = [move(database, MONDAY_10 + 5 * HOUR, appointment_id=f"APT-{n}") for n in range(1, 7)]
    outcomes = await asyncio.gather(*racing, return_exceptions=True)
    assert (
        sorted(type(outcome).__name__ for outcome in outcomes)
        == ["Appointment"] + ["SlotTaken"] * 5
    )


async def test_database_constraint_refuses_overlaps_except_with_cancelled(
    database: Database,
) -> None:
    await book(database)

    async def insert(*, cancelled: bool) -> None:
        async with database.begin() as tx:
            query = text(
                "INSERT INTO appointments (team, resource, during, title, attendee, created_at, "
                "cancelled_at)"
                " VALUES ('T1', 'room', '[2026-03-02 10:59+01, 2026-03-02 11:59+01)', '', '', "
                "now(),"
                " CASE WHEN :cancelled THEN now() END)"
            )
            await tx.execute(query, {"cancelled": cancelled})

    with pytest.raises(Permanent, match="appointments_one_at_a_time") as caught:
        await insert(cancelled=False)
    assert isinstance(caught.value.__cause__, DBAPIError)
    assert sqlstate(caught.value.__cause__) == "23P01"
    await insert(cancelled=True)


async def test_adjacent_times_and_other_resources_are_free(database: Database) -> None:
    await save(database, Resource("doctor", "Europe/Berlin", time(9), time(17)))
    await save(database, BERLIN, "T2")
    await book(database)
    await book(database, MONDAY_10 + HOUR)
    await book(database, MONDAY_10 - HOUR)
    await book(database, resource="doctor")
    await book(database, team="T2")
    with pytest.raises(SlotTaken, match="2026-03-02 10:59"):
        await book(database, MONDAY_10 + timedelta(minutes=59), 1)


async def test_refused_booking_can_be_repeated_once_the_time_is_free(database: Database) -> None:
    await book(database)
    with pytest.raises(SlotTaken):
        await book(database)
    first = await cancel(database)
    assert first.cancelled
    assert await cancel(database) == first
    assert (await book(database)).local == "2026-03-02 10:00"
    with pytest.raises(Permanent, match="cancelled"):
        await move(database, MONDAY_10 + 3 * HOUR)


async def test_move_keeps_the_length_and_may_overlap_its_old_time(database: Database) -> None:
    later = MONDAY_10 + HOUR / 2
    await book(database)
    moved = await move(database, later)
    assert (moved.local, moved.ends_at - moved.starts_at) == ("2026-03-02 10:30", HOUR)
    await book(database, MONDAY_10, 30)
    shorter = await move(database, later, 15)
    assert shorter.ends_at == MONDAY_10 + timedelta(minutes=45)
    with pytest.raises(SlotTaken):
        await move(database, MONDAY_10)
    async with database.begin() as tx:
        assert await AppointmentStore(tx).get("T1", "APT-1") == shorter


@pytest.mark.parametrize(
    ("starts_at", "minutes", "says"),
    [
        (MONDAY_10.replace(tzinfo=None), 60, "zone"),
        (MONDAY_10, 0, "minutes"),
        (MONDAY_10, 24 * 60 + 1, "minutes"),
        (NOW, 60, "past"),
        (MONDAY_10 - 2 * HOUR, 60, "open 09:00-17:00"),
        (MONDAY_10 + timedelta(hours=6, minutes=1), 60, "open 09:00-17:00"),
        (MONDAY_10 - timedelta(days=1), 60, "open 09:00-17:00"),
    ],
)
async def test_impossible_time_is_refused(
    database: Database, starts_at: datetime, minutes: int, says: str
) -> None:
    with pytest.raises(Permanent, match=says):
        await book(database, starts_at=starts_at, minutes=minutes)


async def test_unknown_resource_is_refused_with_the_known_ones(database: Database) -> None:
    with pytest.raises(Permanent, match="there are: room"):
        await book(database, resource="roof\x00")
    async with database.begin() as tx:
        store = AppointmentStore(tx)
        with pytest.raises(Permanent, match="no bookable resource"):
            await store.resource("T9", "room")
        with pytest.raises(Permanent, match="there is no appointment"):
            await store.cancel("T1", "APT-\x007", NOW)


@pytest.mark.parametrize(
    ("zone", "opens", "closes"), [("Europe/Atlantis", 9, 17), ("Europe/Berlin", 17, 9)]
)
async def test_resource_without_a_zone_or_hours_is_refused(
    database: Database, zone: str, opens: int, closes: int
) -> None:
    with pytest.raises(Permanent, match=r"there is no time zone|must open before it closes"):
        await save(database, Resource("x", zone, time(opens), time(closes)))


async def test_free_slots_leave_out_booked_and_closed_times(database: Database) -> None:
    await book(database, starts_at=MONDAY_10 + HOUR / 4)
    assert await free(database, MONDAY_10, 60) == [
        f"2026-03-02 {hour}:00" for hour in (12, 13, 14, 15, 16)
    ]
    assert await free(database, MONDAY_10 - timedelta(days=2), 60, days=2) == [], "a weekend"
    assert await free(database, MONDAY_10 + 6.5 * HOUR, 60) == []
    assert (await free(database, MONDAY_10, 60, days=2))[5:7] == [
        "2026-03-03 09:00",
        "2026-03-03 10:00",
    ]


async def test_every_free_slot_can_be_booked_until_none_is_left(database: Database) -> None:
    free_slots = await slots(database, BERLIN, MONDAY_10, 45, 2)
    assert free_slots
    for slot in free_slots:
        await book(database, slot.starts_at, 45)
    assert await free(database, MONDAY_10, 45, days=2) == []


async def test_free_slots_follow_the_clock_when_it_changes(database: Database) -> None:
    gym = Resource("gym", "Europe/Berlin", time(0), time(5), (7,))
    await save(database, gym)
    spring = await slots(database, gym, datetime(2026, 3, 28, 23, tzinfo=UTC), 60)
    autumn = await slots(database, gym, datetime(2026, 10, 24, 22, tzinfo=UTC), 60)
    assert [slot.local[-5:] for slot in spring] == ["00:00", "01:00", "03:00", "04:00"]
    assert [slot.local[-5:] for slot in autumn] == [
        "00:00",
        "01:00",
        "02:00",
        "02:00",
        "03:00",
        "04:00",
    ]
    assert all(slot.ends_at - slot.starts_at == HOUR for slot in (*spring, *autumn))
    assert len({slot.starts_at for slot in autumn}) == 6


async def test_upcoming_appointments_are_found_by_attendee_resource_and_time(
    database: Database,
) -> None:
    await book(database, MONDAY_10 + HOUR, attendee="U2")
    await book(database, MONDAY_10, attendee="U1")
    async with database.begin() as tx:
        find = AppointmentStore(tx).upcoming
        assert [each.appointment_id for each in await find("T1", NOW)] == ["APT-2", "APT-1"]
        assert [each.appointment_id for each in await find("T1", NOW, attendee="U2")] == ["APT-1"]
        assert await find("T1", NOW, resource="doctor") == []
        assert await find("T1", MONDAY_10 + 2 * HOUR) == []
