"""States of opportunities: made once, patched by whoever saw the newest version, and never half."""

import asyncio
from datetime import date
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.recording import AUTHOR, create, until_waited_for
from tests.support.tool_store import NOW, change
from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Rate, RateExceeded
from threadline.rfps.journal_entries import NewEntry
from threadline.rfps.model import RfpNotFound, RfpRefused, RfpStatus
from threadline.rfps.opportunity_state import OpportunityState, PatchRefused, StateMoved
from threadline.tools.operations import OperationReused

ID = "rfp_abc123"


@pytest.fixture(autouse=True)
async def rfp(database: Database) -> None:
    await create(database, rfp_id=ID)


async def patch(
    database: Database, given: Any, based_on: int = 1, call_id: str = "p1", **more: Any
) -> OpportunityState:
    async with database.begin() as work:
        return await work.opportunities.patch(change(call_id, **more), ID, given, based_on, AUTHOR)


async def state(database: Database) -> OpportunityState:
    async with database.begin() as work:
        return await work.opportunities.ensure_state_exists("T1", ID)


async def test_a_patch_changes_what_it_names_and_lists_show_it(database: Database) -> None:
    before = await state(database)
    given = {
        "status": "Proposal submitted",
        "due_date": "2026-04-01",
        "client": None,
        "budget": {"total": 1.0, "x": None},
    }
    after = await patch(database, given)
    assert after == await state(database)
    assert after.version == before.version + 1 == 2
    assert after.document == {
        "title": "Website relaunch",
        "status": "proposal_submitted",
        "due_date": "2026-04-01",
        "budget": {"total": 1.0},
    }
    assert (after.updated_by, after.correlation_id, after.updated_at.timestamp()) == ("U1", "corr-1", NOW)
    async with database.begin() as work:
        rfp = await work.rfps.get("T1", ID)
    assert (rfp.status, rfp.due_date, rfp.client) == (RfpStatus.PROPOSAL_SUBMITTED, date(2026, 4, 1), "")


async def test_a_repeated_call_hears_what_was_answered_and_changes_nothing(database: Database) -> None:
    first = await patch(database, {"a": 1})
    await patch(database, {"a": 2}, 2, "p2")
    assert await patch(database, {"a": 1}) == first
    assert (await state(database)).document["a"] == 2

    async def another_kind() -> None:
        async with database.begin() as work:
            await work.journal.append(change("p1"), ID, NewEntry("x"), AUTHOR)

    with pytest.raises(OperationReused):
        await another_kind()


async def test_a_patch_that_waited_for_another_sees_what_that_one_left(database: Database) -> None:
    async with database.begin() as work:
        first = await work.opportunities.patch(change("p1"), ID, {"a": 1}, 1, AUTHOR)
        second = asyncio.create_task(patch(database, {"a": 2}, 1, "p2"))
        await until_waited_for(work)
    with pytest.raises(StateMoved):
        await second
    assert await state(database) == first


async def test_of_two_patches_of_one_version_the_second_is_told_and_overwrites_nothing(database: Database) -> None:
    given = [patch(database, {"a": 1, "by": "one"}, 1, "p1"), patch(database, {"a": 2, "by": "two"}, 1, "p2")]
    outcomes = await asyncio.gather(*given, return_exceptions=True)
    lost = [each for each in outcomes if isinstance(each, StateMoved)]
    won = [each for each in outcomes if isinstance(each, OpportunityState)]
    assert (len(lost), len(won)) == (1, 1)
    assert lost[0].version == 2
    assert await state(database) == won[0]


async def test_whoever_lost_the_race_may_patch_the_newest_with_the_same_call(database: Database) -> None:
    await patch(database, {"a": 1}, 1, "p1")
    with pytest.raises(StateMoved, match=r"at version 2, and the patch was made from 1"):
        await patch(database, {"b": 1}, 1, "p2")
    after = await patch(database, {"b": 1}, 2, "p2")
    assert (after.version, after.document["a"], after.document["b"]) == (3, 1, 1)


