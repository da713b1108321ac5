"""Alembic's environment, both for its command line and for `threadline db upgrade`
(`threadline/db/migrate.py`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from logging.config import fileConfig
from pathlib import Path

from alembic import context
from sqlalchemy import Connection, MetaData

import threadline
from threadline.db import migrate
from threadline.db.columns import metadata
from threadline.settings import DatabaseSettings


def every_table() -> MetaData:
    """Import each feature's `tables.py`: autogenerate sees only tables whose module was
    imported.
    """
    package = Path(threadline.__file__).parent
    for path in sorted(package.rglob("tables.py")):
        import_module(".".join(("threadline", *path.relative_to(package).with_suffix("").parts)))
    return metadata


def is_compared(
    _object: object, _name: str | None, kind: str, reflected: bool, declared: object
) -> bool:
    """Return whether autogenerate compares something. Keys, indexes, and tables that no
    `tables.py` has exist only in SQL.
    """
    return kind == "column" or (kind == "table" and not (reflected and declared is None))


@contextmanager
def connected() -> Iterator[Connection]:
    """Yield the connection of `threadline db upgrade`, or on Alembic's command line one to
    `DATABASE_URL`.
    """
    if given := context.config.attributes.get("connection"):
        yield given
    else:
        with migrate.locked(DatabaseSettings.load().url.get_secret_value()) as connection:
            yield connection


def run() -> None:
    """Run the command, and grant the agents' role its rights in the same transaction."""
    with context.begin_transaction():
        context.run_migrations()
        if _reached_head():
            context.execute((Path(__file__).parent / "grants.sql").read_text(encoding="utf-8"))


def _reached_head() -> bool:
    """Return whether an upgrade has reached the newest schema. Only commands that change the
    schema have a destination.
    """
    migration = context.get_context()
    if "destination_rev" not in migration.opts:
        return False
    reached = (
        context.get_revision_argument() if migration.as_sql else migration.get_current_revision()
    )
    return reached == context.get_head_revision()


if context.config.config_file_name:
    fileConfig(context.config.config_file_name, disable_existing_loggers=False)
if context.is_offline_mode():
    # The paramstyle of the default driver would double each % of the SQL.
    context.configure(
        dialect_name="postgresql", dialect_opts={"paramstyle": "named"}, literal_binds=True
    )
    run()
else:
    with connected() as connection:
        context.configure(
            connection=connection,
            target_metadata=every_table(),
            compare_type=True,
            include_object=is_compared,
        )
        run()
