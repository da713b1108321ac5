"""Consequences of a decision: the turn proceeds, asks a question, retrieves more, or ends with a
person.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.decisions.model import (
    ESCALATION_CAP,
    ConfidenceLevel,
    Decision,
    DecisionType,
    EscalationReason,
    Factors,
    NextStep,
    Sensitivity,
    Thresholds,
    confidence,
    confidence_level,
    judge,
    validate,
)

UNIT = st.floats(0, 1)
FACTORS = st.builds(Factors, st.none() | UNIT, UNIT, UNIT, UNIT, st.booleans(), st.booleans())
SPENT = st.fixed_dictionaries(
    {
        "retrieved_more": st.booleans(),
        "questions": st.integers(0, 4),
        "questions_allowed": st.integers(0, 3),
    }
)
DECIDED = st.builds(
    Decision,
    st.sampled_from(DecisionType),
    st.just("why"),
    sensitivity=st.sampled_from(Sensitivity),
    complexity=UNIT,
)
USUAL = Thresholds()


def test_example_flows_end_as_in_the_design() -> None:
    price = judge(Decision(DecisionType.RETRIEVE, "r", query="q"), Factors(0.95, 0.1, 0.8), USUAL)
    plan = judge(
        Decision(DecisionType.RETRIEVE, "r", query="q"),
        Factors(0.7, 0.4, 0.6),
        USUAL,
        retrieved_more=True,
    )
    claim = Decision(DecisionType.RETRIEVE, "r", query="q", sensitivity=Sensitivity.CLAIMS)
    demand = judge(claim, Factors(0.6, 0.8, 0.5), USUAL)
    assert [each.next_step for each in (price, plan, demand)] == [
        NextStep.PROCEED,
        NextStep.CLARIFY,
        NextStep.ESCALATE,
    ]
    assert [each.confidence for each in (price, plan, demand)] == pytest.approx(
        [0.905, 0.71, 0.35]
    )


@pytest.mark.parametrize(
    "decided",
    [
        Decision(DecisionType.REASON_ONLY, "thanks"),
        Decision(DecisionType.USE_TOOL, "book a meeting", ("calendar_book",)),
        Decision(
            DecisionType.CLARIFY, "how much is it?", question="Which plan?", intent_clear=False
        ),
    ],
)
def test_everyday_message_of_a_stranger_does_not_escalate(decided: Decision) -> None:
    assert judge(decided, Factors(None, 0.1, 1 / 3), USUAL).next_step is not NextStep.ESCALATE


@given(DECIDED, FACTORS, SPENT)
def test_escalation_has_a_reason_and_capped_confidence(
    decided: Decision, factors: Factors, spent: dict[str, Any]
) -> None:
    made = judge(decided, factors, USUAL, **spent)
    escalates = made.next_step is NextStep.ESCALATE
    assert (made.reason is not None) is escalates
    assert made.confidence == (
        min(confidence(factors), ESCALATION_CAP) if escalates else confidence(factors)
    )


@given(DECIDED, FACTORS, SPENT)
def test_escalation_is_always_below_one_half(
    decided: Decision, factors: Factors, spent: dict[str, Any]
) -> None:
    made = judge(decided, factors, USUAL, **spent)
    assert made.next_step is not NextStep.ESCALATE or made.confidence < 0.5


@given(DECIDED, FACTORS, SPENT)
def test_claim_models_escalation_and_missing_source_always_escalate(
    decided: Decision, factors: Factors, spent: dict[str, Any]
) -> None:
    away = replace(factors, source_quality=None, retrieval_failed=True, retrieval_critical=True)
    type_ = DecisionType.RETRIEVE if decided.type is DecisionType.ESCALATE else decided.type
    harmless = replace(decided, type=type_, sensitivity=Sensitivity.ASKS)
    for given_, evidence, reason in (
        (replace(decided, sensitivity=Sensitivity.CLAIMS), away, EscalationReason.SENSITIVE_TOPIC),
        (replace(harmless, type=DecisionType.ESCALATE), away, EscalationReason.DECIDED),
        (harmless, away, EscalationReason.RETRIEVAL_FAILURE),
        (
            replace(decided, sensitivity=Sensitivity.CLAIMS),
            factors,
            EscalationReason.SENSITIVE_TOPIC,
        ),
    ):
        made = judge(given_, evidence, USUAL, **spent)
        assert (made.next_step, made.reason) == (NextStep.ESCALATE, reason)


@given(FACTORS, SPENT)
def test_clarification_escalates_only_after_the_last_question(
    factors: Factors, spent: dict[str, Any]
) -> None:
    made = judge(
        Decision(DecisionType.CLARIFY, "unclear", question="Which?"), factors, USUAL, **spent
    )
    assert made.next_step is (
        NextStep.CLARIFY if spent["questions"] < spent["questions_allowed"] else NextStep.ESCALATE
    )


@given(DECIDED, FACTORS, SPENT)
def test_turn_neither_retrieves_more_nor_asks_twice(
    decided: Decision, factors: Factors, spent: dict[str, Any]
) -> None:
    used_up = {**spent, "retrieved_more": True, "questions": spent["questions_allowed"]}
    assert judge(decided, factors, USUAL, **used_up).next_step in {
        NextStep.PROCEED,
        NextStep.ESCALATE,
    }


@given(DECIDED, FACTORS, SPENT)
def test_only_a_confident_decision_proceeds_unless_retrieval_failed(
    decided: Decision, factors: Factors, spent: dict[str, Any]
) -> None:
    made = judge(decided, factors, USUAL, **spent)
    reached = confidence_level(confidence(factors), USUAL)
    if made.next_step is NextStep.PROCEED:
        assert reached is ConfidenceLevel.HIGH or (
            reached is ConfidenceLevel.MEDIUM and factors.retrieval_failed
        )
    if made.next_step is NextStep.RETRIEVE_MORE:
        assert (reached, decided.type) == (ConfidenceLevel.MEDIUM, DecisionType.RETRIEVE)


COMPLETE = {
    "retrieval_query": Decision(DecisionType.RETRIEVE, "r", query="q"),
    "": Decision(DecisionType.REASON_ONLY, "r"),
    "tools_needed": Decision(DecisionType.USE_TOOL, "r", ("crm_read",)),
    "clarifying_question": Decision(DecisionType.CLARIFY, "r", question="Which?"),
    "escalation_reason": Decision(DecisionType.ESCALATE, "r", escalation_reason="why"),
}


@pytest.mark.parametrize("needed", COMPLETE)
def test_missing_field_is_named_as_the_model_knows_it(needed: str) -> None:
    assert validate(COMPLETE[needed], {"crm_read"}) == []
    blank = replace(
        COMPLETE[needed], tools=(), query=" \n", question=" \n", escalation_reason=" \n"
    )
    found = validate(blank, {"crm_read"})
    assert len(found) == bool(needed)
    assert needed in "".join(found)


def test_unknown_tool_is_named() -> None:
    [problem] = validate(
        Decision(DecisionType.USE_TOOL, "r", ("crm_read", "crm_delete")), {"crm_read"}
    )
    assert "crm_delete" in problem
    assert "crm_read" not in problem


@given(st.floats().filter(lambda value: not 0 <= value <= 1))
def test_numbers_outside_0_and_1_are_problems(value: float) -> None:
    assert (
        len(
            validate(
                Decision(DecisionType.REASON_ONLY, "r", complexity=value, model_confidence=value),
                (),
            )
        )
        == 2
    )
