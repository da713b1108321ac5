"""Thresholds that are proposed: never from too little, never worse than the present ones, and with what they move."""

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


def proposed(outcomes: list[Outcome], now: Thresholds = NOW) -> Proposal:
    found = proposal(outcomes, now)
    assert isinstance(found, Proposal)
    return found


def test_too_few_lessons_propose_nothing_and_say_how_many_are_missing() -> None:
    made = [answered(0.8, ups=1)] * (FEWEST - 1) + [answered(0.8)] * 50
    assert proposal(made, NOW) == TooFew(FEWEST - 1, 1)
    assert proposal([], NOW) == TooFew(0, FEWEST)
    assert isinstance(proposal([*made, answered(0.8, ups=1)], NOW), Proposal)


def test_bad_answers_that_were_sure_raise_the_upper_threshold() -> None:
    made = [answered(0.92, ups=1)] * 20 + [answered(0.78, downs=1)] * 20
    found = proposed(made)
    assert 0.78 < found.then.high <= 0.92
    assert found.cost_then == 0
    assert found.cost_now == pytest.approx(0.5)


def test_escalations_that_were_needless_lower_the_thresholds() -> None:
    made = [escalated(0.45, closed=True)] * 20 + [escalated(0.2, helped=True)] * 20
    found = proposed(made)
    assert 0.2 < found.then.low <= found.then.high <= 0.45
    assert found.moves == ((Course.ESCALATE, Course.PROCEED, 20),)
    assert (found.changed, found.weighed) == (20, 40)


def test_what_serves_well_stays_as_it_is() -> None:
    now = Thresholds(0.81, 0.33)
    found = proposed([answered(0.9, ups=1)] * 20 + [escalated(0.2, helped=True)] * 20, now)
    assert (found.then, found.moves, found.cost_then) == (now, (), 0)


def test_decisions_without_a_label_are_counted_among_what_would_change() -> None:
    judged = [answered(0.92, ups=1)] * 20 + [answered(0.78, downs=1)] * 20
    found = proposed([*judged, *[answered(0.79)] * 5, replace(answered(), factors=None)])
    assert found.weighed == 45
    assert found.changed == 25


def test_a_sensitive_topic_is_escalated_at_any_threshold() -> None:
    claims = replace(escalated(0.78, Reason.SENSITIVE_TOPIC).decided, sensitivity=Sensitivity.CLAIMS)
    sensitive = escalated(0.78, Reason.SENSITIVE_TOPIC, decided=claims, helped=True)
    found = proposed([answered(0.92, ups=1)] * 20 + [answered(0.78, downs=1)] * 20 + [sensitive] * 10)
    assert (found.weighed, found.changed) == (50, 20), "of the answers alone"


def test_documents_that_were_away_bring_a_person_at_any_threshold() -> None:
    away = replace(surely(0.9), source_quality=None, retrieval_failed=True, retrieval_critical=True)
    failed = escalated(0.9, Reason.RETRIEVAL_FAILURE, factors=away, helped=True)
    found = proposed([answered(0.92, ups=1)] * 20 + [answered(0.78, downs=1)] * 20 + [failed] * 10)
    assert (found.weighed, found.changed) == (50, 20), "of the answers alone"


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=FEWEST, max_size=60))
def test_a_proposal_never_costs_more_than_what_is(said: list[tuple[float, bool]]) -> None:
    found = proposed([answered(sure, ups=good, downs=not good) for sure, good in said])
    assert found.cost_then <= found.cost_now
    assert found.then.low <= found.then.high
    assert found.then == NOW or found.cost_then < found.cost_now
