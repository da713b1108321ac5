"""The agent's sources outside of its case: databases, by a login that can only read named views,
and logs.

Logs are searched by Loki's HTTP API:
https://grafana.com/docs/loki/latest/reference/loki-http-api/#query-logs-within-a-range-of-time.
"""

import json
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

import aiohttp
import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict

from threadline.errors import Permanent, Transient

_LOKI_TIMEOUT = aiohttp.ClientTimeout(total=20)
_NANOSECONDS = 1_000_000_000
_TIMEOUT_S = 10
_CELL_SHOWN = 2000
"""Characters of one value that are shown.

The rest would fill the model's window, or this process's memory.
"""

_FIRST_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/|\()*([a-z]+)", re.DOTALL | re.IGNORECASE)
_ROWS = frozenset({"select", "with", "values", "table"})
_FACTS = frozenset({"show"})
"""Statements that answer with a short line of the server's own, and fit into no SELECT.

Not EXPLAIN: a plan repeats the query's constants, computed, at any length, and cannot be wrapped.
"""
_PASSED = frozenset({16, 20, 21, 23, 700, 701})
"""The types (oids) whose values are small: bool, and whole and floating numbers."""

_PRIVILEGES: LiteralString = """
SELECT r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR r.rolbypassrls
    OR EXISTS (SELECT FROM pg_auth_members m WHERE m.member = r.oid)
    OR EXISTS (SELECT FROM pg_proc f JOIN pg_namespace n ON n.oid = f.pronamespace
               JOIN pg_language l ON l.oid = f.prolang
               WHERE n.nspname NOT IN ('pg_catalog', 'information_schema')
               AND (f.prosecdef OR NOT l.lanpltrusted)
               AND has_schema_privilege(n.oid, 'USAGE')
               AND has_function_privilege(f.oid, 'EXECUTE')) AS powerful,
    to_regclass('public.agent_turns') IS NOT NULL
    AND to_regclass('public.case_transitions') IS NOT NULL AS own,
    EXISTS (SELECT FROM pg_namespace n WHERE has_schema_privilege(n.oid, 'CREATE'))
    OR has_database_privilege(current_database(), 'CREATE') AS creates
FROM pg_roles r WHERE r.rolname = current_user
"""
"""A member of another role can assume it by `set_config('role', …)`, inside a single SELECT."""
_READABLE: LiteralString = """
SELECT c.relname, n.nspname || '.' || c.relname AS full_name, c.relkind,
       has_any_column_privilege(c.oid, 'INSERT, UPDATE')
       OR has_table_privilege(c.oid, 'DELETE, TRUNCATE') AS writes
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND has_schema_privilege(n.oid, 'USAGE')
  AND (has_any_column_privilege(c.oid, 'SELECT, INSERT, UPDATE')
       OR has_table_privilege(c.oid, 'DELETE, TRUNCATE'))
"""


