"""Brings a database to the schema this code was written for, once, however many processes start together."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, NullPool, create_engine, text

from threadline.db.engine import driver_url
from threadline.db.errors import understood

_MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 7_306_311_954_201_118
"""Any number that nothing else in the database locks; whoever comes second waits here and finds the work done."""


def upgrade(url: str, revision: str = "head") -> None:
    """Migrate up, create the agent's role where it is missing, and grant it what the schema has for it.

    Args:
        url: `postgresql://…` of a login that owns the database and, for the first time, may create roles.

    Raises:
        Transient: the database cannot be reached now.
        Permanent: it refused, such as for want of rights; the message says what.
    """
    _run(url, lambda config: command.upgrade(config, revision), grants=revision == "head")


def downgrade(url: str, revision: str = "base") -> None:
    """Migrate down. The role stays: it belongs to the server, and other databases may grant it rights."""
    _run(url, lambda config: command.downgrade(config, revision), grants=False)


def is_current(url: str) -> bool:
    """Whether the database has the newest schema: a worker refuses to start on any other."""
    with _connected(url) as connection:
        return MigrationContext.configure(connection).get_current_revision() == _script().get_current_head()


def _run(url: str, migrate: Callable[[Config], None], *, grants: bool) -> None:
    with _connected(url) as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        config = _config()
        config.attributes["connection"] = connection
        migrate(config)
        if grants:
            connection.exec_driver_sql((_MIGRATIONS / "grants.sql").read_text(encoding="utf-8").replace("%", "%%"))
        connection.commit()


@contextmanager
def _connected(url: str) -> Iterator[Connection]:
    engine = create_engine(driver_url(url, "psycopg"), poolclass=NullPool, connect_args={"connect_timeout": 10})
    with understood(), engine.connect() as connection:
        yield connection


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _script() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())
