"""The real Postgres under every test of the memory, and a scene to play a case in."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.db.scene import Scene
from tests.postgres import agent_url, database, database_url, postgres
from threadline.db.agent_pool import agent_pool
from threadline.db.agent_turns import AgentTurns
from threadline.db.engine import Database

__all__ = ["agent_url", "database", "database_url", "postgres"]


@pytest.fixture
async def pool(agent_url: str) -> AsyncIterator[asyncpg.Pool]:
    async with agent_pool(agent_url) as pool:
        yield pool


@pytest.fixture
def scene(database: Database, pool: asyncpg.Pool) -> Scene:
    return Scene(database, AgentTurns(pool))
