"""Search by words and vectors: the rankings are fused, and without the embedder words alone are
searched.
"""

import asyncio
import math
from collections.abc import Sequence
from datetime import date

import pytest
from structlog.testing import capture_logs

from tests.support.patience import patient
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.knowledge import search as search_module
from threadline.knowledge.documents import split_document
from threadline.knowledge.model import (
    Document,
    DocumentTerms,
    DocumentType,
    SearchQuery,
    SearchResult,
)
from threadline.knowledge.search import search
from threadline.knowledge.store import KnowledgeStore, StoredSource
from threadline.models.embeddings import Embedder, LocalEmbedder

ASKED = SearchQuery("T1", "walrus")


class Model(Embedder):
    """Each question has the vector [1, 0]. If it `hangs`, it never answers."""

    model = "small"

    def __init__(self, error: Exception | None = None, *, hangs: bool = False) -> None:
        self.error = error
        self.hangs = hangs
        self.texts = list[str]()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += texts
        if self.hangs:
            await asyncio.Event().wait()
        if self.error:
            raise self.error
        return [[1.0, 0.0] for _ in texts]


def at(cosine: float) -> list[float]:
    """A vector with this cosine to that of each question."""
    return [cosine, math.sqrt(max(0.0, 1 - cosine * cosine))]


async def keep(
    database: Database,
    source: str,
    words: str,
    vector: Sequence[float] | None = None,
    *,
    model: str = "small",
    terms: DocumentTerms | None = None,
) -> None:
    document = Document("Title", source, words, terms or DocumentTerms(DocumentType.FAQ, 1.0))
    stored = StoredSource(model=model if vector else "")
    async with database.begin() as tx:
        await KnowledgeStore(tx).save(
            "T1", document, split_document(document), stored, [vector] if vector else []
        )


def sources(found: SearchResult) -> list[str]:
    return [each.source for each in found.passages]


async def test_words_and_vectors_are_fused_without_unlike_passages(database: Database) -> None:
    await keep(database, "a", "The walrus.", at(0.45))
    await keep(database, "b", "The seal.", at(0.6))
    await keep(database, "c", "The lamp.", at(0.1))
    found = await search(database, Model(), ASKED)
    assert [(each.source, each.score) for each in found.passages] == [("a", 1.0), ("b", 0.8)]
    assert (found.quality, found.used_vectors) == (1.0, True)


async def test_passage_in_both_rankings_comes_first(database: Database) -> None:
    await keep(database, "a", "A walrus, a seal.")
    await keep(database, "b", "A walrus.", at(0.6))
    await keep(database, "c", "A lamp.", at(0.7))
    query = SearchQuery("T1", "walrus seal", limit=3)
    assert sources(await search(database, None, query)) == ["a", "b"]
    found = await search(database, Model(), query)
    assert [(each.source, each.score) for each in found.passages] == [
        ("b", 0.8),
        ("a", 1.0),
        ("c", 1.0),
    ]
    assert sources(await search(database, Model(), SearchQuery("T1", "walrus seal", limit=1))) == [
        "b"
    ]


async def test_passages_found_by_words_are_ordered_by_meaning(database: Database) -> None:
    for source, vector in (("a", None), ("b", None), ("c", at(0.15))):
        await keep(database, source, "The walrus.", vector)
    await keep(database, "d", "The lamp.", at(0.12))
    found = await search(database, Model(), ASKED)
    assert [(each.source, each.score) for each in found.passages] == [
        ("c", 1.0),
        ("a", 1.0),
        ("b", 1.0),
    ]


async def test_score_of_a_vector_is_bounded_and_grows_with_its_cosine(database: Database) -> None:
    cosines = (1.0, 0.7, 0.65, 0.5, 0.21, 0.2, 0.0, -1.0)
    for cosine in cosines:
        await keep(database, f"{cosine}", "The lamp.", at(cosine))
    found = await search(database, Model(), SearchQuery("T1", "walrus", limit=20))
    assert {each.source: each.score for each in found.passages} == {
        "1.0": 1.0,
        "0.7": 1.0,
        "0.65": 0.9,
        "0.5": 0.6,
        "0.21": 0.02,
    }


async def test_only_vectors_of_the_same_model_are_compared(database: Database) -> None:
    vectors = {
        "near": [0.9, 0.1],
        "far": [0.0, 1.0],
        "nothing": [0.0, 0.0],
        "longer": [1.0, 0.0, 0.0],
    }
    for source, vector in vectors.items():
        await keep(database, source, "Text.", vector)
    await keep(database, "other", "Text.", [1.0, 0.0], model="large")
    await keep(database, "none", "Text.")
    assert sources(await search(database, Model(), ASKED)) == ["near"]
    found = await search(database, Model(), SearchQuery("T1", "text", limit=10))
    assert sources(found) == ["far", "near", "longer", "none", "nothing", "other"]
    async with database.begin() as tx:
        assert (await KnowledgeStore(tx).sources("T1"))["near"] == StoredSource("", "", "small")


