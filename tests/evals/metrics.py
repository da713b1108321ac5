"""Figures of a measurement. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

Place = int | None
"""The rank of the right result, from 1; None if it is missing."""

T = TypeVar("T")


def place(found: Iterable[T], right: T) -> Place:
    """Return the rank of the first right result."""
    return next((number for number, each in enumerate(found, 1) if each == right), None)


def recall(places: Sequence[Place], k: int) -> float:
    """Return the share of questions whose answer is among the first `k`, in [0, 1].

    Raises:
        ValueError: there are no questions.
    """
    return _share([each is not None and each <= k for each in places])


def mean_reciprocal_rank(places: Sequence[Place]) -> float:
    """Return the mean of 1 / rank, in [0, 1]; a missing answer counts 0.

    Raises:
        ValueError: there are no questions.
    """
    return _share([0.0 if each is None else 1 / each for each in places])


def share_right(pairs: Sequence[tuple[T, T]]) -> float:
    """Return the share of equal pairs of the right and the given value.

    Raises:
        ValueError: there are no pairs.
    """
    return _share([right == given for right, given in pairs])


def confusion(pairs: Iterable[tuple[T, T]]) -> Counter[tuple[T, T]]:
    """Return the number of occurrences of each pair of right and given value."""
    return Counter(pairs)


def _share(values: Sequence[float]) -> float:
    if not values:
        raise ValueError("there is nothing to measure")
    return sum(values) / len(values)
