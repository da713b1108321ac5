"""Invitations: appointments in the calendars' format (RFC 5545 and 5546), shared as a file in the
thread.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parseaddr

from icalendar import Calendar, Event, vCalAddress, vText

from threadline.appointments.model import Appointment, InvitationSender
from threadline.appointments.store import AppointmentStore
from threadline.db.engine import Database, Transaction
from threadline.sales.model import is_address
from threadline.slack.files import FileUpload
from threadline.slack.model import Thread
from threadline.slack.users import UserDirectory
from threadline.threads.outbox import Outbox

FILE_NAME = "invite.ics"
FindContact = Callable[[Transaction, str, str], Awaitable[tuple[str, str]]]
"""Returns the name and the address on record for a customer, given the team and a Slack id; both
may be empty.
"""


@dataclass(frozen=True)
class Invitation:
    """An appointment with its addresses. `organizer`: an address, perhaps with a name. Both
    addresses may be empty.
    """

    team: str
    appointment: Appointment
    organizer: str = ""
    attendee: str = ""
    attendee_name: str = ""

    @property
    def method(self) -> str:
        """The calendar method: a request needs both sides; without them the appointment is only
        published (RFC 5546, 3.2).
        """
        if not (self.organizer and self.attendee):
            return "PUBLISH"
        return "CANCEL" if self.appointment.cancelled else "REQUEST"


class SlackInvitationSender(InvitationSender):
    """Shares invitations as files in Slack.

    Args:
        organizer: the address for replies, with or without a name; empty for none.
    """

    def __init__(
        self,
        database: Database,
        users: UserDirectory,
        outbox: Outbox,
        find_contact: FindContact,
        organizer: str,
    ) -> None:
        self._database = database
        self._users = users
        self._outbox = outbox
        self._find_contact = find_contact
        self._organizer = organizer

    async def send(self, thread: Thread, appointment_id: str, now: datetime) -> None:
        async with self._database.begin() as tx:
            store = AppointmentStore(tx)
            made = await store.get(thread.team, appointment_id)
            zone = (await store.resource(thread.team, made.resource)).time_zone
            name, address = await self._find_contact(tx, thread.team, made.attendee)
        if user := await self._users.get_known(made.attendee):
            email = user.email.strip().lower()
            name = user.name or name
            address = email if is_address(email) else address
        invitation = Invitation(thread.team, made, self._organizer, address, name)
        update = f", update {made.revision}" if made.revision else ""
        state = "is cancelled" if made.cancelled else f"is at {made.local} ({zone})"
        await self._outbox.share(
            FileUpload(
                key=f"conversation:{thread.key}:invitation:{made.appointment_id}:{made.revision}",
                channel=thread.channel,
                thread_ts=thread.ts,
                name=FILE_NAME,
                title=f"{made.appointment_id}{update}",
                comment=(
                    f"{made.appointment_id} {state}. Open this file to add it to your calendar."
                ),
                content=render_invitation(invitation, now),
            )
        )


def render_invitation(invitation: Invitation, now: datetime) -> bytes:
    """Return the contents of the file. Its UID is the same for all revisions, and its SEQUENCE is
    the revision.

    Times are in UTC, which every calendar shows in its owner's zone. A single event needs no zone
    of its own, and clients differ in which descriptions of zones they read (RFC 5545, 3.3.5).

    `now`: an aware time.
    """
    made = invitation.appointment
    event = Event()
    event.add("uid", f"{made.appointment_id}.{invitation.team}@threadline")
    event.add("sequence", made.revision)
    event.add("dtstamp", now.astimezone(UTC))
    event.add("dtstart", made.starts_at.astimezone(UTC))
    event.add("dtend", made.ends_at.astimezone(UTC))
    event.add("summary", made.title)
    event.add("location", made.resource)
    event.add("status", "CANCELLED" if made.cancelled else "CONFIRMED")
    if invitation.organizer:
        event.add("organizer", _person(*parseaddr(invitation.organizer)))
    if invitation.attendee:
        attendee = _person(invitation.attendee_name, invitation.attendee)
        attendee.params["ROLE"] = vText("REQ-PARTICIPANT")
        if invitation.method == "REQUEST":
            attendee.params["PARTSTAT"] = vText("NEEDS-ACTION")
            attendee.params["RSVP"] = vText("TRUE")
        event.add("attendee", attendee)
    calendar = Calendar()
    calendar.add("prodid", "-//Threadline//EN")
    calendar.add("version", "2.0")
    calendar.add("method", invitation.method)
    calendar.add_component(event)
    return bytes(calendar.to_ical())


def _person(name: str, address: str) -> vCalAddress:
    person = vCalAddress(f"mailto:{address}")
    if plain := " ".join(name.replace('"', "").split()):
        person.params["CN"] = vText(plain)
    return person
