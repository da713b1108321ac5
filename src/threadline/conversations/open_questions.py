"""Requests of a conversation that wait for an answer of the person who was asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.conversations.model.conversation import OutcomeKind
from threadline.jobs.model import JOB_QUESTION

_PENDING = text("""
SELECT last.user_id, last.turn, last.said_at FROM (
    SELECT DISTINCT ON (t.user_id) t.user_id, t.turn, t.kind, coalesce(
        (SELECT max(m.said_at) FROM conversation_messages m
         WHERE m.conversation_id = :id AND m.turn = t.turn AND m.sender_id = t.user_id
           AND m.message_type = 'message'), 0) AS said_at
    FROM conversation_turns t
    WHERE t.conversation_id = :id AND t.kind NOT IN ('told', 'silent')
      AND NOT (t.kind <> ALL(:kinds) AND (
          SELECT coalesce(bool_and(m.message_id ~ :job), false) FROM conversation_messages m
          WHERE m.conversation_id = :id AND m.turn = t.turn AND m.sender_id = t.user_id AND m.message_type = 'message'))
    ORDER BY t.user_id, t.turn DESC
) last
WHERE last.kind = ANY(:kinds) AND NOT EXISTS (
    SELECT FROM conversation_messages s
    WHERE s.conversation_id = :id AND s.message_type = 'stop' AND s.sender_id = last.user_id
      AND s.said_at > last.said_at)
""")
"""What was told by rule, or kept silent about, answers nothing, and neither does what a job has asked in somebody's
name; a word to stop ends the wait."""


@dataclass(frozen=True)
class Pending:
    """`turn` has asked; `said_at` is when the person last spoke in it (seconds since 1970, Slack's clock)."""

    turn: int
    said_at: Decimal


async def pending(
    connection: AsyncConnection, conversation_id: int, kinds: Sequence[OutcomeKind] = (OutcomeKind.ASKED,)
) -> dict[str, Pending]:
    """Who is still to answer, by user id.

    Args:
        kinds: of the turns that have asked.
    """
    which = {"id": conversation_id, "job": JOB_QUESTION, "kinds": [each.value for each in kinds]}
    rows = await connection.execute(_PENDING, which)
    return {row.user_id: Pending(int(row.turn), row.said_at) for row in rows}
