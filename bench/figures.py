"""The result of a measurement: the figures of several runs, with a floor and a goal."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Aim = Literal["ratio at most", "ratio at least", "median at most", "largest at most"]


@dataclass(frozen=True)
class Figure:
    """The same quantity from several runs, in the order of the runs."""

    runs: tuple[float, ...]
    unit: str

    @property
    def median(self) -> float:
        return statistics.median(self.runs)

    @property
    def low(self) -> float:
        return min(self.runs)

    @property
    def high(self) -> float:
        return max(self.runs)


@dataclass(frozen=True)
class Goal:
    """A bound for a row's figures: a factor for a ratio, and in the row's unit otherwise."""

    aim: Aim
    bound: float

    @property
    def words(self) -> str:
        sign = "≥" if self.aim == "ratio at least" else "≤"
        return f"{sign} {self.bound:g}" + ("×" if self.aim.startswith("ratio") else "")


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Args:
        topic: its name on the command line, such as `gateway`.
        what: the quantity.
        ours: the product's figures.
        floor: figures of a minimal program for the same job, measured in turns with ours.
        beside: a description of that program.
        note: facts that a reader needs to read the line right.
    """

    topic: str
    what: str
    ours: Figure
    floor: Figure | None = None
    beside: str = ""
    goal: Goal | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """The median of the ratios of each round: a machine that slows down for a while slows
        both.
        """
        if self.floor is None:
            return None
        rounds = zip(self.ours.runs, self.floor.runs, strict=True)
        return statistics.median(ours / floor if floor else float("inf") for ours, floor in rounds)

    @property
    def met(self) -> bool | None:
        """Whether the goal was reached; None without a goal."""
        if self.goal is None:
            return None
        if self.goal.aim == "median at most":
            return self.ours.median <= self.goal.bound
        if self.goal.aim == "largest at most":
            return self.ours.high <= self.goal.bound
        ratio = self.ratio
        if ratio is None:
            raise ValueError(f"{self.what} has a goal for its ratio and no floor to compare with")
        return (
            ratio >= self.goal.bound
            if self.goal.aim == "ratio at least"
            else ratio <= self.goal.bound
        )


def pair(ours: Iterable[float], floor: Iterable[float], unit: str) -> tuple[Figure, Figure]:
    """Return the two figures of a row."""
    return Figure(tuple(ours), unit), Figure(tuple(floor), unit)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a `share` (0 to 1) of the values do not exceed, by the nearest
    rank.
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
