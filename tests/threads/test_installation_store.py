"""A worker notices a restore from a backup when it starts."""

import time
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import insert, select, text

from tests.support.postgres import Postgres
from threadline.db.engine import Database
from threadline.threads.contract import LOOK_BACK
from threadline.threads.installation_store import InstallationStore, RestoreWindow
from threadline.threads.store import PostStore
from threadline.threads.tables import installation_places

NOW = 2_000_000_000.0


async def notice(database: Database, temporal_id: str = "namespace-1", now: float = NOW) -> bool:
    async with database.begin() as tx:
        return await InstallationStore(tx).notice(temporal_id, now)


async def window(database: Database, now: float = NOW) -> RestoreWindow | None:
    async with database.begin() as tx:
        return await InstallationStore(tx).restore_window(now)


async def test_a_new_installation_and_its_restarts_are_no_restore(database: Database) -> None:
    assert [await notice(database) for _ in range(3)] == [False, False, False]
    assert await window(database) is None


@pytest.mark.parametrize(("before", "after"), [("", "namespace-1"), ("namespace-1", "")])
async def test_a_temporal_without_an_id_is_no_restore(
    database: Database, before: str, after: str
) -> None:
    assert not await notice(database, before)
    assert not await notice(database, after)
    assert await notice(database, "namespace-2")


async def test_a_new_temporal_is_noticed_once(database: Database) -> None:
    await notice(database)
    assert await notice(database, "namespace-2")
    assert not await notice(database, "namespace-2")
    assert await window(database) == RestoreWindow(NOW - LOOK_BACK, NOW)


async def test_the_window_begins_with_the_last_post_that_the_database_knows(
    database: Database,
) -> None:
    async with database.begin() as tx:
        claimed = await PostStore(tx).claim("BUG-1:intake:0", "C1", None)
    now = time.time()
    await notice(database, now=now)
    await notice(database, "namespace-2", now=now + 5)
    assert await window(database, now + 10) == RestoreWindow(claimed.claimed_at, now + 5)
    assert await window(database, now + 6 + LOOK_BACK) is None


@pytest.fixture
async def other(postgres: Postgres) -> AsyncIterator[Database]:
    """Another database with the same schema."""
    url = postgres.clone()
    other = Database(url)
    yield other
    await other.dispose()
    postgres.drop(url)


async def copy_rows(source: Database, target: Database) -> None:
    columns = select(
        *(installation_places.c[name] for name in ("database_id", "temporal_id", "noticed_at"))
    )
    async with source.begin() as tx:
        rows = (await tx.execute(columns.order_by(installation_places.c.id))).mappings().all()
    async with target.begin() as tx:
        await tx.execute(insert(installation_places), [dict(row) for row in rows])


async def test_a_copy_of_the_database_is_noticed(database: Database, other: Database) -> None:
    await notice(database)
    await copy_rows(database, other)
    assert await notice(other)
    assert not await notice(other)


async def test_tables_that_were_dropped_and_restored_are_noticed(other: Database) -> None:
    await notice(other)
    async with other.begin() as tx:
        await tx.execute(text("CREATE TABLE restored (LIKE installation_places INCLUDING ALL)"))
        await tx.execute(
            text(
                "INSERT INTO restored (database_id, temporal_id, noticed_at)"
                " SELECT database_id, temporal_id, noticed_at FROM installation_places"
            )
        )
        await tx.execute(text("DROP TABLE installation_places"))
        await tx.execute(text("ALTER TABLE restored RENAME TO installation_places"))
    assert await notice(other)
    assert not await notice(other)


async def test_the_admin_may_announce_a_restore_that_leaves_no_trace(database: Database) -> None:
    await notice(database)
    async with database.begin() as tx:
        await InstallationStore(tx).record_restore(NOW)
    assert await window(database) == RestoreWindow(NOW - LOOK_BACK, NOW)
    assert not await notice(database)
