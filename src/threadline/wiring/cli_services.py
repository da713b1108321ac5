"""What commands are given: the database that the environment names."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from threadline.db.engine import Database
from threadline.settings import DatabaseSettings


@asynccontextmanager
async def open_database() -> AsyncIterator[Database]:
    """The database for one command, which asks one thing at a time."""
    database = Database(DatabaseSettings.read().url.get_secret_value(), pool_size=1, application="threadline-cli")
    try:
        yield database
    finally:
        await database.dispose()
