"""Documents in Postgres, whose passages are found by words and by similar letters."""

from collections.abc import Sequence
from datetime import date

import pytest

from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.knowledge.documents import split_document
from threadline.knowledge.model import (
    MAX_CHARACTERS,
    Document,
    DocumentTerms,
    DocumentType,
    Passage,
    SearchQuery,
)
from threadline.knowledge.search import search
from threadline.knowledge.store import KnowledgeStore, StoredSource

TODAY = date(2026, 6, 1)


async def keep(database: Database, document: Document, team: str = "T1", root: str = "") -> None:
    async with database.begin() as tx:
        await KnowledgeStore(tx).save(
            team, document, split_document(document), StoredSource(root, "hash")
        )


async def ask(
    database: Database, question: str, limit: int = 5, types: tuple[DocumentType, ...] = ()
) -> Sequence[Passage]:
    return (
        await search(database, None, SearchQuery("T1", question, types, limit, TODAY))
    ).passages


async def test_document_replaces_the_one_of_the_same_source(database: Database) -> None:
    await keep(database, Document("Old", "a.md", "Cats purr."))
    await keep(database, Document(" New\n title", " a.md ", "Dogs bark.\r\n\r\nLoudly.\x00"))
    await keep(database, Document("Theirs", "a.md", "Birds sing."), "T2")
    async with database.begin() as tx:
        assert await KnowledgeStore(tx).documents("T1") == [
            Document("New title", "a.md", "Dogs bark.\n\nLoudly.")
        ]
    assert await ask(database, "cats") == ()
    [found] = await ask(database, "Which dog barks?")
    assert (found.title, found.section, found.text.split()) == (
        "New title",
        "",
        ["Dogs", "bark.", "Loudly."],
    )
    assert await ask(database, "birds") == ()
    async with database.begin() as tx:
        assert await KnowledgeStore(tx).delete("T1", "a.md")
        assert not await KnowledgeStore(tx).delete("T1", "a.md")
        assert await KnowledgeStore(tx).documents("T1") == []
        assert len(await KnowledgeStore(tx).documents("T2")) == 1
    assert await ask(database, "dogs") == ()


async def test_only_missing_documents_of_a_folder_are_deleted(database: Database) -> None:
    for source, root in (
        ("kb/a.md", "kb"),
        ("kb/b.md", "kb"),
        ("https://c", "kb/c.urls"),
        ("kb2/d.md", "kb2"),
    ):
        await keep(database, Document("T", source, "Text."), root=root)
    async with database.begin() as tx:
        assert await KnowledgeStore(tx).delete_missing("T2", "kb", []) == []
        assert await KnowledgeStore(tx).delete_missing("T1", "kb", ["kb/a.md"]) == [
            "https://c",
            "kb/b.md",
        ]
        assert list(await KnowledgeStore(tx).sources("T1")) == ["kb/a.md", "kb2/d.md"]


async def test_any_number_of_sources_can_be_kept(database: Database) -> None:
    for source in ("kb/a.md", "kb/b.md"):
        await keep(database, Document("T", source, "Text."), root="kb")
    sources = ["kb/a.md", *(f"kb/{number}.md" for number in range(33_000))]
    async with database.begin() as tx:
        assert await KnowledgeStore(tx).delete_missing("T1", "kb", sources) == ["kb/b.md"]


async def test_passage_with_most_of_the_words_comes_first(database: Database) -> None:
    texts = [
        "The invoice is sent by mail.",
        "An invoice with a wrong tax is corrected.",
        "Tax, tax, invoice.",
    ]
    for number, text in enumerate(texts):
        await keep(database, Document("Invoices", f"{number}.md", text))
    found = await ask(database, "What if the tax on my invoice is wrong?", limit=2)
    assert found[0].text == texts[1]
    assert found[0].score > found[1].score > 0
    assert len(found) == 2


async def test_title_or_heading_finds_its_passage(database: Database) -> None:
    await keep(
        database, Document("Parental leave", "p.md", "Ask the office.\n\n## Duration\n\nA week.")
    )
    assert [each.section for each in await ask(database, "parental leave")] == ["", "Duration"]
    assert [each.text for each in await ask(database, "duration")] == ["A week."]


async def test_mistyped_word_finds_its_passage_with_a_lower_score(database: Database) -> None:
    await keep(database, Document("Shipping", "s.md", "Parcels travel for free."))
    await keep(database, Document("Returns", "r.md", "Goods go back within thirty days."))
    [mistyped] = await ask(database, "parcles")
    [right] = await ask(database, "parcels")
    assert mistyped.source == right.source == "s.md"
    assert 0 < mistyped.score < right.score == 1


async def test_document_is_found_only_on_days_it_is_effective(database: Database) -> None:
    days = {
        "always.md": (None, None),
        "expired.md": (None, date(2026, 5, 31)),
        "last-day.md": (None, TODAY),
        "first-day.md": (TODAY, None),
        "not-yet.md": (date(2026, 6, 2), None),
    }
    for source, (effective, expires) in days.items():
        terms = DocumentTerms(DocumentType.PRICING, 1.0, effective, expires)
        await keep(database, Document("Price", source, "The plan costs 20 euros.", terms))
    found = {each.source for each in await ask(database, "What does the plan cost?")}
    assert found == {"always.md", "last-day.md", "first-day.md"}


async def test_types_narrow_the_search(database: Database) -> None:
    for each in DocumentType:
        await keep(database, Document("Plan", f"{each}.md", "The plan.", DocumentTerms.of(each)))
    wanted = (DocumentType.PRICING, DocumentType.FAQ)
    found = {each.type: each.authority for each in await ask(database, "plan", types=wanted)}
    assert found == {DocumentType.PRICING: 1.0, DocumentType.FAQ: 0.6}


@pytest.mark.parametrize("question", ["", "the of and", "' | & ! <-> :* ( \\", "\x00", '"', '-"a'])
async def test_question_without_words_finds_nothing(database: Database, question: str) -> None:
    await keep(database, Document("Plan", "p.md", "The plan & its price."))
    assert await ask(database, question) == ()


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (Document("", "a.md", "x"), "a.md needs"),
        (Document("A", " ", "x"), "needs"),
        (Document("A", "a.md", "\n \x00"), "a.md needs"),
        (Document("A", "a.md", "x" * (MAX_CHARACTERS + 1)), "split it"),
    ],
)
async def test_incomplete_or_too_large_document_is_refused(
    database: Database, document: Document, says: str
) -> None:
    with pytest.raises(Permanent, match=says):
        await keep(database, document)


async def test_largest_document_and_question_of_different_words_fit(database: Database) -> None:
    words = " ".join(f"{number:06}x" for number in range(MAX_CHARACTERS // 8))
    await keep(database, Document("All", "all.md", words))
    assert [each.source for each in await ask(database, words[:40_000])] == ["all.md"]
