"""Judged decisions as tests need them."""

from datetime import UTC, datetime
from typing import Any

from threadline.decisions.model import (
    Decision,
    DecisionOutcome,
    DecisionType,
    EscalationReason,
    Factors,
    Judgement,
    NextStep,
    Thresholds,
    escalation,
)
from threadline.decisions.reports import JudgedDecision
from threadline.slack.model import Thread

THREAD = Thread("T1", "C1", "100.000000")
AT = datetime(2026, 1, 5, 12, tzinfo=UTC)


def surely(confidence: float) -> Factors:
    """Evidence whose confidence is this."""
    return Factors(confidence, 1 - confidence, confidence, confidence)


def answered(confidence: float = 0.8, thumbs_up: int = 0, thumbs_down: int = 0, **more: Any) -> JudgedDecision:
    given: dict[str, Any] = {
        "thread": THREAD,
        "turn": 1,
        "round": 1,
        "variant": "",
        "inputs_hash": "",
        "prompt_version": "v1",
        "decision": Decision(DecisionType.REASON_ONLY, "It is thanks."),
        "thresholds": Thresholds(),
        "factors": surely(confidence),
        "judgement": Judgement(NextStep.PROCEED, confidence),
        "outcome": DecisionOutcome.ANSWERED,
        "thumbs_up": thumbs_up,
        "thumbs_down": thumbs_down,
        "cost_usd": 0.0,
        "decided_at": AT,
    }
    return JudgedDecision(**given | more)


def escalated(
    confidence: float = 0.4, reason: EscalationReason = EscalationReason.LOW_CONFIDENCE, **more: Any
) -> JudgedDecision:
    given: dict[str, Any] = {"judgement": escalation(confidence, reason), "outcome": DecisionOutcome.ESCALATED}
    return answered(confidence, **given | more)
