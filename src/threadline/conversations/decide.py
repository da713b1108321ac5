"""The steps of a turn's decision: the model decides, what it wants to know is looked up, and the evidence is weighed.

Each step keeps what it came to before anybody acts on it, so that a second attempt finds the first one's.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from threadline.conversations import conversation_row
from threadline.conversations.decision_contract import ROUNDS, Escalate, Round, Step
from threadline.conversations.situation import Situations
from threadline.db.engine import Database
from threadline.decisions import engine
from threadline.decisions.engine import Situation
from threadline.decisions.model import (
    Decision,
    DecisionRound,
    DecisionType,
    Factors,
    NextStep,
    Retrieval,
    Source,
    context_completeness,
    escalation,
    judge,
    last_round,
    tool_success_rate,
)
from threadline.decisions.store import DecisionStore
from threadline.decisions.variants import Variant, variant_of
from threadline.errors import Permanent
from threadline.knowledge.conflicts import find_conflicts
from threadline.knowledge.model import CRITICAL_TYPES
from threadline.models.chat_model import ChatModel
from threadline.models.model import Usage
from threadline.models.structured import asking
from threadline.tools.model import ErrorCode

LookUp = Callable[[str, str, Sequence[str]], Awaitable[tuple[Sequence[Source], Retrieval]]]
"""What the documents of a team say of a query, those of these types first. Raises what the knowledge raises."""

_BROKEN = tuple(code.value for code in ErrorCode if code.is_fault)
"""Of errors of tools: that a time is taken says nothing against the calendar."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Rules:
    """What settings say. `questions`: how often in a row the engine may ask back before a person takes over."""

    variants: tuple[Variant, ...] = (Variant(),)
    questions: int = 2


