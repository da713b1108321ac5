"""When a job is to run: one moment, a delay or a cron; read, checked against now, and told in words."""

from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from threadline.jobs import cron as crons
from threadline.jobs.model import JobRefused, JobSchedule, When

FARTHEST = timedelta(days=400)
"""From now; a job that is later is refused."""
SHOWN = 5
"""Runs of a cron that are told."""
MORNING = time(9)
"""When somebody is reminded, by the clocks of the job's zone."""
_YEARS = range(2000, 2200)
_LATE = timedelta(seconds=60)
"""By which a moment may lie back: whoever writes "now" has written it by the time it is read."""


def schedule_of(when: When, now: datetime) -> JobSchedule:
    """Raises `JobRefused`: not one way was given, or the time is past, too far off, or none."""
    if when.given != 1:
        raise JobRefused("give exactly one of after_minutes (0 is now), at and cron")
    if when.after_minutes is not None:
        return _one(now + timedelta(minutes=when.after_minutes), zone_of(when.time_zone or "UTC"), now)
    if when.cron.strip():
        zone = zone_of(when.time_zone)
        cron = crons.read(when.cron)
        if not cron.after(now, zone, 1):
            raise JobRefused(f"`{cron.text}` never runs in the time zone {zone}")
        return JobSchedule(cron=cron.text, time_zone=zone)
    return _one(*_moment(when), now)


def zone_of(name: str) -> str:
    """A time zone by the name that it has everywhere. Raises `JobRefused`."""
    wanted = name.strip()
    if not wanted:
        raise JobRefused("give a time zone, such as Europe/Berlin")
    found = _zones().get(wanted.casefold())
    if found is None:
        raise JobRefused(f"there is no time zone {wanted[:60]!r}: write one such as Europe/Berlin or America/New_York")
    return found


def moment_of(text: str) -> datetime:
    """A moment in ISO 8601; without an offset it is by UTC. Raises `JobRefused`."""
    told = _told(text)
    return told if told.utcoffset() is not None else told.replace(tzinfo=UTC)


def morning_of(day: date, time_zone: str) -> datetime:
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
        following = f", next on {spoken(times[0])}" if times else ""
        return f"on the cron `{schedule.cron}` ({schedule.time_zone}){following}"
    if not times:
        return "at once" if schedule.at and now - schedule.at <= _LATE else "at a moment that is past"
    return f"on {spoken(times[0])} ({schedule.time_zone})"


def spoken(moment: datetime) -> str:
    """`Mon 2026-03-02 09:00`."""
    return f"{moment:%a %Y-%m-%d %H:%M}"


def _one(moment: datetime, zone: str, now: datetime) -> JobSchedule:
    here = moment.astimezone(ZoneInfo(zone))
    if moment < now - _LATE:
        raise JobRefused(
            f"{spoken(here)} ({zone}) is in the past: it is {spoken(now.astimezone(ZoneInfo(zone)))} there now"
        )
    if moment > now + FARTHEST:
        raise JobRefused(f"{spoken(here)} is too far in the future: a job must run within {FARTHEST.days} days")
    return JobSchedule(at=moment, time_zone=zone)


def _moment(when: When) -> tuple[datetime, str]:
    told = _told(when.at)
    if told.utcoffset() is not None:
        return told.astimezone(UTC), zone_of(when.time_zone or "UTC")
    zone = zone_of(when.time_zone)
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
