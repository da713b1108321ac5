"""Puts what was found in one order, and says how good it is as a source. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from threadline.knowledge.model import Passage

DAMPING = 60
"""The constant of reciprocal rank fusion: the first places of one list don't drown those of the other.

See Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods"
(SIGIR 2009).
"""
UNLIKE, ALIKE = 0.2, 0.7
"""Cosines at and below which two texts have nothing to do with each other, and from which on they say the same.

Models differ; for the two that can be set, texts about different things stay below the first.
"""


def likeness(cosine: float) -> float:
    """What the cosine of two vectors says in [0, 1]: how much of a question a text meets."""
    return round(min(1.0, max(0.0, (cosine - UNLIKE) / (ALIKE - UNLIKE))), 4)


def fused(rankings: Sequence[Sequence[Passage]], limit: int) -> list[Passage]:
    """The passages of several rankings by the sum of 1 / (`DAMPING` + place), each once with the best of its scores.

    Of those that are as good, what comes first in the earlier ranking comes first.
    """
    sums: dict[Passage, float] = {}
    best: dict[Passage, float] = {}
    for ranking in rankings:
        for place, passage in enumerate(ranking, 1):
            bare = replace(passage, score=0.0)
            sums[bare] = sums.get(bare, 0.0) + 1 / (DAMPING + place)
            best[bare] = max(best.get(bare, 0.0), passage.score)
    order = sorted(sums, key=lambda each: -sums[each])
    return [replace(each, score=best[each]) for each in order[:limit]]


def quality(passages: Sequence[Passage]) -> float:
    """How good a source was found, in [0, 1]: the best product of a passage's score and its document's authority.

    1.0 where a document of full authority meets all of the question, 0 where nothing was found; never less for a
    higher score or authority, or for one passage more.
    """
    return round(max((_unit(each.score) * _unit(each.authority) for each in passages), default=0.0), 4)


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))
