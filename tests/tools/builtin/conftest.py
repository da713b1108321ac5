"""The real Postgres under the toolsets, and a scene in which cases are played."""

from collections.abc import AsyncIterator

import pytest

from tests.db.scene import Scene
from threadline.db.engine import Database
from threadline.db.values import agent_pool
from threadline.investigator.store import AgentTurns


@pytest.fixture
async def scene(database: Database, agent_url: str) -> AsyncIterator[Scene]:
    async with agent_pool(agent_url) as pool:
        yield Scene(database, AgentTurns(pool))
