"""What the sweeper looks for: what must have a workflow, turns without their answer, clocks that must run."""

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.cases.model import Severity
from threadline.conversations.conversation_row import WANTS
from threadline.slack.model import Thread

_END_UNSAID = """
EXISTS (SELECT FROM threads place
        WHERE c.status = 'resolved' AND place.workflow_id = c.workflow_id AND place.kind <> 'case:escalation'
          AND NOT EXISTS (SELECT FROM posts p WHERE p.ts IS NOT NULL
                          AND p.key = c.bug_id || ':closing:' || c.closings || ':' || place.channel))
"""
_OPEN = text(f"""
SELECT c.id, c.bug_id, c.team, c.channel, c.thread_ts FROM cases c
WHERE c.id > :after AND (c.status <> 'resolved'
    OR c.resolved_at > now() - interval '60 days' AND EXISTS (
        SELECT FROM bug_conversations m
        WHERE m.bug_id = c.bug_id AND m.wants_turn AND m.sender_type <> 'bot' AND (m.turn IS NULL OR m.turn > c.turn))
    OR c.resolved_at > now() - interval '1 day' AND {_END_UNSAID})
ORDER BY c.id LIMIT :limit
""")  # noqa: S608 - both parts are written here
_ENDED_UNSAID = text(f"SELECT {_END_UNSAID} FROM cases c WHERE c.bug_id = :bug_id")  # noqa: S608 - as above
_TALKS = text(f"""
SELECT c.id, c.team, c.channel, c.thread_ts FROM conversations c
WHERE c.id > :after AND c.stored > 0 AND c.last_at > now() - interval '30 days' AND (
    EXISTS (SELECT FROM conversation_messages m
            WHERE m.conversation_id = c.id AND m.wants_turn AND (m.turn IS NULL OR m.turn > c.turn))
    OR EXISTS (SELECT FROM conversation_messages m
               WHERE m.conversation_id = c.id AND m.turn IS NULL AND m.verdict IS NULL AND {WANTS})
    OR EXISTS (SELECT FROM conversation_turns t
               WHERE t.conversation_id = c.id AND t.said_at IS NULL AND t.answer <> ''
                 AND t.settled_at > now() - interval '1 day' - make_interval(secs => :quiet)))
ORDER BY c.id LIMIT :limit
""")  # noqa: S608 - as above
"""An answer that Slack refuses is tried again for a day after the silence in which the run that said it ends."""
_CLOCKS = text("""
SELECT c.id, c.bug_id, c.escalations, c.severity, p.claimed_at FROM cases c
JOIN posts p ON p.key = c.bug_id || ':escalation:' || c.escalations AND p.ts IS NOT NULL
WHERE c.id > :after AND c.escalated AND c.status <> 'resolved' ORDER BY c.id LIMIT :limit
""")
_UNANSWERED = text(f"""
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
  AND {_END_UNSAID}
) unsaid WHERE id > :after AND (:owed OR NOT owed) ORDER BY id, turn LIMIT :limit
""")  # noqa: S608 - as above
"""A question may go unsaid when the reporter wrote meanwhile, and an outcome when the case was closed; findings that
could not be posted are made good by the notice that says so."""


@dataclass(frozen=True)
class OpenCase:
    """A case whose workflow must be running; `id` is its place in the order of the sweep."""

    id: int
    bug_id: str
    thread: Thread


@dataclass(frozen=True)
class OpenTalk:
    """A conversation whose workflow must be running; `id`: as in `OpenCase`."""

    id: int
    thread: Thread


@dataclass(frozen=True)
class OpenEscalation:
    """`id`: as in `OpenCase`; `started`: when people were called, in seconds since 1970."""

    id: int
    bug_id: str
    number: int
    severity: Severity
    started: float


@dataclass(frozen=True)
class MissingAnswer:
    """`kind`: the `question` or the `findings` of a turn, or how the case ended (`closing`).

    `owed`: the case's workflow has it before it, and says it as soon as it can. `id`: as in `OpenCase`.
    """

    id: int
    bug_id: str
    turn: int
    kind: str
    owed: bool


class Sweep:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def open_cases(self, after: int, limit: int) -> list[OpenCase]:
        """Cases that are not resolved, or were written in since, or whose end was not said within a day, in order."""
        rows = await self._connection.execute(_OPEN, {"after": after, "limit": limit})
        return [OpenCase(row.id, row.bug_id, Thread(row.team, row.channel, row.thread_ts)) for row in rows]

    async def end_is_unsaid(self, bug_id: str) -> bool:
        """Whether the case has ended, and the people in some thread of it were not told how."""
        return bool((await self._connection.execute(_ENDED_UNSAID, {"bug_id": bug_id})).scalar_one_or_none())

    async def open_talks(self, after: int, limit: int, quiet: float = 0) -> list[OpenTalk]:
        """Conversations in which something waits for its answer, or an answer waits to be said, in order.

        Args:
            quiet: seconds of silence after which a run of theirs ends.
        """
        rows = await self._connection.execute(_TALKS, {"after": after, "limit": limit, "quiet": quiet})
        return [OpenTalk(row.id, Thread(row.team, row.channel, row.thread_ts)) for row in rows]

    async def open_escalations(self, after: int, limit: int) -> list[OpenEscalation]:
        rows = await self._connection.execute(_CLOCKS, {"after": after, "limit": limit})
        return [
            OpenEscalation(row.id, row.bug_id, row.escalations, Severity(row.severity), row.claimed_at) for row in rows
        ]

    async def missing_answers(
        self, grace: float, limit: int, after: int = 0, *, owed: bool = True
    ) -> list[MissingAnswer]:
        """What finished longer than `grace` seconds ago and was not said, in order; `owed`: also what a workflow will
        say."""
        which = {"grace": grace, "limit": limit, "after": after, "owed": owed}
        rows = await self._connection.execute(_UNANSWERED, which)
        return [MissingAnswer(**row) for row in rows.mappings()]
