"""What is asked of decisions from outside: each turn's last round, what came of it, and what people thought of it."""

from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.decisions.confidence import Factors, Thresholds
from threadline.decisions.model import Course, Decided, Reason, Result, Verdict
from threadline.decisions.outcomes import Outcome
from threadline.slack.model import Thread
from threadline.threads.phrases import THUMBS

_DECIDED = TypeAdapter(Decided)
_FACTORS = TypeAdapter(Factors | None)
_SINCE = text("""
WITH last AS (
    SELECT DISTINCT ON (d.conversation_id, d.turn) c.team, c.channel, c.thread_ts, d.*
    FROM decisions d JOIN conversations c ON c.id = d.conversation_id
    WHERE d.at >= :since AND (:team = '' OR c.team = :team)
    ORDER BY d.conversation_id, d.turn, d.round DESC
), opinions AS (
    SELECT DISTINCT ON (t.conversation_id, p.turn, t.user_id)
           t.conversation_id, p.turn, split_part(t.reaction, '::', 1) = ANY(:ups) AS up
    FROM thumbs t JOIN conversations c ON c.id = t.conversation_id
    JOIN LATERAL (SELECT substring(key FROM ':turn:([0-9]{1,9})(?:#[0-9]+)?$')::int AS turn FROM posts
                  WHERE channel = c.channel AND ts = t.message_ts AND key LIKE 'talk:%') p ON p.turn IS NOT NULL
    WHERE t.put
    ORDER BY t.conversation_id, p.turn, t.user_id, t.at DESC
), counted AS (
    SELECT conversation_id, turn, count(*) FILTER (WHERE up) AS ups, count(*) FILTER (WHERE NOT up) AS downs
    FROM opinions GROUP BY conversation_id, turn
), replied AS (
    SELECT DISTINCT channel, thread_ts, substring(key FROM '^handover:(.+):answer:') AS ref
    FROM posts WHERE key LIKE 'handover:%:answer:%' AND ts IS NOT NULL
)
SELECT last.*, coalesce(counted.ups, 0) AS ups, coalesce(counted.downs, 0) AS downs,
       h.closed_at IS NOT NULL AS closed, r.ref IS NOT NULL OR EXISTS (
           SELECT FROM conversation_messages m
           WHERE m.conversation_id = last.conversation_id AND m.sender_id = h.taken_by AND h.taken_by <> h.user_id
             AND m.message_type = 'message' AND m.said_at > extract(epoch FROM h.opened_at)) AS helped
FROM last LEFT JOIN counted USING (conversation_id, turn) LEFT JOIN handovers h USING (conversation_id, turn)
LEFT JOIN replied r ON r.channel = last.channel AND r.thread_ts = last.thread_ts
                    AND r.ref = last.team || ':' || last.channel || ':' || last.thread_ts || ':' || last.turn
ORDER BY last.at, last.conversation_id, last.turn
""")
"""Of somebody's thumbs the last one that is there still counts. A thumb on what is no turn's answer counts nowhere.

A person to whom a turn was given answers under its card, from where it is said in the thread, or in the thread itself.
"""


class DecisionReports:
    """Reads alone, and waits for no conversation's row."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def since(self, moment: datetime, team: str = "") -> list[Outcome]:
        """Each turn's last decision since a moment, oldest first.

        Args:
            team: the workspace's id; empty for all.
        """
        ups = [name for name, up in THUMBS.items() if up]
        rows = await self._connection.execute(_SINCE, {"since": moment, "team": team, "ups": ups})
        return [_read(row) for row in rows]


def _read(row: Row[Any]) -> Outcome:
    verdict = None
    if row.course:
        verdict = Verdict(Course(row.course), row.confidence, Reason(row.reason) if row.reason else None)
    return Outcome(
        Thread(row.team, row.channel, row.thread_ts),
        row.turn,
        row.round,
        row.variant,
        row.prompt_version,
        _DECIDED.validate_python(row.decided),
        Thresholds(row.threshold_high, row.threshold_low),
        _FACTORS.validate_python(row.factors),
        verdict,
        Result(row.outcome) if row.outcome else None,
        row.ups,
        row.downs,
        row.cost_usd,
        row.at,
        row.helped,
        row.closed,
    )
