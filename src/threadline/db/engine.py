"""The connections to Postgres; `begin` opens one transaction, committed when its block ends well."""

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
"""A query that a store runs, where another module has made it."""

Transaction = AsyncConnection
"""What a store is made with. It never commits: `Database.begin` does, when its block ends well."""

_SAVEPOINT, _RELEASE = text("SAVEPOINT part"), text("RELEASE SAVEPOINT part")
_ROLLBACK = text("ROLLBACK TO SAVEPOINT part")
_CURRENT = "threadline.savepoint"
_FORM, _TLS = "write it as postgresql://user:password@host:port/name", "for TLS set PGSSLMODE"


class Store:
    """Answers named questions in one transaction."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx


class Database:
    """One for each process. `url`: `postgresql://user@host/name`, or with `?host=/folder` for a socket. `pool_size`:
    connections that are kept; half as many again are opened in a rush. Whoever waits for one longer than five seconds
    gets `Transient`, and Temporal tries the activity again."""

    setup_hint = "Set DATABASE_URL."

    def __init__(self, url: str, *, pool_size: int = 10, application: str = "threadline") -> None:
        settings = {"application_name": application, "statement_timeout": "15s", "lock_timeout": "10s"}
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
                    "prepared_statement_cache_size": 300,  # the default of 100 evicts statements that are used again
                    "server_settings": settings | {"idle_in_transaction_session_timeout": "60s"},
                },
            )
        self._autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        event.listen(self._engine.sync_engine, "checkout", _unless_cut)
        event.listen(self._engine.sync_engine, "do_connect", _connect)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Transaction]:
        """A transaction: all of it is kept, or, when the block raises, nothing. Raises `Permanent` when the database
        refused what was asked, and `Transient` when it cannot be used just now; nothing is known of a commit that was
        under way, so whatever is done inside is safe to repeat."""
        with translate_errors():
            async with self._engine.begin() as connection:
                yield connection

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[AsyncConnection]:
        """A connection on which each statement is a transaction of its own; errors are those of `begin`."""
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
    """A part of a transaction, perhaps within another part."""

    outer: "Savepoint | None"
    rolled_back: bool = False

    @property
    def stands(self) -> bool:
        """What was locked and changed in it is so until the transaction ends."""
        return not self.rolled_back and (self.outer is None or self.outer.stands)


@asynccontextmanager
async def savepoint(tx: Transaction) -> AsyncIterator[None]:
    """When the block raises, nothing of it is kept, and the transaction goes on, unless the connection is lost with it.
    SQLAlchemy's `begin_nested` does the same, and compiles its statements anew each time."""
    info, outer = tx.info, current_savepoint(tx)  # a connection that is lost meanwhile refuses to tell of its `info`
    await tx.execute(_SAVEPOINT)
    here = info[_CURRENT] = Savepoint(outer)
    try:
        yield
        await tx.execute(_RELEASE)
    except BaseException:
        here.rolled_back = True
        with suppress(SQLAlchemyError):  # else the first error would be hidden behind that of a lost connection
            await tx.execute(_ROLLBACK)
            await tx.execute(_RELEASE)  # it outlives its rollback, and would be taken for the outer one of its name
        raise
    finally:
        info[_CURRENT] = outer


def current_savepoint(tx: Transaction) -> Savepoint | None:
    """The one that is open; None outside."""
    found: Savepoint | None = tx.info.get(_CURRENT)
    return found


def _unless_cut(connection: Any, *_: object) -> None:
    """The driver knows which connection was cut, by a restart say: asking Postgres at each use takes three more trips.
    Raises `DisconnectionError` when it was, and the pool opens another in its place."""
    if connection.driver_connection.is_closed():
        raise DisconnectionError("the connection was cut")


def _connect(dialect: Any, _record: object, arguments: list[Any], options: dict[str, Any]) -> Any:
    with _usable_url():
        return dialect.connect(*arguments, **options)


@contextmanager
def _usable_url() -> Iterator[None]:
    """Raises `InternalError`, without the URL's password, for a part of the URL that the driver cannot take."""
    try:
        yield
    except Exception as error:
        cause = error.__cause__ or error  # SQLAlchemy wraps what the driver says of an option's value
        # A certificate that cannot be verified is both, and may be renewed.
        if isinstance(cause, OSError) or not isinstance(cause, TypeError | ValueError | OverflowError | ArgumentError):
            raise
        raise InternalError(f"The URL of the database cannot be used ({first_line(cause)}): {_FORM}; {_TLS}") from None


def driver_url(url: str, driver: str) -> URL:
    """The same database by another driver: `postgresql://…` becomes `postgresql+<driver>://…`. Raises `Permanent`,
    without the URL's password, when it cannot be read."""
    try:
        return make_url(url).set(drivername=f"postgresql+{driver}")
    except (ValueError, ArgumentError):
        raise Permanent(f"The URL of the database cannot be read: {_FORM}") from None
