"""Finds what the team has written down about a question: by its words and, where a model embeds it, by its meaning."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Protocol

import structlog

from threadline.errors import Permanent, Transient
from threadline.knowledge import ranking
from threadline.knowledge.model import Found, Passage, Query
from threadline.models.embeddings import Embedder

CANDIDATES = 20
"""Passages of each ranking that are fused, at least: one that is good in both may be first in neither."""
_LONGEST_QUESTION = 4_000
"""Characters of a question that are looked for."""
PATIENCE = 5.0
"""Seconds for the vector of a question: with them, both looks and the words alone fit into what looking up may take."""

_log = structlog.get_logger()


class Library(Protocol):
    """Where passages are found that hold on a day; see `Query` in `knowledge/model.py`."""

    async def by_words(self, query: Query, on: date, limit: int) -> Sequence[Passage]:
        """The likest first; `score` is the share of the question's words that a passage has."""
        ...

    async def by_meaning(
        self, query: Query, on: date, limit: int, model: str, vector: Sequence[float]
    ) -> Sequence[Passage] | None:
        """The likest first; `score` is the cosine of both vectors. None where vectors cannot be compared."""
        ...


_Meaning = tuple[str, Sequence[float]]
"""A model, and the vector that it made of the question."""


async def retrieve(library: Library, embedder: Embedder | None, query: Query, *, else_all: bool = False) -> Found:
    """What has to do with a question, at most `query.limit` passages; nothing where nothing is known.

    An embedder that fails, or takes longer than `PATIENCE`, is told of in the log, and words alone are looked for.

    Args:
        else_all: where documents of the query's types hold nothing on it, all are looked through.

    Raises:
        Permanent, Transient: the library cannot be asked.
    """
    query = replace(query, text=query.text[:_LONGEST_QUESTION].strip())
    if not query.text or query.limit < 1:
        return Found()
    meaning = await _meaning(embedder, query.text) if embedder else None
    found = await _found(library, meaning, query)
    if else_all and query.types and not found.passages:
        return await _found(library, meaning, replace(query, types=()))
    return found


async def _found(library: Library, meaning: _Meaning | None, query: Query) -> Found:
    on = query.on or datetime.now(UTC).date()
    most = max(CANDIDATES, 4 * query.limit)
    by_words = await library.by_words(query, on, most)
    by_meaning = await library.by_meaning(query, on, most, *meaning) if meaning else None
    if by_meaning is None:
        best = tuple(by_words[: query.limit])
        return Found(best, ranking.quality(best))
    passages = tuple(ranking.fused([by_words, _likely(by_meaning, by_words)], query.limit))
    return Found(passages, ranking.quality(passages), fused=True)


def _likely(by_meaning: Sequence[Passage], by_words: Sequence[Passage]) -> list[Passage]:
    """Those with a likeness, and of the others those that words have found: they are there, and this orders them."""
    found = {replace(each, score=0.0) for each in by_words}
    likes = [replace(each, score=ranking.likeness(each.score)) for each in by_meaning]
    return [each for each in likes if each.score > 0 or each in found]


async def _meaning(embedder: Embedder, question: str) -> _Meaning | None:
    """None where it cannot be had, or not in time."""
    try:
        async with asyncio.timeout(PATIENCE):
            [vector] = await embedder.embed([question])
    except (Permanent, Transient, TimeoutError) as error:
        reason = str(error) or f"The model gave no answer within {PATIENCE:g} seconds."
        _log.warning("question_embedding_failed", model=embedder.model, error=reason)
        return None
    return embedder.model, vector
