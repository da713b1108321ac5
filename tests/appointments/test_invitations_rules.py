"""Invitations as a calendar reads them back."""

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
    starts_at: datetime, zone: str = "Europe/Berlin", title: str = "Review", minutes: int = 60, **more: Any
) -> Invitation:
    revision, cancelled = more.pop("revision", 0), more.pop("cancelled", False)
    local = starts_at.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M") if zone != "Mars/Base" else ""
    ends_at = starts_at + timedelta(minutes=minutes)
    made = Appointment("APT-7", "Ana; Room, 1", starts_at, ends_at, local, title, "U1", cancelled, revision)
    return Invitation("T1", made, zone, **more)


def read(file: bytes) -> tuple[Any, Any]:
    """The calendar and its one event."""
    calendar = Calendar.from_ical(file)
    [event] = calendar.walk("VEVENT")
    return calendar, event


@pytest.mark.parametrize(
    ("zone", "starts_at", "shown"),
    [
        ("Europe/Berlin", datetime(2026, 3, 29, 0, 30, tzinfo=UTC), "01:30+01:00"),
        ("Europe/Berlin", datetime(2026, 3, 29, 1, 30, tzinfo=UTC), "03:30+02:00"),
        ("America/New_York", datetime(2026, 12, 1, 13, tzinfo=UTC), "08:00-05:00"),
        ("Australia/Lord_Howe", datetime(2026, 10, 3, 15, 45, tzinfo=UTC), "02:45+11:00"),
        ("UTC", datetime(2026, 3, 2, 10, tzinfo=UTC), "10:00+00:00"),
    ],
)
def test_time_is_written_in_its_time_zone(zone: str, starts_at: datetime, shown: str) -> None:
    file = render_invitation(invitation(starts_at, zone, minutes=30, **BOTH), NOW)
    calendar, event = read(file)
    start, end = event["DTSTART"].dt, event["DTEND"].dt
    assert (start.astimezone(UTC), end.astimezone(UTC)) == (starts_at, starts_at + timedelta(minutes=30))
    assert start.isoformat()[11:16] + start.isoformat()[19:] == shown
    if zone != "UTC":
        assert event["DTSTART"].params["TZID"] == zone
        assert [str(each["TZID"]) for each in calendar.walk("VTIMEZONE")] == [zone]


@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Tehran"]),
    st.integers(0, 2 * 365 * 24 * 60).map(lambda minutes: NOW + timedelta(minutes=minutes)),
    st.integers(1, 24 * 60),
)
@example("Europe/Berlin", datetime(2026, 10, 25, 1, 30, tzinfo=UTC), 60)
@example("Europe/Berlin", datetime(2026, 10, 25, 0, 30, tzinfo=UTC), 30)
def test_time_is_the_same_moment_in_every_zone(zone: str, at: datetime, minutes: int) -> None:
    _, event = read(render_invitation(invitation(at, zone, minutes=minutes, **BOTH), NOW))
    told = [as_calendars_read(event[name].dt) for name in ("DTSTART", "DTEND")]
    assert told == [at, at + timedelta(minutes=minutes)]


def as_calendars_read(told: datetime) -> datetime:
    """Of a local time that clocks show twice, the first."""
    return told.replace(fold=0).astimezone(UTC)


def test_invitation_has_organizer_attendee_and_place() -> None:
    calendar, event = read(render_invitation(invitation(datetime(2026, 3, 2, 9, tzinfo=UTC), **BOTH), NOW))
    assert (calendar["METHOD"], event["STATUS"], event["SEQUENCE"]) == ("REQUEST", "CONFIRMED", 0)
    assert event["UID"] == "APT-7.T1@threadline"
    assert (event["ORGANIZER"], event["ORGANIZER"].params["CN"]) == ("mailto:sales@acme.example", "Acme Sales")
    assert (event["ATTENDEE"], event["ATTENDEE"].params["CN"]) == ("mailto:ana@shop.example", "Ana X Silva")
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
    calendar, event = read(render_invitation(invitation(datetime(2026, 3, 2, 9, tzinfo=UTC), **given), NOW))
    assert calendar["METHOD"] == "PUBLISH"
    assert missing.upper() not in event


def test_unknown_time_zone_leaves_the_moment() -> None:
    at = datetime(2026, 3, 2, 9, tzinfo=UTC)
    _, event = read(render_invitation(invitation(at, "Mars/Base"), NOW))
    assert event["DTSTART"].dt == at


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300))
def test_title_adds_no_line_to_the_file(title: str) -> None:
    file = render_invitation(invitation(datetime(2026, 3, 2, 9, tzinfo=UTC), title=title, **BOTH), NOW)
    plain = render_invitation(invitation(datetime(2026, 3, 2, 9, tzinfo=UTC), title="x", **BOTH), NOW)

    def names(ics: bytes) -> list[bytes]:
        return [line.split(b":")[0] for line in ics.replace(b"\r\n ", b"").split(b"\r\n")]

    assert names(file) == names(plain)
    assert read(file)[1]["UID"] == "APT-7.T1@threadline"
