"""The schema: one that the code knows, reached from anywhere, by any number of processes at once."""

import asyncio

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import NullPool, create_engine

from threadline.db.engine import Database, driver_url
from threadline.db.migrate import downgrade, is_current, upgrade
from threadline.db.tables import metadata
from threadline.errors import Transient


def tables_in(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace")
        return {row[0] for row in rows}


@pytest.mark.promise("replay:database:same-schema")
def test_the_tables_of_the_code_are_those_of_the_migrations(database_url: str) -> None:
    engine = create_engine(driver_url(database_url, "psycopg"), poolclass=NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []


@pytest.mark.promise("replay:database:same-schema")
async def test_many_processes_may_migrate_at_once_and_again(empty_url: str) -> None:
    assert not is_current(empty_url)
    await asyncio.gather(*(asyncio.to_thread(upgrade, empty_url) for _ in range(3)))
    assert is_current(empty_url)
    upgrade(empty_url)


@pytest.mark.promise("replay:database:same-schema")
def test_down_to_nothing_and_up_again_is_the_same_schema(database_url: str) -> None:
    before = tables_in(database_url)
    downgrade(database_url)
    assert tables_in(database_url) <= {"alembic_version", "alembic_version_pkc"}
    upgrade(database_url)
    assert tables_in(database_url) == before


def test_a_database_that_is_away_is_a_passing_trouble() -> None:
    with pytest.raises(Transient):
        upgrade("postgresql://nobody@/none?host=/nowhere")


async def test_the_core_calls_it_a_passing_trouble_as_well() -> None:
    database = Database("postgresql://nobody@/none?host=/nowhere")
    with pytest.raises(Transient):
        async with database.begin():
            pass
    await database.dispose()
