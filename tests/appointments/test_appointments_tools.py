"""Appointment tools in a thread: local times, free times, and refusals that name the
alternatives.
"""

from datetime import UTC, datetime, time
from typing import Any

import pytest

from tests.support.tool_scene import ToolScene
from threadline.appointments import tools as appointments
from threadline.appointments.model import Resource
from threadline.appointments.store import AppointmentStore
from threadline.db.engine import Database
from threadline.db.rate_limits import Rate
from threadline.tools.model import ErrorCode, ToolResult

MONDAY = "2026-03-02"


@pytest.fixture(autouse=True)
async def resources(database: Database) -> None:
    async with database.begin() as tx:
        store = AppointmentStore(tx)
        await store.save_resource(
            "T1", Resource("Meeting room", "Europe/Berlin", time(9), time(17))
        )
        await store.save_resource("T1", Resource("Doctor", "America/New_York", time(8), time(12)))
        await store.save_resource("T2", Resource("Meeting room", "Asia/Tokyo", time(9), time(17)))


@pytest.fixture
def desk(database: Database) -> ToolScene:
    return ToolScene(database, appointments.TOOLS)


async def book(desk: ToolScene, starts_at: str = f"{MONDAY}T10:00", **more: Any) -> ToolResult:
    given: dict[str, Any] = {
        "resource": "Meeting room",
        "title": "Review",
        "starts_at": starts_at,
        "minutes": 60,
    }
    return await desk.ask("calendar.book", **given | more)


async def upcoming(desk: ToolScene, **by: Any) -> list[Any]:
    found: list[Any] = (await desk.done("appointments.listUpcoming", **by))["appointments"]
    return found


def message(result: ToolResult) -> str:
    assert result.error
    return result.error.message


async def test_resources_are_listed_with_their_hours(desk: ToolScene) -> None:
    result = await desk.ask("appointments.listResources")
    days = "Monday, Tuesday, Wednesday, Thursday, Friday"
    assert [list(each.values()) for each in result.data["resources"]] == [
        ["Doctor", "America/New_York", "08:00", "12:00", days],
        ["Meeting room", "Europe/Berlin", "09:00", "17:00", days],
    ]
    assert [each.kind for each in result.structured] == ["resources"]
    nothing = await desk.ask("appointments.listResources", team="T3")
    assert (nothing.structured, bool(nothing.display_text)) == ((), True)


@pytest.mark.parametrize(
    "starts_at", [f"{MONDAY}T10:00", f"{MONDAY} 10:00:00", f"{MONDAY}T18:00+09:00"]
)
async def test_time_is_local_to_the_place_unless_it_has_an_offset(
    desk: ToolScene, starts_at: str
) -> None:
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
    assert "APT-1: Meeting room, 2026-03-02 10:00 (Europe/Berlin)" in result.display_text
    assert [each.kind for each in result.structured] == ["appointments"]


@pytest.mark.parametrize(
    ("day", "hour", "offset"), [("2026-07-01", 12, "-04:00"), ("2026-12-01", 13, "-05:00")]
)
async def test_local_time_follows_summer_and_winter(
    desk: ToolScene, database: Database, day: str, hour: int, offset: str
) -> None:
    result = await book(desk, f"{day}T08:00", resource="Doctor")
    assert result.data["starts_at"] == f"{day}T08:00{offset}"
    async with database.begin() as tx:
        stored = await AppointmentStore(tx).get("T1", "APT-1")
    assert stored.starts_at == datetime.fromisoformat(day).replace(hour=hour, tzinfo=UTC)


async def test_time_skipped_by_the_clock_is_refused(desk: ToolScene, database: Database) -> None:
    async with database.begin() as tx:
        await AppointmentStore(tx).save_resource(
            "T1", Resource("Gym", "Europe/Berlin", time(0), time(5), (7,))
        )
    result = await book(desk, "2026-03-29T02:30", resource="Gym")
    assert "2026-03-29 02:30 does not exist in Europe/Berlin" in message(result)


async def test_free_times_begin_now_and_name_their_zone(desk: ToolScene) -> None:
    desk.clock.now = datetime(2026, 3, 2, 11, 30, tzinfo=UTC)
    result = await desk.ask(
        "calendar.free", resource="meeting room", minutes=60, days=2, after="2026-03-02T08:00"
    )
    first = [f"2026-03-02 {hour}:00" for hour in (13, 14, 15, 16)]
    assert [each["local"] for each in result.data["slots"]][:5] == [*first, "2026-03-03 09:00"]
    assert {each["time_zone"] for each in result.data["slots"]} == {"Europe/Berlin"}
    assert "2026-03-02 13:00 (Europe/Berlin)" in result.display_text
    assert [each.kind for each in result.structured] == ["slots"]
    saturday = await desk.done(
        "calendar.free", resource="Meeting room", after="2026-03-07", days=1
    )
    assert saturday["slots"] == []


async def test_taken_time_is_refused_with_bookable_times_around_it(desk: ToolScene) -> None:
    await book(desk)
    taken = await book(desk)
    assert taken.error
    assert taken.error.code is ErrorCode.REFUSED
    assert "Meeting room is taken at 2026-03-02 10:00" in message(taken)
    around = [f"2026-03-02 {hour}:00" for hour in ("09", "11", "12", "13")]
    assert [each["local"] for each in taken.data["slots"]] == around
    assert f"{', '.join(around)} (Europe/Berlin)" in message(taken)
    assert (await book(desk, taken.data["slots"][0]["starts_at"])).success


