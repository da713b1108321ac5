"""Calibration: the distance between confidences and outcomes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.decisions.reports import BINS, CalibrationBin, calibrate


def test_scores_match_a_manual_calculation() -> None:
    found = calibrate([(0.9, True), (0.8, True), (0.85, False), (0.3, False), (0.35, True)])
    assert found
    # The squares 0.01, 0.04, 0.7225, 0.09 and 0.4225, divided by five.
    assert found.brier == pytest.approx(0.257)
    # Two at 0.325 and two at 0.825, half of each right, and one right one at 0.9: 0.35, 0.65 and
    # 0.1, divided by five.
    assert found.ece == pytest.approx(0.22)
    assert [each.count for each in found.bins] == [2, 2, 1]
    assert [each.confidence for each in found.bins] == pytest.approx([0.325, 0.825, 0.9])


def test_bound_belongs_to_the_upper_bin_and_1_to_the_last() -> None:
    found = calibrate([(1.0, True), (0.9, True), (0.5, False)])
    assert found
    assert found.bins == (
        CalibrationBin(0.5, 0.6, 1, 0.5, 0.0),
        CalibrationBin(0.9, 1.0, 2, 0.95, 1.0),
    )


def test_no_cases_have_no_calibration() -> None:
    assert calibrate([]) is None


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=200))
def test_scores_are_bounded_and_every_case_is_in_one_bin(cases: list[tuple[float, bool]]) -> None:
    found = calibrate(cases)
    reordered = calibrate(sorted(cases))
    assert found
    assert reordered
    assert (found.brier, found.ece) == pytest.approx((reordered.brier, reordered.ece))
    assert 0 <= found.brier <= 1
    assert 0 <= found.ece <= 1 + 1e-9
    assert sum(each.count for each in found.bins) == found.count == len(cases)
    assert len(found.bins) <= BINS
    assert all(each.low - 1e-9 <= each.confidence <= each.high + 1e-9 for each in found.bins)
