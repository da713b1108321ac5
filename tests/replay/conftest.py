"""The real Postgres under the workflows that are recorded."""

from tests.workflows.conftest import agent_url, database, database_url, pool, postgres

__all__ = ["agent_url", "database", "database_url", "pool", "postgres"]
