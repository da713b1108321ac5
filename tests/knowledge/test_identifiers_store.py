"""Identifiers, languages and scripts without blanks, as they are stored and found."""

from collections.abc import Iterable

import pytest

from tests.support.identifiers import FOUND, NOT_FOUND
from threadline.db.engine import Database
from threadline.knowledge.documents import split_document
from threadline.knowledge.languages import configuration
from threadline.knowledge.model import Document, SearchQuery, SearchResult
from threadline.knowledge.search import search
from threadline.knowledge.store import KnowledgeStore

RIGHT = "right.md"
OTHER = "other.md"


async def keep(database: Database, team: str, documents: Iterable[Document]) -> None:
    async with database.begin() as tx:
        for document in documents:
            await KnowledgeStore(tx).save(team, document, split_document(document))


def first(found: SearchResult) -> str:
    return found.passages[0].source if found.passages else ""


async def test_identifiers_and_scripts_without_blanks_are_found_in_any_spelling(
    database: Database,
) -> None:
    wrong = []
    for number, (right, other, questions) in enumerate(FOUND):
        team = f"T{number}"
        await keep(database, team, [Document("One", OTHER, other), Document("Two", RIGHT, right)])
        for question in questions:
            found = await search(database, None, SearchQuery(team, question))
            scores = {each.source: each.score for each in found.passages}
            if first(found) != RIGHT or scores[RIGHT] == scores.get(OTHER):
                wrong.append((question, scores))
    assert wrong == []


@pytest.mark.parametrize(("text", "question"), NOT_FOUND)
async def test_document_without_the_identifier_is_not_found(
    database: Database, text: str, question: str
) -> None:
    await keep(database, "T1", [Document("One", "a.md", text)])
    assert await search(database, None, SearchQuery("T1", question)) == SearchResult()


async def test_identifier_as_a_whole_scores_more_than_its_parts(database: Database) -> None:
    texts = {"whole": "ERR-4012", "parts": "4012 is an err", "one": "4012 seats", "none": "seats"}
    await keep(database, "T1", [Document("Text", source, text) for source, text in texts.items()])
    found = await search(database, None, SearchQuery("T1", "ERR4012"))
    assert [(each.source, each.score) for each in found.passages] == [
        ("whole", 1.0),
        ("parts", 0.9),
        ("one", 0.5143),
    ]


@pytest.mark.parametrize(
    ("language", "text", "question"),
    [
        ("de", "Die Rechnungen werden verschickt.", "Wann kommt meine Rechnung?"),
        ("fr", "Les remboursements prennent cinq jours.", "un remboursement"),
        ("es", "Las devoluciones tardan cinco días.", "devolución"),
        ("ru", "Возвраты занимают пять дней.", "возврат"),
        ("no", "Fakturaene sendes på mandag.", "faktura"),
        ("en", "Invoices are sent on Monday.", "invoicing"),
    ],
)
async def test_words_are_stemmed_in_the_language_of_their_document(
    database: Database, language: str, text: str, question: str
) -> None:
    await keep(database, "T1", [Document("T", "a.md", text, language=configuration(language))])
    await keep(database, "T1", [Document("T", "b.md", "Something else.")])
    assert first(await search(database, None, SearchQuery("T1", question))) == "a.md"


async def test_document_of_another_language_lowers_no_score(database: Database) -> None:
    await keep(database, "T1", [Document("T", "a.md", "The refund takes five days.")])
    question = SearchQuery("T1", "How long does the refund of a plan take?")
    [alone] = (await search(database, None, question)).passages
    await keep(
        database, "T1", [Document("T", "b.md", "Die Rechnung.", language=configuration("de"))]
    )
    assert (await search(database, None, question)).passages == (alone,)
