"""Confidence comes from evidence, lies between 0 and 1, and never rises with worse evidence."""

from dataclasses import asdict, replace
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.decisions.model import (
    ConfidenceLevel,
    Factors,
    Thresholds,
    confidence,
    confidence_level,
    context_completeness,
    tool_success_rate,
)

UNIT = st.floats(0, 1)
ANY = st.floats() | st.integers(-3, 3)
FACTORS = st.builds(Factors, st.none() | UNIT, UNIT, UNIT, UNIT, st.booleans(), st.booleans())
ROUNDING = 2e-6


@given(st.builds(Factors, st.none() | ANY, ANY, ANY, ANY, st.booleans(), st.booleans()))
def test_confidence_is_between_0_and_1_for_any_evidence(factors: Factors) -> None:
    assert 0 <= confidence(factors) <= 1


@pytest.mark.parametrize(("flag", "share"), [("conflict", 0.5), ("retrieval_failed", 0.7)])
@given(factors=FACTORS)
def test_conflict_and_failed_retrieval_lower_confidence(
    flag: str, share: float, factors: Factors
) -> None:
    without, with_it = (
        confidence(Factors(**asdict(factors) | {flag: value})) for value in (False, True)
    )
    assert with_it == pytest.approx(share * without, abs=ROUNDING)


@pytest.mark.parametrize(
    "name", ["source_quality", "context_completeness", "tool_success_rate", "query_complexity"]
)
@given(factors=FACTORS, values=st.tuples(UNIT, UNIT))
def test_confidence_never_falls_with_better_evidence(
    name: str, factors: Factors, values: tuple[float, float]
) -> None:
    ordered = sorted(values, reverse=name == "query_complexity")
    worse, better = (confidence(Factors(**asdict(factors) | {name: value})) for value in ordered)
    assert worse <= better


@pytest.mark.parametrize(
    "source", [(0, 1), (None, None)], ids=["with a source", "without a source"]
)
def test_worst_evidence_is_0_and_best_is_1(source: tuple[float | None, float | None]) -> None:
    worst, best = source
    assert confidence(Factors(worst, 1, 0, 0)) == 0
    assert confidence(Factors(best, 0, 1, 1)) == 1


@given(UNIT, UNIT, UNIT)
def test_source_as_good_as_the_rest_changes_nothing(
    complexity: float, context: float, tools: float
) -> None:
    without = Factors(None, complexity, context, tools)
    with_source = replace(without, source_quality=confidence(without))
    assert confidence(with_source) == pytest.approx(confidence(without), abs=ROUNDING)


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        (Factors(0.95, 0.1, 0.8), 0.905),
        (Factors(0.7, 0.4, 0.6), 0.71),
        (Factors(0.6, 0.8, 0.5), 0.57),
    ],
)
def test_example_flows_of_the_design_follow_its_formula(factors: Factors, expected: float) -> None:
    assert confidence(factors) == pytest.approx(expected)


def test_confidence_equal_to_a_threshold_reaches_it() -> None:
    reached = [confidence_level(value, Thresholds()) for value in (0.75, 0.749999, 0.5, 0.499999)]
    assert reached == [
        ConfidenceLevel.HIGH,
        ConfidenceLevel.MEDIUM,
        ConfidenceLevel.MEDIUM,
        ConfidenceLevel.LOW,
    ]


@pytest.mark.parametrize(
    ("high", "low"), [(0.5, 0.75), (1.1, 0.5), (0.75, 0.0), (nan, 0.5), (inf, 0.5)]
)
def test_impossible_thresholds_are_refused(high: float, low: float) -> None:
    with pytest.raises(ValueError, match="thresholds"):
        Thresholds(high, low)


def test_lead_history_and_intent_count_a_third_each() -> None:
    known = [
        (False, False, False),
        (True, False, False),
        (False, True, False),
        (False, False, True),
        (True, True, True),
    ]
    found = [
        context_completeness(lead=lead, history=history, intent=intent)
        for lead, history, intent in known
    ]
    assert found == pytest.approx([0, 1 / 3, 1 / 3, 1 / 3, 1], abs=ROUNDING)


def test_tool_success_is_the_share_that_succeeded_and_1_without_any() -> None:
    assert [tool_success_rate(*counts) for counts in ((0, 0), (2, 0), (1, 3), (0, 2))] == [
        1,
        1,
        0.25,
        0,
    ]
