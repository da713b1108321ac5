"""Report: the results of decisions, judged by what people did; ThresholdProposal: thresholds that
would have served better.

No model judges here, and nothing is changed. Pure.

A confidence of 0.8 should be right in eight of ten cases. The Brier score is Brier's of 1950 for
two outcomes; the expected calibration error (ECE) has bins of equal width.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import product

from threadline.decisions.model import (
    ConfidenceLevel,
    DecisionOutcome,
    DecisionRound,
    DecisionType,
    EscalationReason,
    Judgement,
    NextStep,
    Thresholds,
    confidence,
    confidence_level,
    judge,
)
from threadline.models.model import add_costs
from threadline.slack.model import Thread

BINS = 10
MIN_EXAMPLES = 30
"""Fewer examples yield no proposal: a handful of thumbs would move the thresholds by chance."""
WRONG_ANSWER = 1.0
NEEDLESS_ESCALATION = 0.5
ASKED_BEFORE_WRONG = 0.5
ASKED_BEFORE_RIGHT = 0.25
"""The cost of each mistake: asking back costs half of the mistake that it averts, and is never
free.
"""
_GRID = tuple(step / 20 for step in range(1, 20))


class Label(StrEnum):
    """The verdict on a decision by what people did; most decisions have none."""

    GOOD = "good"
    """Answered, and more thumbs are up than down."""
    BAD = "should_have_been_escalated"
    """Answered, and more thumbs are down than up."""
    ESCALATION_NEEDED = "needed"
    """Escalated, and a person answered."""
    ESCALATION_NOT_NEEDED = "need_not_have_been_escalated"
    """Escalated, and a person closed it without an answer, or more thumbs are down than up."""
    UNLABELLED = ""


@dataclass(frozen=True)
class JudgedDecision:
    """A turn's last round (`made`) and its outcome.

    `thumbs_up` and `thumbs_down` count people. `cost_usd`: of the whole turn; None where it is
    unknown. `person_answered`: a person who took the turn over has answered. `closed`: that person
    is done with it.
    """

    thread: Thread
    turn: int
    made: DecisionRound
    outcome: DecisionOutcome | None
    thumbs_up: int
    thumbs_down: int
    cost_usd: float | None
    decided_at: datetime
    person_answered: bool = False
    closed: bool = False

    @property
    def key(self) -> str:
        """The thread's key and the turn."""
        return f"{self.thread.key}:{self.turn}"

    @property
    def judgement(self) -> Judgement | None:
        return self.made.judgement

    @property
    def escalated(self) -> bool:
        return self.judgement is not None and self.judgement.next_step is NextStep.ESCALATE

    @property
    def label(self) -> Label:
        if self.escalated and self.person_answered:
            return Label.ESCALATION_NEEDED
        if self.escalated:
            needless = self.closed or self.thumbs_down > self.thumbs_up
            return Label.ESCALATION_NOT_NEEDED if needless else Label.UNLABELLED
        if self.outcome is not DecisionOutcome.ANSWERED or self.thumbs_up == self.thumbs_down:
            return Label.UNLABELLED
        return Label.GOOD if self.thumbs_up > self.thumbs_down else Label.BAD

    @property
    def training_example(self) -> tuple[float, bool] | None:
        """The uncapped confidence by the evidence, and whether an answer was right, or would have
        been.

        None without a label, and where the confidence did not decide: for a sensitive topic, an
        error, or an escalation by the engine itself.
        """
        if self.made.factors is None or self.judgement is None or self.label is Label.UNLABELLED:
            return None
        if self.judgement.next_step is NextStep.OPERATOR:
            return None
        if self.escalated and self.judgement.reason is not EscalationReason.LOW_CONFIDENCE:
            return None
        return confidence(self.made.factors), self.label in (
            Label.GOOD,
            Label.ESCALATION_NOT_NEEDED,
        )


def training_examples(judged: Sequence[JudgedDecision]) -> list[tuple[float, bool]]:
    """Return the existing examples; see `JudgedDecision.training_example`."""
    return [example for each in judged if (example := each.training_example) is not None]


# -- Calibration


@dataclass(frozen=True)
class CalibrationBin:
    """The cases with a confidence in [low, high); for the last bin in [low, 1]. `confidence` and
    `right` are means.
    """

    low: float
    high: float
    count: int
    confidence: float
    right: float


@dataclass(frozen=True)
class Calibration:
    """The calibration of some cases. `brier` and `ece` are in [0, 1], 0 is best; empty `bins` are
    left out.
    """

    count: int
    brier: float
    ece: float
    bins: tuple[CalibrationBin, ...]


