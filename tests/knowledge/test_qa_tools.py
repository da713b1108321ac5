"""The tool qa.answer finds passages of the team's own documents with their source."""

import pytest

from tests.support.tool_scene import ToolScene
from threadline.db.engine import Database
from threadline.knowledge import tools as qa
from threadline.knowledge.documents import split_document
from threadline.knowledge.model import Document
from threadline.knowledge.store import KnowledgeStore

REFUNDS = Document(
    "Refunds",
    "handbook/refunds.md",
    (
        "# Refunds\n\nMoney goes back within five working days.\n\n# Vouchers\n\nA voucher is "
        "never paid out in cash."
    ),
)
SHIPPING = Document(
    "Shipping", "handbook/shipping.md", "Parcels of fifty euros and more travel for free."
)


@pytest.fixture
async def desk(database: Database) -> ToolScene:
    async with database.begin() as tx:
        secret = Document("Secret", "theirs.md", "Money is kept under the mattress.")
        for team, document in (("T1", REFUNDS), ("T1", SHIPPING), ("T2", secret)):
            await KnowledgeStore(tx).save(team, document, split_document(document))
    return ToolScene(database, qa.TOOLS)


@pytest.mark.parametrize(
    ("question", "source", "cite", "begins"),
    [
        ("Is a voucher paid in cash?", "handbook/refunds.md", "Refunds – Vouchers", "A voucher"),
        (
            "do large PARCELS travel free",
            "handbook/shipping.md",
            "Shipping",
            "Parcels of fifty euros",
        ),
    ],
)
async def test_question_finds_its_passage_and_source(
    desk: ToolScene, question: str, source: str, cite: str, begins: str
) -> None:
    result = await desk.ask("qa.answer", question=question)
    first = result.data["passages"][0]
    assert (first["source"], first["cite"]) == (source, cite)
    assert first["text"].startswith(begins)
    assert cite in result.display_text
    assert cite in result.sources


async def test_documents_of_another_team_are_not_found(desk: ToolScene) -> None:
    for team, found in (("T2", ["theirs.md"]), ("T1", [])):
        result = await desk.ask("qa.answer", question="mattress", team=team)
        assert [each["source"] for each in result.data["passages"]] == found
    assert "nothing" in result.display_text


@pytest.mark.parametrize("arguments", [{}, {"question": ""}, {"question": 7}])
async def test_question_is_required(desk: ToolScene, arguments: dict[str, object]) -> None:
    result = await desk.refused("qa.answer", **arguments)
    assert result.error
    assert "`question`" in result.error.message
