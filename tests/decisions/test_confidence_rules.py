"""The confidence: from evidence alone, bounded, and never higher for worse evidence."""

from dataclasses import asdict, replace
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.decisions import confidence
from threadline.decisions.confidence import Factors, Level, Thresholds, composite, context_completeness, level

UNIT = st.floats(0, 1)
ANY = st.floats() | st.integers(-3, 3)
FACTORS = st.builds(Factors, st.none() | UNIT, UNIT, UNIT, UNIT, st.booleans(), st.booleans())
UNSURE = 2e-6
"""What rounding may cost."""


@given(st.builds(Factors, st.none() | ANY, ANY, ANY, ANY, st.booleans(), st.booleans()))
def test_the_confidence_is_between_0_and_1_whatever_the_evidence(factors: Factors) -> None:
    assert 0 <= composite(factors) <= 1


@given(FACTORS)
def test_a_conflict_halves(factors: Factors) -> None:
    whole = composite(replace(factors, conflict=False))
    assert composite(replace(factors, conflict=True)) == pytest.approx(whole / 2, abs=UNSURE)


@given(FACTORS)
def test_going_on_without_retrieval_costs_three_tenths(factors: Factors) -> None:
    whole = composite(replace(factors, retrieval_failed=False))
    assert composite(replace(factors, retrieval_failed=True)) == pytest.approx(0.7 * whole, abs=UNSURE)


@pytest.mark.parametrize("name", ["source_quality", "context_completeness", "tool_success_rate"])
@given(factors=FACTORS, values=st.tuples(UNIT, UNIT))
def test_better_evidence_never_makes_less_sure(name: str, factors: Factors, values: tuple[float, float]) -> None:
    worse, better = (composite(Factors(**{**asdict(factors), name: value})) for value in sorted(values))
    assert worse <= better


@given(FACTORS, st.tuples(UNIT, UNIT))
def test_a_more_complex_query_never_makes_surer(factors: Factors, values: tuple[float, float]) -> None:
    simple, complicated = (composite(replace(factors, query_complexity=value)) for value in sorted(values))
    assert complicated <= simple


@pytest.mark.parametrize(
    ("worst", "best"),
    [
        (Factors(0, 1, 0, 0), Factors(1, 0, 1, 1)),
        (Factors(None, 1, 0, 0), Factors(None, 0, 1, 1)),
    ],
)
def test_the_worst_evidence_is_0_and_the_best_1_with_and_without_a_source(worst: Factors, best: Factors) -> None:
    assert (composite(worst), composite(best)) == (0, 1)


@given(UNIT, UNIT, UNIT)
def test_a_source_as_good_as_the_rest_is_worth_as_much_as_none(simple: float, context: float, tools: float) -> None:
    without = Factors(None, simple, context, tools)
    assert composite(replace(without, source_quality=composite(without))) == pytest.approx(
        composite(without), abs=UNSURE
    )


@pytest.mark.parametrize(
    ("factors", "sure", "means"),
    [
        (Factors(0.95, 0.1, 0.8), 0.905, Level.HIGH),
        (Factors(0.7, 0.4, 0.6), 0.71, Level.MEDIUM),
        (Factors(0.6, 0.8, 0.5), 0.57, Level.MEDIUM),
    ],
)
def test_the_designs_flows_come_to_what_its_formula_gives(factors: Factors, sure: float, means: Level) -> None:
    assert composite(factors) == pytest.approx(sure)
    assert level(composite(factors), Thresholds()) is means


def test_a_threshold_itself_belongs_above() -> None:
    below = [level(value, Thresholds()) for value in (0.749999, 0.499999)]
    assert [level(0.75, Thresholds()), level(0.5, Thresholds()), *below] == ["high", "medium", "medium", "low"]


@pytest.mark.parametrize(("high", "low"), [(0.5, 0.75), (1.1, 0.5), (0.75, 0.0), (0.75, -1.0), (nan, 0.5), (inf, 0.5)])
def test_thresholds_that_make_no_sense_are_refused(high: float, low: float) -> None:
    with pytest.raises(ValueError, match="thresholds"):
        Thresholds(high, low)


def test_each_thing_that_is_known_of_who_asks_counts_alike() -> None:
    nothing = context_completeness(lead=False, history=False, intent=False)
    ones = {
        context_completeness(lead=True, history=False, intent=False),
        context_completeness(lead=False, history=True, intent=False),
        context_completeness(lead=False, history=False, intent=True),
    }
    assert (nothing, len(ones)) == (0, 1)
    assert context_completeness(lead=True, history=True, intent=True) == 1


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_the_tools_success_is_a_share_and_none_that_ran_failed(succeeded: int, failed: int) -> None:
    rate = confidence.tool_success_rate(succeeded, failed)
    assert 0 <= rate <= 1
    assert (rate == 1) is (failed == 0)
