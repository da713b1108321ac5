"""What to do with a turn before its agent is asked: the model decides, documents are looked up, the evidence is judged.

A turn has two rounds at most. Each step is recorded before anybody acts on it, so that a second attempt finds the first
one's. Nothing is recorded of words that were deleted while the model read them: the decision is made anew.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import structlog

from threadline.conversations.call_input import read_binding
from threadline.conversations.contract import DecideRequest, TurnDecision
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.transcript import TranscriptStore
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Transaction, savepoint
from threadline.db.errors import translate_errors
from threadline.decisions import engine
from threadline.decisions.engine import Situation
from threadline.decisions.model import (
    RECENT_MESSAGES,
    Decision,
    DecisionRound,
    EscalationReason,
    Factors,
    Judgement,
    NextStep,
    Retrieval,
    Source,
    context_completeness,
    escalation,
    judge,
    last_round,
    may_pass_on,
    sensitive_topics,
    tool_success_rate,
)
from threadline.decisions.store import DecisionStore
from threadline.decisions.variants import variant_of
from threadline.errors import InternalError, Permanent, Transient
from threadline.knowledge import tools as qa
from threadline.knowledge.conflicts import find_conflicts
from threadline.knowledge.model import CRITICAL_TYPES, DocumentType
from threadline.models.client import ask_structured
from threadline.models.model import Ask, ChatModel, Usage
from threadline.sales.model import MAX_CONTEXT
from threadline.slack.model import Thread
from threadline.slack.names import plain_tokens
from threadline.threads import phrases
from threadline.tools.model import ErrorCode
from threadline.tools.registry import allowed_tools
from threadline.tools.roles import RecordKind
from threadline.tools.store import ToolExecutionStore

ROUNDS = 2
"""Of a turn: more is retrieved once at most."""
LOOKUP_SECONDS = 10
"""For the lookup of who asks."""
_LONGEST_DESCRIPTION = 300
_BROKEN = tuple(code.value for code in ErrorCode if code.is_fault)
"""Of errors of tools: that a time is taken says nothing against the calendar."""
_NOT_THERE = "This turn has no stored decision, so it cannot continue."
_DELETED = "Something was deleted in the thread while this turn was decided, so it is decided anew."

_log = structlog.get_logger(__name__)


async def decide(deps: ConversationDeps, turn: ConversationTurn, attempt: int) -> TurnDecision:
    if deps.decision.model is None:
        return TurnDecision(made=False)
    async with deps.database.begin() as tx:
        deciding = await read_situation(deps, tx, turn)
    return await deciding.run(deps.decision.model, attempt)


async def decide_without_model(deps: ConversationDeps, request: DecideRequest) -> TurnDecision:
    """What looks like a contradiction counts as one; what was to be looked up and is not, as knowledge that is away."""
    async with deps.database.begin() as tx:
        deciding = await read_situation(deps, tx, request, without_model=True)
    await deciding.look_asker_up(whatever=True)
    words = deciding.situation.sensitive
    async with deps.database.begin() as tx:
        if deciding.needs_round:
            if not words:
                return TurnDecision(about="no decision")
            await deciding.add_round(tx, Situation("", sensitive=words), engine.default_escalation(words))
        if deciding.awaits_sources:
            await deciding.add_sources(tx, (), _failed_retrieval(deciding.last.decision))
        if deciding.last.judgement is None:
            await deciding.add_judgement(tx, conflict=bool(deciding.suspicious))
    return deciding.outcome()


async def escalate_turn(deps: ConversationDeps, tx: Transaction, turn: ConversationTurn, why: EscalationReason) -> None:
    """Write down that a person takes over a turn that was to be answered."""
    row, store = await ConversationStore(tx).lock(turn.thread), DecisionStore(tx)
    rounds = await store.rounds(row.id, turn.turn)
    if not rounds:
        made = _new_round(deps, turn.thread, 1, Situation(""), engine.default_escalation())
        await store.add(row.id, turn.turn, made)
    sure = rounds[-1].judgement.confidence if rounds and rounds[-1].judgement else 0.0
    await store.escalate(row.id, turn.turn, escalation(sure, why))


@dataclass
class Deciding:
    """A turn that is being decided. `rounds` are those on record, in order. `deletions`: how often something had been
    deleted in the thread before any of it was read. `unknown`: who asks, where Slack has to say who that is. `paid`:
    what calls of the model have cost for `purpose`, until that is stored; the time of all since `asked_at` counts with
    the last."""

    deps: ConversationDeps
    thread: Thread
    turn: int
    situation: Situation
    rounds: Sequence[DecisionRound]
    deletions: int
    unknown: str
    paid: list[Usage] = field(default_factory=list)
    purpose: str = ""
    asked_at: float = 0.0

    @property
    def last(self) -> DecisionRound:
        """Raises `Permanent` where none is on record."""
        if not self.rounds:
            raise Permanent(_NOT_THERE)
        return self.rounds[-1]

    @property
    def needs_round(self) -> bool:
        """Whether something is to be decided before anything else is done."""
        judgement = self.rounds[-1].judgement if self.rounds else None
        return not self.rounds or (judgement is not None and judgement.next_step is NextStep.RETRIEVE_MORE)

    @property
    def is_over(self) -> bool:
        return not self.needs_round and self.last.judgement is not None

    @property
    def awaits_sources(self) -> bool:
        """Whether something is to be looked up before the evidence can be judged."""
        return self.last.decision.retrieves and self.last.retrieval is None

    @property
    def suspicious(self) -> list[tuple[Source, Source]]:
        """Passages that have to be compared before the evidence can be judged, since they may contradict each other."""
        made = last_round(self.rounds)
        found = made.retrieval.suspicious if made and made.retrieval else ()
        return [(made.sources[one], made.sources[other]) for one, other in found] if made else []

    def outcome(self) -> TurnDecision:
        """As the workflow is told of it: nobody's words."""
        action, verdict = self.last.decision.type.value, self.last.judgement
        if verdict is None:
            raise Permanent(_NOT_THERE)
        why = f", {verdict.reason}" if verdict.reason else ""
        return TurnDecision(verdict.next_step, about=f"{action}: {verdict.next_step}{why} ({verdict.confidence:.2f})")

    async def run(self, model: ChatModel, attempt: int) -> TurnDecision:
        if not (self.situation.query or self.rounds):
            return TurnDecision(made=False)
        if not (self.rounds or self.situation.sensitive) and phrases.is_small_talk(self.situation.query):
            return TurnDecision(made=False, about="small talk")
        await self.look_asker_up()
        while not self.is_over:
            await self.run_round(model, attempt)
        return self.outcome()

    async def look_asker_up(self, *, whatever: bool = False) -> None:
        """Behind the transaction in which the rest was read: nobody's messages wait for Slack."""
        if self.unknown:
            lead = await _describe_asker(self.deps, None, self.thread, self.unknown, whatever=whatever)
            self.situation, self.unknown = replace(self.situation, lead=lead), ""

    async def run_round(self, model: ChatModel, attempt: int) -> None:
        """One round, behind those before it: what is on record of it is not done again."""
        if self.needs_round:
            async with self._paying("decide"):
                await self._ask_model(ask_structured(model, self.paid, attempt))
        if self.awaits_sources:
            await self._search()
        if self.last.judgement is None:
            async with self._paying("compare"):
                conflict = await engine.find_conflict(self.suspicious, ask_structured(model, self.paid, attempt))
                async with self._writing() as tx:
                    await self.add_judgement(tx, conflict=conflict)

    async def _ask_model(self, ask: Ask) -> None:
        """Have the model decide. The first decision of a round stands."""
        found = [*self.situation.sources, *(each for made in self.rounds for each in made.sources)]
        situation = replace(self.situation, sources=tuple(found))
        instructions = variant_of(self.deps.decision.variants, self.thread.key).prompt
        decision, problems = await engine.decide(situation, ask, instructions)
        async with self._writing() as tx:
            await self.add_round(tx, situation, decision)
            if not (self.awaits_sources or self.suspicious):
                await self.add_judgement(tx, conflict=False)
        if problems:
            _log.warning("decision_invalid", slack_thread=self.thread.key, turn=self.turn, errors=problems)

    async def _search(self) -> None:
        """Look up what the decision wants to know, and judge it unless passages have to be compared first."""
        decided = self.last.decision
        try:
            await self._check_documents()
            search = self.deps.decision.search_documents
            sources, retrieval = await search(self.thread.team, decided.query, decided.document_types)
        except Exception as error:  # noqa: BLE001 - whatever keeps the knowledge from answering, the turn goes on
            _log.warning("retrieval_failed", slack_thread=self.thread.key, turn=self.turn, reason=str(error))
            sources, retrieval = (), _failed_retrieval(decided)
        async with self._writing() as tx:
            await self.add_sources(tx, sources, retrieval)
            if not self.suspicious:
                await self.add_judgement(tx, conflict=False)

    async def _check_documents(self) -> None:
        """Raises `Permanent`: somebody who asks may not see documents."""
        if not self.deps.hides_records:
            return
        async with self.deps.database.begin() as tx:
            askers = {each.user_id for each in await MessageStore(tx).askers(self.thread, self.turn, 1)}
        if RecordKind.DOCUMENTS in await self.deps.hidden_from(askers, self.thread.channel):
            raise Permanent("whoever asks may not see documents")

    async def add_round(self, tx: Transaction, situation: Situation, decision: Decision) -> None:
        """Record a decision; the first one of a round stands."""
        row, store = await ConversationStore(tx).lock(self.thread), DecisionStore(tx)
        made = _new_round(self.deps, self.thread, len(self.rounds) + 1, situation, decision)
        await store.add(row.id, self.turn, made)
        self.rounds = await store.rounds(row.id, self.turn)

    async def add_sources(self, tx: Transaction, sources: Sequence[Source], retrieval: Retrieval) -> None:
        """Record what the last round has looked up, with what an earlier one has found. The first record stands."""
        before = last_round(self.rounds[:-1])
        if before and before.sources and before.retrieval:
            # Each passage once, the later round's first. What one has found is there where the other failed.
            unique: dict[tuple[str, str, str], Source] = {}
            for each in (*sources, *before.sources):
                unique.setdefault((each.source, each.section, each.text), each)
            sources, quality = list(unique.values()), max(retrieval.quality, before.retrieval.quality)
            retrieval = Retrieval(quality, suspicious=tuple(find_conflicts(sources)))
        row, store = await ConversationStore(tx).lock(self.thread), DecisionStore(tx)
        await store.add_sources(row.id, self.turn, self.last.round, sources, retrieval)
        self.rounds = await store.rounds(row.id, self.turn)

    async def add_judgement(self, tx: Transaction, *, conflict: bool) -> None:
        """Judge the last round. The evidence is what is on record now; the first verdict stands."""
        made = last_round(self.rounds) or self.last
        succeeded, failed = await ToolExecutionStore(tx).count_outcomes(self.thread, _BROKEN)
        row, store = await ConversationStore(tx).lock(self.thread), DecisionStore(tx)
        questions = await store.consecutive_questions(row.id, self.turn)
        retrieval = made.retrieval or Retrieval()
        completeness = context_completeness(
            lead=bool(self.situation.lead), history=bool(self.situation.recent), intent=made.decision.intent_clear
        )
        factors = Factors(
            retrieval.quality if made.retrieval and not retrieval.failed else None,
            made.decision.complexity,
            completeness,
            tool_success_rate(succeeded, failed),
            conflict,
            retrieval_failed=retrieval.failed,
            retrieval_critical=retrieval.failed and retrieval.critical,
        )
        judgement = judge(
            made.decision,
            factors,
            made.thresholds,
            retrieved_more=made.round >= ROUNDS,
            questions=questions,
            questions_allowed=self.deps.decision.questions,
        )
        if may_pass_on(made.decision, factors, judgement) and await self._falls_through(tx):
            judgement = Judgement(NextStep.OPERATOR, judgement.confidence)
        await store.add_judgement(row.id, self.turn, made.round, factors, judgement)
        _log.info(
            "decision_made",
            slack_thread=self.thread.key,
            turn=self.turn,
            round=made.round,
            type=made.decision.type.value,
            next_step=judgement.next_step.value,
            confidence=judgement.confidence,
            reason=judgement.reason.value if judgement.reason else "",
            variant=made.variant,
        )
        self.rounds = await store.rounds(row.id, self.turn)

    async def _falls_through(self, tx: Transaction) -> bool:
        """Whether the operator goes on with what the conversational agent cannot do."""
        plan = await TurnStore(tx).plan(self.thread, self.turn)
        return plan is not None and plan.route.branch.falls_through

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[Transaction]:
        """A transaction that records something about words that are still there, and what the model has cost for it.
        Raises Transient where something was deleted since they were read."""
        async with self.deps.database.begin() as tx:
            if await MessageStore(tx).deletion_count(self.thread) != self.deletions:
                raise Transient(_DELETED)
            yield tx
            await self._store_costs(tx)
        self.paid.clear()

    @asynccontextmanager
    async def _paying(self, purpose: str) -> AsyncIterator[None]:
        """Store what calls of the model have cost, whatever comes of them."""
        self.purpose, self.asked_at = purpose, time.monotonic()
        try:
            yield
        finally:
            if self.paid:
                async with self.deps.database.begin() as tx:
                    await self._store_costs(tx)
                self.paid.clear()

    async def _store_costs(self, tx: Transaction) -> None:
        took = round((time.monotonic() - self.asked_at) * 1000)
        for usage in self.paid:
            milliseconds = took if usage is self.paid[-1] else 0
            await ConversationStore(tx).add_usage(self.thread, self.turn, 0, self.purpose, usage, milliseconds)


