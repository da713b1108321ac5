"""What is asked of conversations from outside: which were active, what is stored, and which are at work."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.conversations import conversation_row
from threadline.conversations.message_intake import MESSAGES
from threadline.slack.model import Thread
from threadline.threads.message_table import StoredMessage

_WORKING = text("""
SELECT v.team, v.channel, v.thread_ts FROM conversations v
WHERE v.team = :team AND v.channel = :channel AND v.stored > 0 AND v.last_at > now() - interval '1 day'
  AND EXISTS (SELECT FROM conversation_messages m
              WHERE m.conversation_id = v.id AND m.wants_turn AND (m.turn IS NULL OR m.turn > v.turn))
ORDER BY v.last_at DESC LIMIT 1
""")
"""No turn takes a day."""
_BEGUN = text("""
SELECT min(m.said_at) FROM conversation_messages m JOIN conversations v ON v.id = m.conversation_id
WHERE v.team = :team AND v.channel = :channel AND v.thread_ts = :thread_ts AND m.message_type = 'message'
""")
_ANSWERED = text("""
SELECT DISTINCT ON (v.thread_ts) v.thread_ts, left(t.answer, :longest) AS answer, t.said_at
FROM conversations v JOIN conversation_turns t ON t.conversation_id = v.id
WHERE v.team = :team AND v.channel = :channel AND v.thread_ts = ANY(:threads)
  AND t.said_at IS NOT NULL AND t.answer <> ''
  AND NOT EXISTS (SELECT FROM conversation_messages m
                  WHERE m.conversation_id = v.id AND m.turn = t.turn AND m.redacted_at IS NOT NULL)
ORDER BY v.thread_ts, t.turn DESC
""")


@dataclass(frozen=True)
class Answered:
    """The beginning of an answer, and when it was posted."""

    answer: str
    at: datetime


class Talked:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def stored(self, thread: Thread, ids: Collection[str]) -> dict[str, StoredMessage]:
        """Which of these messages are stored of a conversation, by id, with whatever corrects them."""
        conversation_id = await conversation_row.id_of(self._connection, thread)
        return await MESSAGES.find(self._connection, conversation_id, ids) if conversation_id else {}

    async def said_in(self, thread: Thread, oldest: Decimal, latest: Decimal) -> list[StoredMessage]:
        """What people are stored to have said in a thread between two moments and not to have deleted."""
        conversation_id = await conversation_row.id_of(self._connection, thread)
        if not conversation_id:
            return []
        return await MESSAGES.between(self._connection, conversation_id, thread.team, thread.channel, oldest, latest)

    async def active_in_channel(self, team: str, channel: str) -> Thread | None:
        """The conversation in a channel in which something waits for its answer, the last active; None without one."""
        row = (await self._connection.execute(_WORKING, {"team": team, "channel": channel})).one_or_none()
        return Thread(*row) if row else None

    async def begun_at(self, thread: Thread) -> Decimal | None:
        """When the first message was said that is stored of a conversation; None without one."""
        return (await self._connection.execute(_BEGUN, _key(thread))).scalar_one_or_none()

    async def last_answers(
        self, team: str, channel: str, threads: Collection[str], longest: int = 2_000
    ) -> dict[str, Answered]:
        """What was posted last in these threads of a channel, by their `ts`; not those in which nothing was.

        An answer to what was deleted since may quote it, and is left out.

        Args:
            longest: characters of each.
        """
        given = {"team": team, "channel": channel, "threads": list(threads), "longest": longest}
        rows = await self._connection.execute(_ANSWERED, given)
        return {row.thread_ts: Answered(row.answer, row.said_at) for row in rows}


def _key(thread: Thread) -> dict[str, str]:
    return {"team": thread.team, "channel": thread.channel, "thread_ts": thread.ts}
