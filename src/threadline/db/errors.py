"""Classifies database errors as permanent, or as transient where a retry may help."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from threadline.errors import (
    AppendOnly,
    ClaimLost,
    IllegalTransition,
    InternalError,
    Permanent,
    Transient,
)

_RETRYABLE = ("08", "40", "53", "57P", "55P03", "57014")
"""SQLSTATE prefixes: connection trouble, rollbacks and deadlocks, exhaustion, shutdown, lock
timeouts and statement timeouts.
"""
_OWN: dict[str, type[Permanent]] = {
    "TL001": ClaimLost,
    "TL003": IllegalTransition,
    "TL004": AppendOnly,
}
"""Errors of our own functions and triggers."""
_REFUSED_VALUES = ("22", "23", "54")
_REFUSED_LOGIN = ("28", "3D")  # a wrong password or role, and a database that does not exist


def sqlstate(error: BaseException) -> str:
    """Return the SQLSTATE of an error of either library, or "" if it has none."""
    orig = getattr(error, "orig", None) or error
    return str(getattr(orig, "sqlstate", None) or "")


def is_value_refused(error: DBAPIError) -> bool:
    """Whether the row is at fault, and not the connection or a passing condition."""
    cause = getattr(error.orig, "__cause__", None)
    return sqlstate(error).startswith(_REFUSED_VALUES) or isinstance(cause, ValueError)


def first_line(error: BaseException) -> str:
    """Return the first line of the database's message: further lines may quote values."""
    orig = getattr(error, "orig", None) or error
    first = str(getattr(orig, "__cause__", None) or orig).strip().splitlines()
    return first[0].removeprefix("ERROR: ").strip() if first else type(orig).__name__


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate errors of SQLAlchemy and asyncpg into `Permanent` and `Transient`."""
    try:
        yield
    except (SQLAlchemyError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as exc:
        raise translate(exc) from exc  # a TimeoutError is an OSError


def translate(error: BaseException) -> Exception:
    state = sqlstate(error)
    if kind := _OWN.get(state):
        return kind(first_line(error))
    if state.startswith(_RETRYABLE) or _lost(error):
        return Transient(f"the database is not available: {first_line(error)}")
    if state.startswith(_REFUSED_LOGIN):
        return InternalError(
            f"the database refuses the login: {first_line(error)}; correct the URL of the database"
        )
    return InternalError(
        f"the database refused the statement: {first_line(error)}; this is a bug in the "
        "program or its schema"
    )


def _lost(error: BaseException) -> bool:
    """Whether the connection, and not the server, reported the error."""
    if isinstance(error, PoolTimeout | OSError):
        return True
    if isinstance(error, DBAPIError):
        nameless = isinstance(error, InterfaceError | OperationalError) and not sqlstate(error)
        return error.connection_invalidated or (nameless and not is_value_refused(error))
    return isinstance(error, asyncpg.InterfaceError) and not isinstance(error, ValueError)
