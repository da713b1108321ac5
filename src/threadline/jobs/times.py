"""When a job is to run: one moment, a delay or a cron; read, checked against now, and told in words."""

from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from threadline.jobs import cron as crons
from threadline.jobs.model import JobRefused, JobSchedule

FARTHEST = timedelta(days=400)
"""From now; a job that is later is refused."""
SHOWN = 5
"""Runs of a cron that are told."""
MORNING = time(9)
"""When somebody is reminded, by the clocks of the job's zone."""
_YEARS = range(2000, 2200)
_LATE = timedelta(seconds=60)
"""By which a moment may lie back: whoever writes "now" has written it by the time it is read."""


def schedule_of(
    now: datetime, *, after_minutes: int | None = None, at: str = "", cron: str = "", time_zone: str = ""
) -> JobSchedule:
    """Return when a job is to run, as somebody wants it in one of three ways.

    Args:
        after_minutes: 0 is now.
        at: ISO 8601, by the clocks of `time_zone` unless it has an offset.

    Raises:
        JobRefused: not one way was given, or the time is past, too far off, or none.
    """
    if ways_given(after_minutes, at, cron) != 1:
        raise JobRefused("give exactly one of after_minutes (0 is now), at and cron")
    if after_minutes is not None:
        return _one(now + timedelta(minutes=after_minutes), parse_time_zone(time_zone or "UTC"), now)
    if cron.strip():
        zone = parse_time_zone(time_zone)
        parsed = crons.read(cron)
        if not parsed.after(now, zone, 1):
            raise JobRefused(f"`{parsed.text}` never runs in the time zone {zone}")
        return JobSchedule(cron=parsed.text, time_zone=zone)
    return _one(*_moment(at, time_zone), now)


def ways_given(after_minutes: int | None, at: str, cron: str) -> int:
    """How many of the three ways to say when are used."""
    return (after_minutes is not None) + bool(at.strip()) + bool(cron.strip())


def parse_time_zone(name: str) -> str:
    """A time zone by the name that it has everywhere. Raises `JobRefused`."""
    wanted = name.strip()
    if not wanted:
        raise JobRefused("give a time zone, such as Europe/Berlin")
    found = _zones().get(wanted.casefold())
    if found is None:
        raise JobRefused(f"there is no time zone {wanted[:60]!r}: write one such as Europe/Berlin or America/New_York")
    return found


def parse_time(text: str) -> datetime:
    """A moment in ISO 8601; without an offset it is by UTC. Raises `JobRefused`."""
    told = _told(text)
    return told if told.utcoffset() is not None else told.replace(tzinfo=UTC)


def morning(day: date, time_zone: str) -> datetime:
    """Nine o'clock of a day, with its zone."""
    return datetime.combine(day, MORNING, ZoneInfo(time_zone))


def next_times(schedule: JobSchedule, now: datetime, count: int = SHOWN) -> list[datetime]:
    """The next runs, each by the clocks of the schedule's zone; none when its moment is past."""
    zone = ZoneInfo(schedule.time_zone)
    if schedule.at is not None:
        return [schedule.at.astimezone(zone)] if schedule.at > now else []
    found = crons.read(schedule.cron).after(now, schedule.time_zone, count)
    return [each.astimezone(zone) for each in found]


def in_words(schedule: JobSchedule, now: datetime) -> str:
    """When it runs, for a person: "on the cron `0 9 * * 1` (Europe/Berlin), next on Mon 2026-03-02 09:00"."""
    times = next_times(schedule, now)
    if schedule.cron:
        following = f", next on {format_time(times[0])}" if times else ""
        return f"on the cron `{schedule.cron}` ({schedule.time_zone}){following}"
    if not times:
        return "at once" if schedule.at and now - schedule.at <= _LATE else "at a moment that is past"
    return f"on {format_time(times[0])} ({schedule.time_zone})"


def format_time(moment: datetime) -> str:
    """`Mon 2026-03-02 09:00`."""
    return f"{moment:%a %Y-%m-%d %H:%M}"


def _one(moment: datetime, zone: str, now: datetime) -> JobSchedule:
    here = moment.astimezone(ZoneInfo(zone))
    if moment < now - _LATE:
        raise JobRefused(
            f"{format_time(here)} ({zone}) is in the past: it is {format_time(now.astimezone(here.tzinfo))} there now"
        )
    if moment > now + FARTHEST:
        raise JobRefused(f"{format_time(here)} is too far in the future: a job must run within {FARTHEST.days} days")
    return JobSchedule(at=moment, time_zone=zone)


def _moment(at: str, time_zone: str) -> tuple[datetime, str]:
    told = _told(at)
    if told.utcoffset() is not None:
        return told.astimezone(UTC), parse_time_zone(time_zone or "UTC")
    zone = parse_time_zone(time_zone)
    moment = told.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
    if moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None) != told:
        raise JobRefused(f"{told:%Y-%m-%d %H:%M} does not exist in {zone}, where clocks go forward: name another time")
    return moment, zone


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
    return {name.casefold(): name for name in available_timezones() if name not in ("localtime", "Factory")}
