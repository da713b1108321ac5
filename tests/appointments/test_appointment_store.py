"""Appointments: no time is given away twice, and clocks are those of the place."""

import asyncio
from datetime import UTC, datetime, time, timedelta, timezone

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tests.support.tool_store import NOW, change
from threadline.appointments.model import (
    Appointment,
    AppointmentNotFound,
    NotBookable,
    Resource,
    ResourceNotFound,
    SlotTaken,
)
from threadline.db.engine import Database
from threadline.db.errors import sqlstate
from threadline.db.rate_limit_rules import Rate, RateExceeded
from threadline.errors import Permanent
from threadline.tools.operations import Effect, OperationReused

BERLIN = Resource("room", "Europe/Berlin", time(9), time(17))
MONDAY_10 = datetime(2026, 3, 2, 9, tzinfo=UTC)
"""Ten o'clock in Berlin."""


@pytest.fixture(autouse=True)
async def room(database: Database) -> None:
    async with database.begin() as work:
        await work.appointments.save_resource("T1", BERLIN)


async def book(
    database: Database, call_id: str = "c1", starts_at: datetime = MONDAY_10, minutes: int = 60, **more: str
) -> Appointment:
    async with database.begin() as work:
        resource = more.get("resource", "room")
        made = change(call_id, team=more.get("team", "T1"))
        return await work.appointments.book(made, resource, starts_at, minutes, "Review", more.get("attendee", "U1"))


async def free(database: Database, after: datetime, minutes: int, days: int = 1, name: str = "room") -> list[str]:
    async with database.begin() as work:
        return [slot.local for slot in await work.appointments.free_slots("T1", name, after, minutes, days)]


async def test_a_booking_is_kept_and_shown_by_the_clocks_of_its_place(database: Database) -> None:
    made = await book(database)
    assert made == Appointment(
        "APT-1", "room", MONDAY_10, MONDAY_10 + timedelta(hours=1), "2026-03-02 10:00", "Review", "U1", cancelled=False
    )
    async with database.begin() as work:
        assert await work.appointments.get("T1", "APT-1") == made
        with pytest.raises(AppointmentNotFound):
            await work.appointments.get("T2", "APT-1")


async def test_of_fifty_that_race_for_a_time_one_gets_it(database: Database, database_url: str) -> None:
    other = Database(database_url)
    try:
        racing = [book((database, other)[n % 2], f"c{n}", MONDAY_10 + timedelta(minutes=n % 4 * 10)) for n in range(50)]
        outcomes = await asyncio.gather(*racing, return_exceptions=True)
    finally:
        await other.dispose()
    assert sum(isinstance(outcome, Appointment) for outcome in outcomes) == 1
    assert sum(type(outcome) is SlotTaken for outcome in outcomes) == 49
    async with database.begin() as work:
        assert len(await work.appointments.upcoming("T1", NOW)) == 1


async def test_the_database_itself_keeps_two_apart(database: Database) -> None:
    await book(database)

    async def insert(cancelled_at: str | None) -> None:
        async with database.begin() as work:
            await work.connection.execute(
                text(
                    "INSERT INTO appointments (team, resource, during, title, attendee, created_at, cancelled_at)"
                    " VALUES ('T1', 'room', '[2026-03-02 10:59+01, 2026-03-02 11:59+01)', '', '', now(),"
                    " CAST(CAST(:cancelled_at AS text) AS timestamptz))"
                ),
                {"cancelled_at": cancelled_at},
            )

    with pytest.raises(Permanent, match="appointments_one_at_a_time") as caught:
        await insert(None)
    assert isinstance(caught.value.__cause__, DBAPIError)
    assert sqlstate(caught.value.__cause__) == "23P01"
    await insert("2026-02-25 12:00+01")


async def test_times_that_only_touch_do_not_overlap_and_other_resources_are_free(database: Database) -> None:
    async with database.begin() as work:
        await work.appointments.save_resource("T1", Resource("doctor", "Europe/Berlin", time(9), time(17)))
        await work.appointments.save_resource("T2", BERLIN)
    await book(database, "c1")
    await book(database, "c2", MONDAY_10 + timedelta(hours=1))
    await book(database, "c3", MONDAY_10 - timedelta(hours=1))
    await book(database, "c4", resource="doctor")
    await book(database, "c5", team="T2")
    with pytest.raises(SlotTaken, match="2026-03-02 10:59"):
        await book(database, "c6", MONDAY_10 + timedelta(minutes=59), 1)


