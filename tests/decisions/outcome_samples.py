"""Judged decisions for tests."""

from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

from threadline.decisions.model import (
    Decision,
    DecisionOutcome,
    DecisionRound,
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
    """Return evidence that yields this confidence."""
    return Factors(confidence, 1 - confidence, confidence, confidence)


def answered(
    confidence: float = 0.8, thumbs_up: int = 0, thumbs_down: int = 0, **more: Any
) -> JudgedDecision:
    """Return a judged decision.

    Args:
        more: further fields of the decision and of its round.
    """
    made = DecisionRound(
        1, Decision(DecisionType.REASON_ONLY, "It is thanks."), Thresholds(), "", "v1"
    )
    made = replace(
        made, factors=surely(confidence), judgement=Judgement(NextStep.PROCEED, confidence)
    )
    of_round = {each.name for each in fields(DecisionRound)} & more.keys()
    made = replace(made, **{name: more.pop(name) for name in of_round})
    given: dict[str, Any] = {
        "turn": 1,
        "outcome": DecisionOutcome.ANSWERED,
        "cost_usd": 0.0,
        "decided_at": AT,
    }
    return JudgedDecision(
        THREAD, made=made, thumbs_up=thumbs_up, thumbs_down=thumbs_down, **given | more
    )


def escalated(
    confidence: float = 0.4,
    reason: EscalationReason = EscalationReason.LOW_CONFIDENCE,
    **more: Any,
) -> JudgedDecision:
    given: dict[str, Any] = {
        "judgement": escalation(confidence, reason),
        "outcome": DecisionOutcome.ESCALATED,
    }
    return answered(confidence, **given | more)
