"""What follows from a decision: the turn goes on, asks back, retrieves more, or ends with a person."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.decisions.confidence import ESCALATED, Factors, Level, Thresholds, composite, level
from threadline.decisions.model import Action, Course, Decided, Reason, Sensitivity, Spent, faults, verdict

UNIT = st.floats(0, 1)
FACTORS = st.builds(Factors, st.none() | UNIT, UNIT, UNIT, UNIT, st.booleans(), st.booleans())
SPENT = st.builds(Spent, st.booleans(), st.integers(0, 4), st.integers(0, 3))
DECIDED = st.builds(
    Decided, st.sampled_from(Action), st.just("why"), sensitivity=st.sampled_from(Sensitivity), complexity=UNIT
)
USUAL = Thresholds()


def test_example_flows_of_the_design_end_as_it_says() -> None:
    price = verdict(Decided(Action.RETRIEVE, "r", query="q"), Factors(0.95, 0.1, 0.8), USUAL, Spent())
    retrieved = Spent(retrieved_more=True)
    plan = verdict(Decided(Action.RETRIEVE, "r", query="q"), Factors(0.7, 0.4, 0.6), USUAL, retrieved)
    claim = Decided(Action.RETRIEVE, "r", query="q", sensitivity=Sensitivity.CLAIMS)
    demand = verdict(claim, Factors(0.6, 0.8, 0.5), USUAL, Spent())
    assert [each.course for each in (price, plan, demand)] == [Course.PROCEED, Course.CLARIFY, Course.ESCALATE]
    assert [each.confidence for each in (price, plan, demand)] == pytest.approx([0.905, 0.71, 0.35])


@pytest.mark.parametrize(
    "decided",
    [
        Decided(Action.REASON_ONLY, "thanks"),
        Decided(Action.USE_TOOL, "book a meeting", ("calendar_book",)),
        Decided(Action.CLARIFY, "how much is it?", question="Which plan?", intent_clear=False),
    ],
)
def test_everyday_message_of_a_stranger_does_not_escalate(decided: Decided) -> None:
    assert verdict(decided, Factors(None, 0.1, 1 / 3), USUAL, Spent()).course is not Course.ESCALATE


@given(DECIDED, FACTORS, SPENT)
def test_escalation_has_a_reason_and_capped_confidence(decided: Decided, factors: Factors, spent: Spent) -> None:
    made = verdict(decided, factors, USUAL, spent)
    escalates = made.course is Course.ESCALATE
    assert (made.reason is not None) is escalates
    assert made.confidence == (min(composite(factors), ESCALATED) if escalates else composite(factors))


@given(DECIDED, FACTORS, SPENT)
def test_claim_own_word_and_missing_source_always_escalate(decided: Decided, factors: Factors, spent: Spent) -> None:
    away = replace(factors, source_quality=None, retrieval_failed=True, retrieval_critical=True)
    action = Action.RETRIEVE if decided.action is Action.ESCALATE else decided.action
    harmless = replace(decided, action=action, sensitivity=Sensitivity.ASKS)
    for given_, evidence, reason in (
        (replace(decided, sensitivity=Sensitivity.CLAIMS), away, Reason.SENSITIVE_TOPIC),
        (replace(harmless, action=Action.ESCALATE), away, Reason.DECIDED),
        (harmless, away, Reason.RETRIEVAL_FAILURE),
        (replace(decided, sensitivity=Sensitivity.CLAIMS), factors, Reason.SENSITIVE_TOPIC),
    ):
        made = verdict(given_, evidence, USUAL, spent)
        assert (made.course, made.reason) == (Course.ESCALATE, reason)


@given(FACTORS, SPENT)
def test_clarification_escalates_only_after_the_last_question(factors: Factors, spent: Spent) -> None:
    made = verdict(Decided(Action.CLARIFY, "unclear", question="Which?"), factors, USUAL, spent)
    assert made.course is (Course.CLARIFY if spent.questions < spent.questions_allowed else Course.ESCALATE)


@given(DECIDED, FACTORS, SPENT)
def test_turn_neither_retrieves_more_nor_asks_twice(decided: Decided, factors: Factors, spent: Spent) -> None:
    used_up = replace(spent, retrieved_more=True, questions=spent.questions_allowed)
    assert verdict(decided, factors, USUAL, used_up).course in {Course.PROCEED, Course.ESCALATE}


@given(DECIDED, FACTORS, SPENT)
def test_only_a_confident_decision_proceeds_unless_retrieval_failed(
    decided: Decided, factors: Factors, spent: Spent
) -> None:
    made = verdict(decided, factors, USUAL, spent)
    reached = level(composite(factors), USUAL)
    if made.course is Course.PROCEED:
        assert reached is Level.HIGH or (reached is Level.MEDIUM and factors.retrieval_failed)
    if made.course is Course.RETRIEVE_MORE:
        assert (reached, decided.action) == (Level.MEDIUM, Action.RETRIEVE)


COMPLETE = {
    "retrieval_query": Decided(Action.RETRIEVE, "r", query="q"),
    "": Decided(Action.REASON_ONLY, "r"),
    "tools_needed": Decided(Action.USE_TOOL, "r", ("crm_read",)),
    "clarifying_question": Decided(Action.CLARIFY, "r", question="Which?"),
    "escalation_reason": Decided(Action.ESCALATE, "r", escalation_reason="why"),
}


@pytest.mark.parametrize("needed", COMPLETE)
def test_missing_field_is_named_as_the_model_knows_it(needed: str) -> None:
    assert faults(COMPLETE[needed], {"crm_read"}) == []
    blank = replace(COMPLETE[needed], tools=(), query=" \n", question=" \n", escalation_reason=" \n")
    found = faults(blank, {"crm_read"})
    assert len(found) == bool(needed)
    assert needed in "".join(found)


def test_unknown_tool_is_named() -> None:
    [fault] = faults(Decided(Action.USE_TOOL, "r", ("crm_read", "crm_delete")), {"crm_read"})
    assert "crm_delete" in fault
    assert "crm_read" not in fault


@given(st.floats().filter(lambda value: not 0 <= value <= 1))
def test_numbers_outside_0_and_1_are_faults(value: float) -> None:
    assert len(faults(Decided(Action.REASON_ONLY, "r", complexity=value, own_confidence=value), ())) == 2