async def read_situation(
    deps: ConversationDeps, tx: Transaction, turn: ConversationTurn, *, without_model: bool = False
) -> Deciding:
    """The turn in its situation; the query is empty where nothing was said, or all of it was deleted. `without_model`:
    the tools are left out, and a fault of the lookup of who asks keeps nobody waiting."""
    thread, number = turn.thread, turn.turn
    deletions = await MessageStore(tx).deletion_count(thread)
    query = plain_tokens("\n".join(await TurnStore(tx).request_texts(thread, number, whole=True))).strip()
    askers = await MessageStore(tx).askers(thread, number, 1)
    transcript = await TranscriptStore(tx).read(thread)
    conversation, decisions = await ConversationStore(tx).find_id(thread), DecisionStore(tx)
    shows_documents = await _may_see_documents(deps, thread, {each.user_id for each in askers})
    before = await decisions.recent_sources(conversation, number) if shows_documents else ()
    rounds = await decisions.rounds(conversation, number)
    _, read_only = await read_binding(tx, thread)
    user_id, lead = askers[-1].user_id if askers else "", ""
    known = not user_id or (deps.users.is_cached(user_id) and deps.knows_roles)
    if user_id and known:
        lead = await _describe_asker(deps, tx, thread, user_id, whatever=without_model)
    tools: dict[str, str] = {}
    if not without_model:  # those that the turn may use; what looks into the documents is an action of its own
        allowed = allowed_tools(deps.registry, deps.services, read_only=bool(read_only)).names - {qa.answer.name}
        offered = [each for each in deps.registry.all() if each.name in allowed]
        tools = {each.wire_name: each.description[:_LONGEST_DESCRIPTION] for each in offered}
    spoken = [each.message for each in transcript.messages if each.message.spoken][-RECENT_MESSAGES:]
    situation = Situation(
        query,
        tuple(f"{each.author or each.role.value}: {each.content}" for each in spoken),
        lead,
        tuple(before),
        tools,
        sensitive_topics(query, deps.sensitive_words),
        tuple(DocumentType),
    )
    return Deciding(deps, thread, number, situation, rounds, deletions, "" if known else user_id)


