"""DecisionStore: each turn's decision, round by round, with its evidence and its outcome."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Executable, Row, and_, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from threadline.db.engine import Store
from threadline.decisions.model import (
    Decision,
    DecisionOutcome,
    DecisionRound,
    EscalationReason,
    Factors,
    Judgement,
    NextStep,
    Thresholds,
)
from threadline.decisions.tables import decisions
from threadline.errors import Permanent
from threadline.knowledge.model import Retrieval, Source

_DECISION = TypeAdapter(Decision)
_RETRIEVAL = TypeAdapter(Retrieval | None)
_FACTORS = TypeAdapter(Factors | None)
_SOURCES = TypeAdapter(tuple[Source, ...])
_NO_TEXTS = {"reasoning": "", "query": "", "question": "", "escalation_reason": ""}
_RECENT_TURNS = 3
"""Earlier turns whose sources a decision takes into account."""
_QUESTIONS = text("""
SELECT count(DISTINCT d.turn) FROM decisions d
WHERE d.conversation_id = :id AND d.turn < :turn AND d.outcome = 'clarified'
AND d.turn > coalesce((SELECT max(turn) FROM decisions WHERE conversation_id = :id AND turn < :turn
                       AND outcome NOT IN ('', 'clarified')), 0)
""")
_CLOSE = text("""
UPDATE decisions SET outcome = :outcome, cost_usd = :cost_usd, sources = coalesce(
    (SELECT jsonb_agg(s.source || '{"text": ""}' ORDER BY s.number)
     FROM jsonb_array_elements(sources) WITH ORDINALITY AS s (source, number)), '[]')
