"""The knowledge base: documents by source, and passages by words."""

import pytest

from threadline.db.engine import Database
from threadline.db.knowledge import LARGEST
from threadline.domain.errors import Permanent
from threadline.domain.records import Document, Passage


async def test_a_document_replaces_what_was_known_from_its_source(database: Database) -> None:
    async with database.begin() as work:
        await work.knowledge.save("T1", Document("Old", "a.md", "Cats purr."))
        await work.knowledge.save("T1", Document(" New\n title", " a.md ", "Dogs bark.\r\n\r\nLoudly.\x00"))
        await work.knowledge.save("T2", Document("Theirs", "a.md", "Birds sing."))
        assert await work.knowledge.documents("T1") == [Document("New title", "a.md", "Dogs bark.\n\nLoudly.")]
        assert await work.knowledge.passages("T1", "cats") == []
        assert await work.knowledge.passages("T1", "Which dog barks?") == [Passage("New title", "a.md", "Dogs bark.")]
        assert await work.knowledge.forget("T1", "a.md")
        assert not await work.knowledge.forget("T1", "a.md")
        assert await work.knowledge.documents("T1") == []
        assert len(await work.knowledge.documents("T2")) == 1


@pytest.mark.promise("record:knowledge:with-its-source")
async def test_of_several_passages_the_likest_comes_first_and_no_more_than_wanted(database: Database) -> None:
    body = "\n\n".join(
        ["The invoice is sent by mail.", "An invoice with a wrong tax is corrected.", "Tax, tax, invoice."]
    )
    async with database.begin() as work:
        await work.knowledge.save("T1", Document("Invoices", "i.md", body))
        await work.knowledge.save("T1", Document("Mail", "m.md", "Letters."))
        found = await work.knowledge.passages("T1", "What if the tax on my invoice is wrong?", limit=2)
    assert found[0].text == "An invoice with a wrong tax is corrected."
    assert len(found) == 2


async def test_a_title_alone_finds_its_document(database: Database) -> None:
    async with database.begin() as work:
        await work.knowledge.save("T1", Document("Parental leave", "p.md", "Ask the office.\n\nIt takes a week."))
        assert [each.text for each in await work.knowledge.passages("T1", "parental leave")] == [
            "Ask the office.",
            "It takes a week.",
        ]


async def test_of_a_long_passage_the_places_with_the_words_are_given(database: Database) -> None:
    filler = "word " * 2_000
    async with database.begin() as work:
        await work.knowledge.save("T1", Document("Long", "l.md", f"{filler}the giraffe sleeps standing. {filler}"))
        [found] = await work.knowledge.passages("T1", "giraffe")
    assert "giraffe sleeps" in found.text
    assert len(found.text) < 3_000


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (Document("", "a.md", "x"), "a.md needs a title, a source and a text"),
        (Document("A", " ", "x"), "the document needs a title"),
        (Document("A", "a.md", "\n \x00"), "a.md needs"),
        (Document("A", "a.md", "x" * (LARGEST + 1)), "split it"),
    ],
)
async def test_what_is_no_document_is_refused_in_plain_words(database: Database, document: Document, says: str) -> None:
    async with database.begin() as work:
        with pytest.raises(Permanent, match=says):
            await work.knowledge.save("T1", document)


async def test_the_largest_document_of_words_that_all_differ_is_kept(database: Database) -> None:
    words = " ".join(f"{number:06}x" for number in range(LARGEST // 8))
    async with database.begin() as work:
        await work.knowledge.save("T1", Document("All", "all.md", words))
        assert [each.source for each in await work.knowledge.passages("T1", "000017x")] == ["all.md"]
