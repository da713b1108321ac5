"""Figures of a measurement. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

Place = int | None
"""Where among the found the right one stands, from 1 on; None where it is missing."""

T = TypeVar("T")


def place(found: Iterable[T], right: T) -> Place:
    """Where the right one stands first."""
    return next((number for number, each in enumerate(found, 1) if each == right), None)


def recall(places: Sequence[Place], k: int) -> float:
    """The share of questions whose answer is among the first `k`, in [0, 1].

    Raises:
        ValueError: there are no questions.
    """
    return _share([each is not None and each <= k for each in places])


def mean_reciprocal_rank(places: Sequence[Place]) -> float:
    """The mean of 1 / place, in [0, 1]; what is missing counts 0.

    Raises:
        ValueError: there are no questions.
    """
    return _share([0.0 if each is None else 1 / each for each in places])


def share_right(pairs: Sequence[tuple[T, T]]) -> float:
    """Of pairs of what is right and what was given, the share that is equal.

    Raises:
        ValueError: there are no pairs.
    """
    return _share([right == given for right, given in pairs])


def confusion(pairs: Iterable[tuple[T, T]]) -> Counter[tuple[T, T]]:
    """How often what was given for what is right."""
    return Counter(pairs)


def _share(values: Sequence[float]) -> float:
    if not values:
        raise ValueError("there is nothing to measure")
    return sum(values) / len(values)
