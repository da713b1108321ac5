"""The decision about a turn before its agent runs: the model decides, documents are searched, the
evidence is judged.

A turn has at most two rounds. Each step is recorded before anything acts on it, so that a second
attempt finds the results of the first. If words were deleted while the model read them, nothing is
recorded, and the turn is decided again.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from threadline.conversations.call_input import read_binding
from threadline.conversations.contract import DecideRequest, TurnDecision
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.draft import drafting
from threadline.conversations.failed_calls import failures_kept
from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.prompt import decision_note
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
from threadline.knowledge.model import CRITICAL_TYPES, DocumentType, Retrieval, Source
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
"""Rounds per turn: at most one further retrieval."""
LOOKUP_SECONDS = 10
"""Seconds that the lookup of the asker may take."""
_LONGEST_DESCRIPTION = 300
_LONGEST_ATTACHED = 2_000
"""Characters of each attached file that go into a decision."""
_BROKEN = tuple(code.value for code in ErrorCode if code.is_fault)
"""Tool errors that count as failures. Others do not: a taken time slot is no failure of the
calendar.
"""
_NOT_THERE = "This turn has no stored decision, so it cannot continue."
_DELETED = (
    "A message or file was deleted while this turn was being decided, so it is decided again."
)

_log = structlog.get_logger(__name__)


async def decide(deps: ConversationDeps, turn: ConversationTurn, attempt: int) -> TurnDecision:
    if deps.decision.model is None:
        return TurnDecision(made=False)
    async with deps.database.begin() as tx:
        deciding = await read_situation(deps, tx, turn)
    if decision := deciding.known_without_model():
        return decision
    share = deps.decision.draft_share
    if share is None or attempt > 1 or not deciding.may_be_drafted:
        return await deciding.run(deps.decision.model, attempt)
    if not share.is_worthwhile:
        decision = await deciding.run(deps.decision.model, attempt)
        share.note(keeps_draft=deciding.keeps_prompt)
        return decision
    async with drafting(deps, turn) as draft:
        try:
            decision = await deciding.run(deps.decision.model, attempt)
            if deciding.keeps_prompt:
                await draft.keep()
        finally:
            if draft.asked:
                share.note(keeps_draft=draft.kept)
    return decision


async def decide_without_model(deps: ConversationDeps, request: DecideRequest) -> TurnDecision:
    """Complete a decision by rule: a suspected contradiction counts as one, and a pending search
    as failed.
    """
    async with deps.database.begin() as tx:
        deciding = await read_situation(deps, tx, request, without_model=True)
    await deciding.look_up_asker(ignore_failures=True)
    words = deciding.situation.sensitive
    async with deps.database.begin() as tx:
        if deciding.needs_round:
            if not words:
                return TurnDecision(about="no decision")
            await deciding.add_round(
                tx, Situation("", sensitive=words), engine.default_escalation(words)
            )
        if deciding.awaits_sources:
            await deciding.add_sources(tx, (), _failed_retrieval(deciding.last.decision))
        if deciding.last.judgement is None:
            await deciding.add_judgement(tx, conflict=bool(deciding.suspicious))
    return deciding.outcome()


async def escalate_turn(
    deps: ConversationDeps, tx: Transaction, turn: ConversationTurn, why: EscalationReason
) -> None:
    """Record that a person takes over a turn that the bot would have answered."""
    row = await ConversationStore(tx).lock(turn.thread)
    store = DecisionStore(tx)
    rounds = await store.rounds(row.id, turn.turn)
    if not rounds:
        made = _new_round(deps, turn.thread, 1, Situation(""), engine.default_escalation())
        await store.add(row.id, turn.turn, made)
    sure = rounds[-1].judgement.confidence if rounds and rounds[-1].judgement else 0.0
    await store.escalate(row.id, turn.turn, escalation(sure, why))


@dataclass
class Deciding:
    """A turn that is being decided.

    - `rounds`: the recorded rounds, in order;
    - `deletions`: the thread's deletion count before any of it was read;
    - `unknown`: the asker's id, if Slack still has to identify them;
    - `paid`: costs of the model calls for `purpose` that are not stored yet; the time since
      `asked_at` counts with the last one.
    """

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
        """The last recorded round. Raises `Permanent` if there is none."""
        if not self.rounds:
            raise Permanent(_NOT_THERE)
        return self.rounds[-1]

    @property
    def needs_round(self) -> bool:
        """Whether a round has to be decided before anything else."""
        judgement = self.rounds[-1].judgement if self.rounds else None
        return not self.rounds or (
            judgement is not None and judgement.next_step is NextStep.RETRIEVE_MORE
        )

    @property
    def is_over(self) -> bool:
        return not self.needs_round and self.last.judgement is not None

    @property
    def awaits_sources(self) -> bool:
        """Whether a search has to run before the evidence can be judged."""
        return self.last.decision.retrieves and self.last.retrieval is None

    @property
    def suspicious(self) -> list[tuple[Source, Source]]:
        """Pairs of passages that may contradict each other, and so must be compared before the
        evidence can be judged.
        """
        made = last_round(self.rounds)
        found = made.retrieval.suspicious if made and made.retrieval else ()
        return [(made.sources[one], made.sources[other]) for one, other in found] if made else []

    def outcome(self) -> TurnDecision:
        """Return the decision for the workflow. It contains no user text."""
        action = self.last.decision.type.value
        verdict = self.last.judgement
        if verdict is None:
            raise Permanent(_NOT_THERE)
        why = f", {verdict.reason}" if verdict.reason else ""
        return TurnDecision(
            verdict.next_step,
            about=f"{action}: {verdict.next_step}{why} ({verdict.confidence:.2f})",
        )

    def known_without_model(self) -> TurnDecision | None:
        """Return the decision about a turn that needs none by the model; None for any other."""
        if self.rounds:
            return None
        if not self.situation.query:
            return TurnDecision(made=False)
        if not self.situation.sensitive and phrases.is_small_talk(self.situation.query):
            return TurnDecision(made=False, about="small talk")
        return None

    @property
    def may_be_drafted(self) -> bool:
        """Whether the turn may have a draft. Not where Slack has to be asked for roles: the draft
        would wait for it with the thread's row locked.
        """
        return self.deps.knows_roles and not (self.rounds or self.situation.sensitive)

    @property
    def keeps_prompt(self) -> bool:
        """Whether the agent answers, and its prompt is the same as without the decision."""
        proceeds = self.outcome().course is NextStep.PROCEED
        return proceeds and decision_note(last_round(self.rounds)) is None

    async def run(self, model: ChatModel, attempt: int) -> TurnDecision:
        """Run the rounds that are not recorded yet."""
        await self.look_up_asker()
        while not self.is_over:
            await self.run_round(model, attempt)
        return self.outcome()

    async def look_up_asker(self, *, ignore_failures: bool = False) -> None:
        """Look the asker up after the transaction that read the rest, so that storing messages
        never waits for Slack.

        Args:
            ignore_failures: Ignore every failure of the lookup.
        """
        if self.unknown:
            lead = await _describe_asker(
                self.deps, None, self.thread, self.unknown, ignore_failures=ignore_failures
            )
            self.situation = replace(self.situation, lead=lead)
            self.unknown = ""

    async def run_round(self, model: ChatModel, attempt: int) -> None:
        """Run one round after the earlier ones, and skip its recorded steps."""
        if self.needs_round:
            async with self._paying("decide"):
                await self._ask_model(self._asking(model, attempt))
        if self.awaits_sources:
            await self._search()
        if self.last.judgement is None:
            async with self._paying("compare"):
                conflict = await engine.find_conflict(
                    self.suspicious, self._asking(model, attempt)
                )
                async with self._writing() as tx:
                    await self.add_judgement(tx, conflict=conflict)

    def _asking(self, model: ChatModel, attempt: int) -> Ask:
        """Return the model as a function that records failed calls."""
        ask_model = ask_structured(model, self.paid, attempt)

        async def ask(
            instructions: str, questions: Sequence[str], name: str, form: Mapping[str, Any]
        ) -> str:
            async with failures_kept(self.deps.database, self.thread, self.turn, 0, self.purpose):
                return await ask_model(instructions, questions, name, form)

        return ask

    async def _ask_model(self, ask: Ask) -> None:
        """Have the model decide. First write wins in a round."""
        found = [*self.situation.sources, *(each for made in self.rounds for each in made.sources)]
        situation = replace(self.situation, sources=tuple(found))
        instructions = variant_of(self.deps.decision.variants, self.thread.key).prompt
        decision, problems = await engine.decide(situation, ask, instructions)
        async with self._writing() as tx:
            await self.add_round(tx, situation, decision)
            if not (self.awaits_sources or self.suspicious):
                await self.add_judgement(tx, conflict=False)
        if problems:
            _log.warning(
                "decision_invalid", slack_thread=self.thread.key, turn=self.turn, errors=problems
            )

    async def _search(self) -> None:
        """Search for what the decision needs. Judge it, unless passages must be compared first."""
        decided = self.last.decision
        try:
            await self._check_documents()
            search = self.deps.decision.search_documents
            sources, retrieval = await search(
                self.thread.team, decided.query, decided.document_types
            )
        except Exception as error:  # noqa: BLE001 - the turn goes on without a search
            _log.warning(
                "retrieval_failed", slack_thread=self.thread.key, turn=self.turn, reason=str(error)
            )
            sources = ()
            retrieval = _failed_retrieval(decided)
        async with self._writing() as tx:
            await self.add_sources(tx, sources, retrieval)
            if not self.suspicious:
                await self.add_judgement(tx, conflict=False)

    async def _check_documents(self) -> None:
        """Raise `Permanent` if an asker of the turn may not see documents."""
        if not self.deps.hides_records:
            return
        async with self.deps.database.begin() as tx:
            askers = {
                each.user_id for each in await MessageStore(tx).askers(self.thread, self.turn, 1)
            }
        if RecordKind.DOCUMENTS in await self.deps.hidden_from(askers, self.thread.channel):
            raise Permanent("an asker may not see documents")

    async def add_round(self, tx: Transaction, situation: Situation, decision: Decision) -> None:
        """Record a decision. First write wins in a round."""
        row = await ConversationStore(tx).lock(self.thread)
        made = _new_round(self.deps, self.thread, len(self.rounds) + 1, situation, decision)
        stored = await DecisionStore(tx).add(row.id, self.turn, made)
        self.rounds = (*self.rounds, stored)

    async def add_sources(
        self, tx: Transaction, sources: Sequence[Source], retrieval: Retrieval
    ) -> None:
        """Record the sources of the last round, merged with those of an earlier one. First write
        wins.
        """
        before = last_round(self.rounds[:-1])
        if before and before.sources and before.retrieval:
            # Each passage once, the later round's first. The passages of one round count even if
            # the other failed.
            unique: dict[tuple[str, str, str], Source] = {}
            for each in (*sources, *before.sources):
                unique.setdefault((each.source, each.section, each.text), each)
            sources = list(unique.values())
            quality = max(retrieval.quality, before.retrieval.quality)
            retrieval = Retrieval(quality, suspicious=tuple(find_conflicts(sources)))
        row = await ConversationStore(tx).lock(self.thread)
        stored = await DecisionStore(tx).add_sources(
            row.id, self.turn, self.last.round, sources, retrieval
        )
        self.rounds = (*self.rounds[:-1], stored)

    async def add_judgement(self, tx: Transaction, *, conflict: bool) -> None:
        """Judge the last round by the evidence on record. First write wins."""
        made = last_round(self.rounds) or self.last
        succeeded, failed = await ToolExecutionStore(tx).count_outcomes(self.thread, _BROKEN)
        row = await ConversationStore(tx).lock(self.thread)
        store = DecisionStore(tx)
        questions = await store.consecutive_questions(row.id, self.turn)
        retrieval = made.retrieval or Retrieval()
        completeness = context_completeness(
            lead=bool(self.situation.lead),
            history=bool(self.situation.recent),
            intent=made.decision.intent_clear,
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
        stored = await store.add_judgement(row.id, self.turn, made.round, factors, judgement)
        self.rounds = (*self.rounds[:-1], stored)
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

    async def _falls_through(self, tx: Transaction) -> bool:
        """Whether the operator takes over a turn that the assistant cannot answer."""
        plan = await TurnStore(tx).plan(self.thread, self.turn)
        return plan is not None and plan.route.branch.falls_through

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[Transaction]:
        """Open a transaction that records a result and the costs of the model.

        Raises:
            Transient: A message was deleted since its words were read.
        """
        async with self.deps.database.begin() as tx:
            if await MessageStore(tx).deletion_count(self.thread) != self.deletions:
                raise Transient(_DELETED)
            yield tx
            await self._store_costs(tx)
        self.paid.clear()

    @asynccontextmanager
    async def _paying(self, purpose: str) -> AsyncIterator[None]:
        """Store the costs of model calls, also if they fail."""
        self.purpose = purpose
        self.asked_at = time.monotonic()
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
            await ConversationStore(tx).add_usage(
                self.thread, self.turn, 0, self.purpose, usage, milliseconds
            )


async def read_situation(
    deps: ConversationDeps, tx: Transaction, turn: ConversationTurn, *, without_model: bool = False
) -> Deciding:
    """Load a turn's situation. The query is empty if the turn has no text, or all of it was
    deleted.

    Args:
        without_model: Omit the tools, and ignore any failure of the asker's lookup.
    """
    thread = turn.thread
    number = turn.turn
    deletions = await MessageStore(tx).deletion_count(thread)
    query = plain_tokens(
        "\n".join(await TurnStore(tx).request_texts(thread, number, whole=True))
    ).strip()
    attached = "\n".join(await MessageStore(tx).file_pieces(thread, number, _LONGEST_ATTACHED))
    askers = await MessageStore(tx).askers(thread, number, 1)
    transcript = await TranscriptStore(tx).read(thread)
    conversation = await ConversationStore(tx).find_id(thread)
    decisions = DecisionStore(tx)
    shows_documents = await _may_see_documents(deps, thread, {each.user_id for each in askers})
    before = await decisions.recent_sources(conversation, number) if shows_documents else ()
    rounds = await decisions.rounds(conversation, number)
    _, read_only = await read_binding(tx, thread)
    user_id = askers[-1].user_id if askers else ""
    lead = ""
    known = not user_id or (deps.users.is_cached(user_id) and deps.knows_roles)
    if user_id and known:
        lead = await _describe_asker(deps, tx, thread, user_id, ignore_failures=without_model)
    tools: dict[str, str] = {}
    # The tools that the turn may use, without the document search, which is a separate action.
    if not without_model:
        allowed = allowed_tools(deps.registry, deps.services, read_only=bool(read_only)).names - {
            qa.answer.name
        }
        offered = [each for each in deps.registry.all() if each.name in allowed]
        tools = {each.wire_name: each.description[:_LONGEST_DESCRIPTION] for each in offered}
    spoken = [each.message for each in transcript.messages if each.message.spoken][
        -RECENT_MESSAGES:
    ]
    situation = Situation(
        f"{query}\n{attached}".strip(),
        tuple(f"{each.author or each.role.value}: {each.content}" for each in spoken),
        lead,
        tuple(before),
        tools,
        sensitive_topics(query, deps.sensitive_words),
        tuple(DocumentType),
    )
    return Deciding(deps, thread, number, situation, rounds, deletions, "" if known else user_id)


async def _may_see_documents(
    deps: ConversationDeps, thread: Thread, users: Collection[str]
) -> bool:
    """Whether all of these users may see documents, as far as it is known without Slack."""
    if not deps.hides(RecordKind.DOCUMENTS):
        return True
    return deps.knows_roles and RecordKind.DOCUMENTS not in await deps.hidden_from(
        users, thread.channel
    )


async def _describe_asker(
    deps: ConversationDeps,
    tx: Transaction | None,
    thread: Thread,
    user_id: str,
    *,
    ignore_failures: bool,
) -> str:
    """Return a description of the asker; empty if they may not see customers, or Slack does not
    answer now: a decision that knows less is better than none.

    Args:
        tx: None to open a transaction after Slack has answered.
        ignore_failures: Ignore every failure of the lookup.
    """
    try:
        # A timeout in the middle of a statement would abort a transaction that others read in.
        async with asyncio.timeout(None if tx else LOOKUP_SECONDS):
            if RecordKind.CUSTOMERS in await deps.hidden_from((user_id,), thread.channel):
                return ""
            user = await deps.users.get(user_id)
            team = thread.team
            if tx is None:
                async with deps.database.begin() as own:
                    return (await deps.decision.describe_asker(own, team, user_id, user))[
                        :MAX_CONTEXT
                    ]
            with translate_errors():
                async with savepoint(tx):
                    return (await deps.decision.describe_asker(tx, team, user_id, user))[
                        :MAX_CONTEXT
                    ]
    except Exception as error:
        expected = isinstance(error, Permanent | Transient | TimeoutError) and not isinstance(
            error, InternalError
        )
        if not (expected or ignore_failures):
            raise
        _log.warning(
            "asker_lookup_failed", user=user_id, reason=str(error) or type(error).__name__
        )
        return ""


def _new_round(
    deps: ConversationDeps, thread: Thread, number: int, situation: Situation, decided: Decision
) -> DecisionRound:
    variant = variant_of(deps.decision.variants, thread.key)
    version = engine.prompt_version(variant.prompt or engine.prompt("decide"))
    return DecisionRound(
        number, decided, variant.thresholds, situation.hash, version, variant.name
    )


def _failed_retrieval(decided: Decision) -> Retrieval:
    return Retrieval(failed=True, critical=not CRITICAL_TYPES.isdisjoint(decided.document_types))
