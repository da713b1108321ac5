"""Changes are made once for each call, and no faster than their rate."""

import asyncio

import pytest
from pydantic import TypeAdapter
from sqlalchemy import text

from tests.support.tool_store import NOW, change
from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Rate, RateExceeded
from threadline.errors import Permanent
from threadline.tools.model import CallIdReused, Change

ID = "PRJ-1"
_NUMBER = TypeAdapter(int)


@pytest.fixture(autouse=True)
async def marks(database: Database) -> None:
    async with database.begin() as work:
        await work.tx.execute(text("CREATE TABLE marks (number serial)"))


async def mark(database: Database, made: Change, *, record: str = ID, kind: str = "mark", fails: bool = False) -> int:
    async with database.begin() as work:

        async def act() -> int:
            await work.operations.spend(made, record)
            if fails:
                raise Permanent("no such record")
            return int(await work.tx.scalar(text("INSERT INTO marks DEFAULT VALUES RETURNING number")) or 0)

        return await work.operations.once(made, kind, record, _NUMBER, act)


async def count(database: Database) -> int:
    async with database.begin() as work:
        return int(await work.tx.scalar(text("SELECT count(*) FROM marks")) or 0)


async def test_repeated_call_changes_nothing_twice(database: Database) -> None:
    numbers = await asyncio.gather(*(mark(database, change("c1")) for _ in range(15)))
    assert set(numbers) == {numbers[0]}
    assert await count(database) == 1


async def test_one_call_cannot_stand_for_two_changes(database: Database) -> None:
    await mark(database, change("c1"))
    with pytest.raises(CallIdReused):
        await mark(database, change("c1"), record="PRJ-2")
    with pytest.raises(CallIdReused):
        await mark(database, change("c1"), kind="another")


async def test_rate_limits_changes_and_refusals_are_free(database: Database) -> None:
    rate = Rate(2, 60)
    await mark(database, change("c1", rate=rate))
    with pytest.raises(Permanent, match="no such record"):
        await mark(database, change("bad", rate=rate), fails=True)
    await mark(database, change("c2", rate=rate))
    with pytest.raises(RateExceeded):
        await mark(database, change("c3", rate=rate))
    await mark(database, change("c2", rate=rate))
    await mark(database, change("c3", rate=rate, now=NOW + 61))
    assert await count(database) == 3


async def test_rate_holds_for_concurrent_changes(database: Database) -> None:
    made = [mark(database, change(f"c{n}", rate=Rate(3, 60))) for n in range(15)]
    outcomes = await asyncio.gather(*made, return_exceptions=True)
    assert sum(isinstance(outcome, int) for outcome in outcomes) == 3
    assert all(isinstance(outcome, int | RateExceeded) for outcome in outcomes)
    assert await count(database) == 3


@pytest.mark.parametrize("call_id", ["a\x00b", "half \ud800", "".join(map(chr, range(33, 40_033)))])
async def test_call_id_may_be_any_text(database: Database, call_id: str) -> None:
    made = change(call_id, rate=Rate(1, 60))
    first = await mark(database, made)
    assert await mark(database, made) == first, "the change was made once"
    with pytest.raises(RateExceeded):
        await mark(database, change(f"{call_id}.", rate=Rate(1, 60)))
    async with database.begin() as work:
        assert await work.operations.effect(made.operation)
        assert await work.operations.effect(change(f"{call_id}.").operation) is None


async def test_effect_is_found_by_its_key_until_it_is_deleted(database: Database) -> None:
    number = await mark(database, change("c1"))
    async with database.begin() as work:
        effect = await work.operations.effect(change("c1").operation)
        assert effect is not None
        assert (effect.kind, effect.record, effect.result) == ("mark", ID, number)
        assert await work.operations.effect(change("c2").operation) is None
        assert await work.operations.prune(NOW) == 0
        assert await work.operations.prune(NOW + 1) == 1
        assert await work.operations.effect(change("c1").operation) is None
