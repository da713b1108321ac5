"""CaseLists: cases by status, by words and by thread, what cards about them are made of, and what sweeps look for:
cases without a workflow, escalations without a clock, and answers that were not posted."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select, text, tuple_

from threadline.cases.model import Action, CaseRecord, CaseStatus, Severity
from threadline.cases.outcome import AnsweredTurn
from threadline.cases.store.case import CASES, REPORTER_WORDS, record_of
from threadline.cases.tables import case_transitions, cases
from threadline.db.engine import Store
from threadline.db.values import storable
from threadline.slack.model import Thread

_LIST = text(f"""
SELECT * FROM {CASES} WHERE NOT :open_only OR status <> 'resolved' ORDER BY id DESC LIMIT :limit
""")  # noqa: S608 - all of it is written here
_SEARCH = text("""
WITH asked AS (
    SELECT string_agg(quote_literal(lexeme), ' | ')::tsquery AS query
    FROM unnest(to_tsvector('english', left(:words, 4000)))
)
SELECT c.bug_id FROM cases c CROSS JOIN asked a
LEFT JOIN LATERAL (
    SELECT max(ts_rank(to_tsvector('english', m.message_text || ' ' || m.forwarded), a.query)) AS rank
    FROM bug_conversations m
    WHERE m.bug_id = c.bug_id AND m.sender_type = 'reporter' AND m.redacted_at IS NULL
      AND to_tsvector('english', m.message_text || ' ' || m.forwarded) @@ a.query) told ON true
WHERE c.team = :team AND (:status = '' OR c.status = :status) AND (NOT :open_only OR c.status <> 'resolved')
  AND (:component = '' OR EXISTS (SELECT FROM unnest(c.components) AS each
                                  WHERE strpos(lower(each), lower(:component)) > 0))
  AND (a.query IS NULL OR told.rank IS NOT NULL OR to_tsvector('english', c.title) @@ a.query
       OR c.bug_id = upper(:words))
ORDER BY greatest(told.rank, ts_rank(to_tsvector('english', c.title), a.query), 0) DESC, c.id DESC LIMIT :limit
""")
"""By words that the reporter used or that are in the title: any of them, the case that has most of them first."""
_FOR_CARDS = text(f"""
SELECT c.*, {REPORTER_WORDS},
       (SELECT at FROM case_transitions WHERE bug_id = c.bug_id ORDER BY rev DESC LIMIT 1) AS status_since,
       coalesce((SELECT concat_ws(E'\\n', nullif(message_text, ''), nullif(forwarded, '')) FROM agent_conversations
                 WHERE bug_id = c.bug_id AND sender_type = 'reporter' AND message_type IN ('report', 'message')
                 ORDER BY message_type = 'report' DESC, said_at, id LIMIT 1), '') AS report,
       coalesce((SELECT jsonb_agg(jsonb_build_array(action, result) ORDER BY turn DESC) FROM agent_turns
                 WHERE bug_id = c.bug_id AND turn <= c.turn), '[]') AS turns
FROM {CASES}
WHERE c.team = :team AND c.bug_id = ANY(:bug_ids) ORDER BY array_position(CAST(:bug_ids AS text[]), c.bug_id)
""")  # noqa: S608 - all of it is written here
_CLOSING_UNPOSTED = """
EXISTS (SELECT FROM threads place
        WHERE c.status = 'resolved' AND place.workflow_id = c.workflow_id
          AND NOT EXISTS (SELECT FROM posts p WHERE p.ts IS NOT NULL
                          AND p.key = c.bug_id || ':closing:' || c.closings || ':' || place.channel
                              || CASE place.kind WHEN 'case:escalation' THEN ':' || place.thread_ts ELSE '' END))
"""
_IS_CLOSING_UNPOSTED = text(f"SELECT {_CLOSING_UNPOSTED} FROM cases c WHERE c.bug_id = :bug_id")  # noqa: S608 - all of it is written here
_OPEN = text(f"""
SELECT c.id, c.team, c.channel, c.thread_ts FROM cases c
WHERE c.id > :after AND (c.status <> 'resolved'
    OR c.resolved_at > now() - interval '60 days' AND EXISTS (
        SELECT FROM bug_conversations m
        WHERE m.bug_id = c.bug_id AND m.wants_turn AND m.sender_type <> 'bot' AND (m.turn IS NULL OR m.turn > c.turn))
    OR c.resolved_at > now() - interval '1 day' AND {_CLOSING_UNPOSTED})
ORDER BY c.id LIMIT :limit
""")  # noqa: S608 - as above
_ESCALATED = text("""
SELECT c.id, c.bug_id, c.escalations AS number, c.severity, p.claimed_at AS started,
       EXISTS (SELECT FROM bug_conversations m
               WHERE m.bug_id = c.bug_id AND m.sender_type = 'developer' AND m.message_type IN ('message', 'close')
                 AND m.said_at > CAST(p.claimed_at AS numeric)) AS acknowledged
FROM cases c JOIN posts p ON p.key = c.bug_id || ':escalation:' || c.escalations AND p.ts IS NOT NULL
WHERE c.id > :after AND c.escalated AND c.status <> 'resolved' ORDER BY c.id LIMIT :limit
""")
_TURN_RUNS = text("""
SELECT EXISTS (SELECT FROM cases c JOIN agent_turns t ON t.bug_id = c.bug_id AND t.turn = c.turn + 1
               WHERE c.status = 'investigating' AND t.status = 'running' AND t.lease_until > clock_timestamp())
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
class Transition:
    """`before` is None for the opening."""

    before: str | None
    to: str
    reason: str
    actor: str
    at: datetime


