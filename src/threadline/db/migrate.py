"""Upgrades the database to the schema that this code needs. Any number of processes may call it
concurrently.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, NullPool, create_engine, text

from threadline.db.engine import driver_url
from threadline.db.errors import translate_errors

_IN_THE_WHEEL = Path(__file__).parent / "_alembic"
_IN_THE_CHECKOUT = Path(__file__).parents[3] / "alembic"
_MIGRATIONS = _IN_THE_WHEEL if _IN_THE_WHEEL.is_dir() else _IN_THE_CHECKOUT
"""The folder `alembic/` of the repository. The wheel holds a copy of it, see `force-include` in
pyproject.toml.
"""
_LOCK = 7_306_311_954_201_118
"""An arbitrary key for an advisory lock."""


def upgrade(url: str, revision: str = "head") -> None:
    """Migrate up. At the newest schema, also create the agents' role if it is missing, and grant
    its rights.

    Args:
        url: `postgresql://…` of a role that owns the database and, the first time, may create
            roles.

    Raises:
        Permanent: the database refused, for example for lack of rights.
        Transient: the database is unreachable at the moment.
    """
    with locked(url) as connection:
        command.upgrade(_config(connection), revision)


def is_current(url: str) -> bool:
    """Whether the database has the newest schema. A worker refuses to start on any other."""
    with _connected(url) as connection:
        newest = ScriptDirectory.from_config(_config(connection)).get_current_head()
        return MigrationContext.configure(connection).get_current_revision() == newest


@contextmanager
def locked(url: str) -> Iterator[Connection]:
    """Open one migrating transaction; other processes wait and then find the work done. It takes
    the lock before Alembic starts, because Alembic's `context` is shared by all threads of a
    process.
    """
    with _connected(url) as connection, connection.begin():
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        yield connection


@contextmanager
def _connected(url: str) -> Iterator[Connection]:
    engine = create_engine(
        driver_url(url, "psycopg"), poolclass=NullPool, connect_args={"connect_timeout": 10}
    )
    with translate_errors(), engine.connect() as connection:
        yield connection


def _config(connection: Connection) -> Config:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
