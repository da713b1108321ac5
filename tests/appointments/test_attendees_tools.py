"""The attendee of an appointment: a Slack id. People outside the workspace book only for
themselves.
"""

from datetime import time
from typing import Any

import pytest

from tests.support.tool_results import code_of, message_of
from tests.support.tool_scene import ToolScene
from threadline.appointments import tools as appointments
from threadline.appointments.model import Resource
from threadline.appointments.store import AppointmentStore
from threadline.db.engine import Database
from threadline.tools.model import ErrorCode, ToolResult

TEN = "2026-03-02T10:00"
GUEST: dict[str, Any] = {"user_id": "UGUEST"}
TOGETHER: dict[str, Any] = {"user_id": "UGUEST", "co_requesters": {"U2": "Ben (U2)"}}
"""A guest and a member have written; where a tool needs an attendee, the call names one."""


@pytest.fixture
async def desk(database: Database) -> ToolScene:
    async with database.begin() as tx:
        await AppointmentStore(tx).save_resource(
            "T1", Resource("Room", "Europe/Berlin", time(9), time(17))
        )
    return ToolScene(database, appointments.TOOLS, guests=("UGUEST",))


async def book(desk: ToolScene, starts_at: str = TEN, **more: Any) -> ToolResult:
    return await desk.ask("calendar.book", starts_at=starts_at, **more)


async def upcoming(desk: ToolScene, **by: Any) -> list[str]:
    found = (await desk.done("appointments.listUpcoming", **by))["appointments"]
    return [f"{each['appointment_id']} {each['attendee']} {each['local'][-5:]}" for each in found]


@pytest.mark.parametrize("written", ["U2", "<@U2>", "<@U2|Ben Okoro>", " U2 "])
async def test_attendee_is_kept_as_the_plain_slack_id(desk: ToolScene, written: str) -> None:
    assert (await book(desk, attendee_id=written)).data["attendee"] == "U2"
    assert await upcoming(desk, attendee_id=written) == ["APT-1 U2 10:00"]


@pytest.mark.parametrize(
    "written", ["Ben", "@Ben", "ben@shop.example", "<@U2> and <@U3>", "<#C1>", "u2", "<@U2"]
)
async def test_attendee_that_is_no_slack_id_is_refused(desk: ToolScene, written: str) -> None:
    for refused in (
        await book(desk, attendee_id=written),
        await desk.ask("appointments.listUpcoming", attendee_id=written),
    ):
        assert code_of(refused) is ErrorCode.INVALID_ARGUMENTS
        assert "Slack id such as U0123ABCD" in message_of(refused)
        assert "Ben" not in message_of(refused)


async def test_guest_sees_only_own_appointments(desk: ToolScene) -> None:
    await book(desk, user_id="U1")
    await book(desk, "2026-03-02T11:00", **GUEST)
    assert await upcoming(desk, **GUEST) == ["APT-2 UGUEST 11:00"]
    assert await upcoming(desk, attendee_id="UGUEST", **GUEST) == ["APT-2 UGUEST 11:00"]
    refused = await desk.refused("appointments.listUpcoming", attendee_id="U1", **GUEST)
    assert "only what is booked for themselves" in message_of(refused)
    assert await upcoming(desk, user_id="U2") == ["APT-1 U1 10:00", "APT-2 UGUEST 11:00"]


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("move", {"starts_at": "2026-03-02T15:00"}),
    ("cancel", {}),
]


@pytest.mark.parametrize(("tool", "arguments"), CHANGES)
async def test_guest_changes_only_own_appointments(
    desk: ToolScene, tool: str, arguments: dict[str, Any]
) -> None:
    await book(desk, user_id="U1")
    await book(desk, "2026-03-02T11:00", **GUEST)
    others = await desk.refused(
        f"appointments.{tool}", appointment_id="APT-1", **arguments, **GUEST
    )
    missing = await desk.refused(
        f"appointments.{tool}", appointment_id="APT-9", **arguments, **GUEST
    )
    assert message_of(others) == message_of(missing).replace("APT-9", "APT-1")
    assert await upcoming(desk) == ["APT-1 U1 10:00", "APT-2 UGUEST 11:00"]
    assert (
        await desk.ask(f"appointments.{tool}", appointment_id="APT-2", **arguments, **GUEST)
    ).success


async def test_member_changes_the_appointment_of_another_member(desk: ToolScene) -> None:
    await book(desk, user_id="U1")
    await desk.done(
        "appointments.move", appointment_id="APT-1", starts_at="2026-03-02T15:00", user_id="U2"
    )
    await desk.done("appointments.cancel", appointment_id="APT-1", user_id="U2")


async def test_guest_books_only_for_themselves(desk: ToolScene) -> None:
    refused = await book(desk, attendee_id="U1", **GUEST)
    assert "only what is booked for themselves" in message_of(refused)
    assert await upcoming(desk) == []
    assert (await book(desk, attendee_id="UGUEST", **GUEST)).success


async def test_guest_among_several_askers_reaches_no_appointment(desk: ToolScene) -> None:
    await book(desk, user_id="UGUEST")
    calls: list[tuple[str, dict[str, str]]] = [
        ("appointments.listUpcoming", {}),
        ("appointments.cancel", {"appointment_id": "APT-1"}),
        ("calendar.book", {"starts_at": "2026-03-02T12:00", "attendee_id": "U2"}),
    ]
    for tool, arguments in calls:
        assert "only what is booked for themselves" in message_of(
            await desk.refused(tool, **arguments, **TOGETHER)
        )
    assert await upcoming(desk) == ["APT-1 UGUEST 10:00"]
