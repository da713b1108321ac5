"""Retrieval over a library and an embedder: what is fused, what fails quietly, and what is not asked at all."""

import asyncio
from collections.abc import Sequence
from datetime import date

import pytest
from structlog.testing import capture_logs

from threadline.errors import Permanent, Transient
from threadline.knowledge import search as retrieval
from threadline.knowledge.model import DocumentType, Found, Passage, Query
from threadline.knowledge.search import Embedder, Library, retrieve


def passage(name: str, score: float) -> Passage:
    return Passage("Title", name, f"{name}.md", DocumentType.POLICY, name, 1.0, score=score)


class Shelf(Library):
    """`like` None: it cannot compare."""

    def __init__(self, words: Sequence[Passage] = (), like: Sequence[Passage] | None = ()) -> None:
        self.words, self.like = words, like
        self.asked: list[tuple[str, date]] = []
        self.types: list[tuple[DocumentType, ...]] = []

    async def by_words(self, query: Query, on: date, limit: int) -> Sequence[Passage]:
        self.asked.append((query.text, on))
        self.types.append(query.types)
        return self.words

    async def by_meaning(
        self, query: Query, on: date, limit: int, model: str, vector: Sequence[float]
    ) -> Sequence[Passage] | None:
        return self.like


class Model(Embedder):
    """`hangs`: it never answers."""

    def __init__(self, error: Exception | None = None, *, hangs: bool = False) -> None:
        self.error, self.hangs, self.calls = error, hangs, 0

    @property
    def model(self) -> str:
        return "m"

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.error:
            raise self.error
        return [[1.0] for _ in texts]


async def test_words_and_meanings_are_fused_and_what_is_unlike_is_left_out() -> None:
    shelf = Shelf([passage("a", 0.5)], [passage("b", 0.7), passage("a", 0.45), passage("c", 0.1)])
    found = await retrieve(shelf, Model(), Query("T1", "what?"))
    assert [(each.section, each.score) for each in found.passages] == [("a", 0.5), ("b", 1.0)]
    assert (found.quality, found.fused) == (1.0, True)


async def test_what_words_have_found_is_ordered_by_meaning_however_unlike_it_is() -> None:
    shelf = Shelf([passage("a", 0.3), passage("b", 0.3), passage("c", 0.3)], [passage("c", 0.15), passage("d", 0.12)])
    found = await retrieve(shelf, Model(), Query("T1", "what?"))
    assert [(each.section, each.score) for each in found.passages] == [("c", 0.3), ("a", 0.3), ("b", 0.3)]


@pytest.mark.parametrize("error", [Transient("It is down."), Permanent("It refuses.")])
async def test_an_embedder_that_fails_leaves_the_words_and_a_line_in_the_log(error: Exception) -> None:
    with capture_logs() as logs:
        found = await retrieve(Shelf([passage("a", 0.5)], [passage("b", 0.7)]), Model(error), Query("T1", "what?"))
    assert (found.passages, found.quality, found.fused) == ((passage("a", 0.5),), 0.5, False)
    assert [(each["event"], each["log_level"], each["error"]) for each in logs] == [
        ("question_embedding_failed", "warning", str(error))
    ]


async def test_an_embedder_that_hangs_is_waited_for_once_however_often_is_looked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retrieval, "PATIENCE", 0.05)
    shelf, model, pricing = Shelf(), Model(hangs=True), (DocumentType.PRICING,)
    with capture_logs() as logs:
        async with asyncio.timeout(5):
            found = await retrieve(shelf, model, Query("T1", "what?", pricing), else_all=True)
    assert (found, model.calls, shelf.types) == (Found(), 1, [pricing, ()])
    assert [each["error"] for each in logs] == ["The model gave no answer within 0.05 seconds."]


async def test_all_documents_are_looked_through_where_those_of_the_types_hold_nothing_and_that_is_wanted() -> None:
    pricing, model = (DocumentType.PRICING,), Model()
    for shelf, else_all, types in (
        (Shelf(), True, [pricing, ()]),
        (Shelf(), False, [pricing]),
        (Shelf([passage("a", 0.5)]), True, [pricing]),
    ):
        await retrieve(shelf, model, Query("T1", "what?", pricing), else_all=else_all)
        assert shelf.types == types
    assert model.calls == 3, "one vector a question"


async def test_where_vectors_cannot_be_compared_words_are_what_is_found() -> None:
    found = await retrieve(Shelf([passage("a", 0.5)], None), Model(), Query("T1", "what?"))
    assert (len(found.passages), found.fused) == (1, False)


async def test_nothing_is_known_is_no_error() -> None:
    assert await retrieve(Shelf(), None, Query("T1", "what?")) == Found()
    assert await retrieve(Shelf(), Model(), Query("T1", "what?")) == Found(fused=True)


@pytest.mark.parametrize("query", [Query("T1", " \n"), Query("T1", "what?", limit=0)])
async def test_an_empty_question_asks_nobody(query: Query) -> None:
    shelf = Shelf([passage("a", 0.5)])
    assert await retrieve(shelf, Model(Transient("Not to be asked.")), query) == Found()
    assert shelf.asked == []


async def test_a_long_question_is_cut_and_the_day_is_the_one_that_is_asked_for() -> None:
    shelf = Shelf()
    await retrieve(shelf, None, Query("T1", "x" * 40_000, on=date(2026, 1, 1)))
    assert shelf.asked == [("x" * 4_000, date(2026, 1, 1))]
    await retrieve(shelf, None, Query("T1", "x", limit=1))
    assert shelf.asked[1][1] > date(2026, 1, 1)
