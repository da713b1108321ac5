"""CaseLists: cases by status, by words and by thread, and the data of their cards. For sweeps:
cases without a workflow, escalations without a clock, and answers without a post.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select, text, tuple_

from threadline.cases.model import Action, CaseRecord, CaseStatus, Severity
from threadline.cases.outcome import AnsweredTurn
from threadline.cases.store.case import record_of
from threadline.cases.tables import case_transitions, cases
from threadline.db.engine import Store
from threadline.db.values import storable
from threadline.db.words import asked_words
from threadline.slack.model import ACCESS, ACCESS_FAULT, CHANNEL_FAULT, Thread

_LIST = text("""
SELECT * FROM case_records WHERE NOT :open_only OR status <> 'resolved'
ORDER BY id DESC LIMIT :limit
""")
_SEARCH = text("""
WITH found AS (
    SELECT m.bug_id, ts_rank(m.search_vector, (SELECT any_word(CAST(:asked AS text[])))) AS rank
    FROM bug_conversations m
    WHERE m.search_vector @@ any_word(CAST(:asked AS text[]))
      AND m.sender_type = 'reporter' AND m.redacted_at IS NULL
    UNION ALL
    SELECT c.bug_id, ts_rank(c.search_vector, (SELECT any_word(CAST(:asked AS text[]))))
    FROM cases c
    WHERE c.search_vector @@ any_word(CAST(:asked AS text[])) AND c.team = :team
    UNION ALL
    SELECT c.bug_id, 0 FROM cases c
    WHERE c.team = :team AND (any_word(CAST(:asked AS text[])) IS NULL OR c.bug_id = upper(:words))
)
SELECT c.bug_id FROM cases c
JOIN (SELECT bug_id, max(rank) AS rank FROM found GROUP BY bug_id) f USING (bug_id)
WHERE c.team = :team AND (:status = '' OR c.status = :status)
  AND (NOT :open_only OR c.status <> 'resolved')
  AND (:component = '' OR EXISTS (SELECT FROM unnest(c.components) AS each
                                  WHERE strpos(lower(each), lower(:component)) > 0))
ORDER BY f.rank DESC, c.id DESC
LIMIT :limit
""")
"""Matches any of the words in the reporter's messages or the title; the case with the most of them
comes first. Without words, all cases match.
"""
_FOR_CARDS = text("""
SELECT c.*,
       coalesce((SELECT w.words FROM reporter_words w WHERE w.bug_id = c.bug_id), '')
           AS reporter_words,
       (SELECT at FROM case_transitions
        WHERE bug_id = c.bug_id ORDER BY rev DESC LIMIT 1) AS status_since,
       coalesce((SELECT concat_ws(E'\\n', nullif(message_text, ''), nullif(forwarded, ''))
                 FROM agent_conversations
                 WHERE bug_id = c.bug_id AND sender_type = 'reporter'
                   AND message_type IN ('report', 'message')
                 ORDER BY message_type = 'report' DESC, said_at, id LIMIT 1), '') AS report,
       coalesce((SELECT jsonb_agg(jsonb_build_array(action, result) ORDER BY turn DESC)
                 FROM agent_turns
                 WHERE bug_id = c.bug_id AND turn <= c.turn), '[]') AS turns
FROM case_records c
WHERE c.team = :team AND c.bug_id = ANY(:bug_ids)
ORDER BY array_position(CAST(:bug_ids AS text[]), c.bug_id)
""")
_IS_CLOSING_UNPOSTED = text("""
SELECT EXISTS (SELECT FROM unposted_closings WHERE bug_id = :bug_id)
""")
_OPEN = text("""
SELECT c.id, c.team, c.channel, c.thread_ts FROM cases c
WHERE c.id > :after AND (c.status <> 'resolved'
    OR c.resolved_at > now() - interval '60 days' AND EXISTS (
        SELECT FROM bug_conversations m
        WHERE m.bug_id = c.bug_id AND m.wants_turn AND m.sender_type <> 'bot'
          AND (m.turn IS NULL OR m.turn > c.turn))
    OR c.resolved_at > now() - interval '1 day' AND EXISTS (
        SELECT FROM unposted_closings u
        WHERE u.bug_id = c.bug_id AND u.resolved_at > now() - interval '1 day'))
ORDER BY c.id LIMIT :limit
""")
_ESCALATED = text("""
SELECT c.id, c.bug_id, c.escalations AS number, c.severity, p.claimed_at AS started,
       EXISTS (SELECT FROM bug_conversations m
               WHERE m.bug_id = c.bug_id AND m.sender_type = 'developer' AND m.spoken
                 AND m.said_at > CAST(p.claimed_at AS numeric)) AS acknowledged
