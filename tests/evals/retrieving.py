"""The questions, searched by the product's own retrieval over the sample documents in a real
Postgres.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tests.evals import metrics
from tests.evals.labelled import DOCUMENTS, Question, Questions
from tests.evals.metrics import Place
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.knowledge.ingest import collect_sources, ingest
from threadline.knowledge.model import SearchQuery, SearchResult
from threadline.knowledge.search import search
from threadline.knowledge.web import open_web_fetcher
from threadline.models.embeddings import Embedder
from threadline.settings import ModelSettings
from threadline.wiring.toolsets import configured_embedder
from threadline_devstack import environment, postgres
from threadline_devstack.processes import FreePorts, ProcessGroup

TEAM = "T1"


@dataclass(frozen=True)
class Answered:
    """The results for a question: by its words alone, and by words and meaning (None without a
    model).
    """

    question: Question
    by_words: SearchResult
    fused: SearchResult | None

    @property
    def place_by_words(self) -> Place:
        return _place(self.question, self.by_words)

    @property
    def place_fused(self) -> Place:
        return _place(self.question, self.fused) if self.fused else None


@dataclass(frozen=True)
class Measured:
    """`model` is the embedding model; empty for none."""

    answered: Sequence[Answered]
    model: str


@asynccontextmanager
async def own_postgres(folder: Path, machine: dict[str, str]) -> AsyncIterator[Database]:
    """Run a server for as long as the block runs, with its data in `folder`; `machine` is its
    environment.
    """
    family = ProcessGroup(folder)
    try:
        databases = await postgres.start(
            family, folder, FreePorts(usual=False), environment.pick(machine, environment.MACHINE)
        )
        database = Database(databases.owner, application="threadline-evals")
        try:
            yield database
        finally:
            await database.dispose()
    finally:
        await family.stop_all([])


async def measure(database: Database, asked: Questions) -> Measured:
    """Ingest the documents and ask all questions; vectors are those of THREADLINE_EMBEDDINGS.

    Raises:
        Permanent: a document is refused, or the embedding model cannot be used.
        Transient: the database is unavailable.
    """
    async with configured_embedder(ModelSettings.load()) as embedder:
        async with open_web_fetcher() as web:
            sources = collect_sources([DOCUMENTS], web.fetch)
            report = await ingest(database, TEAM, sources, embedder, lambda *_: None)
        if report.refusals or report.embedding_error:
            raise Permanent("\n".join([*report.refusals, report.embedding_error]).strip())
        answered = [await _ask(database, embedder, each, asked.as_of) for each in asked.all]
        return Measured(answered, embedder.model if embedder else "")


async def _ask(
    database: Database, embedder: Embedder | None, question: Question, on: date
) -> Answered:
    query = SearchQuery(TEAM, question.text, on=on)
    if not embedder:
        return Answered(question, await search(database, None, query), None)
    by_words, fused = await asyncio.gather(
        search(database, None, query), search(database, embedder, query)
    )
    if not fused.used_vectors:
        raise Permanent(
            "Vectors could not be compared: the log says why, or set THREADLINE_EMBEDDINGS=off."
        )
    return Answered(question, by_words, fused)


def _place(question: Question, found: SearchResult) -> Place:
    right = (f"{DOCUMENTS.name}/{question.document}", question.section)
    return metrics.place([(each.source, each.section) for each in found.passages], right)
