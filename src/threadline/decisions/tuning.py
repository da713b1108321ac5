"""ThresholdProposal: thresholds that would have served better, from what people have judged. It changes nothing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from threadline.decisions.model import ConfidenceLevel, NextStep, Thresholds, confidence_level, judge
from threadline.decisions.reports import JudgedDecision, training_examples

MIN_EXAMPLES = 30
"""Examples below which nothing is proposed: a handful of thumbs would move the thresholds by chance."""
WRONG_ANSWER, NEEDLESS_ESCALATION = 1.0, 0.5
ASKED_BEFORE_WRONG, ASKED_BEFORE_RIGHT = 0.5, 0.25
"""What each mistake costs: to ask back costs half of what it averts, and is never free."""
_GRID = tuple(step / 20 for step in range(1, 20))


@dataclass(frozen=True)
class ThresholdProposal:
    """`current_cost` and `proposed_cost` are means over the examples, 0 is best.

    `changes`: how many of the `judged` decisions would have another next step, by the current and the proposed one.
    """

    current: Thresholds
    proposed: Thresholds
    examples: int
    current_cost: float
    proposed_cost: float
    judged: int
    changes: tuple[tuple[NextStep, NextStep, int], ...]

    @property
    def changed(self) -> int:
        return sum(count for _, _, count in self.changes)


def propose_thresholds(judged: Sequence[JudgedDecision], current: Thresholds) -> ThresholdProposal | None:
    """The thresholds of a grid of twentieths with the least cost; of several the nearest to the current ones.

    The current ones stay unless others are better.

    Returns:
        None where there are fewer than `MIN_EXAMPLES` examples.
    """
    examples = training_examples(judged)
    if len(examples) < MIN_EXAMPLES:
        return None
    candidates = [current, *(Thresholds(high, low) for high, low in product(_GRID, _GRID) if low <= high)]
    proposed = min(candidates, key=lambda each: (_mean_cost(examples, each), _distance(each, current)))
    pairs = [(before, _next_step(each, proposed)) for each in judged if (before := _next_step(each, current))]
    costs = _mean_cost(examples, current), _mean_cost(examples, proposed)
    return ThresholdProposal(current, proposed, len(examples), *costs, len(pairs), _changes(pairs))


def _mean_cost(examples: Sequence[tuple[float, bool]], thresholds: Thresholds) -> float:
    costs = (_cost(confidence_level(value, thresholds), right) for value, right in examples)
    return round(sum(costs) / len(examples), 9)


def _cost(level: ConfidenceLevel, right: bool) -> float:
    match level:
        case ConfidenceLevel.HIGH:
            return 0.0 if right else WRONG_ANSWER
        case ConfidenceLevel.MEDIUM:
            return ASKED_BEFORE_RIGHT if right else ASKED_BEFORE_WRONG
        case ConfidenceLevel.LOW:
            return NEEDLESS_ESCALATION if right else 0.0


def _distance(one: Thresholds, other: Thresholds) -> float:
    return round(abs(one.high - other.high) + abs(one.low - other.low), 9)


def _changes(pairs: Sequence[tuple[NextStep, NextStep | None]]) -> tuple[tuple[NextStep, NextStep, int], ...]:
    """Both steps are computed alike, so that a turn in which something else has happened counts as no change."""
    counted = Counter((before, after) for before, after in pairs if after and before is not after)
    return tuple((before, after, count) for (before, after), count in sorted(counted.items()))


def _next_step(judged: JudgedDecision, thresholds: Thresholds) -> NextStep | None:
    """None while the evidence is not judged."""
    made = judged.made
    if made.factors is None:
        return None
    return judge(made.decision, made.factors, thresholds, retrieved_more=made.round > 1).next_step