class Deciding:
    """Args: `model` is None where there is no key for one: then nothing is decided."""

    def __init__(
        self, database: Database, model: ChatModel | None, situations: Situations, look_up: LookUp, rules: Rules
    ) -> None:
        self._database = database
        self._model = model
        self._situations = situations
        self._look_up = look_up
        self._rules = rules

    async def decide(self, asked: Round, attempt: int) -> Step:
        """See `DecisionActivities.decide`; `attempt` counts from 1."""
        if self._model is None:
            return Step(NextStep.PROCEED, decides=False)
        made = await self._made(asked)
        if made is None:
            situation = await self._situations.of(asked)
            if not situation.query:
                return Step(NextStep.PROCEED, decides=False)
            made = await self._ask(self._model, asked, situation, attempt)
        waits = made.decision.type is DecisionType.RETRIEVE and made.retrieval is None
        return _step(made) if waits else await self.weigh(asked, attempt)

    async def look_up(self, asked: Round) -> str:
        """See `DecisionActivities.look_up`."""
        made = await self._kept(asked)
        if made.retrieval is None:
            try:
                sources, retrieval = await self._look_up(
                    asked.thread.team, made.decision.query, made.decision.document_types
                )
            except Exception as error:  # noqa: BLE001 - whatever keeps the knowledge from answering, the turn goes on
                _log.warning("retrieval_failed", slack_thread=asked.thread.key, turn=asked.turn, reason=str(error))
                sources, retrieval = (), _unasked(made.decision)
            made = await self._found(asked, sources, retrieval)
        failed = made.retrieval is not None and made.retrieval.failed
        return "the knowledge cannot be asked" if failed else f"{len(made.sources)} passages"

    async def weigh(self, asked: Round, attempt: int) -> Step:
        """See `DecisionActivities.weigh`."""
        made = await self._concluded(asked)
        if made.judgement is None:
            await self._weigh(asked, made, conflict=await self._conflicts(asked, made, attempt))
            made = await self._kept(asked)
        return _step(made)

    async def give_up(self, asked: Round) -> Step:
        """See `DecisionActivities.give_up_deciding`.

        What looks like a contradiction counts as one; what was to be looked up and is not, as knowledge that is away.
        """
        made = await self._made(asked)
        if made is None:
            words = await self._situations.sensitive_words(asked)
            if not words:
                return Step(NextStep.PROCEED, about="no decision")
            made = self._deliberation(asked, Situation("", sensitive=words), engine.default_escalation(words))
            async with self._database.begin() as work:
                row = await conversation_row.locked(work.tx, asked.thread)
                await DecisionStore(work.tx).add(row.id, asked.turn, made)
        if made.judgement is None:
            if made.decision.type is DecisionType.RETRIEVE and made.retrieval is None:
                made = await self._found(asked, (), _unasked(made.decision))
            await self._weigh(asked, made, conflict=bool(made.retrieval and made.retrieval.suspicious))
        return _step(await self._kept(asked))

    async def escalate(self, request: Escalate) -> None:
        """See `DecisionActivities.escalate`."""
        thread, turn = request.thread, request.turn
        async with self._database.begin() as work:
            row, store = await conversation_row.locked(work.tx, thread), DecisionStore(work.tx)
            rounds = await store.rounds(row.id, turn)
            if not rounds:
                undecided = self._deliberation(Round(thread, turn), Situation(""), engine.default_escalation())
                await store.add(row.id, turn, undecided)
            sure = rounds[-1].judgement.confidence if rounds and rounds[-1].judgement else 0.0
            await store.escalate(row.id, turn, escalation(sure, request.reason))

    async def _found(self, asked: Round, sources: Sequence[Source], retrieval: Retrieval) -> DecisionRound:
        """Keep what looking up came to, with what an earlier round has found; the first word stands."""
        async with self._database.begin() as work:
            row, store = await conversation_row.locked(work.tx, asked.thread), DecisionStore(work.tx)
            rounds = await store.rounds(row.id, asked.turn)
            before = last_round([each for each in rounds if each.round < asked.round])
            if before and before.sources and before.retrieval:
                sources, retrieval = _together(sources, retrieval, before.sources, before.retrieval)
            await store.add_sources(row.id, asked.turn, asked.round, sources, retrieval)
        return await self._kept(asked)

    async def _ask(self, model: ChatModel, asked: Round, situation: Situation, attempt: int) -> DecisionRound:
        """The first decision of a round stands, and every call of the model was paid for."""
        instructions = variant_of(self._rules.variants, asked.thread.key).prompt
        async with self._paying(asked, "decide") as paid:
            decision, problems = await engine.decide(situation, asking(model, paid, attempt), instructions)
            made = self._deliberation(asked, situation, decision)
            async with self._database.begin() as work:
                row = await conversation_row.locked(work.tx, asked.thread)
                await DecisionStore(work.tx).add(row.id, asked.turn, made)
        if problems:
            _log.warning("decision_invalid", slack_thread=asked.thread.key, turn=asked.turn, errors=problems)
        return await self._kept(asked)

    async def _conflicts(self, asked: Round, made: DecisionRound, attempt: int) -> bool:
        if not (made.retrieval and made.retrieval.suspicious and self._model):
            return False
        pairs = [(made.sources[one], made.sources[other]) for one, other in made.retrieval.suspicious]
        async with self._paying(asked, "compare") as paid:
            return await engine.find_conflict(pairs, asking(self._model, paid, attempt))

    async def _weigh(self, asked: Round, made: DecisionRound, *, conflict: bool) -> None:
        """The evidence is what is on record now; the first verdict of a round stands."""
        thread, turn = asked.thread, asked.turn
        situation = await self._situations.of(asked)
        async with self._database.begin() as work:
            succeeded, failed = await work.tool_executions.count_outcomes(thread, _BROKEN)
            row, store = await conversation_row.locked(work.tx, thread), DecisionStore(work.tx)
            questions = await store.consecutive_questions(row.id, turn)
            found = made.retrieval
            away = found is not None and found.failed
            factors = Factors(
                found.quality if found and not away else None,
                made.decision.complexity,
                context_completeness(
                    lead=bool(situation.lead), history=bool(situation.recent), intent=made.decision.intent_clear
                ),
                tool_success_rate(succeeded, failed),
                conflict,
                retrieval_failed=away,
                retrieval_critical=away and found is not None and found.critical,
            )
            judgement = judge(
                made.decision,
                factors,
                made.thresholds,
                retrieved_more=asked.round >= ROUNDS,
                questions=questions,
                questions_allowed=self._rules.questions,
            )
            await store.add_judgement(row.id, turn, asked.round, factors, judgement)
        _log.info(
            "decision_made",
            slack_thread=thread.key,
            turn=turn,
            round=asked.round,
            type=made.decision.type.value,
            next_step=judgement.next_step.value,
            confidence=judgement.confidence,
            reason=judgement.reason.value if judgement.reason else "",
            variant=made.variant,
        )

    async def _made(self, asked: Round) -> DecisionRound | None:
        async with self._database.begin() as work:
            conversation = await conversation_row.id_of(work.tx, asked.thread)
            rounds = await DecisionStore(work.tx).rounds(conversation, asked.turn)
        return next((each for each in rounds if each.round == asked.round), None)

    async def _concluded(self, asked: Round) -> DecisionRound:
        """What is on record of a round, with what it rests on."""
        async with self._database.begin() as work:
            conversation = await conversation_row.id_of(work.tx, asked.thread)
            rounds = await DecisionStore(work.tx).rounds(conversation, asked.turn)
        return _there(last_round([each for each in rounds if each.round <= asked.round]))

    async def _kept(self, asked: Round) -> DecisionRound:
        return _there(await self._made(asked))

    def _deliberation(self, asked: Round, situation: Situation, decided: Decision) -> DecisionRound:
        variant = variant_of(self._rules.variants, asked.thread.key)
        version = engine.prompt_version(variant.prompt or engine.prompt("decide"))
        return DecisionRound(asked.round, decided, variant.thresholds, situation.hash, version, variant.name)

    @asynccontextmanager
    async def _paying(self, asked: Round, purpose: str) -> AsyncIterator[list[Usage]]:
        """Keep what calls of the model have cost, whatever comes of them; the time of all counts with the last."""
        begun, paid = time.monotonic(), list[Usage]()
        try:
            yield paid
        finally:
            took = round((time.monotonic() - begun) * 1000)
            async with self._database.begin() as work:
                for usage in paid:
                    last = usage is paid[-1]
                    await work.conversations.spent(asked.thread, asked.turn, 0, purpose, usage, took if last else 0)


