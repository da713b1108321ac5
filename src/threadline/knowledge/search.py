"""Finds the passages of a team's documents that answer a question, by words and, with an embedder,
by meaning.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import structlog

from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.knowledge.conflicts import find_conflicts
from threadline.knowledge.model import (
    DocumentType,
    Passage,
    Retrieval,
    SearchQuery,
    SearchResult,
    Source,
)
from threadline.knowledge.store import KnowledgeStore
from threadline.models.embeddings import Embedder

MAX_QUESTION = 4_000
"""Characters of a question that are searched."""
EMBED_TIMEOUT = 5.0
"""Seconds for the vector of a question, so that both searches by words still fit into the time of
a look-up.
"""

_log = structlog.get_logger()


async def search(
    database: Database, embedder: Embedder | None, query: SearchQuery, *, or_all: bool = False
) -> SearchResult:
    """Return the passages that answer a question best, at most `query.limit`.

    If the embedder fails or takes longer than `EMBED_TIMEOUT`, logs a warning and only searches by
    words.

    Args:
        or_all: search all documents if those of the query's types have no passage.

    Raises:
        Permanent: the database refused the search.
        Transient: the database cannot be reached.
    """
    query = replace(
        query, text=query.text[:MAX_QUESTION].strip(), on=query.on or datetime.now(UTC).date()
    )
    if not query.text or query.limit < 1:
        return SearchResult()
    model = ""
    vector = None
    if embedder:
        try:
            async with asyncio.timeout(EMBED_TIMEOUT):
                [vector] = await embedder.embed([query.text])
                model = embedder.model
        except (Permanent, Transient, TimeoutError) as error:
            reason = str(error) or f"The model gave no answer within {EMBED_TIMEOUT:g} seconds."
            _log.warning("embedding_failed", model=embedder.model, error=reason)
    async with database.begin() as tx:
        store = KnowledgeStore(tx)
        passages, used_vectors = await store.search(query, model, vector)
        if or_all and query.types and not passages:
            passages, used_vectors = await store.search(replace(query, types=()), model, vector)
    return SearchResult(tuple(passages), source_quality(passages), used_vectors)


async def look_up(
    database: Database, embedder: Embedder | None, team: str, query: str, types: Sequence[str]
) -> tuple[Sequence[Source], Retrieval]:
    """Return the sources for a decision: documents of these types, or of all types if those have
    no passage.
    """
    wanted = tuple(each for each in DocumentType if each in types)
    found = await search(database, embedder, SearchQuery(team, query, wanted), or_all=True)
    sources = [
        Source(each.title, each.section, each.source, each.type, each.text, each.score)
        for each in found.passages
    ]
    return sources, Retrieval(found.quality, suspicious=tuple(find_conflicts(found.passages)))


def source_quality(passages: Sequence[Passage]) -> float:
    """Return the quality of the passages, in [0, 1]: the best product of a passage's score and its
    document's authority. A higher score, a higher authority or one more passage never lowers it.
    """
    return round(
        max((_unit(each.score) * _unit(each.authority) for each in passages), default=0.0), 4
    )


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))
