"""What could not be read or stored as it came: kept, and listed for whoever runs the house."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.slack.model import Thread
from threadline.threads.messages import QUARANTINED, IncomingMessage, clean
from threadline.threads.tables import quarantine

_ALL = text("""
SELECT c.team, c.channel, c.thread_ts, m.bug_id, m.message_id, m.message_text, m.error, m.created_at
FROM bug_conversations m JOIN cases c USING (bug_id) WHERE m.message_type = 'quarantined'
UNION ALL
SELECT c.team, c.channel, c.thread_ts, '', m.message_id, m.message_text, m.error, m.created_at
FROM conversation_messages m JOIN conversations c ON c.id = m.conversation_id WHERE m.message_type = 'quarantined'
UNION ALL
SELECT team, channel, thread_ts, '', message_id, message_text, '', created_at FROM quarantine
ORDER BY created_at DESC, message_id LIMIT :limit
""")
_COUNT = text("""
SELECT count(*) AS kept, max(created_at) AS newest FROM (
    SELECT created_at FROM bug_conversations WHERE message_type = 'quarantined'
    UNION ALL SELECT created_at FROM conversation_messages WHERE message_type = 'quarantined'
    UNION ALL SELECT created_at FROM quarantine) AS every
""")


@dataclass(frozen=True)
class QuarantinedMessage:
    """`bug_id` is empty where the thread has no case; `error` is what the database said, where that refused it."""

    thread: Thread
    bug_id: str
    message_id: str
    text: str
    error: str
    at: datetime


@dataclass(frozen=True)
class QuarantineCount:
    """How many there are; `newest` is None when there is none."""

    count: int
    newest: datetime | None


class Quarantine:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def keep(self, thread: Thread, batch: Sequence[IncomingMessage]) -> list[str]:
        """Store what is unreadable in a batch of a thread without a case or a conversation. Safe to repeat.

        Returns:
            the ids of what was not there yet.
        """
        place = {"team": clean(thread.team), "channel": clean(thread.channel), "thread_ts": clean(thread.ts)}
        rows = [
            {**place, "message_id": message.id, "message_text": clean(message.text)}
            for message in batch
            if message.kind == QUARANTINED
        ]
        if not rows:
            return []
        new = insert(quarantine).values(rows).on_conflict_do_nothing().returning(quarantine.c.message_id)
        return list((await self._connection.execute(new)).scalars())

    async def messages(self, limit: int) -> list[QuarantinedMessage]:
        """The newest first, those of cases and conversations among them."""
        rows = await self._connection.execute(_ALL, {"limit": limit})
        return [
            QuarantinedMessage(
                Thread(row.team, row.channel, row.thread_ts),
                row.bug_id,
                row.message_id,
                row.message_text,
                row.error,
                row.created_at,
            )
            for row in rows
        ]

    async def count(self) -> QuarantineCount:
        row = (await self._connection.execute(_COUNT)).one()
        return QuarantineCount(row.kept, row.newest)
