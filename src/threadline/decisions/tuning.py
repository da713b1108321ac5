"""Thresholds that would have served better, from what people have judged. It proposes; nothing changes by itself."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from threadline.decisions.confidence import Level, Thresholds, level
from threadline.decisions.model import Course, Spent, verdict
from threadline.decisions.outcomes import Outcome

FEWEST = 30
"""Lessons below which nothing is proposed: a handful of thumbs would move the thresholds by chance."""
WRONG_ANSWER, NEEDLESS_ESCALATION = 1.0, 0.5
ASKED_BEFORE_WRONG, ASKED_BEFORE_RIGHT = 0.5, 0.25
"""What each fault costs: to ask back costs half of what it averts, and is never free."""
_GRID = tuple(step / 20 for step in range(1, 20))


@dataclass(frozen=True)
class TooFew:
    """`count` lessons are there, and `missing` more are needed."""

    count: int
    missing: int


@dataclass(frozen=True)
class Proposal:
    """`cost_now` and `cost_then` are means over the lessons, 0 is best.

    `moves`: how many of the `weighed` decisions would have another course, by the present and the other one.
    """

    now: Thresholds
    then: Thresholds
    lessons: int
    cost_now: float
    cost_then: float
    weighed: int
    moves: tuple[tuple[Course, Course, int], ...]

    @property
    def changed(self) -> int:
        return sum(count for _, _, count in self.moves)


def proposal(outcomes: Sequence[Outcome], now: Thresholds) -> Proposal | TooFew:
    """The thresholds of a grid of twentieths with the least cost; of several the nearest to the present ones.

    The present ones stay unless others are better.
    """
    lessons = [lesson for each in outcomes if (lesson := each.lesson) is not None]
    if len(lessons) < FEWEST:
        return TooFew(len(lessons), FEWEST - len(lessons))
    tried = [now, *(Thresholds(high, low) for high, low in product(_GRID, _GRID) if low <= high)]
    then = min(tried, key=lambda each: (_cost(lessons, each), _distance(each, now)))
    pairs = [(before, _course(each, then)) for each in outcomes if (before := _course(each, now))]
    return Proposal(now, then, len(lessons), _cost(lessons, now), _cost(lessons, then), len(pairs), _moves(pairs))


def _cost(lessons: Sequence[tuple[float, bool]], thresholds: Thresholds) -> float:
    return round(sum(_fault(level(sure, thresholds), right) for sure, right in lessons) / len(lessons), 9)


def _fault(reached: Level, right: bool) -> float:
    match reached:
        case Level.HIGH:
            return 0.0 if right else WRONG_ANSWER
        case Level.MEDIUM:
            return ASKED_BEFORE_RIGHT if right else ASKED_BEFORE_WRONG
        case Level.LOW:
            return NEEDLESS_ESCALATION if right else 0.0


def _distance(one: Thresholds, other: Thresholds) -> float:
    return round(abs(one.high - other.high) + abs(one.low - other.low), 9)


def _moves(pairs: Sequence[tuple[Course, Course | None]]) -> tuple[tuple[Course, Course, int], ...]:
    """Both courses are computed alike, so that a turn in which something else has happened counts as no change."""
    counted = Counter((before, after) for before, after in pairs if after and before is not after)
    return tuple((before, after, count) for (before, after), count in sorted(counted.items()))


def _course(outcome: Outcome, thresholds: Thresholds) -> Course | None:
    """None while the evidence is not weighed."""
    if outcome.factors is None:
        return None
    return verdict(outcome.decided, outcome.factors, thresholds, Spent(retrieved_more=outcome.round > 1)).course
