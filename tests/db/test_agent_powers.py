"""A login that somebody gave more than it needs is found."""

import asyncpg
import psycopg
import pytest

from threadline.db.agent_role import excess


async def test_the_login_as_it_is_migrated_has_nothing_too_much(pool: asyncpg.Pool) -> None:
    assert await excess(pool) == []


@pytest.mark.parametrize(
    ("grant", "told", "undo"),
    [
        ("GRANT SELECT ON cases TO threadline_agent", "it may read cases", ""),
        ("GRANT SELECT (title) ON cases TO PUBLIC", "it may read cases", ""),
        ("GRANT UPDATE (status) ON cases TO threadline_agent", "it may write to cases", ""),
        ("GRANT DELETE ON agent_cases TO threadline_agent", "it may write to agent_cases", ""),
        ("GRANT CREATE ON SCHEMA public TO threadline_agent", "it may create in the schema public", ""),
        (
            "CREATE FUNCTION peek() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'",
            "it may run peek() with the rights of its owner",
            "",
        ),
        (
            "GRANT pg_read_server_files TO threadline_agent",
            "it belongs to the role pg_read_server_files",
            "REVOKE pg_read_server_files FROM threadline_agent",
        ),
        ("ALTER ROLE threadline_agent CREATEDB", "it is a superuser, or may", "ALTER ROLE threadline_agent NOCREATEDB"),
    ],
)
async def test_what_was_granted_beyond_that_is_named(
    database_url: str, pool: asyncpg.Pool, grant: str, told: str, undo: str
) -> None:
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(grant.encode())
        try:
            assert told in " / ".join(await excess(pool))
        finally:
            if undo:  # a role belongs to the whole server
                owner.execute(undo.encode())
