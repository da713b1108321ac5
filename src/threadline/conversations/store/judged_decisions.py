"""judged_since: decisions with people's judgement of them: thumbs, and answers to handovers."""

from datetime import datetime

from sqlalchemy import text

from threadline.db.engine import Transaction
from threadline.decisions.model import DecisionOutcome
from threadline.decisions.reports import JudgedDecision
from threadline.decisions.store import round_of
from threadline.slack.model import Thread
from threadline.threads.phrases import THUMBS

_JUDGED = text("""
WITH last AS (
    SELECT DISTINCT ON (d.conversation_id, d.turn) c.team, c.channel, c.thread_ts, d.*
    FROM decisions d JOIN conversations c ON c.id = d.conversation_id
    WHERE d.decided_at >= :since AND (:team = '' OR c.team = :team)
    ORDER BY d.conversation_id, d.turn, d.round DESC
), opinions AS (
    SELECT DISTINCT ON (t.conversation_id, p.turn, t.user_id)
           t.conversation_id, p.turn, split_part(t.reaction, '::', 1) = ANY(:ups) AS up
    FROM ratings t JOIN conversations c ON c.id = t.conversation_id
    JOIN LATERAL (SELECT substring(key FROM ':turn:([0-9]{1,9})(?:#[0-9]+)?$')::int AS turn
                  FROM posts
                  WHERE channel = c.channel AND ts = t.message_ts
                    AND key LIKE 'conversation:%') p ON p.turn IS NOT NULL
    WHERE t.active
    ORDER BY t.conversation_id, p.turn, t.user_id, t.at DESC
), counted AS (
    SELECT conversation_id, turn, count(*) FILTER (WHERE up) AS thumbs_up,
           count(*) FILTER (WHERE NOT up) AS thumbs_down
    FROM opinions GROUP BY conversation_id, turn
), replied AS (
    SELECT DISTINCT channel, thread_ts, substring(key FROM '^handover:(.+):answer:') AS ref
    FROM posts WHERE key LIKE 'handover:%:answer:%' AND ts IS NOT NULL
)
SELECT last.*, coalesce(counted.thumbs_up, 0) AS thumbs_up,
       coalesce(counted.thumbs_down, 0) AS thumbs_down,
       h.closed_at IS NOT NULL AS closed, r.ref IS NOT NULL OR EXISTS (
           SELECT FROM conversation_messages m
           WHERE m.conversation_id = last.conversation_id AND m.sender_id = h.taken_by
             AND h.taken_by <> h.user_id AND m.message_type = 'message'
             AND m.said_at > extract(epoch FROM h.opened_at)) AS person_answered
FROM last
LEFT JOIN counted USING (conversation_id, turn)
LEFT JOIN handovers h USING (conversation_id, turn)
LEFT JOIN replied r
  ON r.channel = last.channel AND r.thread_ts = last.thread_ts
 AND r.ref = last.team || ':' || last.channel || ':' || last.thread_ts || ':' || last.turn
ORDER BY last.decided_at, last.conversation_id, last.turn
""")
"""The last active thumb of each user counts. A thumb on a message that is no turn's answer does
not count. A person to whom a turn was handed over answers under its card, from which replies go to
the thread, or in the thread itself.
"""


async def judged_since(tx: Transaction, moment: datetime, team: str = "") -> list[JudgedDecision]:
    """Return each turn's last decision since a moment, oldest first, with its outcome; no `team`:
    for all workspaces.
    """
    ups = [name for name, up in THUMBS.items() if up]
    return [
        JudgedDecision(
            Thread(row.team, row.channel, row.thread_ts),
            row.turn,
            round_of(row),
            DecisionOutcome(row.outcome) if row.outcome else None,
            *(
                row.thumbs_up,
                row.thumbs_down,
                row.cost_usd,
                row.decided_at,
                row.person_answered,
                row.closed,
            ),
        )
        for row in await tx.execute(_JUDGED, {"since": moment, "team": team, "ups": ups})
    ]
