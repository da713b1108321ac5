"""How sure a decision is: one number from evidence, never from the model's own feeling. Pure.

The formula and the thresholds are the source design's (docs/designs.md). Its printed results for the three example
flows do not follow from it: they are 0.905, 0.71 and 0.57.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import isnan

SOURCE, SIMPLICITY, CONTEXT, TOOLS = 0.3, 0.2, 0.3, 0.2
"""The weights; they sum to 1."""
CONFLICT = 0.5
WITHOUT_RETRIEVAL = 0.7
"""Factor where a retrieval that is not critical has failed and the turn goes on without."""
ESCALATED = 0.35
"""The most that an escalation is stored with."""


@dataclass(frozen=True)
class Factors:
    """The evidence, each in [0, 1].

    `source_quality` is None where the decision needs no source, or its source could not be asked; `retrieval_critical`:
    and may not be answered without it.
    """

    source_quality: float | None
    query_complexity: float
    context_completeness: float
    tool_success_rate: float = 1.0
    conflict: bool = False
    retrieval_failed: bool = False
    retrieval_critical: bool = False


@dataclass(frozen=True)
class Thresholds:
    """From `high` on a decision proceeds; below `low` it escalates.

    Raises:
        ValueError: they are not 0 < low <= high <= 1.
    """

    high: float = 0.75
    low: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high <= 1:
            raise ValueError(f"the thresholds must be 0 < low <= high <= 1, and they are {self.low} and {self.high}")


class Level(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


def composite(factors: Factors) -> float:
    """The confidence in [0, 1]; without a source its weight is spread over the others."""
    parts = [
        (SIMPLICITY, 1 - _unit(factors.query_complexity)),
        (CONTEXT, _unit(factors.context_completeness)),
        (TOOLS, _unit(factors.tool_success_rate)),
    ]
    if factors.source_quality is not None:
        parts.append((SOURCE, _unit(factors.source_quality)))
    sure = sum(weight * value for weight, value in parts) / sum(weight for weight, _ in parts)
    sure *= CONFLICT if factors.conflict else 1.0
    sure *= WITHOUT_RETRIEVAL if factors.retrieval_failed else 1.0
    return _unit(round(sure, 6))


def level(confidence: float, thresholds: Thresholds) -> Level:
    """What the number means under these thresholds."""
    if confidence >= thresholds.high:
        return Level.HIGH
    return Level.MEDIUM if confidence >= thresholds.low else Level.LOW


def context_completeness(*, lead: bool, history: bool, intent: bool) -> float:
    """Of what there is to know of who asks: a third each for who it is (on record or in Slack), a
    history of the thread, and a clear intent."""
    return round((lead + history + intent) / 3, 6)


def tool_success_rate(succeeded: int, failed: int) -> float:
    """Of this thread's executions; 1 where none ran."""
    return 1.0 if succeeded + failed == 0 else succeeded / (succeeded + failed)


def _unit(value: float) -> float:
    return 0.0 if isnan(value) else min(1.0, max(0.0, value))
