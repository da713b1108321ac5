"""What a thread is about."""

import asyncio

import pytest

from tests.db.tooling import THREAD
from threadline.db.engine import Database
from threadline.domain.addressing import Thread


@pytest.mark.promise("record:binding:first-stands")
async def test_what_was_opened_first_stays_until_somebody_names_another(database: Database) -> None:
    async with database.begin() as work:
        assert await work.bindings.of(THREAD) == {}
        assert await work.bindings.bind_first(THREAD, "project", "PRJ-1", "U1") == "PRJ-1"
        assert await work.bindings.bind_first(THREAD, "project", "PRJ-2", "U1") == "PRJ-1"
        await work.bindings.bind(THREAD, "project", "PRJ-3", "U2")
        await work.bindings.bind(THREAD, "project", "PRJ-3", "U2")
        assert await work.bindings.bind_first(THREAD, "project", "PRJ-1", "U1") == "PRJ-3"
        assert await work.bindings.of(THREAD) == {"project": "PRJ-3"}


@pytest.mark.promise("record:binding:first-stands")
async def test_a_thread_is_about_one_record_of_each_kind(database: Database) -> None:
    async with database.begin() as work:
        await work.bindings.bind(THREAD, "project", "PRJ-1", "U1")
        await work.bindings.bind(THREAD, "ticket", "SHOP-7", "U1")
        assert await work.bindings.of(THREAD) == {"project": "PRJ-1", "ticket": "SHOP-7"}


@pytest.mark.promise("record:binding:first-stands")
async def test_threads_are_told_apart_by_team_channel_and_root(database: Database) -> None:
    others = [
        Thread("T2", THREAD.channel, THREAD.ts),
        Thread(THREAD.team, "C2", THREAD.ts),
        Thread(THREAD.team, THREAD.channel, "2"),
    ]
    async with database.begin() as work:
        for number, thread in enumerate((THREAD, *others)):
            await work.bindings.bind(thread, "project", f"PRJ-{number}", "U1")
        for number, thread in enumerate((THREAD, *others)):
            assert await work.bindings.of(thread) == {"project": f"PRJ-{number}"}


@pytest.mark.promise("record:binding:first-stands")
async def test_of_many_that_open_at_once_all_hear_of_the_same(database: Database) -> None:
    async def open_one(number: int) -> str:
        async with database.begin() as work:
            return await work.bindings.bind_first(THREAD, "project", f"PRJ-{number}", "U1")

    heard = await asyncio.gather(*(open_one(number) for number in range(20)))
    assert len(set(heard)) == 1
