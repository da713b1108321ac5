"""The real Postgres under the properties of what is stored."""

from tests.postgres import database, database_url, postgres

__all__ = ["database", "database_url", "postgres"]
