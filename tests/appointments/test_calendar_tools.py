"""Meetings from a thread: booked with as little said as there is to say, and the invitation stands in the thread."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any

import aiohttp
import pytest
from icalendar import Calendar
from sqlalchemy import text

from tests.sales.customers import Directory
from tests.slack.ledger import MemoryLedger
from tests.support.tool_desk import Desk
from threadline.appointments import calendar_tools as calendar
from threadline.appointments import tools as appointments
from threadline.appointments.invitation_port import INVITATIONS
from threadline.appointments.invitation_sender import SlackInvitations
from threadline.appointments.model import Resource
from threadline.db.engine import Database
from threadline.slack.client import Slack, make_client
from threadline.slack.uploads import Uploads
from threadline.tools.context import Ports
from threadline.tools.model import Code, ToolResult
from threadline_devstack.slack import SlackSandbox
from threadline_devstack.slack.identity import BOT_TOKEN, GENERAL, REPORTER
from threadline_devstack.slack.model import File

TEN = "2026-03-02T10:00"


@dataclass
class Office:
    desk: Desk
    database: Database
    slack: SlackSandbox
    root: str
    people: Directory

    async def can_be_booked(self, *names: str, zone: str = "Europe/Berlin") -> None:
        async with self.database.begin() as work:
            for name in names:
                await work.appointments.save_resource("T1", Resource(name, zone, time(9), time(17)))

    async def ask(self, tool: str, **given: Any) -> ToolResult:
        return await self.desk.ask(tool, **{"channel": GENERAL, "thread_ts": self.root, **given})

    def files(self) -> list[File]:
        messages = self.slack.workspace.channel(GENERAL).messages.values()
        return [file for each in messages if each.thread_ts == self.root for file in each.files]


@pytest.fixture
async def office(database: Database) -> AsyncIterator[Office]:
    async with SlackSandbox.running() as slack, aiohttp.ClientSession() as session:
        root = slack.workspace.post(GENERAL, REPORTER, "Book a meeting with me").ts
        people = Directory()
        uploads = Uploads(Slack(make_client(BOT_TOKEN, slack.api_url, session)), MemoryLedger())
        invitations = SlackInvitations(database, people, uploads, "Acme Sales <sales@acme.example>")
        ports = Ports().having(INVITATIONS, invitations)
        desk = Desk(database, [*calendar.TOOLS, *appointments.TOOLS], ports=ports)
        yield Office(desk, database, slack, root, people)


def event(file: File) -> Any:
    [found] = Calendar.from_ical(file.content).walk("VEVENT")
    return found


def told(result: ToolResult) -> str:
    assert result.error
    return result.error.message


async def test_a_meeting_is_booked_with_the_only_one_there_is_and_the_invitation_is_in_the_thread(
    office: Office,
) -> None:
    await office.can_be_booked("Sales call")
    booked = await office.ask("calendar.book", starts_at=TEN)
    assert booked.display_text == "Booked APT-1: Sales call, 2026-03-02 10:00 (Europe/Berlin)."
    assert booked.notes == ("[Side Effect] The invitation to APT-1 is attached in the thread as invite.ics.",)
    [file] = office.files()
    assert (file.name, file.title) == ("invite.ics", "APT-1")
    made = event(file)
    assert made["DTSTART"].dt == datetime(2026, 3, 2, 9, tzinfo=UTC)
    assert made["DTEND"].dt == datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
    assert (made["ATTENDEE"], made["ORGANIZER"]) == ("mailto:ana@acme.example", "mailto:sales@acme.example")
    assert made["ATTENDEE"].params["CN"] == "Ana Silva"


async def test_moving_and_cancelling_update_the_same_event(office: Office) -> None:
    await office.can_be_booked("Sales call")
    await office.ask("calendar.book", starts_at=TEN)
    await office.ask("appointments.move", appointment_id="APT-1", starts_at="2026-03-02T15:00")
    for _ in range(2):
        await office.ask("appointments.cancel", appointment_id="APT-1")
    first, moved, gone = (event(each) for each in office.files())
    assert first["UID"] == moved["UID"] == gone["UID"]
    assert [each["SEQUENCE"] for each in (first, moved, gone)] == [0, 1, 2]
    assert moved["DTSTART"].dt == datetime(2026, 3, 2, 14, tzinfo=UTC)
    assert gone["STATUS"] == "CANCELLED"


async def test_a_call_that_is_tried_again_books_and_invites_once(office: Office) -> None:
    await office.can_be_booked("Sales call")
    office.desk.log.lost = RuntimeError("the worker died")
    with pytest.raises(RuntimeError):
        await office.ask("calendar.book", call_id="once", starts_at=TEN)
    office.desk.log.lost = None
    await office.can_be_booked("Another")
    again = await office.ask("calendar.book", call_id="once", starts_at=TEN)
    assert again.data["appointment_id"] == "APT-1"
    assert len(office.files()) == 1
    upcoming = await office.desk.done("appointments.listUpcoming")
    assert len(upcoming["appointments"]) == 1


async def test_a_booking_stands_without_its_invitation_and_the_model_is_told(office: Office) -> None:
    await office.can_be_booked("Sales call")
    office.slack.faults.fail_before("files.getUploadURLExternal")
    booked = await office.ask("calendar.book", starts_at=TEN)
    assert booked.success
    assert booked.notes[0].startswith("[Side Effect Error] Slack failed")
    assert office.files() == []


@pytest.mark.parametrize(
    "asking", [{"user_id": "UGUEST"}, {"user_id": "U2", "others": ("Gus (UGUEST)",), "other_ids": ("UGUEST",)}]
)
async def test_who_asks_from_outside_is_not_shown_whom_somebody_elses_meeting_is_for(
    office: Office, asking: dict[str, Any]
) -> None:
    await office.can_be_booked("Sales call")
    async with office.database.begin() as work:
        query = "INSERT INTO crm_leads (team, user_id, email, name, created_at) VALUES ('T1', 'U1', :at, 'Ana', now())"
        await work.connection.execute(text(query), {"at": "private@acme.example"})
    await office.ask("calendar.book", starts_at=TEN, attendee_id="U1", **asking)
    await office.ask("appointments.move", appointment_id="APT-1", starts_at="2026-03-02T15:00", **asking)
    for file in office.files():
        assert Calendar.from_ical(file.content)["METHOD"] == "PUBLISH"
        assert "ATTENDEE" not in event(file)
        assert b"acme.example" not in file.content.replace(b"sales@acme.example", b"")
        assert b"Ana" not in file.content
    # A member of the workspace may bring them in, and whoever it is for is nobody else.
    await office.ask("appointments.move", appointment_id="APT-1", starts_at="2026-03-02T12:00", user_id="U2")
    assert event(office.files()[-1])["ATTENDEE"] == "mailto:ana@acme.example"
    await office.ask("calendar.book", starts_at="2026-03-02T16:00", user_id="UGUEST")
    assert event(office.files()[-1])["ATTENDEE"] == "mailto:gus@acme.example"


async def test_while_slack_says_nothing_of_people_the_file_is_one_to_be_read(office: Office) -> None:
    await office.can_be_booked("Sales call")
    office.people.away = True
    await office.ask("calendar.book", starts_at=TEN)
    [file] = office.files()
    assert Calendar.from_ical(file.content)["METHOD"] == "PUBLISH"


async def test_among_several_the_askers_own_is_meant_and_else_the_names_are_told(office: Office) -> None:
    nothing = await office.ask("calendar.book", starts_at=TEN)
    assert "Nothing is set up to be booked yet" in told(nothing)
    await office.can_be_booked("Demo room", "Ben Okoro")
    for tool, given in (("calendar.book", {"starts_at": TEN}), ("calendar.free", {})):
        asked: dict[str, Any] = dict(given)
        several = await office.ask(tool, **asked)
        assert several.error
        assert several.error.code is Code.INVALID_ARGUMENTS
        assert "Ben Okoro, Demo room. Give one of these names in resource" in told(several)
    own = await office.ask("calendar.free", actor="ben okoro")
    assert own.data["slots"][0]["starts_at"] == "2026-03-02T09:00+01:00"
    named = await office.ask("calendar.book", resource="DEMO room", starts_at=TEN)
    assert named.data["resource"] == "Demo room"


async def test_a_time_that_is_taken_names_free_ones_and_invites_to_nothing(office: Office) -> None:
    await office.can_be_booked("Sales call")
    await office.ask("calendar.book", starts_at=TEN)
    taken = await office.ask("calendar.book", starts_at=TEN, user_id="U2")
    assert "free nearby: 2026-03-02 09:00" in told(taken)
    assert len(office.files()) == 1


async def test_without_a_place_for_files_a_booking_is_a_booking(database: Database) -> None:
    async with database.begin() as work:
        await work.appointments.save_resource("T1", Resource("Sales call", "Europe/Berlin", time(9), time(17)))
    booked = await Desk(database, calendar.TOOLS).ask("calendar.book", starts_at=TEN)
    assert (booked.success, booked.notes) == (True, ())
