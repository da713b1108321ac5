"""Appointments as calendars read them: https://www.rfc-editor.org/rfc/rfc5545 and rfc5546."""

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from email.utils import parseaddr
from zoneinfo import ZoneInfo

from icalendar import Calendar, Event, vCalAddress, vText

from threadline.appointments.model import Appointment

NAME = "invite.ics"


@dataclass(frozen=True)
class Invitation:
    """`time_zone`: of what is booked; `organizer`: an address, perhaps with a name. Both addresses may be empty."""

    team: str
    appointment: Appointment
    time_zone: str
    organizer: str = ""
    attendee: str = ""
    attendee_name: str = ""

    @property
    def method(self) -> str:
        """A request needs both sides; without them it is only told of (RFC 5546, 3.2)."""
        if not (self.organizer and self.attendee):
            return "PUBLISH"
        return "CANCEL" if self.appointment.cancelled else "REQUEST"


def written(invitation: Invitation, now: datetime) -> bytes:
    """The file. Its UID is the appointment's for ever, and its SEQUENCE counts how often that was changed.

    Args:
        now: with its zone.
    """
    calendar = Calendar()
    calendar.add("prodid", "-//Threadline//EN")
    calendar.add("version", "2.0")
    calendar.add("method", invitation.method)
    calendar.add_component(_event(invitation, now))
    calendar.add_missing_timezones()
    return bytes(calendar.to_ical())


def _event(invitation: Invitation, now: datetime) -> Event:
    made = invitation.appointment
    zone = _zone(invitation.time_zone, made)
    event = Event()
    event.add("uid", f"{made.appointment_id}.{invitation.team}@threadline")
    event.add("sequence", made.revision)
    event.add("dtstamp", now.astimezone(UTC))
    event.add("dtstart", made.starts_at.astimezone(zone))
    event.add("dtend", made.ends_at.astimezone(zone))
    event.add("summary", made.title)
    event.add("location", made.resource)
    event.add("status", "CANCELLED" if made.cancelled else "CONFIRMED")
    if invitation.organizer:
        event.add("organizer", _person(*parseaddr(invitation.organizer)))
    if invitation.attendee:
        event.add("attendee", _attendee(invitation))
    return event


def _zone(name: str, made: Appointment) -> tzinfo:
    """By which clocks it is told: UTC where Postgres knows a zone that this machine does not, and where clocks show a
    time twice, of which a calendar takes the first (RFC 5545, 3.3.5)."""
    try:
        zone = ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        return UTC
    again = any(each.astimezone(zone).fold for each in (made.starts_at, made.ends_at))
    return UTC if again else zone


def _attendee(invitation: Invitation) -> vCalAddress:
    person = _person(invitation.attendee_name, invitation.attendee)
    person.params["ROLE"] = vText("REQ-PARTICIPANT")
    if invitation.method == "REQUEST":
        person.params["PARTSTAT"] = vText("NEEDS-ACTION")
        person.params["RSVP"] = vText("TRUE")
    return person


def _person(name: str, address: str) -> vCalAddress:
    person = vCalAddress(f"mailto:{address}")
    if plain := " ".join(name.replace('"', "").split()):
        person.params["CN"] = vText(plain)
    return person