async def test_a_repeated_call_books_once_and_hears_the_same(database: Database) -> None:
    made = await book(database)
    assert await book(database) == made
    async with database.begin() as work:
        assert len(await work.appointments.upcoming("T1", NOW)) == 1
        effect = await work.operations.effect(change("c1").operation)
        assert isinstance(effect, Effect)
        assert (effect.kind, effect.record) == ("book", "room")
        assert await work.operations.effect(change("c2").operation) is None
        with pytest.raises(OperationReused):
            await work.appointments.cancel(change("c1"), "APT-1")


async def test_a_refused_booking_leaves_nothing_and_its_call_may_be_tried_again(database: Database) -> None:
    await book(database)
    with pytest.raises(SlotTaken):
        await book(database, "c2")
    async with database.begin() as work:
        await work.appointments.cancel(change("c3"), "APT-1")
    assert (await book(database, "c2")).local == "2026-03-02 10:00"


async def test_moving_keeps_the_length_and_may_overlap_its_own_old_time(database: Database) -> None:
    await book(database)
    async with database.begin() as work:
        moved = await work.appointments.move(change("c2"), "APT-1", MONDAY_10 + timedelta(minutes=30))
        assert await work.appointments.move(change("c2"), "APT-1", MONDAY_10 + timedelta(minutes=30)) == moved
    assert (moved.local, moved.ends_at - moved.starts_at) == ("2026-03-02 10:30", timedelta(hours=1))
    await book(database, "c3", MONDAY_10, 30)
    async with database.begin() as work:
        shorter = await work.appointments.move(change("c4"), "APT-1", MONDAY_10 + timedelta(minutes=30), 15)
    assert shorter.ends_at == MONDAY_10 + timedelta(minutes=45)


async def test_moving_onto_another_is_refused_and_changes_nothing(database: Database) -> None:
    await book(database)
    second = await book(database, "c2", MONDAY_10 + timedelta(hours=2))

    async def move(call_id: str) -> None:
        async with database.begin() as work:
            await work.appointments.move(change(call_id), second.appointment_id, MONDAY_10)

    with pytest.raises(SlotTaken):
        await move("c3")
    async with database.begin() as work:
        assert await work.appointments.get("T1", second.appointment_id) == second


