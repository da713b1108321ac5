"""Pages of a conversation: how rows become entries, and what a cursor stands for."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from threadline.cases.records import ConversationPage, Entry
from threadline.errors import Permanent


def entry(row: Mapping[Any, Any]) -> Entry:
    """An entry from a row of the view `agent_conversations`."""
    return Entry(
        seq=row["seq"] or 0,
        sender_type=row["sender_type"],
        sender_id=row["sender_id"],
        kind=row["message_type"],
        text=row["message_text"],
        at=datetime.fromtimestamp(float(row["said_at"]), UTC),
        read=row["read"],
    )


def page(rows: Sequence[Mapping[Any, Any]], limit: int) -> ConversationPage:
    """A page from up to `limit + 1` rows: the one too many only says that there is more."""
    shown = rows[:limit]
    last = f"{shown[-1]['said_at']}/{shown[-1]['id']}" if len(rows) > limit and shown else None
    return ConversationPage([entry(row) for row in shown], last)


def position(cursor: str | None) -> tuple[Decimal, int]:
    """Where a page begins: after this moment and row.

    Raises:
        Permanent: the cursor is none that a page named.
    """
    if not cursor:
        return Decimal(-1), 0
    said_at, _, identity = cursor.partition("/")
    try:
        return Decimal(said_at), int(identity)
    except (InvalidOperation, ValueError) as exc:
        raise Permanent(
            "this cursor is invalid: leave it out for the first page, or give the last page's next_cursor"
        ) from exc