@dataclass(frozen=True)
class CardSource:
    """What a case's card is made of: `turns` are its settled ones, the last one first; `report` is the text that opened
    the case; `pull_request` an address, or empty; `reporter_words` are as in `TurnPost`."""

    case: CaseRecord
    status_since: datetime
    report: str
    reporter_words: str
    pull_request: str
    turns: Sequence[AnsweredTurn]


@dataclass(frozen=True)
class OpenCase:
    """A case whose workflow must run; `id` is its place in the order of all."""

    id: int
    thread: Thread


@dataclass(frozen=True)
class OpenEscalation:
    """An escalation whose clock must run. `started`: when people were called, in seconds since 1970; `acknowledged`: a
    developer has written since."""

    id: int
    bug_id: str
    number: int
    severity: Severity
    started: float
    acknowledged: bool


@dataclass(frozen=True)
class MissingAnswer:
    """What finished and was not posted: the `question` or the `findings` of a turn, or how the case ended (`closing`).
    `owed`: the case's workflow has it before it, and posts it as soon as it can. `id` is the case's."""

    id: int
    bug_id: str
    turn: int
    kind: str
    owed: bool


class CaseLists(Store):
    async def list(self, *, open_only: bool = False, limit: int = 50) -> list[CaseRecord]:
        """The newest cases first."""
        return [record_of(row) for row in await self._tx.execute(_LIST, {"open_only": open_only, "limit": limit})]

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
        """A team's cases, those that have most of the words first, else the newest. Any of the words is in the title,
        or in what the reporter wrote; or it is a case's number. `component` is a part of the name of one that the case
        has."""
        given = {"words": storable(words).strip(), "component": storable(component).strip(), "status": status or ""}
        wanted = {"team": team, "open_only": open_only, "limit": limit, **given}
        return await self.for_cards(team, [row.bug_id for row in await self._tx.execute(_SEARCH, wanted)])

    async def for_cards(self, team: str, bug_ids: Sequence[str]) -> Sequence[CardSource]:
        """What the cards of a team's cases are made of, in this order; unknown ones are left out. It reads no diffs:
        those of all turns of 21 cases may be hundreds of megabytes."""
        return [
            CardSource(
                case=record_of(row),
                status_since=row.status_since,
                report=row.report,
                reporter_words=row.reporter_words,
                pull_request=row.url or "",
                turns=[AnsweredTurn(Action(action) if action else None, result) for action, result in row.turns],
            )
            for row in await self._tx.execute(_FOR_CARDS, {"team": team, "bug_ids": list(bug_ids)})
        ]

    async def bug_ids(self, threads: Collection[Thread]) -> dict[Thread, str]:
        place = tuple_(cases.c.team, cases.c.channel, cases.c.thread_ts)
        query = select(cases.c.team, cases.c.channel, cases.c.thread_ts, cases.c.bug_id)
        rows = await self._tx.execute(query.where(place.in_([(each.team, each.channel, each.ts) for each in threads])))
        return {Thread(*row[:3]): row.bug_id for row in rows}

    async def transitions(self, bug_id: str) -> Sequence[Transition]:
        """Oldest first."""
        step = case_transitions.c
        query = select(step.from_status, step.to_status, step.reason, step.actor, step.at)
        rows = await self._tx.execute(query.where(step.bug_id == bug_id).order_by(step.rev))
        return [Transition(*row) for row in rows]

    async def open_cases(self, after: int, limit: int) -> Sequence[OpenCase]:
        """Cases that are not resolved, or were written in since, or whose end was not posted within a day, in order."""
        rows = await self._tx.execute(_OPEN, {"after": after, "limit": limit})
        return [OpenCase(row.id, Thread(row.team, row.channel, row.thread_ts)) for row in rows]

    async def open_escalations(self, after: int, limit: int) -> Sequence[OpenEscalation]:
        """Escalations of open cases for which people were called, in order."""
        rows = await self._tx.execute(_ESCALATED, {"after": after, "limit": limit})
        return [OpenEscalation(**{**row, "severity": Severity(row["severity"])}) for row in rows.mappings()]

    async def missing_answers(
        self, grace: float, limit: int, after: int = 0, *, owed: bool = True
    ) -> Sequence[MissingAnswer]:
        """What finished longer than `grace` seconds ago and was not posted, in order; with `owed` also what a workflow
        will post."""
        which = {"grace": grace, "limit": limit, "after": after, "owed": owed}
        return [MissingAnswer(**row) for row in (await self._tx.execute(_UNPOSTED, which)).mappings()]

    async def turn_runs(self) -> bool:
        """Whether some agents' worker holds a turn of any case under a live lease."""
        return bool((await self._tx.execute(_TURN_RUNS)).scalar_one())

    async def closing_is_unposted(self, bug_id: str) -> bool:
        """Whether the case has ended, and some thread of it was not told how."""
        return bool((await self._tx.execute(_IS_CLOSING_UNPOSTED, {"bug_id": bug_id})).scalar_one_or_none())
