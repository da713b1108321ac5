"""Appointments from a thread: clocks are those of the place, and no time is given away twice."""

import asyncio
from datetime import UTC, datetime, time
from typing import Any

import pytest

from tests.support.tool_desk import Desk
from threadline.appointments import tools as appointments
from threadline.appointments.model import Resource
from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Rate
from threadline.errors import Transient
from threadline.tools.model import Code, ToolResult

MONDAY = "2026-03-02"


@pytest.fixture(autouse=True)
async def resources(database: Database) -> None:
    async with database.begin() as work:
        await work.appointments.save_resource("T1", Resource("Meeting room", "Europe/Berlin", time(9), time(17)))
        await work.appointments.save_resource("T1", Resource("Doctor", "America/New_York", time(8), time(12)))
        await work.appointments.save_resource("T2", Resource("Meeting room", "Asia/Tokyo", time(9), time(17)))


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database, appointments.TOOLS)


async def book(desk: Desk, starts_at: str = f"{MONDAY}T10:00", **more: Any) -> ToolResult:
    return await desk.ask(
        "appointments.book", **{"resource": "Meeting room", "title": "Review", **more}, starts_at=starts_at
    )


def told(result: ToolResult) -> str:
    assert result.error
    return result.error.message


async def test_what_can_be_booked_is_listed_with_its_clocks(desk: Desk) -> None:
    result = await desk.ask("appointments.listResources")
    assert result.data["resources"] == [
        {
            "resource": "Doctor",
            "time_zone": "America/New_York",
            "opens": "08:00",
            "closes": "12:00",
            "days": "Monday, Tuesday, Wednesday, Thursday, Friday",
        },
        {**result.data["resources"][0], "resource": "Meeting room", "time_zone": "Europe/Berlin", **OFFICE},
    ]
    assert [each.kind for each in result.structured] == ["resources"]
    nothing = await desk.ask("appointments.listResources", team="T3")
    assert (nothing.structured, nothing.display_text) == ((), "Nothing is set up to be booked yet.")


OFFICE = {"opens": "09:00", "closes": "17:00"}


@pytest.mark.parametrize(
    "starts_at", [f"{MONDAY}T10:00", f"{MONDAY} 10:00:00", f"{MONDAY}T09:00Z", f"{MONDAY}T18:00+09:00"]
)
async def test_a_time_is_by_the_clocks_of_the_place_unless_it_says_its_own(desk: Desk, starts_at: str) -> None:
    result = await book(desk, starts_at, minutes=90, resource="meeting ROOM")
    assert result.data == {
        "appointment_id": "APT-1",
        "resource": "Meeting room",
        "starts_at": "2026-03-02T10:00+01:00",
        "ends_at": "2026-03-02T11:30+01:00",
        "local": "2026-03-02 10:00",
        "time_zone": "Europe/Berlin",
        "title": "Review",
        "attendee": "U1",
        "cancelled": False,
    }
    assert result.display_text == "Booked APT-1: Meeting room, 2026-03-02 10:00 (Europe/Berlin)."
    assert [each.kind for each in result.structured] == ["appointments"]


@pytest.mark.parametrize(
    ("starts_at", "moment", "shown"),
    [
        ("2026-07-01T08:00", datetime(2026, 7, 1, 12, tzinfo=UTC), "2026-07-01T08:00-04:00"),
        ("2026-12-01T08:00", datetime(2026, 12, 1, 13, tzinfo=UTC), "2026-12-01T08:00-05:00"),
    ],
)
async def test_in_summer_and_winter_local_times_are_those_of_the_day(
    desk: Desk, database: Database, starts_at: str, moment: datetime, shown: str
) -> None:
    result = await book(desk, starts_at, resource="Doctor")
    assert result.data["starts_at"] == shown
    async with database.begin() as work:
        assert (await work.appointments.get("T1", "APT-1")).starts_at == moment


async def test_a_time_that_clocks_leave_out_is_refused(desk: Desk, database: Database) -> None:
    async with database.begin() as work:
        await work.appointments.save_resource("T1", Resource("Gym", "Europe/Berlin", time(0), time(5), (7,)))
    result = await book(desk, "2026-03-29T02:30", resource="Gym")
    assert "2026-03-29 02:30 does not exist in Europe/Berlin" in told(result)
    slots = await desk.done("appointments.freeSlots", resource="gym", after="2026-03-29", days=1)
    assert [each["starts_at"][-11:] for each in slots["slots"]] == [
        "00:00+01:00",
        "01:00+01:00",
        "03:00+02:00",
        "04:00+02:00",
    ]


