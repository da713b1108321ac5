"""The arithmetic of service levels: when to remind, when a target is missed, whom to call. Seconds, and no clock."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from threadline.cases.model import Severity

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


@dataclass(frozen=True)
class Target:
    """Seconds from the escalation until a human has answered (`acknowledge`), and until the case is resolved."""

    acknowledge: float
    resolve: float


DEFAULT_TARGETS: dict[Severity, Target] = {
    Severity.S1: Target(15 * MINUTE, 4 * HOUR),
    Severity.S2: Target(1 * HOUR, 24 * HOUR),
    Severity.S3: Target(8 * HOUR, 5 * DAY),
    Severity.S4: Target(24 * HOUR, 14 * DAY),
}


class SlaEventKind(StrEnum):
    ACKNOWLEDGE_REMINDER = "acknowledge_reminder"
    ACKNOWLEDGE_BREACH = "acknowledge_breach"
    RESOLVE_REMINDER = "resolve_reminder"
    RESOLVE_BREACH = "resolve_breach"
    DAILY_REMINDER = "daily_reminder"


@dataclass(frozen=True)
class SlaEvent:
    """Something that is due at `at` (seconds since 1970); `ordinal` numbers the events of one escalation from 1."""

    at: float
    kind: SlaEventKind
    ordinal: int


_ACKNOWLEDGE = (SlaEventKind.ACKNOWLEDGE_REMINDER, SlaEventKind.ACKNOWLEDGE_BREACH)
_BREACHES = (SlaEventKind.ACKNOWLEDGE_BREACH, SlaEventKind.RESOLVE_BREACH)


def next_event(started: float, target: Target, fired: int, last_at: float, *, acknowledged: bool) -> SlaEvent:
    """The next thing that is due.

    Args:
        started: when the case was escalated.
        target: what was promised for its severity.
        fired: the ordinal of the last event that happened or was skipped; 0 at first.
        last_at: when that was; the daily reminders count from it.
        acknowledged: a developer has answered, so the first target is met and its events are skipped.
    """
    plan: Sequence[tuple[float, SlaEventKind]] = sorted(
        (
            (started + target.acknowledge / 2, SlaEventKind.ACKNOWLEDGE_REMINDER),
            (started + target.acknowledge, SlaEventKind.ACKNOWLEDGE_BREACH),
            (started + target.resolve / 2, SlaEventKind.RESOLVE_REMINDER),
            (started + target.resolve, SlaEventKind.RESOLVE_BREACH),
        )
    )
    for ordinal, (at, kind) in enumerate(plan, start=1):
        if ordinal > fired and not (acknowledged and kind in _ACKNOWLEDGE):
            return SlaEvent(at, kind, ordinal)
    return SlaEvent(max(last_at, plan[-1][0]) + DAY, SlaEventKind.DAILY_REMINDER, max(fired, len(plan)) + 1)


def tier_for(kind: SlaEventKind, breaches: int, tiers: int) -> int:
    """Which tier of on-call (0 is the first) an event is addressed to.

    Args:
        kind: the event.
        breaches: how many breaches this escalation has had, this event included.
        tiers: how many tiers there are.
    """
    return min(max(breaches - 1, 0), max(tiers - 1, 0)) if kind in _BREACHES or breaches else 0


def is_breach(kind: SlaEventKind) -> bool:
    return kind in _BREACHES


def parse_duration(text: str) -> float:
    """Seconds of `15m`, `4h`, `5d`, `30s`, `1h30m`.

    Raises:
        ValueError: with a sentence that names the text and the form that is expected.
    """
    total, number = 0.0, ""
    units = {"s": 1.0, "m": MINUTE, "h": HOUR, "d": DAY}
    for character in text.strip().lower():
        if character.isdigit() or character == ".":
            number += character
        elif character in units and number:
            total, number = total + float(number) * units[character], ""
        else:
            raise ValueError(f"{text!r} is not a duration: write it as 30s, 15m, 2h, 5d or 1h30m")
    if number or not text.strip():
        raise ValueError(f"{text!r} is not a duration: write it as 30s, 15m, 2h, 5d or 1h30m")
    return total


def parse_targets(text: str) -> dict[Severity, Target]:
    """Targets by severity from `S1=15m/4h,S2=1h/24h`; a severity that is not named keeps its default.

    Raises:
        ValueError: with a sentence that names what could not be read.
    """
    targets = dict(DEFAULT_TARGETS)
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, times = part.partition("=")
        acknowledge, slash, resolve = times.partition("/")
        if name.strip().upper() not in Severity.__members__ or not slash:
            raise ValueError(f"{part!r} is not a target: write severity=acknowledge/resolve, such as S1=15m/4h")
        targets[Severity(name.strip().upper())] = Target(parse_duration(acknowledge), parse_duration(resolve))
    return targets
