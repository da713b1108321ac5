"""The real Postgres beside the server that is searched."""

from tests.workflows.conftest import pool

__all__ = ["pool"]
