"""Crons read into times, by the clocks of a zone, and refused in plain words."""

from datetime import UTC, datetime, timedelta

import pytest

from threadline.jobs import cron as crons
from threadline.jobs.model import JobRefused

SUNDAY = datetime(2026, 3, 1, 9, tzinfo=UTC)
EVERY_WEEKDAY = tuple(range(7))


def after(text: str, moment: datetime = SUNDAY, zone: str = "Europe/Berlin", count: int = 3) -> list[str]:
    return [f"{each:%m-%d %H:%M}" for each in crons.read(text).after(moment, zone, count)]


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("0 9 * * 1", ["03-02 08:00", "03-09 08:00", "03-16 08:00"]),
        (" 0  9 * * mon ", ["03-02 08:00", "03-09 08:00", "03-16 08:00"]),
        ("*/15 * * * *", ["03-01 09:15", "03-01 09:30", "03-01 09:45"]),
        ("30 17 28-31 * *", ["03-28 16:30", "03-29 15:30", "03-30 15:30"]),
        ("0 9 29 2 *", ["02-29 08:00", "02-29 08:00", "02-29 08:00"]),
    ],
)
def test_the_next_times_are_by_the_clocks_of_the_zone(text: str, times: list[str]) -> None:
    assert after(text) == times


def test_sunday_is_0_and_7_and_a_range_may_end_with_it() -> None:
    assert after("0 9 * * 0") == after("0 9 * * 7") == ["03-08 08:00", "03-15 08:00", "03-22 08:00"]
    assert crons.read("0 9 * * 5-7").calendars[0].weekdays == (0, 5, 6)


def test_a_day_of_the_month_or_one_of_the_week_is_enough_where_both_are_named() -> None:
    assert after("0 9 1 * MON") == ["03-02 08:00", "03-09 08:00", "03-16 08:00"]
    by_day, by_weekday = crons.read("0 9 1 * MON").calendars
    assert (by_day.days, by_day.weekdays) == ((1,), EVERY_WEEKDAY)
    assert (by_weekday.days, by_weekday.weekdays) == (tuple(range(1, 32)), (1,))
    assert len(crons.read("0 9 */2 * MON").calendars) == 1, "with a star both must hold, as traditional crons have it"


def test_what_the_clocks_leave_out_does_not_come_and_what_they_show_twice_comes_twice() -> None:
    friday, saturday = datetime(2026, 3, 27, tzinfo=UTC), datetime(2026, 10, 24, tzinfo=UTC)
    assert after("30 2 * * *", friday) == ["03-27 01:30", "03-28 01:30", "03-30 00:30"]
    assert after("*/30 2 * * *", saturday, count=5)[1:] == ["10-25 00:00", "10-25 00:30", "10-25 01:00", "10-25 01:30"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0 0 30 2 *", "never runs"),
        ("0 0 31 4,6 *", "never runs"),
        ("* * * * *", "too often"),
        ("*/14 * * * *", "too often"),
        ("5,59 0,23 * * *", "too often"),
        ("* * * * * *", "five fields"),
        ("@daily", "five fields"),
        ("", "five fields"),
        ("x" * 300, "five fields"),
        ("0 9 * *", "five fields"),
        ("61 * * * *", "its minute is invalid"),
        ("0 9 32 * *", "its day of month is invalid"),
        ("0 9 * * 8", "its day of week is invalid"),
        ("0 9 * * */0", "its day of week is invalid"),
        ("0 9 L * *", "uses L or #"),
        ("0 9 * * MON#2", "uses L or #"),
    ],
)
def test_what_is_no_cron_for_a_job_is_refused(text: str, says: str) -> None:
    with pytest.raises(JobRefused, match=says):
        crons.read(text)


def test_the_shortest_time_between_two_runs_is_told() -> None:
    assert crons.read("*/15 * * * *").gap == timedelta(minutes=15)
    assert crons.read("0 0,23 * * *").gap == timedelta(hours=1)
    assert crons.read("0 9 1 1 *").gap == timedelta(days=1)


def test_numbers_become_ranges() -> None:
    assert crons.ranges((0, 1, 2, 5, 7, 8)) == [(0, 2), (5, 5), (7, 8)]
    assert crons.ranges(()) == []
