"""CaseSweepStore: cases without a workflow, escalations without a clock, and answers that were not posted."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text

from threadline.cases.model import (
    Severity,
)
from threadline.db.engine import Transaction
from threadline.slack.model import Thread

_CLOSING_UNPOSTED = """
EXISTS (SELECT FROM threads place
        WHERE c.status = 'resolved' AND place.workflow_id = c.workflow_id AND place.kind <> 'case:escalation'
          AND NOT EXISTS (SELECT FROM posts p WHERE p.ts IS NOT NULL
                          AND p.key = c.bug_id || ':closing:' || c.closings || ':' || place.channel))
"""
_IS_CLOSING_UNPOSTED = text(f"SELECT {_CLOSING_UNPOSTED} FROM cases c WHERE c.bug_id = :bug_id")  # noqa: S608 - all of it is written here
_OPEN = text(f"""
SELECT c.id, c.bug_id, c.team, c.channel, c.thread_ts FROM cases c
WHERE c.id > :after AND (c.status <> 'resolved'
    OR c.resolved_at > now() - interval '60 days' AND EXISTS (
        SELECT FROM bug_conversations m
        WHERE m.bug_id = c.bug_id AND m.wants_turn AND m.sender_type <> 'bot' AND (m.turn IS NULL OR m.turn > c.turn))
    OR c.resolved_at > now() - interval '1 day' AND {_CLOSING_UNPOSTED})
ORDER BY c.id LIMIT :limit
""")  # noqa: S608 - as above
_ESCALATED = text("""
SELECT c.id, c.bug_id, c.escalations, c.severity, p.claimed_at,
       EXISTS (SELECT FROM bug_conversations m
               WHERE m.bug_id = c.bug_id AND m.sender_type = 'developer' AND m.message_type IN ('message', 'close')
                 AND m.said_at > CAST(p.claimed_at AS numeric)) AS acknowledged
FROM cases c JOIN posts p ON p.key = c.bug_id || ':escalation:' || c.escalations AND p.ts IS NOT NULL
WHERE c.id > :after AND c.escalated AND c.status <> 'resolved' ORDER BY c.id LIMIT :limit
""")
_UNPOSTED = text(f"""
SELECT * FROM (
SELECT c.id, c.bug_id, t.turn, CASE t.action WHEN 'ask_reporter' THEN 'question' ELSE 'findings' END AS kind,
       c.status = 'investigating' AND t.turn = c.turn AS owed
FROM cases c JOIN agent_turns t ON t.bug_id = c.bug_id AND t.turn <= c.turn AND t.status = 'done'
WHERE t.finished_at < now() - make_interval(secs => :grace) AND t.finished_at > now() - interval '30 days'
  AND (t.action <> 'ask_reporter' OR t.turn = c.turn AND c.status = 'awaiting_reporter')
  AND NOT EXISTS (SELECT FROM posts p WHERE p.ts IS NOT NULL AND p.key IN (
          c.bug_id || ':turn:' || t.turn || '\\:findings', c.bug_id || ':turn:' || t.turn || '\\:question',
          c.bug_id || ':undeliverable:' || t.turn))
  AND NOT EXISTS (SELECT FROM case_transitions s
                  WHERE s.bug_id = c.bug_id AND s.at >= t.finished_at
                    AND s.reason IN ('reporter_closed', 'operator_cancelled', 'operator_resolved'))
UNION ALL
SELECT c.id, c.bug_id, c.turn, 'closing', true FROM cases c
WHERE c.resolved_at < now() - make_interval(secs => :grace) AND c.resolved_at > now() - interval '30 days'
  AND {_CLOSING_UNPOSTED}
) unposted WHERE id > :after AND (:owed OR NOT owed) ORDER BY id, turn LIMIT :limit
""")  # noqa: S608 - as above
"""A question may go unposted when the reporter wrote meanwhile, and an outcome when the case was closed. Findings that
could not be posted are made good by the notice that says so."""


@dataclass(frozen=True)
class OpenCase:
    """A case whose workflow must run; `id` is its place in the order of all."""

    id: int
    bug_id: str
    thread: Thread


@dataclass(frozen=True)
class OpenEscalation:
    """An escalation whose clock must run.

    `started`: when people were called, in seconds since 1970; `acknowledged`: a developer has written since.
    """

    id: int
    bug_id: str
    number: int
    severity: Severity
    started: float
    acknowledged: bool


@dataclass(frozen=True)
class MissingAnswer:
    """What finished and was not posted: the `question` or the `findings` of a turn, or how the case ended (`closing`).

    `owed`: the case's workflow has it before it, and posts it as soon as it can. `id` is the case's.
    """

    id: int
    bug_id: str
    turn: int
    kind: str
    owed: bool


class CaseSweepStore:
    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    async def open_cases(self, after: int, limit: int) -> Sequence[OpenCase]:
        """Cases that are not resolved, or were written in since, or whose end was not posted within a day, in order."""
        rows = await self._tx.execute(_OPEN, {"after": after, "limit": limit})
        return [OpenCase(row.id, row.bug_id, Thread(row.team, row.channel, row.thread_ts)) for row in rows]

    async def open_escalations(self, after: int, limit: int) -> Sequence[OpenEscalation]:
        """Escalations of open cases for which people were called, in order."""
        rows = await self._tx.execute(_ESCALATED, {"after": after, "limit": limit})
        return [
            OpenEscalation(
                row.id, row.bug_id, row.escalations, Severity(row.severity), row.claimed_at, row.acknowledged
            )
            for row in rows
        ]

    async def missing_answers(
        self, grace: float, limit: int, after: int = 0, *, owed: bool = True
    ) -> Sequence[MissingAnswer]:
        """What finished longer than `grace` seconds ago and was not posted, in order.

        Args:
            owed: also what a workflow will post.
        """
        which = {"grace": grace, "limit": limit, "after": after, "owed": owed}
        return [MissingAnswer(**row) for row in (await self._tx.execute(_UNPOSTED, which)).mappings()]

    async def closing_is_unposted(self, bug_id: str) -> bool:
        """Whether the case has ended, and some thread of it was not told how."""
        return bool((await self._tx.execute(_IS_CLOSING_UNPOSTED, {"bug_id": bug_id})).scalar_one_or_none())
