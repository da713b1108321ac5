"""States of opportunities: created once, and patched only from the newest version."""

import asyncio
from datetime import date
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.recording import create, until_waited_for
from tests.support.tool_store import NOW, change
from threadline.db.engine import Database
from threadline.rfps.model import (
    OpportunityState,
    RfpNotFound,
    RfpRefused,
    RfpStatus,
)
from threadline.rfps.store import RfpStore

ID = "rfp_abc123"


@pytest.fixture(autouse=True)
async def rfp(database: Database) -> None:
    await create(database, rfp_id=ID)


async def patch(
    database: Database, given: Any, based_on: int | None = 1, call_id: str = "p1", **more: Any
) -> OpportunityState:
    async with database.begin() as tx:
        return await RfpStore(tx).patch_state(change(call_id, **more), ID, given, based_on)


async def state(database: Database) -> OpportunityState:
    async with database.begin() as tx:
        return await RfpStore(tx).ensure_state_exists("T1", ID)


async def test_patch_changes_the_state_and_the_lists(database: Database) -> None:
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
    assert (after.updated_by, after.correlation_id, after.updated_at.timestamp()) == (
        "U1",
        "corr-1",
        NOW,
    )
    async with database.begin() as tx:
        rfp = await RfpStore(tx).get("T1", ID)
    assert (rfp.status, rfp.due_date, rfp.client) == (
        RfpStatus.PROPOSAL_SUBMITTED,
        date(2026, 4, 1),
        "",
    )


async def test_patch_without_a_version_is_made_on_the_newest_state(database: Database) -> None:
    async with database.begin() as tx:
        await RfpStore(tx).patch_state(change("p1"), ID, {"a": 1})
        second = asyncio.create_task(patch(database, {"b": 2}, None, "p2"))
        await until_waited_for(tx)
    after = await second
    assert (after.version, after.document["a"], after.document["b"]) == (3, 1, 2)


async def test_later_patch_of_one_version_is_refused_and_may_be_repeated(
    database: Database,
) -> None:
    async with database.begin() as tx:
        first = await RfpStore(tx).patch_state(change("p1"), ID, {"a": 1}, 1)
        second = asyncio.create_task(patch(database, {"a": 2, "b": 2}, 1, "p2"))
        await until_waited_for(tx)
    with pytest.raises(RfpRefused, match=r"version 2\b.* from 1"):
        await second
    assert await state(database) == first
    after = await patch(database, {"b": 2}, 2, "p2")
    assert (after.version, after.document["a"], after.document["b"]) == (3, 1, 2)


async def test_patch_without_a_change_keeps_the_version(database: Database) -> None:
    await patch(database, {"flag": 1})
    assert (await patch(database, {"flag": 1, "status": "NEW"}, 2, "p2")).version == 2
    assert (await patch(database, {"flag": True}, 2, "p3")).version == 3, "true is not 1"


@pytest.mark.parametrize(
    ("given", "refused", "says"),
    [
        (None, RfpRefused, "must be a JSON object"),
        ({}, RfpRefused, "must be a JSON object"),
        ({"notes": "x" * 1_000_000}, RfpRefused, "64,000"),
        ({"status": None}, RfpRefused, "status"),
        ({"owner": {"name": "x"}}, RfpRefused, "owner"),
    ],
)
async def test_bad_patch_is_refused_and_changes_nothing(
    database: Database, given: object, refused: type[Exception], says: str
) -> None:
    before = await state(database)
    with pytest.raises(refused, match=says):
        await patch(database, given)
    assert await state(database) == before
    assert (await patch(database, {"a": 1})).version == 2, "the same call may be made again"


async def test_document_has_a_maximum_size(database: Database) -> None:
    for number in range(4):
        await patch(database, {f"n{number}": "x" * 60_000}, number + 1, f"p{number}")
    with pytest.raises(RfpRefused, match="256,000"):
        await patch(database, {"n5": "x" * 60_000}, 5, "p5")
    assert (await state(database)).version == 5


async def test_any_json_of_a_model_comes_back(database: Database) -> None:
    given = {
        "nul\x00": "a\x00b",
        "half": "\ud800",
        "far": 1e300,
        "not": float("nan"),
        "deep": [{"n": None}],
        "é": "ü",
    }
    document = (await patch(database, given)).document
    expected = {
        "nul": "ab",
        "half": "?",
        "far": 1e300,
        "not": "nan",
        "deep": [{"n": None}],
        "é": "ü",
    }
    assert {name: document[name] for name in expected} == expected
    assert (await state(database)).document == document


async def test_concurrent_calls_ensure_one_state(database: Database) -> None:
    async with database.begin() as tx:
        await tx.execute(text("DELETE FROM opportunity_states"))
    found = await asyncio.gather(*(state(database) for _ in range(10)))
    assert all(each == found[0] for each in found)
    assert found[0].version == 1
    await patch(database, {"a": 1})
    assert (await state(database)).version == 2, "the existing state stays"


async def test_unknown_or_foreign_state_is_not_found(database: Database) -> None:
    async with database.begin() as tx:
        for team, rfp_id in (("T2", ID), ("T1", "rfp_abc124")):
            with pytest.raises(RfpNotFound):
                await RfpStore(tx).ensure_state_exists(team, rfp_id)
    with pytest.raises(RfpNotFound):
        await patch(database, {"a": 1}, team="T2")
