"""What the decision engine has decided in each turn, with what evidence, and what came of it."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row, and_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.conversations import conversation_row
from threadline.conversations.tables import conversations
from threadline.decisions.confidence import Factors, Thresholds
from threadline.decisions.model import Course, Decided, Deliberation, Reason, Result, Retrieval, Source, Verdict
from threadline.decisions.tables import decisions
from threadline.slack.model import Thread

_DECIDED = TypeAdapter(Decided)
_RETRIEVAL = TypeAdapter(Retrieval | None)
_FACTORS = TypeAdapter(Factors | None)
_SOURCES = TypeAdapter(tuple[Source, ...])
_NO_WORDS = {"reasoning": "", "query": "", "question": "", "escalation_reason": ""}
_RECENT = 3
"""Turns before this one whose sources a decision is told of."""
_QUESTIONS = text("""
SELECT count(DISTINCT d.turn) FROM decisions d
WHERE d.conversation_id = :id AND d.turn < :turn AND d.outcome = 'clarified'
AND d.turn > coalesce((SELECT max(turn) FROM decisions WHERE conversation_id = :id AND turn < :turn
                       AND outcome NOT IN ('', 'clarified')), 0)
""")


class Decisions:
    """What changes a decision holds its conversation's row until the transaction ends; the first word stands."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def of(self, thread: Thread, turn: int) -> list[Deliberation]:
        """A turn's rounds, in order."""
        query = select(decisions).join(conversations).where(conversation_row.here(thread), decisions.c.turn == turn)
        return [_read(row) for row in await self._connection.execute(query.order_by(decisions.c.round))]

    async def keep(self, thread: Thread, turn: int, made: Deliberation) -> None:
        """Write down what was decided in a round, unless it is there; its evidence is weighed later."""
        row = await conversation_row.locked(self._connection, thread)
        new = insert(decisions).values(
            conversation_id=row.id,
            turn=turn,
            round=made.round,
            inputs_hash=made.inputs_hash,
            prompt_version=made.prompt_version,
            variant=made.variant,
            action=made.decided.action.value,
            decided=_DECIDED.dump_python(made.decided, mode="json"),
            threshold_high=made.thresholds.high,
            threshold_low=made.thresholds.low,
        )
        await self._connection.execute(new.on_conflict_do_nothing())

    async def found(
        self, thread: Thread, turn: int, round_: int, sources: Sequence[Source], retrieval: Retrieval
    ) -> None:
        """What was looked up in a round."""
        values = {"sources": [asdict(each) for each in sources], "retrieval": asdict(retrieval)}
        await self._write(thread, turn, round_, "retrieval", values)

    async def weighed(self, thread: Thread, turn: int, round_: int, factors: Factors, verdict: Verdict) -> None:
        """What the evidence of a round came to, and what follows."""
        await self._write(thread, turn, round_, "factors", {"factors": asdict(factors), **_verdict(verdict)})

    async def escalated(self, thread: Thread, turn: int, verdict: Verdict) -> None:
        """A turn's last round ends with a person after all: its answer could not be made, or a tool has failed."""
        row = await conversation_row.locked(self._connection, thread)
        last = max((each.round for each in await self.of(thread, turn)), default=0)
        mine = and_(decisions.c.conversation_id == row.id, decisions.c.turn == turn, decisions.c.round == last)
        await self._connection.execute(update(decisions).where(mine).values(**_verdict(verdict)))

    async def settled(self, thread: Thread, turn: int, outcome: Result, cost_usd: float) -> None:
        """What came of a turn's decision; the texts of its sources go."""
        row = await conversation_row.locked(self._connection, thread)
        for each in await self.of(thread, turn):
            sources = [asdict(replace(source, text="")) for source in each.sources]
            which = and_(
                decisions.c.conversation_id == row.id, decisions.c.turn == turn, decisions.c.round == each.round
            )
            values = {"outcome": outcome.value, "cost_usd": cost_usd, "sources": sources}
            await self._connection.execute(update(decisions).where(which, decisions.c.outcome == "").values(**values))

    async def known_sources(self, thread: Thread, turn: int) -> list[Source]:
        """What was found in the last few turns before this one, without texts, each once."""
        query = (
            select(decisions.c.sources)
            .join(conversations)
            .where(conversation_row.here(thread), decisions.c.turn < turn, decisions.c.turn >= turn - _RECENT)
            .order_by(decisions.c.turn, decisions.c.round)
        )
        kept = (await self._connection.execute(query)).scalars()
        return list(dict.fromkeys(replace(each, score=0.0) for row in kept for each in _SOURCES.validate_python(row)))

    async def questions_in_a_row(self, thread: Thread, turn: int) -> int:
        """How often the turns right before this one have only asked back."""
        row = await conversation_row.locked(self._connection, thread)
        return int((await self._connection.execute(_QUESTIONS, {"id": row.id, "turn": turn})).scalar_one())

    async def forget_words(self, conversation_id: int) -> None:
        """Somebody has deleted words that a decision may quote: what it says goes, what it decided stays."""
        mine = decisions.c.conversation_id == conversation_id
        changed = update(decisions).where(mine).values(decided=decisions.c.decided.op("||")(_NO_WORDS))
        await self._connection.execute(changed)

    async def _write(self, thread: Thread, turn: int, round_: int, unless: str, values: dict[str, Any]) -> None:
        """Unless it is there: an earlier try has written it."""
        row = await conversation_row.locked(self._connection, thread)
        mine = and_(decisions.c.conversation_id == row.id, decisions.c.turn == turn, decisions.c.round == round_)
        await self._connection.execute(update(decisions).where(mine, decisions.c[unless].is_(None)).values(**values))


def _verdict(verdict: Verdict) -> dict[str, Any]:
    reason = verdict.reason.value if verdict.reason else ""
    return {"confidence": verdict.confidence, "course": verdict.course.value, "reason": reason}


def _read(row: Row[Any]) -> Deliberation:
    verdict = None
    if row.course:
        reason = Reason(row.reason) if row.reason else None
        verdict = Verdict(Course(row.course), row.confidence, reason)
    return Deliberation(
        row.round,
        _DECIDED.validate_python(row.decided),
        Thresholds(row.threshold_high, row.threshold_low),
        row.inputs_hash,
        row.prompt_version,
        row.variant,
        _SOURCES.validate_python(row.sources),
        _RETRIEVAL.validate_python(row.retrieval),
        _FACTORS.validate_python(row.factors),
        verdict,
    )
