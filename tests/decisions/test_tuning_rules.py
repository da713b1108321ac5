"""Proposed thresholds: never from too few examples, never worse than the present ones."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.outcome_samples import answered, escalated, surely
from tests.support.examples import examples
from threadline.decisions.model import EscalationReason, NextStep, Sensitivity, Thresholds
from threadline.decisions.reports import (
    MIN_EXAMPLES,
    JudgedDecision,
    ThresholdProposal,
    propose_thresholds,
)

NOW = Thresholds()
TOO_SURE = [answered(0.92, thumbs_up=1)] * 20 + [answered(0.78, thumbs_down=1)] * 20


def proposed(outcomes: list[JudgedDecision], now: Thresholds = NOW) -> ThresholdProposal:
    found = propose_thresholds(outcomes, now)
    assert found
    return found


def test_too_few_examples_propose_nothing() -> None:
    made = [answered(0.8, thumbs_up=1)] * (MIN_EXAMPLES - 1) + [answered(0.8)] * 50
    assert propose_thresholds(made, NOW) is None
    assert propose_thresholds([*made, answered(0.8, thumbs_up=1)], NOW)


def test_confident_bad_answers_raise_the_upper_threshold() -> None:
    found = proposed(TOO_SURE)
    assert 0.78 < found.proposed.high <= 0.92
    assert (found.current_cost, found.proposed_cost) == (0.5, 0)


def test_needless_escalations_lower_the_thresholds() -> None:
    found = proposed(
        [escalated(0.45, closed=True)] * 20 + [escalated(0.2, person_answered=True)] * 20
    )
    assert 0.2 < found.proposed.low <= found.proposed.high <= 0.45
    assert found.changes == ((NextStep.ESCALATE, NextStep.PROCEED, 20),)
    assert (found.changed, found.judged) == (20, 40)


def test_thresholds_without_mistakes_are_kept() -> None:
    now = Thresholds(0.81, 0.33)
    found = proposed(
        [answered(0.9, thumbs_up=1)] * 20 + [escalated(0.2, person_answered=True)] * 20, now
    )
    assert (found.proposed, found.changes, found.proposed_cost) == (now, (), 0)


def test_unlabelled_decisions_count_among_the_changes() -> None:
    found = proposed([*TOO_SURE, *[answered(0.79)] * 5, answered(factors=None)])
    assert (found.judged, found.changed) == (45, 25)


CLAIM = replace(answered().made.decision, sensitivity=Sensitivity.CLAIMS)
NO_SOURCE = replace(
    surely(0.9), source_quality=None, retrieval_failed=True, retrieval_critical=True
)


@pytest.mark.parametrize(
    "fixed",
    [
        escalated(0.78, EscalationReason.SENSITIVE_TOPIC, decision=CLAIM, person_answered=True),
        escalated(
            0.9, EscalationReason.RETRIEVAL_FAILURE, factors=NO_SOURCE, person_answered=True
        ),
    ],
    ids=["sensitive topic", "failed retrieval"],
)
def test_escalation_for_another_reason_is_not_moved(fixed: JudgedDecision) -> None:
    found = proposed([*TOO_SURE, *[fixed] * 10])
    assert (found.judged, found.changed) == (50, 20)


@examples(0.3)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=MIN_EXAMPLES, max_size=60))
def test_proposal_never_costs_more(said: list[tuple[float, bool]]) -> None:
    found = proposed([answered(sure, thumbs_up=good, thumbs_down=not good) for sure, good in said])
    assert found.proposed_cost <= found.current_cost
    assert found.proposed.low <= found.proposed.high
    assert found.proposed == NOW or found.proposed_cost < found.current_cost
