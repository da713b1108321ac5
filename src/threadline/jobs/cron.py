"""Crons as people write them, read into the times that they stand for: minutes, hours, days, by the clocks of a zone.

Temporal fires by these times and not by the text, since crons differ in what they mean by two days, or by 7. What
clocks leave out when they are put forward is left out. Of what they show twice both are told; Temporal takes one of
them or both, differently from zone to zone. https://docs.temporal.io/schedule#spec
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from threadline.jobs.model import JobRefused

SHORTEST = 15
"""Minutes between two runs; a job that would run more often is refused."""
LONGEST = 200
"""Characters of a cron."""

_EXAMPLE = "such as `0 9 * * 1-5` for nine o'clock on workdays (minute, hour, day of the month, month, day of the week)"
_DAY = 24 * 60
_MOST_SHIFT = timedelta(hours=3)
"""By which clocks are put back at a time."""
_NO_ZONE = datetime(2000, 1, 1)  # noqa: DTZ001 - a time by any clocks


@dataclass(frozen=True)
class Calendar:
    """A time has to be of all of these; `weekdays` count from Sunday, 0. Each is sorted."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]


@dataclass(frozen=True)
class Cron:
    """`calendars`: a time of either counts. Two, where a day of the month or one of the week is enough."""

    text: str
    calendars: tuple[Calendar, ...]

    @property
    def min_interval(self) -> timedelta:
        """The shortest time between two runs, were there some every day."""
        calendar = self.calendars[0]
        times = [60 * hour + minute for hour in calendar.hours for minute in calendar.minutes]
        return timedelta(minutes=min(later - earlier for earlier, later in pairwise([*times, times[0] + _DAY])))

    def after(self, moment: datetime, time_zone: str, count: int) -> list[datetime]:
        """The next times after a moment with its zone, in UTC."""
        zone = ZoneInfo(time_zone)
        found: set[datetime] = set()
        enough: datetime | None = None
        start = moment.astimezone(zone).replace(tzinfo=None) - _MOST_SHIFT
        for local in CronSim(self.text, start):  # what the clocks show, as if they were never put forward or back
            if enough and local > enough:
                break
            found |= {each for each in _moments(local, zone) if each > moment}
            if len(found) >= count and enough is None:
                enough = local + _MOST_SHIFT  # what the clocks show twice may come between
        return sorted(found)[:count]


def read(text: str) -> Cron:
    """The cron in a text of five fields.

    Raises:
        JobRefused: it is none, never comes, or comes more often than is allowed.
    """
    text = " ".join(text.split())
    if len(text) > LONGEST or len(text.split()) != 5:
        raise JobRefused(f"`{text[:60]}` is not a cron expression: write five fields, {_EXAMPLE}")
    cron = Cron(text, _calendars(text, _parsed(text)))
    if cron.min_interval < timedelta(minutes=SHORTEST):
        raise JobRefused(f"`{text}` runs too often: a job runs at most once in {SHORTEST} minutes")
    return cron


def _parsed(text: str) -> CronSim:
    try:
        found = CronSim(text, _NO_ZONE)
        if next(found, None) is not None:
            return found
    except CronSimError as flaw:
        minute, hour, day, month, weekday = text.split()
        try:  # a day that its months do not have is a flaw to the parser, too
            CronSim(f"{minute} {hour} * {month} {weekday}", _NO_ZONE)
            CronSim(f"0 0 {day} * *", _NO_ZONE)
        except CronSimError:
            named = str(flaw).removeprefix("Bad ").replace("-", " ")
            raise JobRefused(
                f"`{text}` is not a cron expression, its {named} is invalid: write it {_EXAMPLE}"
            ) from flaw
    raise JobRefused(f"`{text}` never runs: none of its months has that day")


def _calendars(text: str, parsed: CronSim) -> tuple[Calendar, ...]:
    days, weekdays = parsed.days, parsed.weekdays
    if min(days) < 0 or any(isinstance(each, tuple) for each in weekdays):
        raise JobRefused(f"`{text}` uses L or #, which jobs do not support: give the days as numbers")
    of_week = {each % 7 for each in weekdays if isinstance(each, int)}
    every_day, every_weekday = set(range(1, 32)), set(range(7))
    pairs = [(days, of_week)] if parsed.day_and else [(days, every_weekday), (every_day, of_week)]
    return tuple(
        Calendar(_sorted(parsed.minutes), _sorted(parsed.hours), _sorted(day), _sorted(parsed.months), _sorted(weekday))
        for day, weekday in pairs
    )


def _sorted(numbers: set[int]) -> tuple[int, ...]:
    return tuple(sorted(numbers))


def ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Sorted numbers as first and last of each run of them."""
    found: list[tuple[int, int]] = []
    for each in numbers:
        if found and found[-1][1] == each - 1:
            found[-1] = (found[-1][0], each)
        else:
            found.append((each, each))
    return found


def _moments(local: datetime, zone: ZoneInfo) -> set[datetime]:
    """When clocks of a zone show it: once, twice, or never."""
    moments = {local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return {each for each in moments if each.astimezone(zone).replace(tzinfo=None) == local}