def _there(made: DecisionRound | None) -> DecisionRound:
    """Of a conversation that was deleted meanwhile nothing is on record any more."""
    if made is None:
        raise Permanent("This round has no stored decision, so the turn cannot continue.")
    return made


def _step(made: DecisionRound) -> Step:
    """As the workflow is told of it: nobody's words."""
    action, verdict = made.decision.type.value, made.judgement
    if verdict is None:
        return Step(about=action)
    because = f", {verdict.reason}" if verdict.reason else ""
    return Step(verdict.next_step, about=f"{action}: {verdict.next_step}{because} ({verdict.confidence:.2f})")


def _together(
    sources: Sequence[Source], retrieval: Retrieval, earlier: Sequence[Source], before: Retrieval
) -> tuple[Sequence[Source], Retrieval]:
    """Two rounds' passages, each once, the later one's first. What one has found is there where the other failed."""
    unique: dict[tuple[str, str, str], Source] = {}
    for each in (*sources, *earlier):
        unique.setdefault((each.source, each.section, each.text), each)
    joined = list(unique.values())
    return joined, Retrieval(max(retrieval.quality, before.quality), suspicious=tuple(find_conflicts(joined)))


def _unasked(decided: Decision) -> Retrieval:
    """What a retrieval comes to where the knowledge does not answer."""
    return Retrieval(failed=True, critical=not CRITICAL_TYPES.isdisjoint(decided.document_types))
