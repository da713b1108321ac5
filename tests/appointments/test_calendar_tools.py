"""Calendar tools: a short request books a meeting, and its invitation is attached in the
thread.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any
from unittest.mock import AsyncMock

import aiohttp
import pytest
from icalendar import Calendar
from sqlalchemy import text

from tests.sales.customers import Directory
from tests.support.faulty_sandboxes import FaultySlack
from tests.support.tool_scene import ToolScene
from threadline.appointments import tools as appointments
from threadline.appointments.invitations import SlackInvitationSender
from threadline.appointments.model import InvitationSender, Resource
from threadline.appointments.store import AppointmentStore
from threadline.db.engine import Database
from threadline.slack.client import SlackClient, make_web_client
from threadline.threads.outbox import Outbox
from threadline.tools.context import Services
from threadline.tools.model import ErrorCode, ToolResult
from threadline.wiring.conversations import find_contact
from threadline_devstack.slack.identity import BOT_TOKEN, GENERAL, REPORTER
from threadline_devstack.slack.model import SandboxFile

TEN = "2026-03-02T10:00"


@dataclass
class Office:
    desk: ToolScene
    database: Database
    slack: FaultySlack
    root: str
    people: Directory

    async def can_be_booked(self, *names: str) -> None:
        async with self.database.begin() as tx:
            for name in names:
                await AppointmentStore(tx).save_resource(
                    "T1", Resource(name, "Europe/Berlin", time(9), time(17))
                )

    async def ask(self, tool: str, **given: Any) -> ToolResult:
        return await self.desk.ask(tool, **{"channel": GENERAL, "thread_ts": self.root, **given})

    def files(self) -> list[SandboxFile]:
        messages = self.slack.workspace.channel(GENERAL).messages.values()
        return [file for each in messages if each.thread_ts == self.root for file in each.files]


@pytest.fixture
async def office(database: Database) -> AsyncIterator[Office]:
    async with FaultySlack.running() as slack, aiohttp.ClientSession() as session:
        root = slack.workspace.post(GENERAL, REPORTER, "Book a meeting with me").ts
        people = Directory()
        outbox = Outbox(SlackClient(make_web_client(BOT_TOKEN, slack.api_url, session)), database)
        organizer = "Acme Sales <sales@acme.example>"
        sender = SlackInvitationSender(database, people, outbox, find_contact, organizer)
        services = Services().with_service(InvitationSender, sender)
        desk = ToolScene(database, appointments.TOOLS, services=services, guests=("UGUEST",))
        yield Office(desk, database, slack, root, people)


def event(file: SandboxFile) -> Any:
    [found] = Calendar.from_ical(file.content).walk("VEVENT")
    return found


async def test_meeting_with_the_only_resource_is_booked_and_invites(office: Office) -> None:
    await office.can_be_booked("Sales call")
    booked = await office.ask("calendar.book", starts_at=TEN)
    assert "APT-1: Sales call, 2026-03-02 10:00 (Europe/Berlin)" in booked.display_text
    [note] = booked.notes
    assert note.startswith("[Side Effect] The invitation to APT-1")
    [file] = office.files()
    assert (file.name, file.title) == ("invite.ics", "APT-1")
    made = event(file)
    assert made["DTSTART"].dt == datetime(2026, 3, 2, 9, tzinfo=UTC)
    assert made["DTEND"].dt == datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
    assert (made["ATTENDEE"], made["ORGANIZER"]) == (
        "mailto:ana@acme.example",
        "mailto:sales@acme.example",
    )
    assert made["ATTENDEE"].params["CN"] == "Ana Silva"


async def test_move_and_cancel_update_the_same_event(office: Office) -> None:
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


async def test_retried_call_books_and_invites_once(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    await office.can_be_booked("Sales call")
    with (
        monkeypatch.context() as broken
    ):  # the ledger has the booking, but not that its invitation was sent
        broken.setattr(
            office.desk.ledger, "complete", AsyncMock(side_effect=RuntimeError("the worker died"))
        )
        with pytest.raises(RuntimeError):
            await office.ask("calendar.book", call_id="once", starts_at=TEN)
    assert len(office.files()) == 1
    await office.can_be_booked("Another")
    for _ in range(2):
        again = await office.ask("calendar.book", call_id="once", starts_at=TEN)
        assert again.data["appointment_id"] == "APT-1"
        assert "[Side Effect] The invitation to APT-1" in again.notes[0]
    assert len(office.files()) == 1
    assert len((await office.desk.done("appointments.listUpcoming"))["appointments"]) == 1


async def test_model_reads_of_a_failed_invitation_and_the_booking_remains(
    office: Office,
) -> None:
    await office.can_be_booked("Sales call")
    office.slack.faults.fail_before("files.getUploadURLExternal")
    booked = await office.ask("calendar.book", starts_at=TEN)
    assert booked.success
    assert booked.notes[0].startswith("[Side Effect Error] Slack failed")
    assert office.files() == []


@pytest.mark.parametrize(
    "asking",
    [{"user_id": "UGUEST"}, {"user_id": "U2", "co_requesters": {"UGUEST": "Gus (UGUEST)"}}],
)
async def test_guest_is_not_shown_the_attendee_of_another_meeting(
    office: Office, asking: dict[str, Any]
) -> None:
    await office.can_be_booked("Sales call")
    await office.ask("calendar.book", starts_at=TEN, attendee_id="U1")
    files = len(office.files())
    for tool, given in (
        ("calendar.book", {"starts_at": "2026-03-02T11:00", "attendee_id": "U1"}),
        ("appointments.move", {"appointment_id": "APT-1", "starts_at": "2026-03-02T15:00"}),
        ("appointments.cancel", {"appointment_id": "APT-1"}),
    ):
        assert not (await office.ask(tool, **given, **asking)).success
    assert len(office.files()) == files
    # A member may invite others, and a guest themselves.
    await office.ask(
        "appointments.move", appointment_id="APT-1", starts_at="2026-03-02T12:00", user_id="U2"
    )
    assert event(office.files()[-1])["ATTENDEE"] == "mailto:ana@acme.example"
    await office.ask("calendar.book", starts_at="2026-03-02T16:00", user_id="UGUEST")
    assert event(office.files()[-1])["ATTENDEE"] == "mailto:gus@acme.example"


async def test_attendee_whom_slack_does_not_show_is_named_from_the_customer_record(
    office: Office,
) -> None:
    await office.can_be_booked("Sales call")
    async with office.database.begin() as tx:
        query = (
            "INSERT INTO crm_leads (team, user_id, email, name, created_at) VALUES ('T1', 'U7', "
            ":at, 'Eva', now())"
        )
        await tx.execute(text(query), {"at": "eva@shop.example"})
    await office.ask("calendar.book", starts_at=TEN, attendee_id="U7")
    made = event(office.files()[-1])
    assert (made["ATTENDEE"], made["ATTENDEE"].params["CN"]) == ("mailto:eva@shop.example", "Eva")


async def test_unknown_attendee_gets_a_file_without_an_invitation(office: Office) -> None:
    await office.can_be_booked("Sales call")
    office.people.away = True
    await office.ask("calendar.book", starts_at=TEN)
    [file] = office.files()
    assert Calendar.from_ical(file.content)["METHOD"] == "PUBLISH"


async def test_askers_own_resource_is_used_and_without_one_a_name_is_required(
    office: Office,
) -> None:
    nothing = await office.ask("calendar.book", starts_at=TEN)
    assert nothing.error
    assert "Nothing can be booked yet" in nothing.error.message
    await office.can_be_booked("Demo room", "Ben Okoro")
    calls: dict[str, dict[str, Any]] = {"calendar.book": {"starts_at": TEN}, "calendar.free": {}}
    for tool, given in calls.items():
        several = await office.ask(tool, **given)
        assert several.error
        assert several.error.code is ErrorCode.INVALID_ARGUMENTS
        assert "Ben Okoro, Demo room" in several.error.message
    own = await office.ask("calendar.free", actor="ben okoro")
    assert own.data["slots"][0]["starts_at"] == "2026-03-02T09:00+01:00"
    named = await office.ask("calendar.book", resource="DEMO room", starts_at=TEN)
    assert named.data["resource"] == "Demo room"


async def test_refused_time_names_free_ones_and_sends_no_invitation(office: Office) -> None:
    await office.can_be_booked("Sales call")
    await office.ask("calendar.book", starts_at=TEN)
    taken = await office.ask("calendar.book", starts_at=TEN, user_id="U2")
    assert taken.error
    assert "2026-03-02 09:00" in taken.error.message
    assert len(office.files()) == 1


async def test_meeting_is_booked_without_a_sender_of_invitations(database: Database) -> None:
    async with database.begin() as tx:
        await AppointmentStore(tx).save_resource(
            "T1", Resource("Sales call", "Europe/Berlin", time(9), time(17))
        )
    booked = await ToolScene(database, appointments.TOOLS).ask("calendar.book", starts_at=TEN)
    assert (booked.success, booked.notes) == (True, ())
