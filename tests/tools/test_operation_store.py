"""Changes are made once for each call, and no faster than their rate."""

import asyncio
from collections.abc import Sequence
from decimal import Decimal

import pytest

from tests.support.tool_store import NOW, change
from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Rate, RateExceeded
from threadline.estimates.model import EstimateRefused, NewItem, ProjectNotFound, Role, WbsItem
from threadline.tools.operations import Change, OperationReused

DESIGN = NewItem("Design", "designer", Decimal("2.5"))
ID = "PRJ-1"


@pytest.fixture(autouse=True)
async def project(database: Database) -> None:
    async with database.begin() as work:
        await work.estimates.open_project("T1", "Web shop", "EUR")
        await work.estimates.save_role("T1", ID, Role("designer", Decimal(800)))


async def create(database: Database, made: Change, *items: NewItem, record: str = ID) -> list[WbsItem]:
    async with database.begin() as work:
        return await work.estimates.create_items(made, record, items)


async def items(database: Database) -> Sequence[WbsItem]:
    async with database.begin() as work:
        return await work.estimates.items("T1", ID)


async def test_unknown_project_is_not_found_whatever_its_id(database: Database) -> None:
    for record in ("PRJ-2", "PRJ-\x001 or another", "\ud800"):
        with pytest.raises(ProjectNotFound):
            await create(database, change("c1"), DESIGN, record=record)


async def test_one_call_cannot_stand_for_two_changes(database: Database) -> None:
    await create(database, change("c1"), DESIGN)
    with pytest.raises(OperationReused):
        await create(database, change("c1"), DESIGN, record="PRJ-2")
    with pytest.raises(OperationReused):
        async with database.begin() as work:
            await work.estimates.update_quote_totals(change("c1"), ID)


async def test_rate_limits_changes_and_refusals_are_free(database: Database) -> None:
    rate = Rate(2, 60)
    await create(database, change("c1", rate=rate), DESIGN)
    with pytest.raises(EstimateRefused):
        await create(database, change("bad", rate=rate), NewItem("x", "plumber", Decimal(1)))
    await create(database, change("c2", rate=rate), DESIGN)
    with pytest.raises(RateExceeded):
        await create(database, change("c3", rate=rate), DESIGN)
    assert len(await create(database, change("c2", rate=rate), DESIGN)) == 1
    await create(database, change("c3", rate=rate, now=NOW + 61), DESIGN)
    assert len(await items(database)) == 3


async def test_rate_holds_for_concurrent_changes(database: Database) -> None:
    made = [create(database, change(f"c{n}", rate=Rate(3, 60)), DESIGN) for n in range(15)]
    outcomes = await asyncio.gather(*made, return_exceptions=True)
    assert sum(isinstance(outcome, list) for outcome in outcomes) == 3
    assert all(isinstance(outcome, list | RateExceeded) for outcome in outcomes)
    assert len(await items(database)) == 3


@pytest.mark.parametrize("call_id", ["a\x00b", "half \ud800", "".join(map(chr, range(33, 40_033)))])
async def test_call_id_may_be_any_text(database: Database, call_id: str) -> None:
    made = change(call_id, rate=Rate(1, 60))
    first = await create(database, made, DESIGN)
    assert await create(database, made, DESIGN) == first, "the change was made once"
    with pytest.raises(RateExceeded):
        await create(database, change(f"{call_id}.", rate=Rate(1, 60)), DESIGN)
    async with database.begin() as work:
        assert await work.operations.effect(made.operation)
        assert await work.operations.effect(change(f"{call_id}.").operation) is None


async def test_effect_is_found_by_its_key_until_it_is_deleted(database: Database) -> None:
    await create(database, change("c1"), DESIGN)
    async with database.begin() as work:
        effect = await work.operations.effect(change("c1").operation)
        assert effect is not None
        assert (effect.kind, effect.record) == ("create_items", ID)
        assert effect.result == [{"number": 1, "title": "Design", "role": "designer", "days": "2.5"}]
        assert await work.operations.effect(change("c2").operation) is None
        assert await work.operations.prune(NOW) == 0
        assert await work.operations.prune(NOW + 1) == 1
        assert await work.operations.effect(change("c1").operation) is None
