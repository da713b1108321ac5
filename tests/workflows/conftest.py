"""The real Postgres under the workflows."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from threadline.db.values import agent_pool


@pytest.fixture
async def pool(agent_url: str) -> AsyncIterator[asyncpg.Pool]:
    async with agent_pool(agent_url) as pool:
        yield pool
