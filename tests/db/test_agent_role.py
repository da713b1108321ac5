"""The agent's login has the rights that it needs and no others."""

from collections.abc import AsyncIterator

import asyncpg
import psycopg
import pytest

from tests.support.case_store import Scene
from threadline.db.agent_role import agent_database as connected_agent
from threadline.db.agent_role import excess_privileges
from threadline.db.columns import metadata
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient

FORBIDDEN = [
    "INSERT INTO services VALUES ('a', 'b', 'c', 'd', 'e')",
    "UPDATE agent_turns SET token = 0",
    "UPDATE agent_cases SET status = 'resolved'",
    "DELETE FROM agent_services",
    "CREATE TABLE pwn ()",
    "CREATE TEMPORARY TABLE pwn ()",
    "CREATE FUNCTION pwn() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "SELECT pg_read_file('/etc/passwd')",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "SELECT append_entries('p', 's', '', ARRAY[NULL], ARRAY['{}'])",
    "SELECT held_claim('BUG-1', 1, 1)",
    "SET ROLE postgres",
    "ALTER ROLE threadline_agent SUPERUSER",
    "CREATE ROLE pwn",
    "SELECT rolpassword FROM pg_authid",
]


@pytest.fixture
async def login(agent_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection with the agents' login."""
    connection = await asyncpg.connect(agent_url)
    yield connection
    await connection.close()


async def test_agent_reads_no_table(login: asyncpg.Connection) -> None:
    for table in sorted(metadata.tables):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match=table):
            await login.fetch(f"SELECT * FROM {table}")  # noqa: S608 # our own names


async def test_agent_may_not_write_create_or_change_role(login: asyncpg.Connection) -> None:
    refusals = (
        asyncpg.InsufficientPrivilegeError,
        asyncpg.ObjectNotInPrerequisiteStateError,
        asyncpg.FeatureNotSupportedError,
        asyncpg.WrongObjectTypeError,
    )
    for statement in FORBIDDEN:
        try:
            await login.execute(statement)
        except refusals:
            continue
        pytest.fail(f"the agent may: {statement}")


async def test_agent_cannot_shadow_objects_of_the_functions(
    scene: Scene, login: asyncpg.Connection
) -> None:
    await scene.opened()
    await login.execute("SET search_path = pg_temp, public")
    with pytest.raises(asyncpg.PostgresError) as caught:
        await login.execute("SELECT agent_renew_lease('BUG-1', 1, 1, 60)")
    assert caught.value.sqlstate == "TL001"


async def test_forged_token_writes_nothing(scene: Scene, login: asyncpg.Connection) -> None:
    await scene.opened()
    claim = await scene.claim(1)
    calls = [
        "SELECT agent_finish_turn('BUG-1', 1, $1, '{\"action\": \"resolved\"}')",
        "SELECT agent_record_finding('BUG-1', 1, $1, 't', 'd', '', 0, '')",
        "SELECT agent_append_entries('BUG-1', 1, $1, 'p', 's', '', ARRAY[NULL], ARRAY['{}'])",
        "SELECT agent_renew_lease('BUG-1', 1, $1, 1000)",
    ]
    for call in calls:
        for token in (claim.token + 1, 0, None):
            with pytest.raises(asyncpg.PostgresError) as caught:
                await login.execute(call, token)
            assert caught.value.sqlstate == "TL001"


async def test_agents_database_refuses_any_other_role(database_url: str) -> None:
    with pytest.raises(Permanent, match="threadline_agent"):
        async with connected_agent(database_url):
            pass


async def test_database_that_is_away_is_transient(agent_url: str) -> None:
    with pytest.raises(Transient):
        async with connected_agent(agent_url.replace("host=", "host=%2Fnowhere")):
            pass


@pytest.mark.parametrize(
    ("granted", "role", "told"),
    [
        ("SELECT ON cases", "threadline_agent", "it may read cases"),
        ("SELECT (title) ON cases", "PUBLIC", "it may read cases"),
        ("UPDATE (status) ON cases", "threadline_agent", "it may write to cases"),
        ("DELETE ON agent_cases", "threadline_agent", "it may write to agent_cases"),
        ("CREATE ON SCHEMA public", "threadline_agent", "it may create in the schema public"),
        (
            "pg_read_server_files",
            "threadline_agent",
            "it belongs to the role pg_read_server_files",
        ),
    ],
)
async def test_excess_grant_is_found(
    database_url: str, agent_database: Database, granted: str, role: str, told: str
) -> None:
    assert await excess_privileges(agent_database) == []
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(f"GRANT {granted} TO {role}".encode())
        try:
            assert told in " / ".join(await excess_privileges(agent_database))
        finally:
            owner.execute(f"REVOKE {granted} FROM {role}".encode())


async def test_excess_rights_of_a_function_or_the_role_are_found(
    database_url: str, agent_database: Database
) -> None:
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(
            "CREATE FUNCTION peek() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'"
        )
        owner.execute("ALTER ROLE threadline_agent CREATEDB")
        try:
            superuser, function = await excess_privileges(agent_database)
        finally:
            owner.execute(
                "ALTER ROLE threadline_agent NOCREATEDB"
            )  # a role belongs to the whole server
    assert "it is a superuser, or may" in superuser
    assert "it may run peek() with the rights of its owner" in function
