"""What people who run the house ask: which cases there are, how they came where they are, and what they cost."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, select, text, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.cases.model import SUMMARY, CaseNotFound, CaseStatus, Severity
from threadline.cases.tables import case_transitions, cases
from threadline.db.values import storable
from threadline.slack.model import Thread
from threadline.threads.store import threads_of

_COSTS = text("""
SELECT c.bug_id, c.title, count(t.turn) AS turns, coalesce(sum(t.cost_usd), 0) AS cost_usd,
       coalesce(sum(t.input_tokens), 0) AS input_tokens, coalesce(sum(t.output_tokens), 0) AS output_tokens,
       coalesce(sum(t.duration_s), 0) AS duration_s
FROM cases c JOIN agent_turns t USING (bug_id)
GROUP BY c.id, c.bug_id, c.title ORDER BY cost_usd DESC, c.id DESC LIMIT :limit
""")
_FOUND = text("""
WITH asked AS (
    SELECT string_agg(quote_literal(lexeme), ' | ')::tsquery AS query
    FROM unnest(to_tsvector('english', left(:words, 4000)))
)
SELECT c.bug_id FROM cases c CROSS JOIN asked a
LEFT JOIN LATERAL (
    SELECT max(ts_rank(to_tsvector('english', m.message_text), a.query)) AS rank FROM bug_conversations m
    WHERE m.bug_id = c.bug_id AND m.sender_type = 'reporter' AND m.redacted_at IS NULL
      AND to_tsvector('english', m.message_text) @@ a.query) told ON true
WHERE c.team = :team AND (:status = '' OR c.status = :status) AND (NOT :open_only OR c.status <> 'resolved')
  AND (:component = '' OR EXISTS (SELECT FROM unnest(c.components) AS each
                                  WHERE strpos(lower(each), lower(:component)) > 0))
  AND (a.query IS NULL OR told.rank IS NOT NULL OR to_tsvector('english', c.title) @@ a.query
       OR c.bug_id = upper(:words))
ORDER BY greatest(told.rank, ts_rank(to_tsvector('english', c.title), a.query), 0) DESC, c.id DESC LIMIT :limit
""")
"""By words that the reporter used or that are in the title: any of them, the case that has most of them first."""

_SUMMARIES = threads_of(SUMMARY)
_CASES = select(
    cases, _SUMMARIES.c.channel.label("summary_channel"), _SUMMARIES.c.thread_ts.label("summary_ts")
).outerjoin(_SUMMARIES, _SUMMARIES.c.workflow_id == cases.c.workflow_id)
"""Cases with their thread in the summaries channel."""


@dataclass(frozen=True)
class CaseRecord:
    """A case in full. `summary`: its thread in the summaries channel; `wait_until`: seconds since 1970, 0 for none."""

    bug_id: str
    thread: Thread
    reporter_id: str
    title: str
    severity: Severity
    components: list[str]
    status: CaseStatus
    summary: Thread | None
    turn: int
    questions: int
    escalations: int
    closings: int
    wait_until: float
    close_reason: str
    base: dict[str, str]
    cost_usd: float
    created_at: datetime
    resolved_at: datetime | None


@dataclass(frozen=True)
class Transition:
    """`before` is None for the opening."""

    before: str | None
    to: str
    reason: str
    actor: str
    at: datetime


@dataclass(frozen=True)
class Cost:
    """What a case's turns took, failed attempts included."""

    bug_id: str
    title: str
    turns: int
    cost_usd: float
    input_tokens: int
    output_tokens: int
    duration_s: float


class Overview:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def case(self, bug_id: str) -> CaseRecord:
        """Raises `CaseNotFound`."""
        row = (await self._connection.execute(_CASES.where(cases.c.bug_id == bug_id))).one_or_none()
        if row is None:
            raise CaseNotFound(f"there is no case {bug_id}; `threadline cases list` lists them")
        return _case(row)

    async def cases(
        self, *, status: CaseStatus | None = None, open_only: bool = False, reporter_id: str = "", limit: int = 50
    ) -> list[CaseRecord]:
        """The newest cases first."""
        query = _CASES.order_by(cases.c.id.desc()).limit(limit)
        if status:
            query = query.where(cases.c.status == status)
        if open_only:
            query = query.where(cases.c.status != CaseStatus.RESOLVED)
        if reporter_id:
            query = query.where(cases.c.reporter_id == reporter_id)
        return [_case(row) for row in await self._connection.execute(query)]

    async def search(
        self,
        team: str,
        *,
        words: str = "",
        status: CaseStatus | None = None,
        component: str = "",
        open_only: bool = False,
        limit: int = 20,
    ) -> list[CaseRecord]:
        """A team's cases, those that have most of the words first, else the newest.

        Args:
            words: any of them is in the title, or in what the reporter wrote; or a case's number.
            component: a part of the name of one that the case has.
        """
        given = {"words": storable(words).strip(), "component": storable(component).strip(), "status": status or ""}
        wanted = {"team": team, "open_only": open_only, "limit": limit, **given}
        ids = list((await self._connection.execute(_FOUND, wanted)).scalars())
        rows = await self._connection.execute(_CASES.where(cases.c.bug_id.in_(ids)))
        found = {row.bug_id: _case(row) for row in rows}
        return [found[each] for each in ids if each in found]

    async def bug_ids(self, threads: Collection[Thread]) -> dict[Thread, str]:
        """The cases that were reported in these threads."""
        place = tuple_(cases.c.team, cases.c.channel, cases.c.thread_ts)
        query = select(cases.c.team, cases.c.channel, cases.c.thread_ts, cases.c.bug_id)
        rows = await self._connection.execute(query.where(place.in_([(e.team, e.channel, e.ts) for e in threads])))
        return {Thread(*row[:3]): row.bug_id for row in rows}

    async def transitions(self, bug_id: str) -> list[Transition]:
        """Oldest first."""
        step = case_transitions.c
        query = select(step.from_status, step.to_status, step.reason, step.actor, step.at)
        rows = await self._connection.execute(query.where(step.bug_id == bug_id).order_by(step.rev))
        return [Transition(*row) for row in rows]

    async def costs(self, limit: int = 50) -> list[Cost]:
        """The dearest cases first."""
        rows = await self._connection.execute(_COSTS, {"limit": limit})
        return [
            Cost(
                bug_id=row.bug_id,
                title=row.title,
                turns=row.turns,
                cost_usd=float(row.cost_usd),
                input_tokens=int(row.input_tokens),
                output_tokens=int(row.output_tokens),
                duration_s=row.duration_s,
            )
            for row in rows
        ]


def _case(row: Row[Any]) -> CaseRecord:
    return CaseRecord(
        bug_id=row.bug_id,
        thread=Thread(row.team, row.channel, row.thread_ts),
        reporter_id=row.reporter_id,
        title=row.title,
        severity=Severity(row.severity),
        components=row.components,
        status=CaseStatus(row.status),
        summary=Thread(row.team, row.summary_channel, row.summary_ts) if row.summary_ts else None,
        turn=row.turn,
        questions=row.questions,
        escalations=row.escalations,
        closings=row.closings,
        wait_until=row.wait_until,
        close_reason=row.close_reason,
        base=row.base,
        cost_usd=float(row.cost_usd),
        created_at=row.created_at,
        resolved_at=row.resolved_at,
    )
