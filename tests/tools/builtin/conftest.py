"""The real Postgres under the toolsets."""

from tests.postgres import database, database_url, postgres

__all__ = ["database", "database_url", "postgres"]
