"""Times of jobs: one moment, a delay or a cron; parsed, checked against now, and put into words.

A cron is parsed into times: minutes, hours, days, by the clocks of a zone. Temporal fires by these
and not by the text, since implementations of cron differ on two kinds of days and on 7 as a
weekday. Local times that clocks skip (DST) are left out. Local times that clocks show twice are
listed twice; Temporal fires at one of them or at both, depending on the zone.
https://docs.temporal.io/schedule#spec
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from threadline.jobs.model import JobRefused, JobSchedule

MIN_INTERVAL_MINUTES = 15
"""Minutes between two runs; a more frequent job is refused."""
MAX_CRON_LENGTH = 200
"""Characters of a cron."""

_EXAMPLE = (
    "such as `0 9 * * 1-5` for nine o'clock on workdays (minute, hour, day of the month, month, "
    "day of the week)"
)
_DAY = 24 * 60
_MAX_SHIFT = timedelta(hours=3)  # the most by which clocks are put back at a time
_NO_ZONE = datetime(2000, 1, 1)  # noqa: DTZ001 - a time by any clocks


@dataclass(frozen=True)
class Calendar:
    """Times that match all of these fields. Each is sorted; `weekdays` count from Sunday, 0."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]


@dataclass(frozen=True)
class Cron:
    """A parsed cron. A time matches if one of the `calendars` does. There are two where the day of
    the month or the day of the week is enough.
    """

    text: str
    calendars: tuple[Calendar, ...]

    @property
    def min_interval(self) -> timedelta:
        """The shortest time between two runs, as if it ran every day."""
        calendar = self.calendars[0]
        times = [60 * hour + minute for hour in calendar.hours for minute in calendar.minutes]
        return timedelta(
            minutes=min(later - earlier for earlier, later in pairwise([*times, times[0] + _DAY]))
        )

    def after(self, moment: datetime, time_zone: str, count: int) -> list[datetime]:
        """Return the next `count` times after a moment with its zone, in UTC."""
        zone = ZoneInfo(time_zone)
        found: set[datetime] = set()
        enough: datetime | None = None
        start = moment.astimezone(zone).replace(tzinfo=None) - _MAX_SHIFT
        # local times as if clocks were never put forward or back
        for local in CronSim(self.text, start):
            if enough and local > enough:
                break
            # Clocks show a local time once, twice, or never.
            shown = {local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
            real = {each for each in shown if each.astimezone(zone).replace(tzinfo=None) == local}
            found |= {each for each in real if each > moment}
            if len(found) >= count and enough is None:
                enough = local + _MAX_SHIFT  # a time that clocks show twice may come between
        return sorted(found)[:count]


def parse_cron(text: str) -> Cron:
    """Return the cron in a text of five fields. Raises `JobRefused`: it is malformed, never
    matches, or matches too often.
    """
    text = " ".join(text.split())
    if len(text) > MAX_CRON_LENGTH or len(text.split()) != 5:
        raise JobRefused(f"`{text[:60]}` is not a cron expression: write five fields, {_EXAMPLE}")
    parsed = _parsed(text)
    days = parsed.days
    weekdays = parsed.weekdays
    if min(days) < 0 or any(isinstance(each, tuple) for each in weekdays):
        raise JobRefused(
            f"`{text}` uses L or #, which jobs do not support: give the days as numbers"
        )
    of_week = {each % 7 for each in weekdays if isinstance(each, int)}
    every_day = set(range(1, 32))
    every_weekday = set(range(7))
    pairs = [(days, of_week)] if parsed.day_and else [(days, every_weekday), (every_day, of_week)]
    fields = (
        (parsed.minutes, parsed.hours, day, parsed.months, weekday) for day, weekday in pairs
    )
    cron = Cron(
        text, tuple(Calendar(*(tuple(sorted(numbers)) for numbers in each)) for each in fields)
    )
    if cron.min_interval < timedelta(minutes=MIN_INTERVAL_MINUTES):
        raise JobRefused(
            f"`{text}` runs too often: a job runs at most once in {MIN_INTERVAL_MINUTES} minutes"
        )
    return cron


def _parsed(text: str) -> CronSim:
    try:
        found = CronSim(text, _NO_ZONE)
        if next(found, None) is not None:
            return found
    except CronSimError as flaw:
        minute, hour, day, month, weekday = text.split()
        try:  # the parser also refuses a day that its months do not have
            CronSim(f"{minute} {hour} * {month} {weekday}", _NO_ZONE)
            CronSim(f"0 0 {day} * *", _NO_ZONE)
        except CronSimError:
            said = (
                f"its {str(flaw).removeprefix('Bad ').replace('-', ' ')} is invalid: write it "
                f"{_EXAMPLE}"
            )
            raise JobRefused(f"`{text}` is not a cron expression, {said}") from flaw
    raise JobRefused(f"`{text}` never runs: none of its months has that day")


FARTHEST = timedelta(days=400)
"""Time from now; a later job is refused."""
SHOWN = 5
"""Number of a cron's next runs to show."""
MORNING = time(9)
"""Time of reminders, by the clocks of the job's zone."""
_YEARS = range(2000, 2200)
_LATE = timedelta(seconds=60)
"""Tolerance for a past moment: a "now" has become past by the time it is read."""


def schedule_of(
    now: datetime,
    after_minutes: int | None = None,
    at: str | None = None,
    cron: str | None = None,
    time_zone: str | None = None,
) -> JobSchedule:
    """Return the time of a job, given in exactly one of three ways.

    Args:
        after_minutes: 0 is now.
        at: ISO 8601, by the clocks of `time_zone` unless it has an offset.

    Raises:
        JobRefused: not exactly one way was given, or the time is past, too far off, or malformed.
    """
    if ways_given(after_minutes, at, cron) != 1:
        raise JobRefused("give exactly one of after_minutes (0 is now), at and cron")
    if after_minutes is not None:
        return _one(
            now + timedelta(minutes=after_minutes), parse_time_zone(time_zone or "UTC"), now
        )
    if cron and cron.strip():
        zone = parse_time_zone(time_zone or "")
        parsed = parse_cron(cron)
        if not parsed.after(now, zone, 1):
            raise JobRefused(f"`{parsed.text}` never runs in the time zone {zone}")
        return JobSchedule(cron=parsed.text, time_zone=zone)
    told = _told(at or "")
    if told.utcoffset() is not None:
        return _one(told.astimezone(UTC), parse_time_zone(time_zone or "UTC"), now)
    zone = parse_time_zone(time_zone or "")
    moment = told.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    if moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None) != told:
        raise JobRefused(
            f"{told:%Y-%m-%d %H:%M} does not exist in {zone}, where clocks go forward: name "
            "another time"
        )
    return _one(moment, zone, now)


