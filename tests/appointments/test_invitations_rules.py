"""Invitations, parsed as a calendar client parses them."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from icalendar import Calendar

from threadline.appointments.invitations import Invitation, render_invitation
from threadline.appointments.model import Appointment

NOW = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
BOTH: dict[str, Any] = {
    "organizer": "Acme Sales <sales@acme.example>",
    "attendee": "ana@shop.example",
    "attendee_name": 'Ana "X" Silva',
}


def invitation(
    starts_at: datetime,
    zone: str = "Europe/Berlin",
    title: str = "Review",
    minutes: int = 60,
    **more: Any,
) -> Invitation:
    revision = more.pop("revision", 0)
    cancelled = more.pop("cancelled", False)
    local = starts_at.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M")
    ends_at = starts_at + timedelta(minutes=minutes)
    made = Appointment(
        "APT-7", "Ana; Room, 1", starts_at, ends_at, local, title, "U1", cancelled, revision
    )
    return Invitation("T1", made, **more)


def read(file: bytes) -> tuple[Any, Any]:
    """The calendar and its one event."""
    calendar = Calendar.from_ical(file)
    [event] = calendar.walk("VEVENT")
    return calendar, event


@given(
    st.sampled_from(
        ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "UTC"]
    ),
    st.integers(0, 2 * 365 * 24 * 60).map(lambda minutes: NOW + timedelta(minutes=minutes)),
    st.integers(1, 24 * 60),
)
@example("Europe/Berlin", datetime(2026, 10, 25, 1, 30, tzinfo=UTC), 60)
@example("Europe/Berlin", datetime(2026, 10, 25, 0, 30, tzinfo=UTC), 30)
def test_time_is_written_in_utc(zone: str, at: datetime, minutes: int) -> None:
    file = render_invitation(invitation(at, zone, minutes=minutes, **BOTH), NOW)
    calendar, event = read(file)
    assert [event[name].dt for name in ("DTSTART", "DTEND")] == [
        at,
        at + timedelta(minutes=minutes),
    ]
    assert f"DTSTART:{at:%Y%m%dT%H%M%S}Z".encode() in file
    assert not calendar.walk("VTIMEZONE")
    assert b"TZID" not in file


def test_invitation_has_organizer_attendee_and_place() -> None:
    calendar, event = read(
        render_invitation(invitation(datetime(2026, 3, 2, 9, tzinfo=UTC), **BOTH), NOW)
    )
    assert (calendar["METHOD"], event["STATUS"], event["SEQUENCE"]) == ("REQUEST", "CONFIRMED", 0)
    assert event["UID"] == "APT-7.T1@threadline"
    assert (event["ORGANIZER"], event["ORGANIZER"].params["CN"]) == (
        "mailto:sales@acme.example",
        "Acme Sales",
    )
    assert (event["ATTENDEE"], event["ATTENDEE"].params["CN"]) == (
        "mailto:ana@shop.example",
        "Ana X Silva",
    )
    assert event["ATTENDEE"].params["RSVP"] == "TRUE"
    assert (event["LOCATION"], event["DTSTAMP"].dt) == ("Ana; Room, 1", NOW)


def test_change_and_cancellation_are_of_the_same_event() -> None:
    at = datetime(2026, 3, 2, 9, tzinfo=UTC)
    changes: list[dict[str, Any]] = [{}, {"revision": 1}, {"revision": 2, "cancelled": True}]
    [_, first], [_, moved], [calendar, gone] = (
        read(render_invitation(invitation(at, **BOTH, **more), NOW)) for more in changes
    )
    assert first["UID"] == moved["UID"] == gone["UID"]
    assert [each["SEQUENCE"] for each in (first, moved, gone)] == [0, 1, 2]
    assert (calendar["METHOD"], gone["STATUS"]) == ("CANCEL", "CANCELLED")


@pytest.mark.parametrize("missing", ["organizer", "attendee"])
def test_invitation_without_both_sides_is_published(missing: str) -> None:
    given = BOTH | {missing: ""}
    calendar, event = read(
        render_invitation(invitation(datetime(2026, 3, 2, 9, tzinfo=UTC), **given), NOW)
    )
    assert calendar["METHOD"] == "PUBLISH"
    assert missing.upper() not in event


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300))
def test_title_adds_no_line_to_the_file(title: str) -> None:
    file = render_invitation(
        invitation(datetime(2026, 3, 2, 9, tzinfo=UTC), title=title, **BOTH), NOW
    )
    plain = render_invitation(
        invitation(datetime(2026, 3, 2, 9, tzinfo=UTC), title="x", **BOTH), NOW
    )

    def names(ics: bytes) -> list[bytes]:
        return [line.split(b":")[0] for line in ics.replace(b"\r\n ", b"").split(b"\r\n")]

    assert names(file) == names(plain)
    assert read(file)[1]["UID"] == "APT-7.T1@threadline"
