"""Thumbs that people have put on messages of a conversation, and taken away again."""

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.threads.message_table import seconds
from threadline.threads.model import IncomingMessage, MessageKind

_NOTE = text("""
INSERT INTO thumbs AS t (conversation_id, message_ts, user_id, reaction, put, at)
VALUES (:id, :message_ts, :user_id, :reaction, :put, :at)
ON CONFLICT (conversation_id, message_ts, user_id, reaction) DO UPDATE SET put = excluded.put, at = excluded.at
WHERE t.at < excluded.at
""")


class Thumbs:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def note(self, conversation_id: int, thumbs: Sequence[IncomingMessage]) -> None:
        """The last word on each counts, in whatever order they arrive and however often.

        Each tone of skin is a reaction of its own to Slack, which one may take away and leave the other.
        """
        rows = [
            {
                "id": conversation_id,
                "message_ts": each.correction_of.rpartition(":")[2],
                "user_id": each.sender_id,
                "reaction": each.text,
                "put": each.kind == MessageKind.REACTION_ADDED,
                "at": seconds(each.ts),
            }
            for each in thumbs
        ]
        if rows:
            await self._connection.execute(_NOTE, rows)
