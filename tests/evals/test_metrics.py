"""The figures of a measurement, on ranks whose figures are known."""

import pytest

from tests.evals import metrics


@pytest.mark.parametrize(("k", "share"), [(1, 0.25), (2, 0.5), (4, 0.5), (5, 0.75), (100, 0.75)])
def test_recall_is_the_share_of_answers_among_the_first(k: int, share: float) -> None:
    assert metrics.recall([1, 2, 5, None], k) == share


def test_the_mean_reciprocal_rank_counts_a_missing_answer_as_zero() -> None:
    assert metrics.mean_reciprocal_rank([1, 2, 4, None]) == pytest.approx((1 + 1 / 2 + 1 / 4) / 4)
    assert metrics.mean_reciprocal_rank([1, 1]) == 1
    assert metrics.mean_reciprocal_rank([None]) == 0


def test_a_place_is_the_first_and_counts_from_one() -> None:
    assert metrics.place("abcb", "b") == 2
    assert metrics.place("abc", "d") is None
    assert metrics.place("", "a") is None


def test_shares_and_confusions_compare_right_and_given_values() -> None:
    pairs = [("a", "a"), ("a", "b"), ("a", "b"), ("b", "b")]
    assert metrics.share_right(pairs) == 0.5
    assert metrics.confusion(pairs) == {("a", "a"): 1, ("a", "b"): 2, ("b", "b"): 1}


def test_an_empty_measurement_has_no_figure() -> None:
    with pytest.raises(ValueError, match="nothing to measure"):
        metrics.recall([], 5)
    with pytest.raises(ValueError, match="nothing to measure"):
        metrics.mean_reciprocal_rank([])
    with pytest.raises(ValueError, match="nothing to measure"):
        metrics.share_right([])
