"""The real Postgres under every test of the memory, and a scene to play a case in."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.db.scene import Scene
from tests.db.talking import Talking
from threadline.db.engine import Database
from threadline.db.values import agent_pool
from threadline.investigator.store import AgentTurns


@pytest.fixture
async def pool(agent_url: str) -> AsyncIterator[asyncpg.Pool]:
    async with agent_pool(agent_url) as pool:
        yield pool


@pytest.fixture
def scene(database: Database, pool: asyncpg.Pool) -> Scene:
    return Scene(database, AgentTurns(pool))


@pytest.fixture
def talk(database: Database) -> Talking:
    return Talking(database)


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[Talking]:
    """The same thread at another worker."""
    database = Database(database_url)
    yield Talking(database)
    await database.dispose()