async def test_times_offered_instead_are_never_past(desk: ToolScene) -> None:
    desk.clock.now = datetime(2026, 3, 3, 8, 30, tzinfo=UTC)
    await book(desk, "2026-03-03T10:00")
    taken = await book(desk, "2026-03-03T10:30")
    assert [each["local"] for each in taken.data["slots"]] == [
        f"2026-03-03 {hour}:00" for hour in (11, 12, 13, 14)
    ]


async def test_appointment_is_moved_and_cancelled_by_its_id(desk: ToolScene) -> None:
    await book(desk, minutes=30)
    moved = await desk.done(
        "appointments.move", appointment_id="apt-1", starts_at=f"{MONDAY}T14:00"
    )
    assert (moved["local"], moved["ends_at"]) == ("2026-03-02 14:00", "2026-03-02T14:30+01:00")
    await book(desk, user_id="U2")
    onto = await desk.refused(
        "appointments.move", appointment_id="APT-1", starts_at=f"{MONDAY}T10:15"
    )
    assert "taken at 2026-03-02 10:15" in message(onto)
    assert onto.data["slots"]
    [mine] = await upcoming(desk, attendee_id="U1")
    assert (mine["appointment_id"], mine["local"]) == ("APT-1", "2026-03-02 14:00")
    assert (await desk.done("appointments.cancel", appointment_id="APT-1"))["cancelled"]
    assert await upcoming(desk, attendee_id="U1") == []
    again = await desk.refused(
        "appointments.move", appointment_id="APT-1", starts_at=f"{MONDAY}T15:00"
    )
    assert "was cancelled" in message(again)


CHANGES: list[tuple[str, dict[str, Any]]] = [
    (
        "calendar.book",
        {"resource": "Meeting room", "title": "Talk", "starts_at": f"{MONDAY}T12:00"},
    ),
    ("appointments.move", {"appointment_id": "APT-1", "starts_at": f"{MONDAY}T12:00"}),
    ("appointments.cancel", {"appointment_id": "APT-1"}),
]


@pytest.mark.parametrize(("tool", "arguments"), CHANGES)
async def test_change_is_made_once_or_not_at_all(
    desk: ToolScene, tool: str, arguments: dict[str, Any]
) -> None:
    await book(desk)
    before = await upcoming(desk)
    desk.ledger.lost = RuntimeError("the worker died")
    with pytest.raises(RuntimeError):
        await desk.ask(tool, "lost", **arguments)
    assert await upcoming(desk) == before
    made = await desk.ask(tool, "lost", **arguments)
    assert made.success
    after = await upcoming(desk)
    assert after != before
    assert await desk.ask(tool, "lost", **arguments) == made
    assert await upcoming(desk) == after


@pytest.mark.parametrize(("tool", "arguments"), CHANGES[1:])
async def test_appointment_of_another_team_is_not_found(
    desk: ToolScene, tool: str, arguments: dict[str, Any]
) -> None:
    await book(desk)
    assert "no appointment APT-1" in message(await desk.refused(tool, team="T2", **arguments))
    assert await upcoming(desk, team="T2") == []
    tokyo = await book(desk, team="T2")
    assert tokyo.data["starts_at"] == "2026-03-02T10:00+09:00"


async def test_booking_in_a_thread_of_several_must_name_its_attendee(desk: ToolScene) -> None:
    refused = await book(desk, user_id="U1", co_requesters={"U2": "Ben (U2)"})
    assert "U1, Ben (U2)" in message(refused)
    assert (
        await book(desk, user_id="U1", co_requesters={"U2": "Ben (U2)"}, attendee_id="U2")
    ).success
    assert [len(await upcoming(desk, attendee_id=each)) for each in ("U1", "U2")] == [0, 1]


async def test_bookings_of_one_resource_are_rate_limited(database: Database) -> None:
    desk = ToolScene(database, appointments.TOOLS, Rate(2, 60))
    for hour, written in ((10, "Meeting room"), (11, " meeting ROOM")):
        assert (await book(desk, f"{MONDAY}T{hour}:00", resource=written)).success
    throttled = await book(desk, f"{MONDAY}T12:00")
    assert throttled.error
    assert throttled.error.code is ErrorCode.TOO_MANY_CHANGES
    assert (await book(desk, f"{MONDAY}T10:00", resource="Doctor")).success


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("calendar.book", {"starts_at": None}, "`starts_at`"),
        ("calendar.book", {"starts_at": "tomorrow"}, "2026-03-02T10:00"),
        ("calendar.book", {"starts_at": 17}, "`starts_at`"),
        ("calendar.book", {"starts_at": "0001-01-01T00:00+14:00"}, "from 2000 to 2199"),
        ("calendar.book", {"minutes": 0}, "greater than or equal to 1"),
        ("calendar.book", {"where": "here"}, "`where` is unknown"),
        ("calendar.book", {"resource": "Roof"}, "Doctor, Meeting room"),
        ("calendar.book", {"starts_at": f"{MONDAY}T16:30", "minutes": 60}, "open 09:00-17:00"),
        ("calendar.free", {"resource": "Doctor", "after": "soon"}, "`after`"),
        ("calendar.free", {"resource": "Doctor", "days": 63}, "less than or equal to 62"),
        ("appointments.cancel", {"appointment_id": "APT-9"}, "APT-9"),
    ],
)
async def test_unfitting_argument_is_named_and_nothing_is_booked(
    desk: ToolScene, tool: str, arguments: dict[str, Any], says: str
) -> None:
    plain = (
        {"resource": "Meeting room", "title": "Review", "starts_at": f"{MONDAY}T10:00"}
        if tool.endswith("book")
        else {}
    )
    assert says in message(await desk.refused(tool, **{**plain, **arguments}))
    assert await upcoming(desk) == await upcoming(desk, resource="Roof") == []