async def test_free_times_begin_now_and_say_their_zone(desk: Desk) -> None:
    desk.clock.now = datetime(2026, 3, 2, 11, 30, tzinfo=UTC)
    result = await desk.ask("appointments.freeSlots", resource="meeting room", days=2, after="2026-03-02T08:00")
    assert [each["local"] for each in result.data["slots"]][:5] == [
        *(f"2026-03-02 {hour}:00" for hour in (13, 14, 15, 16)),
        "2026-03-03 09:00",
    ]
    assert {each["time_zone"] for each in result.data["slots"]} == {"Europe/Berlin"}
    assert result.display_text == "The next free time is 2026-03-02 13:00 (Europe/Berlin)."
    assert [each.kind for each in result.structured] == ["slots"]
    later = await desk.done("appointments.freeSlots", resource="Meeting room", after="2026-03-07", days=1)
    assert later["slots"] == [], "a Saturday"


async def test_of_fifty_that_race_for_a_time_one_gets_it_and_the_others_are_told_what_is_free(desk: Desk) -> None:
    results = await asyncio.gather(*(book(desk, user_id=f"U{number}") for number in range(50)))
    won = [each for each in results if each.success]
    lost = [each for each in results if not each.success]
    assert len(won) == 1
    for each in lost:
        assert each.error
        assert each.error.code is Code.REFUSED
        assert told(each) == (
            "Meeting room is taken at 2026-03-02 10:00; look for free times; free nearby: 2026-03-02 09:00, "
            "2026-03-02 11:00, 2026-03-02 12:00, 2026-03-02 13:00 (Europe/Berlin)."
        )
        assert each.data["slots"][0]["starts_at"] == "2026-03-02T09:00+01:00"
    upcoming = await desk.done("appointments.listUpcoming", resource="meeting room")
    assert [each["appointment_id"] for each in upcoming["appointments"]] == [won[0].data["appointment_id"]]


async def test_what_is_named_as_free_can_be_booked(desk: Desk) -> None:
    await book(desk)
    taken = await book(desk)
    assert (await book(desk, taken.data["slots"][0]["starts_at"])).success


async def test_nearby_is_before_and_after_and_never_past(desk: Desk) -> None:
    desk.clock.now = datetime(2026, 3, 3, 8, 30, tzinfo=UTC)
    await book(desk, "2026-03-03T10:00")
    taken = await book(desk, "2026-03-03T10:30")
    assert [each["local"] for each in taken.data["slots"]] == [f"2026-03-03 {hour}:00" for hour in (11, 12, 13, 14)]


async def test_an_appointment_is_moved_and_cancelled_by_its_id(desk: Desk) -> None:
    await book(desk, minutes=30)
    moved = await desk.ask("appointments.move", appointment_id="apt-1", starts_at=f"{MONDAY}T14:00")
    assert moved.display_text == "Moved APT-1: Meeting room, 2026-03-02 14:00 (Europe/Berlin)."
    assert moved.data["ends_at"] == "2026-03-02T14:30+01:00"
    await book(desk, user_id="U2")
    onto = await desk.refused("appointments.move", appointment_id="APT-1", starts_at=f"{MONDAY}T10:15")
    assert "taken at 2026-03-02 10:15" in told(onto)
    assert onto.data["slots"], "others are named"
    [mine] = (await desk.done("appointments.listUpcoming", attendee_id="U1"))["appointments"]
    assert (mine["appointment_id"], mine["local"]) == ("APT-1", "2026-03-02 14:00")
    cancelled = await desk.done("appointments.cancel", appointment_id="APT-1")
    assert cancelled["cancelled"]
    assert (await desk.ask("appointments.listUpcoming", attendee_id="U1")).display_text == "Nothing is booked."
    assert "was cancelled" in told(
        await desk.refused("appointments.move", appointment_id="APT-1", starts_at=f"{MONDAY}T15:00")
    )


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("appointments.book", {"resource": "Meeting room", "title": "Talk", "starts_at": f"{MONDAY}T12:00"}),
    ("appointments.move", {"appointment_id": "APT-1", "starts_at": f"{MONDAY}T12:00"}),
    ("appointments.cancel", {"appointment_id": "APT-1"}),
]


