"""Outcomes of decisions as tests need them."""

from datetime import UTC, datetime
from typing import Any

from threadline.decisions.confidence import Factors, Thresholds
from threadline.decisions.model import Action, Course, Decided, Reason, Result, Verdict, handed_over
from threadline.decisions.outcomes import Outcome
from threadline.slack.model import Thread

THREAD = Thread("T1", "C1", "100.000000")
AT = datetime(2026, 1, 5, 12, tzinfo=UTC)


def surely(confidence: float) -> Factors:
    """Evidence whose composite is this."""
    return Factors(confidence, 1 - confidence, confidence, confidence)


def answered(confidence: float = 0.8, ups: int = 0, downs: int = 0, **more: Any) -> Outcome:
    given: dict[str, Any] = {
        "thread": THREAD,
        "turn": 1,
        "round": 1,
        "variant": "",
        "prompt_version": "v1",
        "decided": Decided(Action.REASON_ONLY, "It is thanks."),
        "thresholds": Thresholds(),
        "factors": surely(confidence),
        "verdict": Verdict(Course.PROCEED, confidence),
        "result": Result.ANSWERED,
        "ups": ups,
        "downs": downs,
        "cost_usd": 0.0,
        "at": AT,
    }
    return Outcome(**given | more)


def escalated(confidence: float = 0.4, reason: Reason = Reason.LOW_CONFIDENCE, **more: Any) -> Outcome:
    given: dict[str, Any] = {"verdict": handed_over(confidence, reason), "result": Result.ESCALATED}
    return answered(confidence, **given | more)
