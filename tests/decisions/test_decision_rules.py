"""What follows from a decision: when a turn goes on, asks back, looks further, or ends with a person."""

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
PRICE = Decided(Action.RETRIEVE, "a price", query="Starter plan price")
PLAN = Decided(Action.RETRIEVE, "a plan", query="plans for teams")
DEMAND = Decided(Action.RETRIEVE, "a demand", query="refund policy", sensitivity=Sensitivity.CLAIMS)


def test_the_designs_flows_end_with_the_designs_actions() -> None:
    """A plan for my team: more was retrieved before, and it is still unclear which one."""
    price = verdict(PRICE, Factors(0.95, 0.1, 0.8), USUAL, Spent())
    plan = verdict(PLAN, Factors(0.7, 0.4, 0.6), USUAL, Spent(retrieved_more=True))
    demand = verdict(DEMAND, Factors(0.6, 0.8, 0.5), USUAL, Spent())
    assert [each.course for each in (price, plan, demand)] == [Course.PROCEED, Course.CLARIFY, Course.ESCALATE]
    assert [each.confidence for each in (price, plan, demand)] == pytest.approx([0.905, 0.71, 0.35])
    assert demand.reason is Reason.SENSITIVE_TOPIC


@pytest.mark.parametrize("context", [1 / 3, 2 / 3, 1.0])
@pytest.mark.parametrize(
    ("decided", "source"),
    [
        (Decided(Action.REASON_ONLY, "thanks"), None),
        (Decided(Action.USE_TOOL, "book a meeting", ("calendar_book",)), None),
        (Decided(Action.CLARIFY, "how much is it?", question="Which plan?", intent_clear=False), None),
    ],
)
def test_everyday_sentences_never_end_with_a_person(decided: Decided, source: float | None, context: float) -> None:
    assert verdict(decided, Factors(source, 0.1, context), USUAL, Spent()).course is not Course.ESCALATE


@given(DECIDED, FACTORS, SPENT)
def test_a_reason_is_given_where_a_person_takes_over_and_nowhere_else(
    decided: Decided, factors: Factors, spent: Spent
) -> None:
    made = verdict(decided, factors, USUAL, spent)
    assert (made.reason is not None) is (made.course is Course.ESCALATE)
    assert made.confidence == (
        min(composite(factors), ESCALATED) if made.course is Course.ESCALATE else composite(factors)
    )


@given(DECIDED, FACTORS, SPENT)
def test_a_claim_and_the_engines_own_word_always_end_with_a_person(
    decided: Decided, factors: Factors, spent: Spent
) -> None:
    claim = verdict(replace(decided, sensitivity=Sensitivity.CLAIMS), factors, USUAL, spent)
    own = verdict(replace(decided, action=Action.ESCALATE, sensitivity=Sensitivity.ASKS), factors, USUAL, spent)
    assert (claim.course, claim.reason) == (Course.ESCALATE, Reason.SENSITIVE_TOPIC)
    assert (own.course, own.reason) == (Course.ESCALATE, Reason.DECIDED)


@given(DECIDED, FACTORS, SPENT)
def test_what_may_not_be_answered_without_its_source_ends_with_a_person_when_that_is_away(
    decided: Decided, factors: Factors, spent: Spent
) -> None:
    away = replace(factors, source_quality=None, retrieval_failed=True, retrieval_critical=True)
    made = verdict(decided, away, USUAL, spent)
    own = decided.sensitivity is Sensitivity.CLAIMS or decided.action is Action.ESCALATE
    assert made.course is Course.ESCALATE
    assert (made.reason is Reason.RETRIEVAL_FAILURE) is not own


@given(FACTORS, SPENT)
def test_a_clarification_ends_with_a_person_only_where_no_question_is_left(factors: Factors, spent: Spent) -> None:
    made = verdict(Decided(Action.CLARIFY, "unclear", question="Which?"), factors, USUAL, spent)
    left = spent.questions < spent.questions_allowed
    assert made.course is (Course.CLARIFY if left else Course.ESCALATE)


@given(DECIDED, FACTORS, SPENT)
def test_nothing_is_done_a_second_time_in_a_turn(decided: Decided, factors: Factors, spent: Spent) -> None:
    used_up = replace(spent, retrieved_more=True, questions=spent.questions_allowed)
    assert verdict(decided, factors, USUAL, used_up).course in {Course.PROCEED, Course.ESCALATE}


@given(DECIDED, FACTORS, SPENT)
def test_only_a_sure_decision_goes_on_unless_the_documents_could_not_be_asked(
    decided: Decided, factors: Factors, spent: Spent
) -> None:
    made = verdict(decided, factors, USUAL, spent)
    sure = level(composite(factors), USUAL)
    if made.course is Course.PROCEED:
        assert sure is Level.HIGH or (sure is Level.MEDIUM and factors.retrieval_failed)
    if made.course is Course.RETRIEVE_MORE:
        assert (sure, decided.action) == (Level.MEDIUM, Action.RETRIEVE)


VALID = (
    Decided(Action.RETRIEVE, "r", query="q"),
    Decided(Action.REASON_ONLY, "r"),
    Decided(Action.USE_TOOL, "r", ("crm_read",)),
    Decided(Action.CLARIFY, "r", question="Which?"),
    Decided(Action.ESCALATE, "r", escalation_reason="why"),
)


@pytest.mark.parametrize("decided", VALID)
def test_a_decision_with_what_it_needs_has_no_faults(decided: Decided) -> None:
    assert faults(decided, {"crm_read"}) == []


@pytest.mark.parametrize(
    ("action", "names"),
    [
        (Action.RETRIEVE, "retrieval_query"),
        (Action.USE_TOOL, "tools_needed"),
        (Action.CLARIFY, "clarifying_question"),
        (Action.ESCALATE, "escalation_reason"),
    ],
)
@pytest.mark.parametrize("blank", ["", "  \n"])
def test_what_is_missing_is_told_by_the_name_that_the_model_knows(action: Action, names: str, blank: str) -> None:
    found = faults(Decided(action, "r", (), blank, blank, blank), {"crm_read"})
    assert len(found) == 1
    assert names in found[0]


def test_a_tool_that_does_not_exist_is_named() -> None:
    [fault] = faults(Decided(Action.USE_TOOL, "r", ("crm_read", "crm_delete")), {"crm_read"})
    assert "crm_delete" in fault
    assert "crm_read" not in fault


@given(st.floats().filter(lambda value: not 0 <= value <= 1))
def test_a_number_outside_0_and_1_is_a_fault(value: float) -> None:
    assert len(faults(Decided(Action.REASON_ONLY, "r", complexity=value, own_confidence=value), ())) == 2