async def test_of_many_that_patch_and_try_again_no_change_is_lost(database: Database) -> None:
    async def insist(name: str) -> None:
        while True:
            based_on = (await state(database)).version
            try:
                await patch(database, {name: True}, based_on, name)
            except StateMoved:
                continue
            return

    names = [f"n{number}" for number in range(8)]
    await asyncio.gather(*map(insist, names))
    after = await state(database)
    assert after.version == 9
    assert set(names) < set(after.document)


async def test_a_patch_that_says_what_stands_there_leaves_the_version(database: Database) -> None:
    await patch(database, {"flag": 1})
    assert (await patch(database, {"flag": 1, "status": "NEW"}, 2, "p2")).version == 2
    assert (await patch(database, {"flag": True}, 2, "p3")).version == 3, "true is not 1"


@pytest.mark.parametrize(
    ("given", "refused", "says"),
    [
        ([{"op": "add"}], PatchRefused, "a patch must be a JSON object"),
        ("status: won", PatchRefused, "a patch must be a JSON object"),
        (None, PatchRefused, "a patch must be a JSON object"),
        ({}, PatchRefused, "a patch must be a JSON object"),
        ({"notes": "x" * 1_000_000}, PatchRefused, "has 1,000,013 bytes, and the maximum is 64,000"),
        ({"a": {"b": [[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]}}, PatchRefused, "nests more than"),
        ({"status": "asleep"}, RfpRefused, "is not an RFP status"),
        ({"status": None}, RfpRefused, "needs a status"),
        ({"title": None}, RfpRefused, "needs a title"),
        ({"due_date": "tomorrow"}, RfpRefused, "is not a due date"),
        ({"owner": {"name": "x"}}, RfpRefused, "owner must be text"),
    ],
)
async def test_what_is_no_patch_is_refused_and_nothing_is_half_written(
    database: Database, given: object, refused: type[Exception], says: str
) -> None:
    before = await state(database)
    with pytest.raises(refused, match=says):
        await patch(database, given)
    assert await state(database) == before
    assert (await patch(database, {"a": 1})).version == 2, "the same call may be made again"


async def test_a_document_does_not_grow_beyond_its_bound(database: Database) -> None:
    for number in range(4):
        await patch(database, {f"n{number}": "x" * 60_000}, number + 1, f"p{number}")
    with pytest.raises(PatchRefused, match="the maximum is 256,000"):
        await patch(database, {"n5": "x" * 60_000}, 5, "p5")
    assert (await state(database)).version == 5


async def test_whatever_json_a_model_writes_comes_back(database: Database) -> None:
    given = {"nul\x00": "a\x00b", "half": "\ud800", "far": 1e300, "not": float("nan"), "deep": [{"n": None}], "é": "ü"}
    document = (await patch(database, given)).document
    expected = {"nul": "ab", "half": "?", "far": 1e300, "not": "nan", "deep": [{"n": None}], "é": "ü"}
    assert {name: document[name] for name in expected} == expected
    assert (await state(database)).document == document


async def test_ten_that_ensure_a_state_find_one(database: Database) -> None:
    async with database.begin() as work:
        await work.connection.execute(text("DELETE FROM opportunity_states"))
    found = await asyncio.gather(*(state(database) for _ in range(10)))
    assert all(each == found[0] for each in found)
    assert found[0].version == 1
    await patch(database, {"a": 1})
    assert (await state(database)).version == 2, "what is there stays"


async def test_the_state_of_another_team_or_of_nothing_is_not_found(database: Database) -> None:
    async with database.begin() as work:
        for team, rfp_id in (("T2", ID), ("T1", "rfp_abc124")):
            with pytest.raises(RfpNotFound):
                await work.opportunities.ensure_state_exists(team, rfp_id)
    with pytest.raises(RfpNotFound):
        await patch(database, {"a": 1}, team="T2")


async def test_a_state_is_changed_no_faster_than_its_rate(database: Database) -> None:
    rate = Rate(1, 60)
    await patch(database, {"a": 1}, 1, "p1", rate=rate)
    with pytest.raises(RateExceeded):
        await patch(database, {"a": 2}, 2, "p2", rate=rate)
    assert (await patch(database, {"a": 2}, 2, "p2", rate=rate, now=NOW + 61)).version == 3
