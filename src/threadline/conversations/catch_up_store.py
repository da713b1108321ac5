"""What is asked of conversations from outside: which may have missed something, what is stored, who is at work."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.slack.model import Thread
from threadline.threads import addressing
from threadline.threads.message_table import StoredMessage

_FOLLOW = text("""
INSERT INTO followed_threads AS f (channel, thread_ts, said_at, active_at, shown, seen_at, due)
SELECT v.channel, v.thread_ts, v.thread_ts::numeric, extract(epoch FROM v.last_at), '', 0, true
FROM conversations v
WHERE v.team = :team AND v.stored > 0 AND v.last_at > to_timestamp(:since) AND v.thread_ts ~ '^[0-9]{1,12}[.][0-9]{6}$'
ON CONFLICT (channel, thread_ts) DO UPDATE SET
    active_at = greatest(f.active_at, excluded.active_at), due = f.due OR excluded.active_at > f.compared_at
WHERE f.active_at < excluded.active_at OR NOT f.due AND excluded.active_at > f.compared_at
""")
"""No channel's history tells of them: what is stored since they were compared is the only sign of life."""
_CHOOSE = text("""
UPDATE followed_threads f SET due = true
FROM (SELECT o.channel, o.thread_ts FROM followed_threads o
      JOIN conversations v
          ON v.team = :team AND v.channel = o.channel AND v.thread_ts = o.thread_ts AND v.stored > 0
      WHERE o.active_at > :active_since AND NOT o.due
      ORDER BY CASE WHEN :newest THEN -o.active_at ELSE o.compared_at END LIMIT :count) chosen
WHERE f.channel = chosen.channel AND f.thread_ts = chosen.thread_ts
""")
_STORED = text("""
SELECT m.message_id, m.message_type, m.sender_id, m.sender_type, m.message_text, m.channel, m.slack_ts
FROM conversation_messages m JOIN conversations v ON v.id = m.conversation_id
WHERE v.team = :team AND v.channel = :channel AND v.thread_ts = :thread_ts
  AND (m.message_id = ANY(:ids) OR m.correction_of = ANY(:ids))
""")
_THERE = text("""
WITH said AS (
    SELECT m.* FROM conversation_messages m JOIN conversations v ON v.id = m.conversation_id
    WHERE v.team = :team AND v.channel = :channel AND v.thread_ts = :thread_ts
)
SELECT message_id, message_type, sender_id, sender_type, message_text, channel, slack_ts FROM said
WHERE redacted_at IS NULL AND message_type IN ('message', 'stop')
  AND message_id = CAST(:prefix AS text) || slack_ts AND said_at > :oldest AND said_at < :latest
UNION ALL
SELECT DISTINCT ON (correction_of) correction_of, 'message', sender_id, sender_type, message_text, channel, original.ts
FROM said e, LATERAL (SELECT substr(correction_of, length(CAST(:prefix AS text)) + 1) AS ts) original
WHERE message_type = 'edit' AND redacted_at IS NULL
  AND starts_with(correction_of, CAST(:prefix AS text)) AND original.ts ~ '^[0-9]+[.][0-9]+$'
  AND CAST(original.ts AS numeric) > :oldest AND CAST(original.ts AS numeric) < :latest
  AND NOT EXISTS (SELECT FROM said o WHERE o.message_id = e.correction_of)
""")
"""A stop sign is stored and is no message; of some messages an edit may be all that was ever delivered."""
_WORKING = text("""
SELECT v.team, v.channel, v.thread_ts FROM conversations v
WHERE v.team = :team AND v.channel = :channel AND v.stored > 0 AND v.last_at > now() - interval '1 day'
  AND EXISTS (SELECT FROM conversation_messages m
              WHERE m.conversation_id = v.id AND m.wakes AND (m.turn IS NULL OR m.turn > v.turn))
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

    async def follow(self, team: str, since: float) -> None:
        """Let the conversations in which something was said since a moment be compared; due is what is new in them."""
        await self._connection.execute(_FOLLOW, {"team": team, "since": since})

    async def choose(self, team: str, active_since: float, *, count: int, newest: bool) -> None:
        """Make `count` conversations due that show no change: the last active, or else those compared longest ago."""
        which = {"team": team, "active_since": active_since, "count": count, "newest": newest}
        await self._connection.execute(_CHOOSE, which)

    async def stored(self, thread: Thread, ids: Collection[str]) -> dict[str, StoredMessage]:
        """Which of these messages are stored, by id, with whatever corrects them."""
        rows = await self._connection.execute(_STORED, {**_key(thread), "ids": list(ids)})
        return {row["message_id"]: StoredMessage(**row) for row in rows.mappings()}

    async def said_in(self, thread: Thread, oldest: Decimal, latest: Decimal) -> list[StoredMessage]:
        """What people are stored to have said in a thread between two moments and not to have deleted."""
        prefix = addressing.message_id(thread.team, thread.channel, "")
        given = {**_key(thread), "prefix": prefix, "oldest": oldest, "latest": latest}
        return [StoredMessage(**row) for row in (await self._connection.execute(_THERE, given)).mappings()]

    async def working_in(self, team: str, channel: str) -> Thread | None:
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
