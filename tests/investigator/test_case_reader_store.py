"""The agent's tools read and keep records of one case only."""

import pytest

from tests.support.case_store import THREAD, Scene, edit, said, ts
from tests.support.identifiers import FOUND
from threadline.cases.model import Action, Service
from threadline.cases.store.case import CaseStore
from threadline.db.engine import Database
from threadline.errors import ClaimLost, Permanent
from threadline.investigator.store import CaseReader, TurnClaim
from threadline.slack.model import Thread
from threadline.threads.model import MessageKind

FINDING = ("Wrong boundary", "`>` should be `>=`", "shop/discounts.py", 12, "S2")


@pytest.fixture
async def reader(scene: Scene, agent_database: Database) -> CaseReader:
    await scene.opened(said(1, "with code SAVE10"))
    return CaseReader(agent_database, await scene.claim(1))


async def test_conversation_is_read_in_pages_with_edits_and_read_marks(
    scene: Scene, reader: CaseReader
) -> None:
    await scene.flush(edit(1, "with code SAVE20", 5), said(2, "and ten items"))
    first = await reader.conversation(None, 2)
    assert [entry.text for entry in first.entries] == [
        "The cart total is wrong",
        "with code SAVE20",
    ]
    second = await reader.conversation(first.next_cursor, 2)
    assert [(entry.seq, entry.text, entry.read) for entry in second.entries] == [
        (4, "and ten items", False)
    ]
    assert second.next_cursor is None
    with pytest.raises(Permanent, match="cursor"):
        await reader.conversation("BUG-2", 2)
    await scene.turn(1)
    await scene.flush(said(3, "new"))
    assert [entry.read for entry in (await reader.conversation(None, 9)).entries] == [
        True,
        True,
        True,
        False,
    ]


async def test_repeated_finding_is_kept_once_with_the_case(reader: CaseReader) -> None:
    for _ in range(2):
        await reader.record_finding(*FINDING)
    case = await reader.case()
    about = (case["bug_id"], case["status"], case["reporter_id"], case["questions_asked"])
    assert about == ("BUG-1", "investigating", "U1", 0)
    assert case["findings"] == ["Wrong boundary (shop/discounts.py:12): `>` should be `>=`"]


async def test_overtaken_attempt_keeps_no_finding(scene: Scene, reader: CaseReader) -> None:
    await scene.claim(1, attempt=2)
    with pytest.raises(ClaimLost):
        await reader.record_finding(*FINDING)
    assert (await reader.case())["findings"] == []


async def test_similar_cases_are_found_by_words_or_title(scene: Scene, reader: CaseReader) -> None:
    for at, words in (
        (100, "Discounts are not applied to large orders"),
        (200, "Login page is blank"),
    ):
        await scene.flush(
            said(at, words, kind=MessageKind.REPORT),
            thread=Thread(THREAD.team, THREAD.channel, ts(at)),
        )
    found = await reader.similar("discount is missing on an order of ten", 5)
    assert [case["bug_id"] for case in found] == ["BUG-2"]
    assert 0 < found[0]["similarity"] <= 1
    await scene.rows(
        "UPDATE cases SET title = 'Blank login page' WHERE bug_id = 'BUG-3' RETURNING id"
    )
    assert [case["title"] for case in await reader.similar("blank logn page", 5)] == [
        "Blank login page"
    ]
    assert await reader.similar("", 5) == []
    assert await reader.similar("' | ! & \x00 :*", 5) == []


async def test_identifiers_and_scripts_without_blanks_find_similar_cases(
    scene: Scene, reader: CaseReader
) -> None:
    wrong = []
    for number, (right, other, questions) in enumerate(FOUND):
        team = f"T_{number}"
        for at, words in ((0, "?"), (100, right), (200, other)):
            # The titles are equal, so that only the words decide.
            told = said(at, f"It fails.\n{words}", kind=MessageKind.REPORT, id=f"{team}:{at}")
            await scene.flush(told, thread=Thread(team, THREAD.channel, ts(at)))
        [first, asked_for, _] = await scene.rows(
            "SELECT bug_id FROM cases WHERE team = :team ORDER BY id", team=team
        )
        reader.bug_id = first["bug_id"]
        for question in questions:
            similar = [each["bug_id"] for each in await reader.similar(question, 5)]
            if similar[:1] != [asked_for["bug_id"]]:
                wrong.append((question, similar))
    assert wrong == []


async def test_similar_cases_of_another_workspace_are_not_found(
    scene: Scene, reader: CaseReader
) -> None:
    for team, at in (("T2", 100), (THREAD.team, 200)):
        words = said(at, "Discounts are not applied to large orders", kind=MessageKind.REPORT)
        await scene.flush(words, thread=Thread(team, THREAD.channel, ts(at)))
    found = await reader.similar("Discounts are not applied to large orders", 5)
    assert [case["bug_id"] for case in found] == ["BUG-3"]


async def test_similar_case_brings_its_last_summary(
    scene: Scene, agent_database: Database
) -> None:
    await scene.opened()
    await scene.turn(
        1, Action.POST_FINDINGS, result={"summary": "boundary at ten", "title": "Cart total"}
    )
    other = Thread(THREAD.team, THREAD.channel, ts(100))
    await scene.flush(
        said(100, "The total of my cart is wrong", kind=MessageKind.REPORT), thread=other
    )
    claim = await scene.agent.claim("BUG-2", 1, 1, "s", 60)
    assert isinstance(claim, TurnClaim)
    [similar] = await CaseReader(agent_database, claim).similar("cart total", 3)
    assert (similar["bug_id"], similar["summary"]) == ("BUG-1", "boundary at ten")


async def test_owners_are_looked_up_in_the_directory(scene: Scene, reader: CaseReader) -> None:
    cart = Service("cart", "Totals and discounts", "Team Basket", "#basket", "shop")
    old = Service("old", "", "", "", "")
    async with scene.database.begin() as tx:
        await CaseStore(tx).replace_services([old, cart])
        await CaseStore(tx).replace_services([cart])
        assert await CaseStore(tx).services() == [cart]
    assert await reader.services() == [cart]
    assert await reader.service("Cart") == cart
    assert await reader.service("nobody's") is None
