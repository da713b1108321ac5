"""When a job is to run, as people say it: one way at a time, and nothing in the past or years away."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from threadline.jobs import times as job_times
from threadline.jobs.model import JobRefused, JobSchedule, When

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "schedule", "words"),
    [
        ({"after_minutes": 0}, JobSchedule(at=NOW), "at once"),
        (
            {"after_minutes": 90, "time_zone": "europe/berlin"},
            JobSchedule(at=NOW + timedelta(minutes=90), time_zone="Europe/Berlin"),
            "on Sun 2026-03-01 11:30 (Europe/Berlin)",
        ),
        (
            {"at": "2026-07-01T09:00", "time_zone": "Europe/Berlin"},
            JobSchedule(at=datetime(2026, 7, 1, 7, tzinfo=UTC), time_zone="Europe/Berlin"),
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
def test_each_way_of_saying_when(given: dict[str, Any], schedule: JobSchedule, words: str) -> None:
    assert job_times.schedule_of(When(**given), NOW) == schedule
    assert job_times.in_words(schedule, NOW) == words


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "exactly one of"),
        ({"after_minutes": 5, "cron": "0 9 * * 1"}, "exactly one of"),
        ({"at": "2026-02-28T09:00", "time_zone": "UTC"}, "is in the past"),
        ({"at": "2028-01-01T09:00Z"}, "too far in the future"),
        ({"at": "9999-12-31T23:59:59-12:00"}, "not a date and time"),
        ({"at": "next Monday"}, "not a date and time"),
        ({"at": "2026-03-02T10:00"}, "give a time zone"),
        ({"at": "2026-03-29T02:30", "time_zone": "Europe/Berlin"}, "clocks go forward"),
        ({"at": "2026-03-02T10:00", "time_zone": "Mars/Olympus"}, "no time zone"),
        ({"cron": "0 9 * * 1"}, "give a time zone"),
        ({"cron": "0 9 * * 1", "time_zone": "../etc/passwd"}, "no time zone"),
        ({"cron": "0 0 30 2 *", "time_zone": "UTC"}, "never runs"),
        ({"after_minutes": 401 * 24 * 60}, "too far in the future"),
    ],
)
def test_what_cannot_be_is_refused_in_plain_words(given: dict[str, Any], says: str) -> None:
    with pytest.raises(JobRefused, match=says):
        job_times.schedule_of(When(**given), NOW)


def test_the_next_five_runs_are_told_and_none_of_what_is_past() -> None:
    weekly = JobSchedule(cron="0 9 * * 1", time_zone="Europe/Berlin")
    times = job_times.next_times(weekly, NOW)
    assert [job_times.spoken(each) for each in times[:2]] == ["Mon 2026-03-02 09:00", "Mon 2026-03-09 09:00"]
    assert len(times) == job_times.SHOWN
    assert job_times.next_times(JobSchedule(at=NOW), NOW) == []
    assert job_times.in_words(JobSchedule(at=NOW - timedelta(days=1)), NOW) == "at a moment that is past"


def test_a_moment_without_an_offset_is_by_utc() -> None:
    assert job_times.moment_of("2026-03-01T09:00") == NOW
    assert job_times.moment_of("2026-03-01T10:00+01:00") == NOW