async def test_of_many_that_move_to_one_time_one_gets_it(database: Database) -> None:
    for n in range(6):
        await book(database, f"c{n}", MONDAY_10 + timedelta(minutes=30 * n), 30)

    async def move(number: int) -> Appointment:
        async with database.begin() as work:
            target = MONDAY_10 + timedelta(hours=5)
            return await work.appointments.move(change(f"m{number}"), f"APT-{number}", target)

    outcomes = await asyncio.gather(*(move(n + 1) for n in range(6)), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Appointment"] + ["SlotTaken"] * 5


async def test_a_cancelled_time_is_free_again_and_cancelling_twice_is_harmless(database: Database) -> None:
    await book(database)
    async with database.begin() as work:
        first = await work.appointments.cancel(change("c2"), "APT-1")
        assert await work.appointments.cancel(change("c3"), "APT-1") == first
    assert first.cancelled
    await book(database, "c4")

    async def move() -> None:
        async with database.begin() as work:
            await work.appointments.move(change("c5"), "APT-1", MONDAY_10 + timedelta(hours=3))

    with pytest.raises(AppointmentNotFound, match="cancelled"):
        await move()


@pytest.mark.parametrize(
    ("starts_at", "minutes", "says"),
    [
        (MONDAY_10.replace(tzinfo=None), 60, "zone"),
        (MONDAY_10, 0, "minutes"),
        (MONDAY_10, 24 * 60 + 1, "minutes"),
        (datetime.fromtimestamp(NOW, UTC), 60, "is in the past"),
        (MONDAY_10 - timedelta(hours=2), 60, "open 09:00-17:00"),
        (MONDAY_10 + timedelta(hours=6, minutes=1), 60, "open 09:00-17:00"),
        (MONDAY_10 - timedelta(days=1), 60, "open 09:00-17:00"),
    ],
)
async def test_what_cannot_be_booked_is_refused_in_plain_words(
    database: Database, starts_at: datetime, minutes: int, says: str
) -> None:
    with pytest.raises(NotBookable, match=says):
        await book(database, starts_at=starts_at, minutes=minutes)


async def test_what_is_not_there_is_named_with_what_is(database: Database) -> None:
    with pytest.raises(ResourceNotFound, match="there are: room"):
        await book(database, resource="roof\x00")
    async with database.begin() as work:
        with pytest.raises(ResourceNotFound, match="no bookable resource is set up"):
            await work.appointments.free_slots("T9", "room", MONDAY_10, 30)
        with pytest.raises(AppointmentNotFound):
            await work.appointments.cancel(change(), "APT-\x007")


@pytest.mark.parametrize(
    "resource",
    [
        Resource("x", "Europe/Atlantis", time(9), time(17)),
        Resource("x", "Europe/Berlin", time(17), time(9)),
    ],
)
async def test_a_resource_without_a_place_or_hours_is_refused(database: Database, resource: Resource) -> None:
    async with database.begin() as work:
        with pytest.raises(NotBookable):
            await work.appointments.save_resource("T1", resource)


async def test_free_slots_leave_out_what_is_booked_closed_or_gone(database: Database) -> None:
    await book(database, starts_at=MONDAY_10 + timedelta(minutes=15), minutes=60)
    monday = [f"2026-03-02 {hour:02}:00" for hour in (12, 13, 14, 15, 16)]
    assert await free(database, MONDAY_10, 60) == monday
    assert await free(database, MONDAY_10 - timedelta(days=2), 60, days=2) == [], "a weekend"
    assert await free(database, MONDAY_10 + timedelta(hours=6, minutes=30), 60) == []
    assert (await free(database, MONDAY_10, 60, days=2))[5:7] == ["2026-03-03 09:00", "2026-03-03 10:00"]


async def test_every_free_slot_can_be_booked_and_then_none_is_free(database: Database) -> None:
    async with database.begin() as work:
        slots = await work.appointments.free_slots("T1", "room", MONDAY_10, 45, 2)
    assert slots
    for number, slot in enumerate(slots):
        await book(database, f"c{number}", slot.starts_at, 45)
    assert await free(database, MONDAY_10, 45, days=2) == []


async def test_on_the_day_when_clocks_go_forward_and_back_opening_is_by_the_clock(database: Database) -> None:
    async with database.begin() as work:
        await work.appointments.save_resource("T1", Resource("gym", "Europe/Berlin", time(0), time(5), (7,)))
        spring = await work.appointments.free_slots("T1", "gym", datetime(2026, 3, 28, 23, tzinfo=UTC), 60, 1)
        autumn = await work.appointments.free_slots("T1", "gym", datetime(2026, 10, 24, 22, tzinfo=UTC), 60, 1)
    assert [slot.local[-5:] for slot in spring] == ["00:00", "01:00", "03:00", "04:00"]
    assert [slot.local[-5:] for slot in autumn] == ["00:00", "01:00", "02:00", "02:00", "03:00", "04:00"]
    assert all(slot.ends_at - slot.starts_at == timedelta(hours=1) for slot in (*spring, *autumn))
    assert len({slot.starts_at for slot in autumn}) == 6


async def test_the_same_moment_in_another_zone_is_the_same_time(database: Database) -> None:
    tokyo = MONDAY_10.astimezone(timezone(timedelta(hours=9)))
    made = await book(database, starts_at=tokyo)
    assert (made.starts_at, made.local) == (MONDAY_10, "2026-03-02 10:00")
    with pytest.raises(SlotTaken):
        await book(database, "c2", MONDAY_10)


async def test_upcoming_ones_are_found_by_whom_they_are_for(database: Database) -> None:
    await book(database, "c1", MONDAY_10 + timedelta(hours=1), attendee="U2")
    await book(database, "c2", MONDAY_10, attendee="U1")
    async with database.begin() as work:
        find = work.appointments.upcoming
        assert [each.appointment_id for each in await find("T1", NOW)] == ["APT-2", "APT-1"]
        assert [each.appointment_id for each in await find("T1", NOW, attendee="U2")] == ["APT-1"]
        assert await find("T1", NOW, resource="doctor") == []
        assert await find("T1", (MONDAY_10 + timedelta(hours=2)).timestamp()) == []


async def test_one_appointment_is_changed_no_faster_than_its_rate(database: Database) -> None:
    await book(database)

    async def move(number: int) -> Appointment:
        async with database.begin() as work:
            to = MONDAY_10 + timedelta(minutes=number)
            return await work.appointments.move(change(f"m{number}", rate=Rate(2, 60)), "APT-1", to)

    await move(1)
    await move(2)
    with pytest.raises(RateExceeded, match="2 changes in 60 seconds"):
        await move(3)
    assert (await move(2)).local == "2026-03-02 10:02", "it is the repetition of a change that was allowed"