async def _may_see_documents(deps: ConversationDeps, thread: Thread, users: Collection[str]) -> bool:
    """Whether all of them may, as far as it is known without Slack."""
    if not deps.hides(RecordKind.DOCUMENTS):
        return True
    return deps.knows_roles and RecordKind.DOCUMENTS not in await deps.hidden_from(users, thread.channel)


async def _describe_asker(
    deps: ConversationDeps, tx: Transaction | None, thread: Thread, user_id: str, *, whatever: bool
) -> str:
    """Empty where whoever asks may not see customers, and where Slack does not say it now: a decision that knows less
    is better than none. `tx`: None for a transaction of its own, once Slack has answered. `whatever`: a fault of the
    lookup itself is no error either."""
    try:
        # A timeout in the midst of a statement would break a transaction off that others read in.
        async with asyncio.timeout(None if tx else LOOKUP_SECONDS):
            if RecordKind.CUSTOMERS in await deps.hidden_from((user_id,), thread.channel):
                return ""
            user, team = await deps.users.get(user_id), thread.team
            if tx is None:
                async with deps.database.begin() as own:
                    return (await deps.decision.describe_asker(own, team, user_id, user))[:MAX_CONTEXT]
            with translate_errors():
                async with savepoint(tx):
                    return (await deps.decision.describe_asker(tx, team, user_id, user))[:MAX_CONTEXT]
    except Exception as error:
        expected = isinstance(error, Permanent | Transient | TimeoutError) and not isinstance(error, InternalError)
        if not (expected or whatever):
            raise
        _log.warning("asker_lookup_failed", user=user_id, reason=str(error) or type(error).__name__)
        return ""


def _new_round(
    deps: ConversationDeps, thread: Thread, number: int, situation: Situation, decided: Decision
) -> DecisionRound:
    variant = variant_of(deps.decision.variants, thread.key)
    version = engine.prompt_version(variant.prompt or engine.prompt("decide"))
    return DecisionRound(number, decided, variant.thresholds, situation.hash, version, variant.name)


def _failed_retrieval(decided: Decision) -> Retrieval:
    return Retrieval(failed=True, critical=not CRITICAL_TYPES.isdisjoint(decided.document_types))
