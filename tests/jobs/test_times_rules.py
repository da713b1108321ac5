"""A job runs after a delay, at a moment or by a cron, neither in the past nor years away."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from threadline.jobs import times as job_times
from threadline.jobs.model import JobRefused, JobSchedule

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("given", "schedule", "text"),
    [
        ({"after_minutes": 0}, JobSchedule(at=NOW), "at once"),
        (
            {"after_minutes": 90, "time_zone": "europe/berlin"},
            JobSchedule(at=NOW + timedelta(minutes=90), time_zone=BERLIN),
            "on Sun 2026-03-01 11:30 (Europe/Berlin)",
        ),
        (
            {"at": "2026-07-01T09:00", "time_zone": BERLIN},
            JobSchedule(at=datetime(2026, 7, 1, 7, tzinfo=UTC), time_zone=BERLIN),
            "on Wed 2026-07-01 09:00 (Europe/Berlin)",
        ),
        (
            {"at": "2026-03-02T10:00+02:00"},
            JobSchedule(at=datetime(2026, 3, 2, 8, tzinfo=UTC)),
            "on Mon 2026-03-02 08:00 (UTC)",
        ),
        (
            {"cron": " 0 9 * * 1", "time_zone": "America/New_York"},
            JobSchedule(cron="0 9 * * 1", time_zone="America/New_York"),
            "on the cron `0 9 * * 1` (America/New_York), next on Mon 2026-03-02 09:00",
        ),
    ],
)
def test_each_way_of_giving_a_time_is_read(
    given: dict[str, Any], schedule: JobSchedule, text: str
) -> None:
    assert job_times.schedule_of(NOW, **given) == schedule
    assert job_times.in_words(schedule, NOW) == text


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({}, "exactly one of"),
        ({"after_minutes": 5, "cron": "0 9 * * 1"}, "exactly one of"),
        ({"at": "2026-02-28T09:00", "time_zone": "UTC"}, "is in the past"),
        ({"at": "2028-01-01T09:00Z"}, "too far in the future"),
        ({"after_minutes": 401 * 24 * 60}, "too far in the future"),
        ({"at": "9999-12-31T23:59:59-12:00"}, "not a date and time"),
        ({"at": "next Monday"}, "not a date and time"),
        ({"at": "2026-03-02T10:00"}, "give a time zone"),
        ({"at": "2026-03-29T02:30", "time_zone": BERLIN}, "clocks go forward"),
        ({"cron": "0 9 * * 1"}, "give a time zone"),
        ({"cron": "0 9 * * 1", "time_zone": "../etc/passwd"}, "no time zone"),
        ({"cron": "0 0 30 2 *", "time_zone": "UTC"}, "never runs"),
    ],
)
def test_impossible_time_is_refused(given: dict[str, Any], refusal: str) -> None:
    with pytest.raises(JobRefused, match=refusal):
        job_times.schedule_of(NOW, **given)


def test_next_times_are_five_and_none_of_them_past() -> None:
    times = job_times.next_times(JobSchedule(cron="0 9 * * 1", time_zone=BERLIN), NOW)
    assert [job_times.format_time(each) for each in times[:2]] == [
        "Mon 2026-03-02 09:00",
        "Mon 2026-03-09 09:00",
    ]
    assert len(times) == job_times.SHOWN
    assert job_times.next_times(JobSchedule(at=NOW), NOW) == []
    assert (
        job_times.in_words(JobSchedule(at=NOW - timedelta(days=1)), NOW) == "at a time in the past"
    )


def test_moment_without_offset_is_utc() -> None:
    assert (
        job_times.parse_time("2026-03-01T09:00")
        == job_times.parse_time("2026-03-01T10:00+01:00")
        == NOW
    )