@dataclass(frozen=True)
class QueryResult:
    """Rows, each as long as `columns`; `truncated` when there were more."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    truncated: bool


class ReadOnlyQueries:
    """Runs queries of a model, which may be anything that a message made it write.

    The login protects the database: `check` refuses one that could do more than read. The
    read-only transaction, the single statement and the time limit are further barriers before it.

    Args:
        dsns: Addresses of the sources, by the name under which the agent knows them.
        views: Readable views, as `view` or `schema.view`.
        own: Addresses of this program's own database, which is none of the agent's sources.
    """

    def __init__(
        self, dsns: Mapping[str, str], *, views: Collection[str], own: Sequence[str]
    ) -> None:
        self._dsns = dict(dsns)
        self._views = frozenset(views)
        self._own = [_place(dsn) for dsn in own]

    @property
    def names(self) -> Sequence[str]:
        return sorted(self._dsns)

    async def check(self) -> None:
        """Check all sources. Call it once at the start, and do not start when it raises
        `Permanent`.

        Raises:
            Permanent: A source could be written to, shows more than the named views, or is
                this program's own.
            Transient: A source cannot be reached.
        """
        for name, dsn in self._dsns.items():
            if _place(dsn) in self._own:
                raise Permanent(
                    f"the query source {name} is Threadline's own database: give it another one"
                )
            async with await self._connect(name) as connection:
                await self._check(name, connection)

    async def query(self, source: str, statement: str, limit: int) -> QueryResult:
        """Run one statement, and return its first `limit` rows, with long values cut.

        Raises:
            Permanent: There is no such source, or it refused the statement. The message holds
                no secret.
            Transient: The source cannot be reached now.
        """
        if source not in self._dsns:
            raise Permanent(
                f"there is no query source {source!r}; there are: "
                f"{', '.join(self.names) or 'none'}"
            )
        async with await self._connect(source) as connection:
            try:
                return await _first(connection, statement, limit)
            except psycopg.errors.QueryCanceled as exc:
                raise Permanent(
                    f"the query took longer than {_TIMEOUT_S} seconds: narrow it"
                ) from exc
            except psycopg.Error as exc:
                # The server quotes a refused value in full.
                reason = (exc.diag.message_primary or "no reason given")[:_CELL_SHOWN]
                raise Permanent(f"{source} refused the query: {reason}") from exc

    async def _connect(self, name: str) -> AsyncConnection[tuple[Any, ...]]:
        try:
            connection = await AsyncConnection.connect(
                self._dsns[name],
                connect_timeout=5,
                application_name="threadline-query",
                options=(
                    f"-c statement_timeout={_TIMEOUT_S * 1000} -c default_transaction_read_only=on"
                ),
            )
        except psycopg.Error:
            # Not chained: libpq's message may repeat the address.
            raise Transient(f"the query source {name} cannot be reached now") from None
        await connection.set_read_only(True)
        return connection

    async def _check(self, name: str, connection: AsyncConnection[tuple[Any, ...]]) -> None:
        powerful, own, creates = await (await connection.execute(_PRIVILEGES)).fetchone() or (
            True,
            True,
            True,
        )
        if own:
            raise Permanent(
                f"the query source {name} is Threadline's own database: give it another one"
            )
        if powerful or creates:
            raise Permanent(
                f"the login of the query source {name} has too many rights: use one that can "
                "only read, belongs to no"
                " other role, and cannot execute functions that run with the rights of another "
                "role"
            )
        for short, full, kind, writes in await (await connection.execute(_READABLE)).fetchall():
            named = kind in ("v", "m") and (full in self._views or short in self._views)
            if writes or not named:
                raise Permanent(
                    f"the login of the query source {name} may "
                    f"{'write to' if writes else 'read'} {full}: grant it SELECT on the views "
                    "named in THREADLINE_QUERY_VIEWS and nothing else"
                )


async def _first(
    connection: AsyncConnection[tuple[Any, ...]], statement: str, limit: int
) -> QueryResult:
    """Stream the rows, so that a large table is never held.

    The extended protocol refuses a second statement.
    """
    word = _FIRST_WORD.match(statement)
    kind = word[1].lower() if word else ""
    if kind not in _ROWS | _FACTS:
        raise Permanent("only SELECT, WITH, VALUES, TABLE and SHOW are allowed: rewrite the query")
    asked = statement.encode("utf-8", "replace")
    names: list[str] = []
    if kind in _ROWS:
        asked, names = await _bounded(connection, asked, limit)
    rows: list[Sequence[object]] = []
    async with connection.cursor() as cursor:
        async for row in cursor.stream(asked):
            if len(rows) == limit:
                break
            rows.append([_shown(value) for value in row])
        else:
            return QueryResult(names or _columns(cursor), rows, truncated=False)
        return QueryResult(names or _columns(cursor), rows, truncated=True)


async def _bounded(
    connection: AsyncConnection[tuple[Any, ...]], statement: bytes, limit: int
) -> tuple[bytes, list[str]]:
    """Return the statement with each long value cut by the server, and the names of its columns.

    A row is held here as a whole before its first value can be read, and Postgres' values may have
    a gigabyte.
    """
    alone = statement.rstrip(b"; \t\r\n")
    # A text that is no statement by itself could close our bracket, and escape the limits around
    # it.
    await connection.execute(b"PREPARE asked AS " + alone, prepare=True)
    await connection.execute(b"DEALLOCATE asked")
    inner = b"(" + alone + b"\n)"  # the line break ends a comment
    columns = (
        await connection.execute(b"SELECT * FROM " + inner + b" q LIMIT 0", prepare=True)
    ).description or ()
    if not columns:
        raise Permanent("the query returns no columns: select at least one")
    aliases = ", ".join(f"c{at}" for at, _ in enumerate(columns))
    shown = ", ".join(
        f"c{at}" if column.type_code in _PASSED else f"left(c{at}::text, {_CELL_SHOWN})"
        for at, column in enumerate(columns)
    )
    # Only our own names and numbers are inserted.
    around = f"SELECT {shown} FROM %s q({aliases}) LIMIT {int(limit) + 1}"  # noqa: S608 - ours
    before, _, after = around.encode().partition(b"%s")
    return before + inner + after, [column.name for column in columns]


def _columns(cursor: psycopg.AsyncCursor[tuple[Any, ...]]) -> list[str]:
    return [column.name for column in cursor.description or ()]


def _shown(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)[:_CELL_SHOWN]


def _place(dsn: str) -> tuple[str, str, str]:
    """Return the location of a database, independent of the login."""
    parts = conninfo_to_dict(dsn)
    host = str(parts.get("hostaddr") or parts.get("host") or "localhost")
    return (
        "localhost" if host in ("127.0.0.1", "::1") else host.lower(),
        str(parts.get("port") or "5432"),
        str(parts.get("dbname") or parts.get("user") or ""),
    )


class Loki:
    """Searches the streams of one selector, such as `{namespace="shop"}`, at a server such as
    `http://loki:3100`: an agent can name no other.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str, selector: str) -> None:
        self._session = session
        self._selector = selector
        self._url = url.rstrip("/") + "/loki/api/v1/query_range"

    async def search(self, query: str, minutes: int, limit: int) -> Sequence[str]:
        """Return the lines of the last `minutes` that contain every word of `query`, newest first.

        Raises:
            Permanent: Loki refused the search; the message quotes it.
            Transient: Loki cannot answer now.
        """
        now = time.time_ns()
        asked = {
            "query": " ".join(
                [self._selector, *(f"|= {json.dumps(word)}" for word in query.split())]
            ),
            "start": str(now - minutes * 60 * _NANOSECONDS),
            "end": str(now),
            "limit": str(limit),
            "direction": "backward",
        }
        try:
            async with self._session.get(
                self._url, params=asked, timeout=_LOKI_TIMEOUT
            ) as response:
                if response.status >= 500 or response.status == 429:
                    raise Transient(f"The log search answered {response.status}; try again later.")
                if response.status >= 400:
                    raise Permanent(
                        f"The log search refused the query: {(await response.text())[:500]}"
                    )
                streams = (await response.json())["data"]["result"]
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Transient("The log search cannot be reached now; try again later.") from error
        lines = sorted(
            ((int(at), line) for stream in streams for at, line in stream["values"]), reverse=True
        )
        return [line for _, line in lines[:limit]]
