"""The records that a thread is about."""

import asyncio

import pytest
from sqlalchemy import text

from tests.support.recording import create, explained
from tests.support.tool_store import THREAD
from threadline.db.engine import Database
from threadline.rfps.model import RfpNotFound
from threadline.rfps.store import RfpStore
from threadline.slack.model import Thread
from threadline.threads.store import ThreadBindingStore


async def test_first_binding_stays_until_a_user_names_another(database: Database) -> None:
    async with database.begin() as tx:
        assert await ThreadBindingStore(tx).of(THREAD) == {}
        assert await ThreadBindingStore(tx).bind_first(THREAD, "project", "PRJ-1", "U1") == "PRJ-1"
        assert await ThreadBindingStore(tx).bind_first(THREAD, "project", "PRJ-2", "U1") == "PRJ-1"
        await ThreadBindingStore(tx).bind(THREAD, "project", "PRJ-3", "U2")
        await ThreadBindingStore(tx).bind(THREAD, "project", "PRJ-3", "U2")
        assert await ThreadBindingStore(tx).bind_first(THREAD, "project", "PRJ-1", "U1") == "PRJ-3"
        assert await ThreadBindingStore(tx).of(THREAD) == {"project": "PRJ-3"}


async def test_each_thread_has_one_record_of_each_kind(database: Database) -> None:
    others = (
        Thread("T2", THREAD.channel, THREAD.ts),
        Thread("T1", "C2", THREAD.ts),
        Thread("T1", THREAD.channel, "2"),
    )
    async with database.begin() as tx:
        await ThreadBindingStore(tx).bind(THREAD, "ticket", "SHOP-7", "U1")
        for number, thread in enumerate((THREAD, *others)):
            await ThreadBindingStore(tx).bind(thread, "project", f"PRJ-{number}", "U1")
        assert await ThreadBindingStore(tx).of(THREAD) == {"project": "PRJ-0", "ticket": "SHOP-7"}
        for number, thread in enumerate(others, start=1):
            assert await ThreadBindingStore(tx).of(thread) == {"project": f"PRJ-{number}"}


async def test_concurrent_opens_get_the_same_record(database: Database) -> None:
    async def open_one(number: int) -> str:
        async with database.begin() as tx:
            return await ThreadBindingStore(tx).bind_first(
                THREAD, "project", f"PRJ-{number}", "U1"
            )

    opened = await asyncio.gather(*(open_one(number) for number in range(20)))
    assert len(set(opened)) == 1


async def test_new_binding_returns_the_earlier_record(database: Database) -> None:
    for rfp_id in ("rfp_abc123", "rfp_xyz789"):
        await create(database, rfp_id, rfp_id=rfp_id)
    async with database.begin() as tx:
        first, before = await RfpStore(tx).bind(THREAD, "RFP_abc123", "U1")
        assert (first.rfp_id, before) == ("rfp_abc123", None)
        for known in ("rfp_abc123", "rfp_xyz789"):
            _, before = await RfpStore(tx).bind(THREAD, "rfp_xyz789", "U1")
            assert before == known
        assert await ThreadBindingStore(tx).of(THREAD) == {"rfp": "rfp_xyz789"}


async def test_unknown_or_deleted_rfp_is_not_bound(database: Database) -> None:
    await create(database, rfp_id="rfp_abc123")
    await create(database, "gone", rfp_id="rfp_gone99")
    async with database.begin() as tx:
        await RfpStore(tx).delete("T1", "rfp_gone99")
        await RfpStore(tx).bind(THREAD, "rfp_abc123", "U1")
        with pytest.raises(RfpNotFound, match="rfp_abc123"):
            await RfpStore(tx).bind(THREAD, "rfp_abd123", "U1")
        with pytest.raises(RfpNotFound, match="deleted"):
            await RfpStore(tx).bind(THREAD, "rfp_gone99", "U1")
        with pytest.raises(RfpNotFound):
            await RfpStore(tx).bind(Thread("T2", "C1", "1"), "rfp_abc123", "U1")
        assert await ThreadBindingStore(tx).of(THREAD) == {"rfp": "rfp_abc123"}


async def test_concurrent_bindings_get_different_predecessors(database: Database) -> None:
    async def bind(number: int) -> str | None:
        async with database.begin() as tx:
            return await ThreadBindingStore(tx).bind(THREAD, "rfp", f"rfp_{number}", "U1")

    before = await asyncio.gather(*(bind(number) for number in range(10)))
    async with database.begin() as tx:
        last = (await ThreadBindingStore(tx).of(THREAD))["rfp"]
    assert sorted([*(each or "" for each in before), last]) == [
        "",
        *(f"rfp_{number}" for number in range(10)),
    ]


async def test_threads_of_a_record_are_found_by_index_the_latest_first(database: Database) -> None:
    threads = [Thread("T1", "C1", str(number)) for number in range(3)]
    for thread in (*threads, Thread("T2", "C1", "9")):
        async with database.begin() as tx:
            await ThreadBindingStore(tx).bind(thread, "rfp", "rfp_abc123", "U1")
    many = """
    INSERT INTO thread_bindings (team, channel, thread_ts, kind, record_id, bound_by)
    SELECT 'T1', 'C2', n::text, 'rfp', 'rfp_' || n, 'U1' FROM generate_series(1, 20000) n
    """
    async with database.begin() as tx:
        await tx.execute(text(many))
        await tx.execute(text("ANALYZE thread_bindings"))
    async with explained(database) as (tx, asked):
        assert await ThreadBindingStore(tx).threads_of("T1", "rfp", "rfp_abc123") == threads[::-1]
        assert await ThreadBindingStore(tx).threads_of("T1", "rfp", "rfp_abc123", 1) == [
            threads[2]
        ]
    assert all("thread_bindings_record_idx" in plan for plan in asked.plans), asked.plans