def ways_given(after_minutes: int | None, at: str | None, cron: str | None) -> int:
    """Return how many of the three ways to give a time are used."""
    return (after_minutes is not None) + sum(bool(each and each.strip()) for each in (at, cron))


def parse_time_zone(name: str) -> str:
    """Return a time zone by its IANA name, in any case. Raises `JobRefused`."""
    wanted = name.strip()
    if not wanted:
        raise JobRefused("give a time zone, such as Europe/Berlin")
    found = _zones().get(wanted.casefold())
    if found is None:
        raise JobRefused(
            f"there is no time zone {wanted[:60]!r}: write one such as Europe/Berlin or "
            "America/New_York"
        )
    return found


def parse_time(text: str) -> datetime:
    """Return a moment from ISO 8601; without an offset it is UTC. Raises `JobRefused`."""
    told = _told(text)
    return told if told.utcoffset() is not None else told.replace(tzinfo=UTC)


def morning(day: date, time_zone: str) -> datetime:
    """Return nine o'clock of a day, with its zone."""
    return datetime.combine(day, MORNING, ZoneInfo(time_zone))


def next_times(schedule: JobSchedule, now: datetime, count: int = SHOWN) -> list[datetime]:
    """Return the next runs by the clocks of the schedule's zone; none when its moment is past."""
    zone = ZoneInfo(schedule.time_zone)
    if schedule.at is not None:
        return [schedule.at.astimezone(zone)] if schedule.at > now else []
    return [
        each.astimezone(zone)
        for each in parse_cron(schedule.cron).after(now, schedule.time_zone, count)
    ]


def in_words(schedule: JobSchedule, now: datetime) -> str:
    """Return a schedule's time for a person: "on the cron `0 9 * * 1` (Europe/Berlin), next on Mon
    2026-03-02 09:00".
    """
    times = next_times(schedule, now)
    if schedule.cron:
        following = f", next on {format_time(times[0])}" if times else ""
        return f"on the cron `{schedule.cron}` ({schedule.time_zone}){following}"
    if not times:
        return "at once" if schedule.at and now - schedule.at <= _LATE else "at a time in the past"
    return f"on {format_time(times[0])} ({schedule.time_zone})"


def format_time(moment: datetime) -> str:
    """Return a moment as `Mon 2026-03-02 09:00`."""
    return f"{moment:%a %Y-%m-%d %H:%M}"


def _one(moment: datetime, zone: str, now: datetime) -> JobSchedule:
    here = moment.astimezone(ZoneInfo(zone))
    if moment < now - _LATE:
        there_now = format_time(now.astimezone(here.tzinfo))
        raise JobRefused(
            f"{format_time(here)} ({zone}) is in the past: it is {there_now} there now"
        )
    if moment > now + FARTHEST:
        raise JobRefused(
            f"{format_time(here)} is too far in the future: a job must run within "
            f"{FARTHEST.days} days"
        )
    return JobSchedule(at=moment, time_zone=zone)


def _told(text: str) -> datetime:
    refusal = JobRefused(f"{text[:60]!r} is not a date and time: write it as 2026-03-02T10:00")
    try:
        told = datetime.fromisoformat(text.strip())
    except ValueError:
        raise refusal from None
    if told.year not in _YEARS:
        raise refusal
    return told


@cache
def _zones() -> dict[str, str]:
    return {
        name.casefold(): name
        for name in available_timezones()
        if name not in ("localtime", "Factory")
    }
