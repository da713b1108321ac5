"""How far confidences are from what came of them: against sums made by hand, and what holds of any."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.decisions.calibration import BINS, Bin, calibration

cases = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=200)


def test_scores_are_those_that_were_computed_by_hand() -> None:
    found = calibration([(0.9, True), (0.8, True), (0.85, False), (0.3, False), (0.35, True)])
    assert found
    # By hand: the squares 0.01, 0.04, 0.7225, 0.09 and 0.4225, through five.
    assert found.brier == pytest.approx(0.257)
    # Two at 0.325 and two at 0.825, half of each right, and one at 0.9 that is: 0.35, 0.65 and 0.1 through five.
    assert found.ece == pytest.approx(0.22)
    assert [each.count for each in found.bins] == [2, 2, 1]
    assert [each.confidence for each in found.bins] == pytest.approx([0.325, 0.825, 0.9])
    assert [each.right for each in found.bins] == [0.5, 0.5, 1.0]
    assert (found.bins[0].low, found.bins[0].high) == (0.3, 0.4)


def test_nothing_has_no_calibration() -> None:
    assert calibration([]) is None


def test_the_best_and_the_worst_are_zero_and_one() -> None:
    best, worst = calibration([(1.0, True), (0.0, False)]), calibration([(0.0, True), (1.0, False)])
    assert best
    assert worst
    assert (best.brier, best.ece, worst.brier, worst.ece) == (0, 0, 1, 1)


def test_a_whole_one_is_in_the_last_bin_and_a_bound_in_the_upper_one() -> None:
    found = calibration([(1.0, True), (0.9, True), (0.5, False)])
    assert found
    assert found.bins == (Bin(0.5, 0.6, 1, 0.5, 0.0), Bin(0.9, 1.0, 2, 0.95, 1.0))


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 20)), min_size=1, max_size=9))
def test_who_is_right_as_often_as_they_say_has_no_calibration_error(said: list[tuple[int, int]]) -> None:
    made = [(tenths / 10, place < tenths) for tenths, often in said for _ in range(often) for place in range(10)]
    found = calibration(made)
    assert found
    assert found.ece == pytest.approx(0, abs=1e-9)


@given(cases)
def test_scores_are_bounded_and_every_case_is_in_one_bin(made: list[tuple[float, bool]]) -> None:
    found = calibration(made)
    assert found
    assert 0 <= found.brier <= 1
    assert 0 <= found.ece <= 1 + 1e-9
    assert sum(each.count for each in found.bins) == found.count == len(made)
    assert len(found.bins) <= BINS
    assert all(each.low - 1e-9 <= each.confidence <= each.high + 1e-9 for each in found.bins)


@given(cases)
def test_the_order_of_cases_does_not_matter(made: list[tuple[float, bool]]) -> None:
    mixed = sorted(made, key=lambda each: (each[1], -each[0]))
    one, other = calibration(made), calibration(mixed)
    assert one
    assert other
    assert (one.brier, one.ece) == pytest.approx((other.brier, other.ece))
