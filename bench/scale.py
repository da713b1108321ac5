"""The amount of measuring: everything, a quick look during development, or just enough to see that
it works.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True)
class Scale:
    """An amount of measuring. `rounds` are the runs of each figure; `share` is the fraction of the
    full load, `sizes` the number of sizes.
    """

    name: str
    rounds: int
    share: float
    sizes: int

    def of(self, full: int, least: int = 1) -> int:
        """Return the scale's share of `full`, and no less than `least`."""
        return max(least, round(full * self.share))

    def some(self, *full: int) -> tuple[int, ...]:
        """Return the sizes to measure, smallest first: the large ones take the time."""
        return full[: self.sizes]


FULL = Scale("full", rounds=5, share=1.0, sizes=3)
QUICK = Scale("quick", rounds=2, share=0.15, sizes=2)
TINY = Scale("tiny", rounds=1, share=0.01, sizes=1)
SCALES = {scale.name: scale for scale in (FULL, QUICK, TINY)}


async def by_turns(
    rounds: int, ours: Callable[[], Awaitable[Value]], floor: Callable[[], Awaitable[Value]]
) -> tuple[list[Value], list[Value]]:
    """Measure both `rounds` times, in turns. The order alternates, so that a drift hits both."""
    of_ours: list[Value] = []
    of_floor: list[Value] = []
    for number in range(rounds):
        pair = [(ours, of_ours), (floor, of_floor)]
        for measure, kept in pair if number % 2 == 0 else reversed(pair):
            kept.append(await measure())
    return of_ours, of_floor