@pytest.mark.parametrize("error", [Transient("It is down."), Permanent("It refuses.")])
async def test_failing_embedder_leaves_the_words_and_is_logged(
    database: Database, error: Exception
) -> None:
    await keep(database, "a", "The walrus.", terms=DocumentTerms(DocumentType.FAQ, 0.5))
    await keep(database, "b", "The seal.", at(0.7))
    with capture_logs() as logs:
        found = await search(database, Model(error), ASKED)
    assert (sources(found), found.quality, found.used_vectors) == (["a"], 0.5, False)
    assert [(each["event"], each["log_level"], each["error"]) for each in logs] == [
        ("embedding_failed", "warning", str(error))
    ]


async def test_hanging_embedder_is_waited_for_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "EMBED_TIMEOUT", 0.05)
    await keep(database, "a", "The walrus.")
    model = Model(hangs=True)
    pricing = (DocumentType.PRICING,)
    with capture_logs() as logs:
        async with asyncio.timeout(patient(5)):
            found = await search(
                database, model, SearchQuery("T1", "walrus", pricing), or_all=True
            )
    assert (sources(found), found.used_vectors, model.texts) == (["a"], False, ["walrus"])
    assert "0.05 seconds" in logs[0]["error"]


async def test_all_types_are_searched_if_the_wanted_ones_hold_nothing(database: Database) -> None:
    model = Model()
    query = SearchQuery("T1", "walrus", (DocumentType.PRICING,))
    await keep(database, "faq", "The walrus.")
    assert sources(await search(database, model, query, or_all=True)) == ["faq"]
    assert sources(await search(database, model, query)) == []
    await keep(database, "pricing", "The walrus.", terms=DocumentTerms.of(DocumentType.PRICING))
    assert sources(await search(database, model, query, or_all=True)) == ["pricing"]
    assert len(model.texts) == 3, "one vector a question"


async def test_postgres_without_pgvector_finds_words(database: Database) -> None:
    await keep(database, "a", "The walrus.", [1.0, 0.0])
    async with database.begin() as tx:
        await tx.exec_driver_sql("DROP EXTENSION vector")
    found = await search(database, Model(), ASKED)
    assert (sources(found), found.used_vectors) == (["a"], False)


async def test_empty_knowledge_base_finds_nothing(database: Database) -> None:
    assert await search(database, None, ASKED) == SearchResult()
    assert await search(database, Model(), ASKED) == SearchResult(used_vectors=True)


@pytest.mark.parametrize("query", [SearchQuery("T1", " \n"), SearchQuery("T1", "walrus", limit=0)])
async def test_empty_question_makes_no_request(database: Database, query: SearchQuery) -> None:
    await keep(database, "a", "The walrus.")
    model = Model()
    await database.dispose()
    assert await search(database, model, query) == SearchResult()
    assert model.texts == []


async def test_long_question_is_cut(database: Database) -> None:
    model = Model()
    await search(database, model, SearchQuery("T1", "x" * 40_000))
    assert model.texts == ["x" * 4_000]


async def test_question_is_searched_on_its_day_or_today(database: Database) -> None:
    await keep(
        database,
        "old",
        "The walrus.",
        terms=DocumentTerms(DocumentType.FAQ, 1.0, None, date(2026, 1, 1)),
    )
    assert sources(
        await search(database, None, SearchQuery("T1", "walrus", on=date(2026, 1, 1)))
    ) == ["old"]
    assert (
        sources(await search(database, None, SearchQuery("T1", "walrus", on=date(2026, 1, 2))))
        == []
    )
    assert sources(await search(database, None, ASKED)) == []


@pytest.mark.parametrize("embedder", [None, Model()])
async def test_quoted_words_side_by_side_come_first(
    database: Database, embedder: Model | None
) -> None:
    await keep(database, "apart", "The fee is late, and the fee is late.")
    await keep(
        database, "together", "There is something that is called the late fee, among other things."
    )
    assert sources(await search(database, embedder, SearchQuery("T1", '"late fee"'))) == [
        "together",
        "apart",
    ]


async def test_local_model_finds_a_passage_without_its_words(database: Database) -> None:
    texts = {
        "refunds": "Customers can claim a refund within thirty days.",
        "cats": "Cats purr at night when they are fed.",
    }
    embedder = LocalEmbedder()
    asked = SearchQuery("T1", "How to get my money returned?")
    for source, words in texts.items():
        [vector] = await embedder.embed([f"{source.capitalize()}\n{words}"])
        await keep(database, source, words, vector, model=embedder.model)
    assert await search(database, None, asked) == SearchResult()
    assert await search(database, embedder, SearchQuery("T2", "refund")) == SearchResult(
        used_vectors=True
    )
    found = await search(database, embedder, asked)
    assert (sources(found), found.used_vectors) == (["refunds"], True)
    assert 0 < found.quality < 1
