"""CaseLists: cases by status, by words and by thread, and what cards about them are made of."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select, text, tuple_

from threadline.cases.model import (
    Action,
    CaseStatus,
)
from threadline.cases.outcome import StoredOutcome
from threadline.cases.store.case import CASES, REPORTER_WORDS, SUMMARY_AND_FIX, CaseRecord, record_of
from threadline.cases.tables import (
    case_transitions,
    cases,
)
from threadline.db.engine import Transaction
from threadline.db.values import storable
from threadline.slack.model import Thread

_SEARCH = text("""
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
_FOR_CARDS = text(f"""
SELECT c.*, s.channel AS summary_channel, s.thread_ts AS summary_ts, p.url, {REPORTER_WORDS},
       (SELECT at FROM case_transitions WHERE bug_id = c.bug_id ORDER BY rev DESC LIMIT 1) AS status_since,
       coalesce((SELECT message_text FROM agent_conversations
                 WHERE bug_id = c.bug_id AND sender_type = 'reporter' AND message_type IN ('report', 'message')
                 ORDER BY message_type = 'report' DESC, said_at, id LIMIT 1), '') AS report,
       coalesce((SELECT jsonb_agg(jsonb_build_array(action, result) ORDER BY turn DESC) FROM agent_turns
                 WHERE bug_id = c.bug_id AND turn <= c.turn), '[]') AS turns
FROM cases c {SUMMARY_AND_FIX}
WHERE c.team = :team AND c.bug_id = ANY(:bug_ids) ORDER BY array_position(CAST(:bug_ids AS text[]), c.bug_id)
""")  # noqa: S608 - as above


@dataclass(frozen=True)
class Transition:
    """`before` is None for the opening."""

    before: str | None
    to: str
    reason: str
    actor: str
    at: datetime


@dataclass(frozen=True)
class CardTurn:
    action: Action | None
    result: Mapping[str, Any]

    @property
    def outcome(self) -> StoredOutcome:
        return StoredOutcome.model_validate(self.result)


@dataclass(frozen=True)
class CardSource:
    """What a case's card is made of: `turns` are its settled ones, the last one first.

    `report` is the text that opened the case; `pull_request` an address, or empty; `reporter_words` are as in
    `TurnPost`.
    """

    case: CaseRecord
    status_since: datetime
    report: str
    reporter_words: str
    pull_request: str
    turns: Sequence[CardTurn]


class CaseLists:
    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    async def list(
        self, *, status: CaseStatus | None = None, open_only: bool = False, reporter_id: str = "", limit: int = 50
    ) -> list[CaseRecord]:
        """The newest cases first."""
        query = CASES.order_by(cases.c.id.desc()).limit(limit)
        if status:
            query = query.where(cases.c.status == status)
        if open_only:
            query = query.where(cases.c.status != CaseStatus.RESOLVED)
        if reporter_id:
            query = query.where(cases.c.reporter_id == reporter_id)
        return [record_of(row) for row in await self._tx.execute(query)]

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
        """A team's cases, those that have most of the words first, else the newest.

        Args:
            words: any of them is in the title, or in what the reporter wrote; or a case's number.
            component: a part of the name of one that the case has.
        """
        given = {"words": storable(words).strip(), "component": storable(component).strip(), "status": status or ""}
        wanted = {"team": team, "open_only": open_only, "limit": limit, **given}
        ids = [row.bug_id for row in await self._tx.execute(_SEARCH, wanted)]
        return await self.for_cards(team, ids)

    async def for_cards(self, team: str, bug_ids: Sequence[str]) -> Sequence[CardSource]:
        """What the cards of a team's cases are made of, in one statement and in this order; unknown ones are left out.

        It reads no diffs: those of all turns of 21 cases may be hundreds of megabytes.
        """
        rows = await self._tx.execute(_FOR_CARDS, {"team": team, "bug_ids": list(bug_ids)})
        return [
            CardSource(
                case=record_of(row),
                status_since=row.status_since,
                report=row.report,
                reporter_words=row.reporter_words,
                pull_request=row.url or "",
                turns=[CardTurn(Action(action) if action else None, result) for action, result in row.turns],
            )
            for row in rows
        ]

    async def bug_ids(self, threads: Collection[Thread]) -> dict[Thread, str]:
        """The cases that were reported in these threads."""
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
