"""Whether a confidence of 0.8 is right in eight of ten cases: Brier score, calibration error, reliability table. Pure.

The Brier score is Brier's of 1950 for two outcomes; the expected calibration error has bins of equal width.
"""

from collections.abc import Sequence
from dataclasses import dataclass

BINS = 10


@dataclass(frozen=True)
class Bin:
    """The cases with a confidence in [low, high), the last bin's in [low, 1]. `confidence` and `right` are means."""

    low: float
    high: float
    count: int
    confidence: float
    right: float


@dataclass(frozen=True)
class Calibration:
    """`brier` and `ece` in [0, 1], 0 is best; `bins` has those alone that hold a case."""

    count: int
    brier: float
    ece: float
    bins: tuple[Bin, ...]


def calibration(cases: Sequence[tuple[float, bool]]) -> Calibration | None:
    """How far confidences are from what came of them.

    Args:
        cases: a confidence in [0, 1], and whether it was right.

    Returns:
        None without any case.
    """
    if not cases:
        return None
    sorted_in: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for case in cases:
        sorted_in[min(int(case[0] * BINS), BINS - 1)].append(case)
    bins = tuple(_bin(place, held) for place, held in enumerate(sorted_in) if held)
    return Calibration(
        len(cases),
        sum((sure - right) ** 2 for sure, right in cases) / len(cases),
        sum(each.count * abs(each.right - each.confidence) for each in bins) / len(cases),
        bins,
    )


def _bin(place: int, held: Sequence[tuple[float, bool]]) -> Bin:
    confidence, right = sum(sure for sure, _ in held), sum(right for _, right in held)
    return Bin(place / BINS, (place + 1) / BINS, len(held), confidence / len(held), right / len(held))