def calibrate(cases: Sequence[tuple[float, bool]]) -> Calibration | None:
    """Return the calibration of pairs of a confidence in [0, 1] and whether it was right; None
    without any pair.
    """
    if not cases:
        return None
    bins: list[CalibrationBin] = []
    for place in range(BINS):
        held = [case for case in cases if min(int(case[0] * BINS), BINS - 1) == place]
        if held:
            values = sum(value for value, _ in held)
            right = sum(right for _, right in held)
            means = values / len(held), right / len(held)
            bins.append(CalibrationBin(place / BINS, (place + 1) / BINS, len(held), *means))
    return Calibration(
        len(cases),
        sum((value - right) ** 2 for value, right in cases) / len(cases),
        sum(each.count * abs(each.right - each.confidence) for each in bins) / len(cases),
        tuple(bins),
    )


# -- The report


@dataclass(frozen=True)
class DecisionStats:
    """Counts of some decisions. `cost_usd`: the total of their turns; None where one is
    unknown.
    """

    decisions: int
    next_steps: Counter[NextStep]
    labels: Counter[Label]
    thumbs_up: int
    thumbs_down: int
    cost_usd: float | None
    calibration: Calibration | None

    @property
    def labelled(self) -> int:
        return sum(self.labels.values()) - self.labels[Label.UNLABELLED]

    @property
    def share_right(self) -> float | None:
        """The share of the labelled decisions that people confirmed; None without labels."""
        right = self.labels[Label.GOOD] + self.labels[Label.ESCALATION_NEEDED]
        return right / self.labelled if self.labelled else None


@dataclass(frozen=True)
class Report:
    """The results of decisions.

    `types`: counts by type. `variants`: counts by name and version of the prompt. `not_needed`:
    needless escalations; `missed`: answers that should have been escalated; both newest first.
    """

    total: DecisionStats
    types: tuple[tuple[DecisionType, DecisionStats], ...]
    variants: tuple[tuple[str, str, DecisionStats], ...]
    not_needed: tuple[JudgedDecision, ...]
    missed: tuple[JudgedDecision, ...]


def report(judged: Sequence[JudgedDecision]) -> Report | None:
    """Return the report; None without any decision."""
    if not judged:
        return None
    newest = sorted(judged, key=lambda each: each.decided_at, reverse=True)
    by_type = {
        type_: [each for each in judged if each.made.decision.type is type_]
        for type_ in DecisionType
    }
    by_variant: dict[tuple[str, str], list[JudgedDecision]] = {}
    for each in judged:
        by_variant.setdefault((each.made.variant, each.made.prompt_version), []).append(each)
    return Report(
        _stats(judged),
        tuple((type_, _stats(found)) for type_, found in by_type.items() if found),
        tuple((*key, _stats(by_variant[key])) for key in sorted(by_variant)),
        tuple(each for each in newest if each.label is Label.ESCALATION_NOT_NEEDED),
        tuple(each for each in newest if each.label is Label.BAD),
    )


def _stats(judged: Sequence[JudgedDecision]) -> DecisionStats:
    return DecisionStats(
        len(judged),
        Counter(each.judgement.next_step for each in judged if each.judgement),
        Counter(each.label for each in judged),
        sum(each.thumbs_up for each in judged),
        sum(each.thumbs_down for each in judged),
        add_costs(each.cost_usd for each in judged),
        calibrate(training_examples(judged)),
    )


# -- Tuning


@dataclass(frozen=True)
class ThresholdProposal:
    """Proposed thresholds. `current_cost` and `proposed_cost` are means over the examples, 0 is
    best.

    `changes`: the number of `judged` decisions whose next step would change, by the current and
    the proposed step.
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


def propose_thresholds(
    judged: Sequence[JudgedDecision], current: Thresholds
) -> ThresholdProposal | None:
    """Return the cheapest thresholds on a grid of twentieths; None for fewer than `MIN_EXAMPLES`
    examples.

    Among equally cheap ones the nearest to the current thresholds win, so the current ones stay
    unless others are better.
    """
    examples = training_examples(judged)
    if len(examples) < MIN_EXAMPLES:
        return None

    def cost_and_distance(each: Thresholds) -> tuple[float, float]:
        return _mean_cost(examples, each), round(
            abs(each.high - current.high) + abs(each.low - current.low), 9
        )

    candidates = [
        current,
        *(Thresholds(high, low) for high, low in product(_GRID, _GRID) if low <= high),
    ]
    proposed = min(candidates, key=cost_and_distance)
    pairs = [
        (before, _next_step(each, proposed))
        for each in judged
        if (before := _next_step(each, current))
    ]
    # Both steps are computed alike, so that a turn that took another step in reality counts as no
    # change.
    counted = Counter((before, after) for before, after in pairs if after and before is not after)
    changes = tuple((before, after, count) for (before, after), count in sorted(counted.items()))
    costs = _mean_cost(examples, current), _mean_cost(examples, proposed)
    return ThresholdProposal(current, proposed, len(examples), *costs, len(pairs), changes)


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


def _next_step(judged: JudgedDecision, thresholds: Thresholds) -> NextStep | None:
    """Return the next step under these thresholds; None while the evidence is not judged."""
    made = judged.made
    if made.factors is None:
        return None
    return judge(made.decision, made.factors, thresholds, retrieved_more=made.round > 1).next_step
