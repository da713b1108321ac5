"""The connections to Postgres; `Database.begin` opens one transaction and commits it when its
block ends without an error.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

from sqlalchemy import URL, Select, event, make_url, text
from sqlalchemy.exc import ArgumentError, DisconnectionError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from threadline.db.errors import first_line, translate_errors
from threadline.errors import InternalError, Permanent

Query = Select[Any]
"""A query that another module builds and a store runs."""

Transaction = AsyncConnection
"""The connection that a store gets. A store never commits: `Database.begin` does, when its block
ends without an error.
"""

_SAVEPOINT = text("SAVEPOINT part")
_RELEASE = text("RELEASE SAVEPOINT part")
_ROLLBACK = text("ROLLBACK TO SAVEPOINT part")
_CURRENT = "threadline.savepoint"
_FORM = "write it as postgresql://user:password@host:port/name"
_TLS = "for TLS set PGSSLMODE"


class Store:
    """Answers named questions in one transaction."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx


class Database:
    """The process's connection pool.

    A caller that waits longer than five seconds for a connection gets `Transient`, and Temporal
    retries the activity.

    Args:
        url: `postgresql://user@host/name`, or with `?host=/folder` for a socket.
        pool_size: connections that the pool keeps open; under load it opens half as many again.
    """

    setup_hint = "Set DATABASE_URL."

    def __init__(self, url: str, *, pool_size: int = 10, application: str = "threadline") -> None:
        settings = {
            "application_name": application,
            "statement_timeout": "15s",
            "lock_timeout": "10s",
        }
        with _usable_url():
            self._engine: AsyncEngine = create_async_engine(
                driver_url(url, "asyncpg"),
                pool_size=pool_size,
                max_overflow=pool_size // 2,
                pool_timeout=5,
                pool_recycle=1800,
                connect_args={
                    "timeout": 5,
                    "command_timeout": 20,
                    # the default of 100 evicts statements that are still in use
                    "prepared_statement_cache_size": 300,
                    "server_settings": settings | {"idle_in_transaction_session_timeout": "60s"},
                },
            )
        self._autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        event.listen(self._engine.sync_engine, "checkout", _unless_cut)
        event.listen(self._engine.sync_engine, "do_connect", _connect)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Transaction]:
        """Open a transaction: it commits when the block ends, and rolls back when the block
        raises.

        After a lost connection the outcome of a commit is unknown, so the block must be safe to
        repeat.

        Raises:
            Permanent: the database refused a statement.
            Transient: the database is unavailable at the moment.
        """
        with translate_errors():
            async with self._engine.begin() as connection:
                yield connection

    @asynccontextmanager
    async def begin_undone(self) -> AsyncIterator[Transaction]:
        """Open a transaction that is always rolled back; it raises the errors of `begin`."""
        with translate_errors():
            async with self._engine.connect() as connection, connection.begin() as transaction:
                try:
                    yield connection
                finally:
                    await transaction.rollback()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[AsyncConnection]:
        """Open a connection that commits each statement by itself; it raises the errors of
        `begin`.
        """
        with translate_errors():
            async with self._autocommit.connect() as connection:
                yield connection

    async def dispose(self) -> None:
        await self._engine.dispose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.dispose()


@dataclass(eq=False)
class Savepoint:
    """A part of a transaction, possibly nested in another part."""

    outer: "Savepoint | None"
    rolled_back: bool = False

    @property
    def in_force(self) -> bool:
        """True while its locks and changes last until the transaction ends."""
        return not self.rolled_back and (self.outer is None or self.outer.in_force)


@asynccontextmanager
async def savepoint(tx: Transaction) -> AsyncIterator[None]:
    """Open a savepoint: when the block raises, roll back to it and keep the transaction open,
    unless the connection is lost too. SQLAlchemy's `begin_nested` does the same, but compiles its
    statements every time.
    """
    # read now: a lost connection raises on access to `info`
    info = tx.info
    outer = current_savepoint(tx)
    await tx.execute(_SAVEPOINT)
    here = info[_CURRENT] = Savepoint(outer)
    try:
        yield
        await tx.execute(_RELEASE)
    except BaseException:
        here.rolled_back = True
        # else the error of a lost connection would hide the first one
        with suppress(SQLAlchemyError):
            await tx.execute(_ROLLBACK)
            # a savepoint outlives its rollback, and would shadow the outer one of the same name
            await tx.execute(_RELEASE)
        raise
    finally:
        info[_CURRENT] = outer


def current_savepoint(tx: Transaction) -> Savepoint | None:
    """Return the open savepoint, or None outside of one."""
    found: Savepoint | None = tx.info.get(_CURRENT)
    return found


def _unless_cut(connection: Any, *_: object) -> None:
    """Raise `DisconnectionError` for a connection that was cut, for example by a restart; the pool
    then opens a new one. The driver already knows: a ping at each checkout would cost three more
    round trips.
    """
    if connection.driver_connection.is_closed():
        raise DisconnectionError("the connection was cut")


def _connect(dialect: Any, _record: object, arguments: list[Any], options: dict[str, Any]) -> Any:
    with _usable_url():
        return dialect.connect(*arguments, **options)


@contextmanager
def _usable_url() -> Iterator[None]:
    """Raise `InternalError`, without the URL's password, for a part of the URL that the driver
    cannot use.
    """
    try:
        yield
    except Exception as error:
        # SQLAlchemy wraps the driver's error about an option's value
        cause = error.__cause__ or error
        # A certificate error is an OSError and a ValueError; the certificate may be renewed.
        if isinstance(cause, OSError) or not isinstance(
            cause, TypeError | ValueError | OverflowError | ArgumentError
        ):
            raise
        raise InternalError(
            f"The URL of the database cannot be used ({first_line(cause)}): {_FORM}; {_TLS}"
        ) from None


def driver_url(url: str, driver: str) -> URL:
    """Return the URL of the same database for another driver: `postgresql+<driver>://…`.

    Raises:
        Permanent: the URL is malformed. The message omits the URL's password.
    """
    try:
        return make_url(url).set(drivername=f"postgresql+{driver}")
    except (ValueError, ArgumentError):
        raise Permanent(f"The URL of the database cannot be read: {_FORM}") from None