WHERE conversation_id = :id AND turn = :turn AND outcome = ''
""")
_row = decisions.c


class DecisionStore(Store):
    """Access to decisions. First write wins; a caller that writes holds the conversation's row.

    `conversation_id`: the id of that row; None, for a thread without one, has no decisions.
    """

    async def rounds(self, conversation_id: int | None, turn: int) -> list[DecisionRound]:
        """Return a turn's rounds, in order."""
        query = select(decisions).where(_row.conversation_id == conversation_id, _row.turn == turn)
        return [round_of(row) for row in await self._tx.execute(query.order_by(_row.round))]

    async def add(self, conversation_id: int, turn: int, made: DecisionRound) -> DecisionRound:
        """Store the decision of a round, unless it exists; return the stored one. Its evidence is
        judged later.
        """
        new = insert(decisions).values(
            conversation_id=conversation_id,
            turn=turn,
            round=made.round,
            inputs_hash=made.inputs_hash,
            prompt_version=made.prompt_version,
            variant=made.variant,
            type=made.decision.type.value,
            decision=_DECISION.dump_python(made.decision, mode="json"),
            threshold_high=made.thresholds.high,
            threshold_low=made.thresholds.low,
        )
        stored = new.on_conflict_do_nothing().returning(decisions)
        return await self._stored(conversation_id, turn, made.round, stored)

    async def add_sources(
        self,
        conversation_id: int,
        turn: int,
        round_: int,
        sources: Sequence[Source],
        retrieval: Retrieval,
    ) -> DecisionRound:
        """Store the passages found in a round, unless they exist; return the stored round."""
        found = [asdict(each) for each in sources]
        change = (
            update(decisions)
            .where(_is_round(conversation_id, turn, round_), _row.retrieval.is_(None))
            .values(sources=found, retrieval=asdict(retrieval))
            .returning(decisions)
        )
        return await self._stored(conversation_id, turn, round_, change)

    async def add_judgement(
        self, conversation_id: int, turn: int, round_: int, factors: Factors, judgement: Judgement
    ) -> DecisionRound:
        """Store the evidence of a round and its judgement, unless they exist; return the stored
        round.
        """
        change = (
            update(decisions)
            .where(_is_round(conversation_id, turn, round_), _row.factors.is_(None))
            .values(factors=asdict(factors), **_judgement_columns(judgement))
            .returning(decisions)
        )
        return await self._stored(conversation_id, turn, round_, change)

    async def escalate(self, conversation_id: int, turn: int, judgement: Judgement) -> None:
        """Turn a turn's last round into an escalation: its answer could not be made, or a tool has
        failed.
        """
        last = select(func.max(_row.round)).where(
            _row.conversation_id == conversation_id, _row.turn == turn
        )
        which = _row.round == last.scalar_subquery()
        await self._update(conversation_id, turn, which, **_judgement_columns(judgement))

    async def close(
        self, conversation_id: int, turn: int, outcome: DecisionOutcome, cost_usd: float | None
    ) -> None:
        """Store the outcome of a turn's decision, and remove the texts of its sources."""
        which = {
            "id": conversation_id,
            "turn": turn,
            "outcome": outcome.value,
            "cost_usd": cost_usd,
        }
        await self._tx.execute(_CLOSE, which)

    async def mark_taken_over(self, conversation_id: int, turn: int) -> None:
        """Record that a person has taken the turn over; this replaces an earlier outcome."""
        await self._update(conversation_id, turn, outcome=DecisionOutcome.TAKEN_OVER.value)

    async def recent_sources(self, conversation_id: int | None, turn: int) -> list[Source]:
        """Return the passages found in the last few turns before this one, without texts, each
        once.
        """
        before = and_(
            _row.conversation_id == conversation_id,
            _row.turn < turn,
            _row.turn >= turn - _RECENT_TURNS,
        )
        query = select(_row.sources).where(before).order_by(_row.turn, _row.round)
        stored = (await self._tx.execute(query)).scalars()
        return list(
            dict.fromkeys(
                replace(each, score=0.0)
                for row in stored
                for each in _SOURCES.validate_python(row)
            )
        )

    async def consecutive_questions(self, conversation_id: int, turn: int) -> int:
        """Return how many of the turns right before this one have only asked back."""
        return int(
            (
                await self._tx.execute(_QUESTIONS, {"id": conversation_id, "turn": turn})
            ).scalar_one()
        )

    async def delete_content(self, conversation_id: int) -> None:
        """Remove the texts of decisions, which may quote a deleted message; their values stay."""
        without = _row.decision.op("||")(_NO_TEXTS)
        mine = _row.conversation_id == conversation_id
        await self._tx.execute(update(decisions).where(mine).values(decision=without))

    async def _stored(
        self, conversation_id: int, turn: int, round_: int, change: Executable
    ) -> DecisionRound:
        """Execute a change that returns the round, or nothing if another attempt was first; return
        the stored round.
        """
        row = (await self._tx.execute(change)).one_or_none()
        if row is None:
            query = select(decisions).where(_is_round(conversation_id, turn, round_))
            row = (await self._tx.execute(query)).one_or_none()
        if row is None:
            raise Permanent("This turn's decision was deleted with its conversation.")
        return round_of(row)

    async def _update(
        self, conversation_id: int, turn: int, *which: ColumnElement[bool], **values: object
    ) -> None:
        mine = (_row.conversation_id == conversation_id, _row.turn == turn, *which)
        await self._tx.execute(update(decisions).where(*mine).values(**values))


def _is_round(conversation_id: int, turn: int, round_: int) -> ColumnElement[bool]:
    return and_(_row.conversation_id == conversation_id, _row.turn == turn, _row.round == round_)


def _judgement_columns(judgement: Judgement) -> dict[str, Any]:
    reason = judgement.reason.value if judgement.reason else ""
    return {
        "confidence": judgement.confidence,
        "next_step": judgement.next_step.value,
        "reason": reason,
    }


def round_of(row: Row[Any]) -> DecisionRound:
    """Build the round from a row of the table."""
    judgement = None
    if row.next_step:
        reason = EscalationReason(row.reason) if row.reason else None
        judgement = Judgement(NextStep(row.next_step), row.confidence, reason)
    return DecisionRound(
        row.round,
        _DECISION.validate_python(row.decision),
        Thresholds(row.threshold_high, row.threshold_low),
        row.inputs_hash,
        row.prompt_version,
        row.variant,
        _SOURCES.validate_python(row.sources),
        _RETRIEVAL.validate_python(row.retrieval),
        _FACTORS.validate_python(row.factors),
        judgement,
    )
