"""The real Postgres, and Temporal's real server with all that a case needs around it."""

from collections.abc import AsyncIterator

import pytest

from tests.limits.scene import LoadScene, laid_out
from threadline.db.engine import Database


@pytest.fixture
async def ground(database: Database, agent_database: Database) -> AsyncIterator[LoadScene]:
    async with laid_out(database, agent_database) as ground:
        yield ground