FROM cases c
JOIN posts p ON p.key = c.bug_id || ':escalation:' || c.escalations AND p.ts IS NOT NULL
WHERE c.id > :after AND c.escalated AND c.status <> 'resolved' ORDER BY c.id LIMIT :limit
""")
_TURN_RUNS = text("""
SELECT EXISTS (SELECT FROM cases c
               JOIN agent_turns t ON t.bug_id = c.bug_id AND t.turn = c.turn + 1
               WHERE c.status = 'investigating' AND t.status = 'running'
                 AND t.lease_until > clock_timestamp())
""")
_UNPOSTED = text("""
SELECT * FROM (
SELECT c.id, c.bug_id, t.turn,
       CASE t.action WHEN 'ask_reporter' THEN 'question' ELSE 'findings' END AS kind,
       c.status = 'investigating' AND t.turn = c.turn OR EXISTS (
           SELECT FROM installation_faults f
           WHERE (f.kind = :access_fault AND f.subject = ANY(:access)
                  OR f.kind = :channel_fault AND f.subject IN (c.channel, :summaries))
             AND (f.resolved_at IS NULL
                  OR f.resolved_at > now() - make_interval(secs => :grace))) AS owed
FROM cases c JOIN agent_turns t ON t.bug_id = c.bug_id AND t.turn <= c.turn AND t.status = 'done'
WHERE t.finished_at < now() - make_interval(secs => :grace)
  AND t.finished_at > now() - interval '30 days'
  AND (t.action = 'ask_reporter' AND t.turn = c.turn AND c.status = 'awaiting_reporter'
       OR t.action <> 'ask_reporter' AND (t.has_findings OR t.has_reply))
  AND NOT EXISTS (SELECT FROM posts p WHERE p.ts IS NOT NULL AND p.key IN (
          c.bug_id || ':turn:' || t.turn || '\\:findings',
          c.bug_id || ':turn:' || t.turn || '\\:reply',
          c.bug_id || ':turn:' || t.turn || '\\:question',
          c.bug_id || ':undeliverable:' || t.turn))
  AND NOT EXISTS (SELECT FROM case_transitions s
                  WHERE s.bug_id = c.bug_id AND s.at >= t.finished_at
                    AND s.reason IN ('reporter_closed', 'admin_cancelled', 'admin_resolved'))
UNION ALL
SELECT c.id, c.bug_id, c.turn, 'closing', true FROM cases c
WHERE c.resolved_at < now() - make_interval(secs => :grace)
  AND c.resolved_at > now() - interval '30 days'
  AND EXISTS (SELECT FROM unposted_closings u
              WHERE u.bug_id = c.bug_id AND u.resolved_at > now() - interval '30 days')
) unposted WHERE id > :after AND (:owed OR NOT owed) ORDER BY id, turn LIMIT :limit
""")
"""A question may stay unposted when the reporter wrote meanwhile, and an outcome when the case was
closed.

A notice makes up for findings that could not be posted. A workflow keeps the findings that Slack
refuses until the admin mends something: its tries are closer together than the grace.
"""
_POSTING_NEEDS = [ACCESS, "chat:write"]
"""Subjects of the faults of Slack's access that prevent every post."""


@dataclass(frozen=True)
class Transition:
    """A step of a case; `before` is None for the opening."""

    before: str | None
    to: str
    reason: str
    actor: str
    at: datetime


@dataclass(frozen=True)
class CardSource:
    """The data of a case's card.

    `turns` are its settled ones, the last one first; `report` is the text that opened the case;
    `reporter_words` are as in `TurnPost`.
    """

    case: CaseRecord
    status_since: datetime
    report: str
    reporter_words: str
    turns: Sequence[AnsweredTurn]


@dataclass(frozen=True)
class OpenCase:
    """A case whose workflow must run; `id` orders the cases."""

    id: int
    thread: Thread


@dataclass(frozen=True)
class OpenEscalation:
    """An escalation whose clock must run.

    `started`: time of the call, in seconds since 1970; `acknowledged`: a developer has written
    since.
    """

    id: int
    bug_id: str
    number: int
    severity: Severity
    started: float
    acknowledged: bool


@dataclass(frozen=True)
class MissingAnswer:
    """A finished answer that was not posted.

    It is the `question` or the `findings` of a turn, or the case's end (`closing`). `owed`: the
    case's workflow posts it as soon as it can, since the turn has just ended, or Slack refuses
    posts until the admin mends something. `id` is the case's.
    """

    id: int
    bug_id: str
    turn: int
    kind: str
    owed: bool


