"""What the journal and the log of events have in common: who wrote when and where, and once for each operation."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, select

from threadline.db.values import storable_key
from threadline.rfps import rfp_lookup as rfp_row
from threadline.tools.model import Author, Change


def row(change: Change, rfp_id: str, author: Author) -> dict[str, Any]:
    """The columns that both tables have."""
    return (
        {"team": change.team, "rfp_id": rfp_id}
        | origin(change)
        | {
            "user_id": author.user_id,
            "correlation_id": author.correlation_id,
            "at": datetime.fromtimestamp(change.now, UTC),
        }
    )


def origin(change: Change) -> dict[str, str]:
    """The thread in which a change was made, and its operation's key."""
    operation = change.operation
    place = {"channel": operation.thread.channel, "thread_ts": operation.thread.ts}
    return place | {"operation_key": storable_key(operation.key)}


def of_operation(table: Table, change: Change) -> tuple[ColumnElement[bool], ...]:
    """The row that an operation has made, also long ago."""
    return table.c.team == change.team, table.c.operation_key == storable_key(change.operation.key)


def newest(table: Table, team: str, rfp_id: str, limit: int, before: int | None) -> Select[Any]:
    query = select(table).where(table.c.team == team, table.c.rfp_id == rfp_row.plain(rfp_id))
    if before is not None:
        query = query.where(table.c.id < before)
    return query.order_by(table.c.id.desc()).limit(limit)


def of_correlation(table: Table, team: str, correlation_id: str) -> Select[Any]:
    return select(table).where(table.c.team == team, table.c.correlation_id == correlation_id).order_by(table.c.id)
