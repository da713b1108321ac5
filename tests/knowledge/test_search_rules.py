"""Search over a library and an embedder: rankings are fused, and a failing embedder leaves the words."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from threadline.errors import Permanent, Transient
from threadline.knowledge import search
from threadline.knowledge.model import DocumentType, Found, Passage, Query, citations
from threadline.knowledge.ranking import fused, likeness, quality
from threadline.knowledge.search import Library, retrieve
from threadline.models.embeddings import Embedder

UNIT = st.floats(0, 1)
ASKED = Query("T1", "what?")


def passage(name: str, score: float = 0.0, authority: float = 1.0) -> Passage:
    return Passage("Title", name, f"{name}.md", DocumentType.FAQ, name, authority, score=score)


class Shelf(Library):
    """`like` None: vectors cannot be compared."""

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

    model = "m"

    def __init__(self, error: Exception | None = None, *, hangs: bool = False) -> None:
        self.error, self.hangs, self.calls = error, hangs, 0

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.error:
            raise self.error
        return [[1.0] for _ in texts]


def test_passage_in_both_rankings_comes_first() -> None:
    rankings = [[passage("a", 0.9), passage("b", 0.4)], [passage("c", 0.8), passage("b", 0.6)]]
    found = fused(rankings, 3)
    assert [(each.section, each.score) for each in found] == [("b", 0.6), ("a", 0.9), ("c", 0.8)]
    assert len(fused(rankings, 1)) == 1


def test_quality_is_score_times_authority_of_the_best() -> None:
    assert quality([passage("a", 1.0)]) == 1.0
    assert quality([passage("a", 0.7, 0.7)]) == 0.49
    assert quality([passage("a", 0.0)]) == quality([]) == 0.0


@given(st.lists(st.builds(passage, st.sampled_from("abcde"), UNIT, UNIT), max_size=6), UNIT, st.integers(0, 5))
def test_quality_is_bounded_and_never_falls_with_better_passages(
    passages: list[Passage], more: float, place: int
) -> None:
    before = quality(passages)
    assert 0 <= before <= 1
    assert quality([*passages, passage("new", more, more)]) >= before
    if place < len(passages):
        each = passages[place]
        for better in (replace(each, authority=max(each.authority, more)), replace(each, score=max(each.score, more))):
            assert quality([*passages[:place], better, *passages[place + 1 :]]) >= before


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_likeness_is_bounded_and_grows_with_the_cosine(one: float, other: float) -> None:
    lower, higher = sorted((one, other))
    assert 0 <= likeness(lower) <= likeness(higher) <= 1


def test_citation_names_title_and_section_once() -> None:
    bare = replace(passage(""), section="")
    assert citations([passage("a"), passage("a", 0.5), bare]) == ["Title – a", "Title"]


async def test_words_and_meanings_are_fused_without_unlike_passages() -> None:
    shelf = Shelf([passage("a", 0.5)], [passage("b", 0.7), passage("a", 0.45), passage("c", 0.1)])
    found = await retrieve(shelf, Model(), ASKED)
    assert [(each.section, each.score) for each in found.passages] == [("a", 0.5), ("b", 1.0)]
    assert (found.quality, found.fused) == (1.0, True)


async def test_passages_found_by_words_are_ordered_by_meaning() -> None:
    shelf = Shelf([passage("a", 0.3), passage("b", 0.3), passage("c", 0.3)], [passage("c", 0.15), passage("d", 0.12)])
    found = await retrieve(shelf, Model(), ASKED)
    assert [(each.section, each.score) for each in found.passages] == [("c", 0.3), ("a", 0.3), ("b", 0.3)]


@pytest.mark.parametrize("error", [Transient("It is down."), Permanent("It refuses.")])
async def test_failing_embedder_leaves_the_words_and_is_logged(error: Exception) -> None:
    with capture_logs() as logs:
        found = await retrieve(Shelf([passage("a", 0.5)], [passage("b", 0.7)]), Model(error), ASKED)
    assert (found.passages, found.quality, found.fused) == ((passage("a", 0.5),), 0.5, False)
    assert [(each["event"], each["log_level"], each["error"]) for each in logs] == [
        ("question_embedding_failed", "warning", str(error))
    ]


async def test_hanging_embedder_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "PATIENCE", 0.05)
    shelf, model, pricing = Shelf(), Model(hangs=True), (DocumentType.PRICING,)
    with capture_logs() as logs:
        async with asyncio.timeout(5):
            found = await retrieve(shelf, model, Query("T1", "what?", pricing), else_all=True)
    assert (found, model.calls, shelf.types) == (Found(), 1, [pricing, ()])
    assert "0.05 seconds" in logs[0]["error"]


async def test_all_types_are_searched_if_the_wanted_ones_hold_nothing() -> None:
    pricing, model = (DocumentType.PRICING,), Model()
    for shelf, else_all, types in (
        (Shelf(), True, [pricing, ()]),
        (Shelf(), False, [pricing]),
        (Shelf([passage("a", 0.5)]), True, [pricing]),
    ):
        await retrieve(shelf, model, Query("T1", "what?", pricing), else_all=else_all)
        assert shelf.types == types
    assert model.calls == 3, "one vector a question"


async def test_incomparable_vectors_leave_the_words() -> None:
    found = await retrieve(Shelf([passage("a", 0.5)], None), Model(), ASKED)
    assert (len(found.passages), found.fused) == (1, False)


async def test_empty_library_finds_nothing() -> None:
    assert await retrieve(Shelf(), None, ASKED) == Found()
    assert await retrieve(Shelf(), Model(), ASKED) == Found(fused=True)


@pytest.mark.parametrize("query", [Query("T1", " \n"), Query("T1", "what?", limit=0)])
async def test_empty_question_asks_nobody(query: Query) -> None:
    shelf, model = Shelf([passage("a", 0.5)]), Model()
    assert await retrieve(shelf, model, query) == Found()
    assert (shelf.asked, model.calls) == ([], 0)


async def test_long_question_is_cut_and_searched_on_its_day() -> None:
    shelf = Shelf()
    await retrieve(shelf, None, Query("T1", "x" * 40_000, on=date(2026, 1, 1)))
    assert shelf.asked == [("x" * 4_000, date(2026, 1, 1))]
    await retrieve(shelf, None, ASKED)
    assert shelf.asked[1][1] > date(2026, 1, 1)