class CaseLists(Store):
    async def list(self, *, open_only: bool = False, limit: int = 50) -> list[CaseRecord]:
        """Return cases, the newest first."""
        return [
            record_of(row)
            for row in await self._tx.execute(_LIST, {"open_only": open_only, "limit": limit})
        ]

    async def search(
        self,
        team: str,
        *,
        words: str = "",
        status: CaseStatus | None = None,
        component: str = "",
        open_only: bool = False,
        limit: int = 20,
    ) -> Sequence[CardSource]:
        """Return a team's matching cases: those with the most of the words first, else the newest.

        Args:
            team: Slack's id of the workspace.
            words: Any of them must occur in the title or in the reporter's messages; or a
                case's number.
            status: The only status to return.
            component: A part of the name of one of the case's components.
            open_only: Leave out resolved cases.
            limit: The most cases to return.
        """
        given = {
            "words": storable(words).strip(),
            "asked": asked_words(words),
            "component": storable(component).strip(),
            "status": status or "",
        }
        wanted = {"team": team, "open_only": open_only, "limit": limit, **given}
        return await self.for_cards(
            team, [row.bug_id for row in await self._tx.execute(_SEARCH, wanted)]
        )

    async def for_cards(self, team: str, bug_ids: Sequence[str]) -> Sequence[CardSource]:
        """Return the data of the cards of a team's cases, in this order, without unknown ones.

        It reads no diffs: those of all turns of 21 cases may be hundreds of megabytes.
        """
        return [
            CardSource(
                case=record_of(row),
                status_since=row.status_since,
                report=row.report,
                reporter_words=row.reporter_words,
                turns=[
                    AnsweredTurn(Action(action) if action else None, result)
                    for action, result in row.turns
                ],
            )
            for row in await self._tx.execute(_FOR_CARDS, {"team": team, "bug_ids": list(bug_ids)})
        ]

    async def bug_ids(self, threads: Collection[Thread]) -> dict[Thread, str]:
        place = tuple_(cases.c.team, cases.c.channel, cases.c.thread_ts)
        query = select(cases.c.team, cases.c.channel, cases.c.thread_ts, cases.c.bug_id)
        rows = await self._tx.execute(
            query.where(place.in_([(each.team, each.channel, each.ts) for each in threads]))
        )
        return {Thread(*row[:3]): row.bug_id for row in rows}

    async def transitions(self, bug_id: str) -> Sequence[Transition]:
        """Return the steps of a case, oldest first."""
        step = case_transitions.c
        query = select(step.from_status, step.to_status, step.reason, step.actor, step.at)
        rows = await self._tx.execute(query.where(step.bug_id == bug_id).order_by(step.rev))
        return [Transition(*row) for row in rows]

    async def open_cases(self, after: int, limit: int) -> Sequence[OpenCase]:
        """Return the cases whose workflow must run, in order.

        They are not resolved, or got messages since, or ended within the last day without a post
        about it.
        """
        rows = await self._tx.execute(_OPEN, {"after": after, "limit": limit})
        return [OpenCase(row.id, Thread(row.team, row.channel, row.thread_ts)) for row in rows]

    async def open_escalations(self, after: int, limit: int) -> Sequence[OpenEscalation]:
        """Return the escalations of open cases for which people were called, in order."""
        rows = await self._tx.execute(_ESCALATED, {"after": after, "limit": limit})
        return [
            OpenEscalation(**{**row, "severity": Severity(row["severity"])})
            for row in rows.mappings()
        ]

    async def missing_answers(
        self, grace: float, limit: int, after: int = 0, *, summaries: str = "", owed: bool = True
    ) -> Sequence[MissingAnswer]:
        """Return the answers that finished more than `grace` seconds ago and were not posted, in
        order.

        Args:
            grace: Seconds.
            limit: The most answers to return.
            after: Start after the case with this `id`.
            summaries: The channel of findings.
            owed: Also return the answers that a workflow will post.
        """
        faults = {
            "access_fault": ACCESS_FAULT,
            "access": _POSTING_NEEDS,
            "channel_fault": CHANNEL_FAULT,
        }
        page = {"limit": limit, "after": after}
        which = {"grace": grace, "owed": owed, "summaries": summaries}
        rows = await self._tx.execute(_UNPOSTED, {**faults, **page, **which})
        return [MissingAnswer(**row) for row in rows.mappings()]

    async def turn_runs(self) -> bool:
        """Return whether some agents' worker holds a turn of any case under a live lease."""
        return bool((await self._tx.execute(_TURN_RUNS)).scalar_one())

    async def closing_is_unposted(self, bug_id: str) -> bool:
        """Return whether the case has ended, and some thread of it lacks the closing post."""
        return bool(
            (await self._tx.execute(_IS_CLOSING_UNPOSTED, {"bug_id": bug_id})).scalar_one()
        )