@pytest.mark.parametrize(("tool", "arguments"), CHANGES)
async def test_a_call_whose_result_was_lost_is_found_by_its_operation_and_not_made_again(
    desk: Desk, tool: str, arguments: dict[str, Any]
) -> None:
    await book(desk)
    desk.log.lost = Transient("the worker has gone")
    with pytest.raises(Transient):
        await desk.ask(tool, "lost", **arguments)
    before = await desk.done("appointments.listUpcoming")
    again = await desk.ask(tool, "lost", **arguments)
    assert again.success
    assert again.data["appointment_id"] == ("APT-2" if tool.endswith("book") else "APT-1")
    assert await desk.done("appointments.listUpcoming") == before


@pytest.mark.parametrize(("tool", "arguments"), CHANGES[1:])
async def test_another_teams_appointment_is_not_there(desk: Desk, tool: str, arguments: dict[str, Any]) -> None:
    await book(desk)
    assert told(await desk.refused(tool, team="T2", **arguments)).startswith("there is no appointment APT-1")
    assert (await desk.done("appointments.listUpcoming", team="T2"))["appointments"] == []
    tokyo = await book(desk, team="T2")
    assert tokyo.data["starts_at"] == "2026-03-02T10:00+09:00", "each team has its own of that name"


async def test_where_several_have_written_it_is_said_whom_a_booking_is_for(desk: Desk) -> None:
    refused = await book(desk, user_id="U1", others=("Ben (U2)",))
    assert "U1, Ben (U2)" in told(refused)
    assert (await book(desk, user_id="U1", others=("Ben (U2)",), attendee_id="U2")).success
    booked = [(await desk.done("appointments.listUpcoming", attendee_id=each))["appointments"] for each in ("U1", "U2")]
    assert [len(each) for each in booked] == [0, 1]


async def test_a_resource_is_booked_no_faster_than_its_rate(database: Database) -> None:
    desk = Desk(database, appointments.TOOLS, Rate(2, 60))
    for hour in (10, 11):
        assert (await book(desk, f"{MONDAY}T{hour}:00")).success
    throttled = await book(desk, f"{MONDAY}T12:00")
    assert throttled.error
    assert throttled.error.code is Code.TOO_MANY_CHANGES
    assert (await book(desk, f"{MONDAY}T10:00", resource="Doctor")).success


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("book", {"starts_at": None}, "`starts_at`"),
        ("book", {"starts_at": "tomorrow"}, "`starts_at`: expected a date and time such as 2026-03-02T10:00"),
        ("book", {"starts_at": 17}, "`starts_at`: expected a date and time"),
        ("book", {"starts_at": "0001-01-01T00:00+14:00"}, "`starts_at`: expected a year from 2000 to 2199"),
        ("book", {"minutes": 0}, "`minutes` does not fit: expected a whole number from 1 to 1440"),
        ("book", {"where": "here"}, "`where` is unknown"),
        ("book", {"resource": "Roof"}, "nothing called 'Roof' can be booked; there are: Doctor, Meeting room"),
        ("book", {"starts_at": "2026-02-27T10:00"}, "2026-02-27 10:00 is in the past"),
        ("book", {"starts_at": f"{MONDAY}T16:30"}, "it is open 09:00-17:00"),
        ("freeSlots", {"resource": "Doctor", "after": "soon"}, "`after`: expected a date and time"),
        ("freeSlots", {"resource": "Doctor", "days": 63}, "`days` does not fit: expected a whole number from 1 to 62"),
        ("cancel", {"appointment_id": "APT-9"}, "there is no appointment APT-9"),
        ("listUpcoming", {"resource": "Roof"}, ""),
    ],
)
async def test_what_does_not_fit_is_named_and_nothing_is_booked(
    desk: Desk, tool: str, arguments: dict[str, Any], says: str
) -> None:
    plain = {"resource": "Meeting room", "title": "Review", "starts_at": f"{MONDAY}T10:00"} if tool == "book" else {}
    result = await desk.ask(f"appointments.{tool}", **{**plain, **arguments})
    assert says in (told(result) if result.error else "")
    assert (await desk.done("appointments.listUpcoming"))["appointments"] == []
