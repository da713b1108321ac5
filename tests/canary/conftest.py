"""The real Postgres beside the server that is searched."""

from tests.workflows.conftest import agent_url, database, database_url, pool, postgres

__all__ = ["agent_url", "database", "database_url", "pool", "postgres"]
