"""The real Postgres under the workflows that are recorded."""

from tests.workflows.conftest import pool

__all__ = ["pool"]
