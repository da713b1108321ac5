"""Errors of the database are transient or permanent."""

import asyncio

import pytest
from sqlalchemy import text

from threadline.cases.store.case import CaseStore
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient


async def test_cut_connection_is_transient_and_the_next_one_works(database: Database) -> None:
    async def cut_off() -> None:
        async with database.begin() as tx:
            pid = (await tx.execute(text("SELECT pg_backend_pid()"))).scalar_one()
            async with database.begin() as other:
                await other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
            await tx.execute(text("SELECT 1"))

    with pytest.raises(Transient):
        await cut_off()
    async with database.begin() as tx:
        assert (await tx.execute(text("SELECT 1"))).scalar_one() == 1


async def test_idle_connection_that_was_cut_is_not_used(database: Database) -> None:
    async def pid(held: asyncio.Barrier) -> int:
        async with database.begin() as tx:
            own = int((await tx.execute(text("SELECT pg_backend_pid()"))).scalar_one())
            await held.wait()
            return own

    both = asyncio.Barrier(2)
    before = await asyncio.gather(pid(both), pid(both))
    async with database.begin() as tx:
        cut = text(
            "SELECT pg_terminate_backend(pid, 5000) FROM unnest(CAST(:pids AS int[])) pid "
            "WHERE pid <> :own"
        )
        own = (await tx.execute(text("SELECT pg_backend_pid()"))).scalar_one()
        await tx.execute(cut, {"pids": before, "own": own})
    after = await asyncio.gather(pid(both), pid(both))
    assert set(before) & set(after) == {own}


async def test_deadlock_is_transient_for_the_loser(database: Database) -> None:
    ready = asyncio.Barrier(2)

    async def lock(first: int, second: int) -> None:
        async with database.begin() as tx:
            await tx.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": first})
            await ready.wait()
            await tx.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": second})

    results = await asyncio.gather(lock(1, 2), lock(2, 1), return_exceptions=True)
    assert [type(result) for result in results if result is not None] == [Transient]


async def test_fault_of_the_program_is_permanent_and_quotes_no_values(database: Database) -> None:
    async def ask() -> None:
        async with database.begin() as tx:
            await tx.execute(text("SELECT CAST(:v AS text) FROM nowhere"), {"v": "a secret"})

    with pytest.raises(Permanent) as caught:
        await ask()
    assert "secret" not in str(caught.value)
    assert "nowhere" in str(caught.value)


async def test_transaction_that_raises_writes_nothing(database: Database) -> None:
    async def fail() -> None:
        async with database.begin() as tx:
            await tx.execute(text("INSERT INTO services VALUES ('a', '', '', '', '')"))
            raise Permanent("on purpose")

    with pytest.raises(Permanent, match="on purpose"):
        await fail()
    async with database.begin() as tx:
        assert await CaseStore(tx).services() == []
