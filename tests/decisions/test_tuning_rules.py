"""Proposed thresholds: never from too few lessons, never worse than the present ones."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decisions.outcome_samples import answered, escalated, surely
from threadline.decisions.confidence import Thresholds
from threadline.decisions.model import Course, Reason, Sensitivity
from threadline.decisions.outcomes import Outcome
from threadline.decisions.tuning import FEWEST, Proposal, TooFew, proposal

NOW = Thresholds()
TOO_SURE = [answered(0.92, ups=1)] * 20 + [answered(0.78, downs=1)] * 20


def proposed(outcomes: list[Outcome], now: Thresholds = NOW) -> Proposal:
    found = proposal(outcomes, now)
    assert isinstance(found, Proposal)
    return found


def test_too_few_lessons_propose_nothing() -> None:
    made = [answered(0.8, ups=1)] * (FEWEST - 1) + [answered(0.8)] * 50
    assert proposal(made, NOW) == TooFew(FEWEST - 1, 1)
    assert isinstance(proposal([*made, answered(0.8, ups=1)], NOW), Proposal)


def test_confident_bad_answers_raise_the_upper_threshold() -> None:
    found = proposed(TOO_SURE)
    assert 0.78 < found.then.high <= 0.92
    assert (found.cost_now, found.cost_then) == (0.5, 0)


def test_needless_escalations_lower_the_thresholds() -> None:
    found = proposed([escalated(0.45, closed=True)] * 20 + [escalated(0.2, helped=True)] * 20)
    assert 0.2 < found.then.low <= found.then.high <= 0.45
    assert found.moves == ((Course.ESCALATE, Course.PROCEED, 20),)
    assert (found.changed, found.weighed) == (20, 40)


def test_thresholds_without_mistakes_stay() -> None:
    now = Thresholds(0.81, 0.33)
    found = proposed([answered(0.9, ups=1)] * 20 + [escalated(0.2, helped=True)] * 20, now)
    assert (found.then, found.moves, found.cost_then) == (now, (), 0)


def test_unlabelled_decisions_count_among_the_changes() -> None:
    found = proposed([*TOO_SURE, *[answered(0.79)] * 5, replace(answered(), factors=None)])
    assert (found.weighed, found.changed) == (45, 25)


CLAIM = replace(answered().decided, sensitivity=Sensitivity.CLAIMS)
NO_SOURCE = replace(surely(0.9), source_quality=None, retrieval_failed=True, retrieval_critical=True)


@pytest.mark.parametrize(
    "fixed",
    [
        escalated(0.78, Reason.SENSITIVE_TOPIC, decided=CLAIM, helped=True),
        escalated(0.9, Reason.RETRIEVAL_FAILURE, factors=NO_SOURCE, helped=True),
    ],
    ids=["sensitive topic", "failed retrieval"],
)
def test_escalation_for_another_reason_is_not_moved(fixed: Outcome) -> None:
    found = proposed([*TOO_SURE, *[fixed] * 10])
    assert (found.weighed, found.changed) == (50, 20)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=FEWEST, max_size=60))
def test_proposal_never_costs_more(said: list[tuple[float, bool]]) -> None:
    found = proposed([answered(sure, ups=good, downs=not good) for sure, good in said])
    assert found.cost_then <= found.cost_now
    assert found.then.low <= found.then.high
    assert found.then == NOW or found.cost_then < found.cost_now
