"""Cron expressions: their next times by the clocks of a zone, and the ones that are refused."""

from datetime import UTC, datetime, timedelta

import pytest

from threadline.jobs.model import JobRefused
from threadline.jobs.times import parse_cron

SUNDAY = datetime(2026, 3, 1, 9, tzinfo=UTC)
MONDAYS = ["03-02 08:00", "03-09 08:00", "03-16 08:00"]


def next_times(text: str, moment: datetime = SUNDAY, count: int = 3) -> list[str]:
    return [
        f"{each:%m-%d %H:%M}" for each in parse_cron(text).after(moment, "Europe/Berlin", count)
    ]


def test_next_times_follow_the_clocks_of_the_zone() -> None:
    assert next_times("0 9 * * 1") == next_times(" 0  9 * * mon ") == MONDAYS
    assert next_times("0 9 29 2 *") == ["02-29 08:00"] * 3
    friday = datetime(2026, 3, 27, tzinfo=UTC)
    saturday = datetime(2026, 10, 24, tzinfo=UTC)
    assert next_times("30 2 * * *", friday) == ["03-27 01:30", "03-28 01:30", "03-30 00:30"], (
        "there is no 02:30"
    )
    autumn = ["10-25 00:00", "10-25 00:30", "10-25 01:00", "10-25 01:30"]
    assert next_times("*/30 2 * * *", saturday, count=5)[1:] == autumn, (
        "the hour from two to three comes twice"
    )


def test_sunday_is_0_and_7_and_may_end_a_range() -> None:
    assert (
        next_times("0 9 * * 0")
        == next_times("0 9 * * 7")
        == ["03-08 08:00", "03-15 08:00", "03-22 08:00"]
    )
    assert parse_cron("0 9 * * 5-7").calendars[0].weekdays == (0, 5, 6)


def test_day_of_month_or_of_week_is_enough_when_both_are_given() -> None:
    assert next_times("0 9 1 * MON") == MONDAYS
    by_day, by_weekday = parse_cron("0 9 1 * MON").calendars
    assert (by_day.days, by_day.weekdays) == ((1,), tuple(range(7)))
    assert (by_weekday.days, by_weekday.weekdays) == (tuple(range(1, 32)), (1,))
    assert len(parse_cron("0 9 */2 * MON").calendars) == 1, (
        "with a star both must hold, as traditional crons have it"
    )


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("0 0 31 4,6 *", "never runs"),
        ("*/14 * * * *", "too often"),
        ("5,59 0,23 * * *", "too often"),
        ("* * * * * *", "five fields"),
        ("@daily", "five fields"),
        ("0 9 * * 1" + ",1" * 100, "five fields"),
        ("61 * * * *", "its minute is invalid"),
        ("0 9 32 * *", "its day of month is invalid"),
        ("0 9 * * 8", "its day of week is invalid"),
        ("0 9 L * *", "uses L or #"),
        ("0 9 * * MON#2", "uses L or #"),
    ],
)
def test_unusable_cron_is_refused(text: str, refusal: str) -> None:
    with pytest.raises(JobRefused, match=refusal):
        parse_cron(text)


@pytest.mark.parametrize(
    ("text", "minutes"), [("*/15 * * * *", 15), ("0 0,23 * * *", 60), ("0 9 1 1 *", 24 * 60)]
)
def test_gap_is_the_shortest_time_between_two_runs(text: str, minutes: int) -> None:
    assert parse_cron(text).min_interval == timedelta(minutes=minutes)
