"""Changes happen once for each call, and no faster than their record may be changed."""

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


@pytest.mark.parametrize("record", ["PRJ-2", "", "PRJ-\x001 or another", "\ud800"])
async def test_a_project_that_is_not_there_is_not_found_whatever_its_id(database: Database, record: str) -> None:
    with pytest.raises(ProjectNotFound):
        await create(database, change("c1"), DESIGN, record=record)


async def test_one_call_cannot_stand_for_two_changes(database: Database) -> None:
    await create(database, change("c1"), DESIGN)
    with pytest.raises(OperationReused):
        await create(database, change("c1"), DESIGN, record="PRJ-2")

    async def another_kind() -> None:
        async with database.begin() as work:
            await work.estimates.update_quote_totals(change("c1"), ID)

    with pytest.raises(OperationReused):
        await another_kind()


async def test_a_project_is_changed_no_faster_than_its_rate_and_refusals_are_free(database: Database) -> None:
    rate = Rate(2, 60)
    await create(database, change("c1", rate=rate), DESIGN)
    with pytest.raises(EstimateRefused):
        await create(database, change("bad", rate=rate), NewItem("x", "plumber", Decimal(1)))
    await create(database, change("c2", rate=rate), DESIGN)
    with pytest.raises(RateExceeded, match="2 changes in 60 seconds"):
        await create(database, change("c3", rate=rate), DESIGN)
    assert len(await create(database, change("c2", rate=rate), DESIGN)) == 1
    await create(database, change("c3", rate=rate, now=NOW + 61), DESIGN)
    assert len(await items(database)) == 3


async def test_of_many_changes_at_once_no_more_than_the_rate_are_made(database: Database) -> None:
    made = [create(database, change(f"c{n}", rate=Rate(3, 60)), DESIGN) for n in range(15)]
    outcomes = await asyncio.gather(*made, return_exceptions=True)
    assert sum(isinstance(outcome, list) for outcome in outcomes) == 3
    assert all(isinstance(outcome, list | RateExceeded) for outcome in outcomes)
    assert len(await items(database)) == 3


@pytest.mark.parametrize("call_id", ["a\x00b", "half \ud800", "".join(map(chr, range(33, 40_033)))])
async def test_a_call_id_may_be_whatever_a_model_wrote(database: Database, call_id: str) -> None:
    made = change(call_id, rate=Rate(1, 60))
    first = await create(database, made, DESIGN)
    assert await create(database, made, DESIGN) == first, "the change was made once"
    with pytest.raises(RateExceeded):
        await create(database, change(f"{call_id}.", rate=Rate(1, 60)), DESIGN)
    async with database.begin() as work:
        assert await work.operations.effect(made.operation)
        assert await work.operations.effect(change(f"{call_id}.").operation) is None


async def test_the_effect_of_a_call_is_found_by_its_key_until_it_is_forgotten(database: Database) -> None:
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
