"""The steps of a turn's decision: the model decides, what it wants to know is looked up, and the evidence is weighed.

Each step keeps what it came to before anybody acts on it, so that a second attempt finds the first one's.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from threadline.conversations.decision_contract import ROUNDS, Escalate, Round, Step
from threadline.conversations.situation import Situations
from threadline.db.engine import Database
from threadline.decisions import conflicts as comparing
from threadline.decisions import engine
from threadline.decisions import model as decisions
from threadline.decisions.confidence import Factors, context_completeness, tool_success_rate
from threadline.decisions.engine import Known, Situation
from threadline.decisions.model import Action, Course, Decided, Deliberation, Retrieval, Source, Spent, concluded
from threadline.decisions.variants import Variant, assigned
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
            return Step(Course.PROCEED, decides=False)
        made = await self._made(asked)
        if made is None:
            situation = await self._situations.of(asked)
            if not situation.query:
                return Step(Course.PROCEED, decides=False)
            made = await self._ask(self._model, asked, situation, attempt)
        waits = made.decided.action is Action.RETRIEVE and made.retrieval is None
        return _step(made) if waits else await self.weigh(asked, attempt)

    async def look_up(self, asked: Round) -> str:
        """See `DecisionActivities.look_up`."""
        made = await self._kept(asked)
        if made.retrieval is None:
            try:
                sources, retrieval = await self._look_up(
                    asked.thread.team, made.decided.query, made.decided.document_types
                )
            except Exception as error:  # noqa: BLE001 - whatever keeps the knowledge from answering, the turn goes on
                _log.warning("retrieval_failed", slack_thread=asked.thread.key, turn=asked.turn, reason=str(error))
                sources, retrieval = (), _unasked(made.decided)
            made = await self._found(asked, sources, retrieval)
        failed = made.retrieval is not None and made.retrieval.failed
        return "the knowledge cannot be asked" if failed else f"{len(made.sources)} passages"

    async def weigh(self, asked: Round, attempt: int) -> Step:
        """See `DecisionActivities.weigh`."""
        made = await self._concluded(asked)
        if made.verdict is None:
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
                return Step(Course.PROCEED, about="no decision")
            made = self._deliberation(asked, Situation("", sensitive=words), engine.undecided(words))
            async with self._database.begin() as work:
                await work.decisions.keep(asked.thread, asked.turn, made)
        if made.verdict is None:
            if made.decided.action is Action.RETRIEVE and made.retrieval is None:
                made = await self._found(asked, (), _unasked(made.decided))
            await self._weigh(asked, made, conflict=bool(made.retrieval and made.retrieval.suspicious))
        return _step(await self._kept(asked))

    async def escalate(self, request: Escalate) -> None:
        """See `DecisionActivities.escalate`."""
        thread, turn = request.thread, request.turn
        async with self._database.begin() as work:
            rounds = await work.decisions.of(thread, turn)
            if not rounds:
                undecided = self._deliberation(Round(thread, turn), Situation(""), engine.undecided())
                await work.decisions.keep(thread, turn, undecided)
            sure = rounds[-1].verdict.confidence if rounds and rounds[-1].verdict else 0.0
            await work.decisions.escalated(thread, turn, decisions.handed_over(sure, request.reason))

    async def _found(self, asked: Round, sources: Sequence[Source], retrieval: Retrieval) -> Deliberation:
        """Keep what looking up came to, with what an earlier round has found; the first word stands."""
        async with self._database.begin() as work:
            rounds = await work.decisions.of(asked.thread, asked.turn)
            before = concluded([each for each in rounds if each.round < asked.round])
            if before and before.sources and before.retrieval:
                sources, retrieval = _together(sources, retrieval, before.sources, before.retrieval)
            await work.decisions.found(asked.thread, asked.turn, asked.round, sources, retrieval)
        return await self._kept(asked)

    async def _ask(self, model: ChatModel, asked: Round, situation: Situation, attempt: int) -> Deliberation:
        """The first decision of a round stands, and every call of the model was paid for."""
        instructions = assigned(self._rules.variants, asked.thread.key).prompt
        async with self._paying(asked, "decide") as paid:
            decision = await engine.decide(situation, asking(model, paid, attempt), instructions)
            made = self._deliberation(asked, situation, decision.decided)
            async with self._database.begin() as work:
                await work.decisions.keep(asked.thread, asked.turn, made)
        if decision.faults:
            _log.warning("decision_invalid", slack_thread=asked.thread.key, turn=asked.turn, errors=decision.faults)
        return await self._kept(asked)

    async def _conflicts(self, asked: Round, made: Deliberation, attempt: int) -> bool:
        if not (made.retrieval and made.retrieval.suspicious and self._model):
            return False
        known = [Known(each.title, each.section, each.text) for each in made.sources]
        pairs = [(known[one], known[other]) for one, other in made.retrieval.suspicious]
        async with self._paying(asked, "compare") as paid:
            return await comparing.conflicting(pairs, asking(self._model, paid, attempt))

    async def _weigh(self, asked: Round, made: Deliberation, *, conflict: bool) -> None:
        """The evidence is what is on record now; the first verdict of a round stands."""
        thread, turn = asked.thread, asked.turn
        situation = await self._situations.of(asked)
        async with self._database.begin() as work:
            succeeded, failed = await work.tool_executions.count_outcomes(thread, _BROKEN)
            questions = await work.decisions.questions_in_a_row(thread, turn)
            spent = Spent(asked.round >= ROUNDS, questions=questions, questions_allowed=self._rules.questions)
            found = made.retrieval
            away = found is not None and found.failed
            factors = Factors(
                found.quality if found and not away else None,
                made.decided.complexity,
                context_completeness(
                    lead=bool(situation.lead), history=bool(situation.recent), intent=made.decided.intent_clear
                ),
                tool_success_rate(succeeded, failed),
                conflict,
                retrieval_failed=away,
                retrieval_critical=away and found is not None and found.critical,
            )
            verdict = decisions.verdict(made.decided, factors, made.thresholds, spent)
            await work.decisions.weighed(thread, turn, asked.round, factors, verdict)
        _log.info(
            "decision_made",
            slack_thread=thread.key,
            turn=turn,
            round=asked.round,
            action=made.decided.action.value,
            course=verdict.course.value,
            confidence=verdict.confidence,
            reason=verdict.reason.value if verdict.reason else "",
            variant=made.variant,
        )

    async def _made(self, asked: Round) -> Deliberation | None:
        async with self._database.begin() as work:
            rounds = await work.decisions.of(asked.thread, asked.turn)
        return next((each for each in rounds if each.round == asked.round), None)

    async def _concluded(self, asked: Round) -> Deliberation:
        """What is on record of a round, with what it rests on."""
        async with self._database.begin() as work:
            rounds = await work.decisions.of(asked.thread, asked.turn)
        return _there(concluded([each for each in rounds if each.round <= asked.round]))

    async def _kept(self, asked: Round) -> Deliberation:
        return _there(await self._made(asked))

    def _deliberation(self, asked: Round, situation: Situation, decided: Decided) -> Deliberation:
        variant = assigned(self._rules.variants, asked.thread.key)
        version = engine.version(variant.prompt or engine.prompt("decide"))
        return Deliberation(asked.round, decided, variant.thresholds, situation.hash, version, variant.name)

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


def _there(made: Deliberation | None) -> Deliberation:
    """Of a conversation that was deleted meanwhile nothing is on record any more."""
    if made is None:
        raise Permanent("This round has no stored decision, so the turn cannot continue.")
    return made


def _step(made: Deliberation) -> Step:
    """As the workflow is told of it: nobody's words."""
    action, verdict = made.decided.action.value, made.verdict
    if verdict is None:
        return Step(about=action)
    because = f", {verdict.reason}" if verdict.reason else ""
    return Step(verdict.course, about=f"{action}: {verdict.course}{because} ({verdict.confidence:.2f})")


def _together(
    sources: Sequence[Source], retrieval: Retrieval, earlier: Sequence[Source], before: Retrieval
) -> tuple[Sequence[Source], Retrieval]:
    """Two rounds' passages, each once, the later one's first. What one has found is there where the other failed."""
    unique: dict[tuple[str, str, str], Source] = {}
    for each in (*sources, *earlier):
        unique.setdefault((each.source, each.section, each.text), each)
    joined = list(unique.values())
    return joined, Retrieval(max(retrieval.quality, before.quality), suspicious=tuple(find_conflicts(joined)))


def _unasked(decided: Decided) -> Retrieval:
    """What a retrieval comes to where the knowledge does not answer."""
    return Retrieval(failed=True, critical=not CRITICAL_TYPES.isdisjoint(decided.document_types))
