"""A rollback to a savepoint undoes all its changes, and a cancellation within it stays a
cancellation.
"""

import asyncio
from contextlib import suppress

import pytest
from sqlalchemy import text

from tests.support.temporal import until
from threadline.db.engine import Database, Transaction, current_savepoint, savepoint

MAKE = text("CREATE TEMPORARY TABLE marks (mark text)")
MARK = text("INSERT INTO marks VALUES (:mark)")
SLEEP = text("SELECT pg_sleep(30)")
SLEEPING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = "
    "current_database()"
)


async def marks(tx: Transaction) -> list[str]:
    return list((await tx.execute(text("SELECT mark FROM marks ORDER BY mark"))).scalars())


async def test_rollback_of_an_outer_savepoint_undoes_the_inner_ones(database: Database) -> None:
    async with database.begin() as tx:
        await tx.execute(MAKE)
        await tx.execute(MARK, {"mark": "before"})
        with suppress(KeyError):
            async with savepoint(tx):
                await tx.execute(MARK, {"mark": "outer"})
                with suppress(ZeroDivisionError):
                    async with savepoint(tx):
                        await tx.execute(MARK, {"mark": "inner"})
                        raise ZeroDivisionError
                assert await marks(tx) == ["before", "outer"]
                raise KeyError
        await tx.execute(MARK, {"mark": "behind"})
        assert await marks(tx) == ["before", "behind"]
        assert current_savepoint(tx) is None
        await tx.execute(text("DROP TABLE marks"))


async def test_cancellation_within_a_savepoint_stays_a_cancellation(database: Database) -> None:
    async def work() -> None:
        async with database.begin() as tx, savepoint(tx):
            await tx.execute(SLEEP)

    async def sleeping() -> bool:
        async with database.begin() as tx:
            return bool((await tx.execute(SLEEPING)).scalar_one())

    task = asyncio.create_task(work())
    await until(sleeping, "Postgres is in the midst of the statement")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with database.begin() as tx:
        assert current_savepoint(tx) is None
