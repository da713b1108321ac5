"""The knowledge base as a library: each search is one unit of work."""

from collections.abc import Sequence
from datetime import date

from threadline.db.engine import Database
from threadline.decisions.model import Retrieval, Source
from threadline.knowledge.conflicts import suspicious
from threadline.knowledge.model import DocumentType, Passage, Query
from threadline.knowledge.search import Library, retrieve
from threadline.knowledge.tools import KnowledgeBase
from threadline.models.embeddings import Embedder


class Shelves(Library):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def by_words(self, query: Query, on: date, limit: int) -> Sequence[Passage]:
        async with self._database.begin() as work:
            return await work.passages.by_words(query, on, limit)

    async def by_meaning(
        self, query: Query, on: date, limit: int, model: str, vector: Sequence[float]
    ) -> Sequence[Passage] | None:
        async with self._database.begin() as work:
            return await work.passages.by_meaning(query, on, limit, model, vector)


class LookingUp:
    """What a decision wants to know, looked up; see `conversations/situation.py`."""

    def __init__(self, database: Database, embedder: Embedder | None = None) -> None:
        self._library = Shelves(database)
        self._embedder = embedder

    async def __call__(self, team: str, query: str, types: Sequence[str]) -> tuple[Sequence[Source], Retrieval]:
        """In documents of these types, and where those hold nothing on it, in all."""
        wanted = tuple(each for each in DocumentType if each in types)
        found = await retrieve(self._library, self._embedder, Query(team, query, wanted), else_all=True)
        pairs = tuple(suspicious(found.passages))
        return [_source(each) for each in found.passages], Retrieval(found.quality, suspicious=pairs)


class PostgresKnowledge(KnowledgeBase):
    """What the tool of questions looks into."""

    def __init__(self, database: Database, embedder: Embedder | None = None) -> None:
        self._library = Shelves(database)
        self._embedder = embedder

    async def passages(self, team: str, question: str) -> Sequence[Passage]:
        return (await retrieve(self._library, self._embedder, Query(team, question))).passages


def _source(passage: Passage) -> Source:
    return Source(passage.title, passage.section, passage.source, passage.type, passage.text, passage.score)
