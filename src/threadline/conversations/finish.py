"""The end of a turn: one transaction writes down what is said and what the turn came to; then the answer is posted."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import structlog

from threadline.conversations.act import is_stopped, run_final
from threadline.conversations.call_input import append_unread
from threadline.conversations.contract import FinishedTurn, FinishRequest
from threadline.conversations.decide import escalate_turn
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.model import answers
from threadline.conversations.model.answers import decision_text, escalation_notice, fit_answer, list_sources
from threadline.conversations.model.conversation import (
    ConversationNotFound,
    ConversationTurn,
    Execution,
    ExecutionStatus,
    OutcomeKind,
)
from threadline.conversations.posting import TurnAnswer, answer_with_records, publish_answer
from threadline.conversations.prompt import parse_note
from threadline.conversations.replies import closing_question
from threadline.conversations.status import set_status
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.transcript import DELETED, REMOVED, TranscriptStore
from threadline.conversations.store.turns import SettledTurn, StoredTurn, TurnPlan, TurnStore, TurnUsage
from threadline.db.engine import Transaction, savepoint
from threadline.decisions.model import DecisionOutcome, DecisionRound, NextStep, last_round
from threadline.decisions.store import DecisionStore
from threadline.errors import InternalError, Mendable, Permanent, Transient
from threadline.handovers.store import HandoverStore
from threadline.models.model import Message, Role, ToolKind
from threadline.operator import enforcement as spoken
from threadline.operator import memory
from threadline.operator.memory import EndedTurn, ToolUse
from threadline.operator.model import protocol
from threadline.operator.model import routing as questions
from threadline.operator.model.protocol import FinalText
from threadline.operator.model.routing import Agent
from threadline.operator.store import MemoryKind, MemoryStore
from threadline.rfps import model as rfps
from threadline.rfps.model import MAX_ENTRY, EntryKind, RfpNotFound, RfpRefused, resolve_scope
from threadline.rfps.store import RfpStore
from threadline.threads.activity_options import MAX_UNEXPECTED
from threadline.threads.store import PostClaim, ThreadBindingStore
from threadline.tools.model import Author, Change, Operation
from threadline.tools.public_text import public_lines
from threadline.tools.registry import ToolRegistry
from threadline.tools.store import ToolExecutionStore

_BY_RULE = (OutcomeKind.REPLIED_BY_RULE, OutcomeKind.ASKED)
_ACCOUNTS = (OutcomeKind.STOPPED, OutcomeKind.FAILED)
"""Their words list what was tried."""
_QUESTIONS = (OutcomeKind.ASKED, OutcomeKind.CLARIFIED)
_BY_DECISION = (OutcomeKind.CLARIFIED, OutcomeKind.ESCALATED)
_THEIRS = (OutcomeKind.ANSWERED, OutcomeKind.FAILED, OutcomeKind.NO_ANSWER, *_BY_DECISION)
_RESULTS = {
    OutcomeKind.ASKED: DecisionOutcome.CLARIFIED,
    OutcomeKind.CLARIFIED: DecisionOutcome.CLARIFIED,
    OutcomeKind.ESCALATED: DecisionOutcome.ESCALATED,
    OutcomeKind.STOPPED: DecisionOutcome.FAILED,
    OutcomeKind.FAILED: DecisionOutcome.FAILED,
    OutcomeKind.NO_ANSWER: DecisionOutcome.FAILED,
}
_LEFT = "(This was not said: a person had taken the thread over.)"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Settled:
    """`has_fact_to_remember`: something of it is to be remembered. `claim`: on the answer, where it is to be posted
    now. `result`: what it came to, in figures."""

    finished: FinishedTurn
    answer: TurnAnswer
    has_fact_to_remember: bool
    claim: PostClaim | None
    result: Mapping[str, Any] | None


async def finish_turn(deps: ConversationDeps, request: FinishRequest, attempt: int) -> FinishedTurn:
    final, settled = await _end_turn(deps, request, attempt)
    if settled is None:  # the call was refused, and the turn goes on
        async with deps.database.begin() as tx:
            return FinishedTurn(await ConversationStore(tx).snapshot(request.thread), final=final)
    finished = replace(settled.finished, final=final)
    if settled.claim:
        finished = await _post(deps, settled, finished, attempt)
    if settled.has_fact_to_remember and not (settled.claim and finished.posted):
        async with deps.database.begin() as tx:
            await _remember(deps, request, tx)
    if request.status_shown and request.post and not (finished.handover or finished.posted):
        await set_status(deps.slack, request.thread, "")
    return finished


async def _end_turn(
    deps: ConversationDeps, request: FinishRequest, attempt: int
) -> tuple[Execution | None, _Settled | None]:
    """Run the final call, if any, and settle the turn unless it is refused: in one transaction. A stop wins over it."""
    settled: _Settled | None = None

    async def settle(tx: Transaction, ran: Execution) -> None:
        nonlocal settled
        posted = ran.protocol is not None and ran.protocol.did_post
        # An earlier transaction may have been rolled back: what it settled counts no more.
        settled = await _Ending(deps, tx, replace(request, protocol=ran.protocol)).settle() if posted else None

    final = None
    try:
        if request.final and (final := await run_final(deps, request, attempt, settle)) is None:
            stopped = answers.stopped_text(())
            request = replace(request, final=None, kind=OutcomeKind.STOPPED, text=stopped, answer_step=0)
    except InternalError:
        raise
    except Permanent as error:  # as where its reply is no longer stored
        _log.warning("final_call_lost", slack_thread=request.thread.key, turn=request.turn, reason=str(error))
        request = replace(request, final=None, kind=OutcomeKind.FAILED, text="", answer_step=0)
    if request.final is None:
        async with deps.database.begin() as tx:
            settled = await _Ending(deps, tx, request).settle()
    if settled and settled.result:
        _log.info("turn_result", slack_thread=request.thread.key, turn=request.turn, **settled.result)
    return final, settled


async def _post(deps: ConversationDeps, settled: _Settled, finished: FinishedTurn, attempt: int) -> FinishedTurn:
    """Post the answer. The workflow goes on with one that Slack refuses, or that cannot be rendered."""
    turn, claim = settled.answer.turn, settled.claim
    remember = partial(_remember, deps, turn) if settled.has_fact_to_remember else None
    try:
        snapshot = await publish_answer(deps, settled.answer, claim=claim, afterwards=remember)
    except Transient:
        raise
    except Mendable as error:
        await deps.report_fault(error.kind, error.subject, str(error))
        return replace(finished, post_error=str(error), waits_until_mended=True)
    except Exception as error:
        expected = isinstance(error, Permanent) and not isinstance(error, InternalError)
        if not expected and attempt < MAX_UNEXPECTED:
            raise
        _log.warning("answer_refused", slack_thread=turn.thread.key, turn=turn.turn, exc_info=error)
        return replace(finished, post_error=str(error) or type(error).__name__)
    return replace(finished, snapshot=snapshot, posted=True)


@dataclass
class _Ending:
    """The end of a turn, in one transaction. The first word about a turn stands. `request` is what is settled: it
    becomes another where somebody has said to stop, or a person has the thread. `reply`: the model's that has the
    answer; None where its words are our own."""

    _deps: ConversationDeps
    _tx: Transaction
    _request: FinishRequest
    _plan: TurnPlan | None = None
    _made: DecisionRound | None = None
    _reply: Message | None = None

    async def settle(self) -> _Settled:
        tx, thread, turn = self._tx, self._request.thread, self._request.turn
        turns = TurnStore(tx)
        await ConversationStore(tx).current_step(thread, turn, 1)  # nobody else settles it meanwhile
        row = await ConversationStore(tx).lock(thread)
        stored = await turns.read(thread, turn)
        self._plan = stored.plan
        if stored.end:
            return await self._read_end(stored.end)
        await self._obey_stop()
        await self._tell_what_is_on_record()
        if self._request.escalate:
            await escalate_turn(self._deps, tx, self._request, self._request.escalate)
        route = self._plan.route if self._plan else None
        # The operator's own turns are not decided.
        if route is None or route.agent is Agent.COPILOT or route.branch.falls_through:
            self._made = last_round(await DecisionStore(tx).rounds(row.id, turn))
        left = await self._leave_to_person()
        request = self._request
        mine = {each.key: each.message for each in stored.entries}
        self._reply = mine.get(f"a:{turn}:{request.answer_step}")
        note = parse_note(mine.get(f"c:{turn}"))
        askers = () if note else await MessageStore(tx).askers(thread, turn, 1)  # of a turn that ended before the loop
        user = note.user_id if note else askers[-1].user_id if askers else ""
        answer, end, own = await self._answer()
        answer = await self._journal(user, answer, end)
        said = [each.content for each in mine.values() if each.role is Role.USER]
        notes = await self._notes(self._plan, stored.longest) if answer and self._plan else ()
        # Somebody has asked for a long answer in what this turn has used.
        detail = any(map(answers.wants_detail, said))
        text = fit_answer("\n".join(notes), answer, end, detail=detail)
        spent = await turns.usage(thread, turn)
        await self._close_decision(row.id, user, spent, left=left)
        handover = self._made is not None and await self._waits_for_person()
        result, summary = self._result(spent, answer)
        question = closing_question(answer) if request.kind is OutcomeKind.ANSWERED else ""
        ended, snapshot = await turns.settle(
            *(thread, turn, request.kind, text, user),
            wants_detail=detail,
            model_calls=request.model_calls,
            question=" ".join(answer.split()) if request.kind in _QUESTIONS else question,
            result=result,
        )
        # A run that begins anew posts the answer and looks at nothing else.
        await append_unread(self._deps, tx, request, fit_answer("", answer, end, detail=detail) if own else "")
        finished = FinishedTurn(snapshot, summary, handover=handover, left_to_person=left)
        return await self._settled(ended, finished, spent, result)

    async def _read_end(self, end: SettledTurn) -> _Settled:
        """The turn has ended before, maybe in another way: of an attempt that was lost or broken off."""
        left = end.kind is OutcomeKind.SILENT and self._request.kind is not OutcomeKind.SILENT
        self._request = replace(self._request, kind=end.kind)
        spent = await TurnStore(self._tx).usage(self._request.thread, self._request.turn)
        snapshot = await ConversationStore(self._tx).snapshot(self._request.thread)
        summary, handover = self._result(spent, end.answer)[1], await self._waits_for_person()
        finished = FinishedTurn(snapshot, summary, handover=handover, left_to_person=left)
        return await self._settled(end, finished, spent, None)

    async def _settled(
        self, end: SettledTurn, finished: FinishedTurn, spent: TurnUsage, result: Mapping[str, Any] | None
    ) -> _Settled:
        request, plan = self._request, self._plan
        to_post = await answer_with_records(self._tx, request, end)
        posts = request.post and not finished.handover and to_post.is_due
        return _Settled(
            replace(finished, posted=to_post.settled.posted_at is not None, approvals=spent.approvals),
            answer=to_post,
            has_fact_to_remember=plan is not None
            and (plan.route.agent is Agent.OPERATOR or plan.route.has_fact_to_remember),
            claim=await self._deps.outbox.claim(self._tx, to_post.post()) if posts else None,
            result=result,
        )

    @property
    def _by_rule(self) -> bool:
        """Whether the answer is told or asked by rule, and not by a final call."""
        return self._request.kind in _BY_RULE and self._request.final is None

    async def _obey_stop(self) -> None:
        """What is asked by rule is not asked any more once somebody has said to stop, of which the workflow may not
        have heard, and no person takes over. What is told by rule was done, and is told."""
        request = self._request
        asks = self._plan is not None and request.kind in _QUESTIONS and request.final is None
        if not ((asks or request.escalate) and await is_stopped(self._tx, request)):
            return
        stopped = answers.stopped_text(())
        if request.kind is OutcomeKind.ESCALATED:  # the text tells what was done until then
            text = "\n\n".join(filter(None, (stopped, request.text)))
            request = replace(request, kind=OutcomeKind.STOPPED, text=text)
        elif asks:
            request = replace(request, kind=OutcomeKind.STOPPED, text=stopped)
        self._request = replace(request, escalate=None)

    async def _tell_what_is_on_record(self) -> None:
        """Have an account tell also of calls whose results the workflow does not have."""
        request = self._request
        if request.kind in _ACCOUNTS:
            uses = (await _uses(self._tx, request, self._deps.registry)).items()
            untold = [
                Execution(id_, use.tool, use.status, kind=use.kind) for id_, use in uses if id_ not in request.told
            ]
            self._request = replace(request, text=answers.tell_also(request.text, untold))

    async def _leave_to_person(self) -> bool:
        """Whether it is left to a person, who has taken the thread over since the turn began: they were shown what it
        was about. What a turn has changed is told all the same."""
        request, thread, turn = self._request, self._request.thread, self._request.turn
        if request.kind not in _THEIRS or request.changed_something:
            return False
        handover = await HandoverStore(self._tx).open_for(thread)
        theirs = handover is not None and bool(handover.taken_by) and handover.ref.turn != turn
        if theirs:
            if request.answer_step:
                await TranscriptStore(self._tx).rewrite(thread, f"a:{turn}:{request.answer_step}", _LEFT)
            self._request = replace(request, kind=OutcomeKind.SILENT, text="")
        return theirs

    async def _answer(self) -> tuple[str, str, bool]:
        """What is to be said, what has to be read with it, and whether it is our own; a silent turn says nothing."""
        request, plan, made, reply = self._request, self._plan, self._made, self._reply
        if request.kind is OutcomeKind.SILENT:
            return "", "", False
        if request.kind in _BY_DECISION:
            return decision_text(request.kind, made), request.text, True
        if plan and self._by_rule:
            return plan.route.reply, "", True
        own = public_lines(request.text, answers.GENERIC_FAILURE)
        if reply and request.final:
            call = next((each for each in reply.calls if each.id == request.final.id), None)
            words = spoken.final_tool_text(call.arguments) if call else ""
            return words or own, "", not words
        if request.kind in _ACCOUNTS:
            return reply.content if reply else own, "", reply is None
        notice = escalation_notice(made)
        if reply is None:
            return own, notice, True
        found = await ToolExecutionStore(self._tx).sources(request.thread, request.turn)
        shown = made.sources if made and not (plan and plan.route.agent is Agent.OPERATOR) else ()
        return reply.content, "\n\n".join(filter(None, (list_sources(reply.content, shown, found), notice))), False

    async def _waits_for_person(self) -> bool:
        """Whether this turn, and no other of the thread, waits for a person."""
        handover = await HandoverStore(self._tx).open_for(self._request.thread)
        return handover is not None and handover.ref.turn == self._request.turn

    async def _close_decision(self, conversation_id: int, user: str, spent: TurnUsage, *, left: bool) -> None:
        """Write down what came of the turn's decision; one that ends with a person waits for them from now on."""
        request, made = self._request, self._made
        if made is None:
            return
        result = _RESULTS.get(request.kind, DecisionOutcome.ANSWERED)
        if left:
            result = DecisionOutcome.TAKEN_OVER
        elif made.judgement and made.judgement.next_step is NextStep.ESCALATE and result is not DecisionOutcome.FAILED:
            result = DecisionOutcome.ESCALATED
            await HandoverStore(self._tx).open(request.thread, request.turn, user)
        await DecisionStore(self._tx).close(conversation_id, request.turn, result, spent.cost_usd)

    async def _journal(self, user: str, answer: str, end: str) -> str:
        """An operator's last words go into the journal before they are said, unless the turn has written by itself;
        what has failed is told with them. Where the RFP is gone there is no journal, and the log says so."""
        request = self._request
        if request.protocol is None or self._by_rule or not answer:
            return answer
        final = protocol.final_text_rule(request.protocol)
        if request.kind is OutcomeKind.STOPPED and request.protocol.only_reads:
            return answer  # it was stopped before it had anything to tell
        if final.text is FinalText.WITH_FAILURES and request.kind not in _ACCOUNTS:
            answer = f"{request.failures}\n\n{answer}".strip() if request.failures else answer
        failed = final.text is FinalText.WITH_FAILURES and request.kind is not OutcomeKind.PROPOSED
        kind = EntryKind.FAILED if failed else EntryKind.SAID  # a proposal may have been made at once
        author, words = Author(user, request.key), "\n\n".join(filter(None, (answer, end)))[:MAX_ENTRY]
        for rfp_id in final.journal_in:
            operation = Operation(request.thread, request.turn, 0, f"said:{rfp_id}")
            try:
                async with savepoint(self._tx):  # of an entry that is refused, nothing is left
                    await RfpStore(self._tx).append_entry(Change(operation, author, time.time()), rfp_id, words, kind)
            except (RfpNotFound, RfpRefused) as error:
                _log.warning("answer_not_journalled", slack_thread=request.thread.key, rfp=rfp_id, reason=str(error))
        return answer

    async def _notes(self, plan: TurnPlan, longest: int) -> Sequence[str]:
        """What stands before an answer; also that the operator has not read the whole of what came while it worked.
        `longest`: characters of the longest message of the turn."""
        notes = list(plan.route.notes)
        if plan.route.agent is Agent.OPERATOR and not plan.route.ends and longest > questions.MAX_QUESTION:
            said = await TurnStore(self._tx).texts(self._request.thread, self._request.turn)
            if any(len(questions.normalise_question(each)) > questions.MAX_QUESTION for each in said):
                notes.append(questions.truncation_notice())
        return tuple(dict.fromkeys(notes))

    def _result(self, spent: TurnUsage, answer: str) -> tuple[Mapping[str, Any] | None, str]:
        """What the turn came to, in figures, and in words for Temporal's UI, where nobody's words are to be."""
        request = self._request
        if self._plan is None:
            return None, ""
        route = self._plan.route
        took = f"{spent.model_calls} model calls, {len(spent.tools)} tools, {spent.tokens:,} tokens"
        summary = f"turn {request.turn}: {request.kind}, {route.summary}; {took}"
        figures = {
            "kind": request.kind.value,
            "did_post": bool(answer),
            "agent": route.agent.value,
            "branch": route.branch.value,
            "scope": route.scope.rfp_id,
            "steps": request.model_calls,
            "tools": list(spent.tools),
            "tokens": spent.tokens,
            "cost_usd": spent.cost_usd,
            "seconds": round(spent.seconds, 3),
            "correlation_id": request.key,
            "protocol": asdict(request.protocol) if request.protocol else None,
        }
        return figures, f"{summary}, ${spent.cost_usd:.4f}, {spent.seconds:.1f} s"


async def _remember(deps: ConversationDeps, turn: ConversationTurn, tx: Transaction) -> None:
    """It was answered already, and without that the next turn remembers less."""
    try:
        async with savepoint(tx):
            await remember_turn(tx, turn, deps.registry, deps.clock())
    except Exception as error:  # noqa: BLE001 - the turn is over, whatever is wrong with what it leaves
        _log.warning("memories_not_stored", slack_thread=turn.thread.key, turn=turn.turn, exc_info=error)


async def remember_turn(tx: Transaction, turn: ConversationTurn, registry: ToolRegistry, now: float) -> int:
    """Remember a settled turn: how many memories that is. Safe to repeat: each is kept once, as it was first.

    Nothing is left of a turn that is forgotten, is not settled, or of which all that was asked is deleted; of one
    about an RFP that was deleted since, only how tools did; of the conversational agent's, only what somebody has
    asked to have remembered. `now`: seconds since 1970. Raises what the database does.
    """
    try:
        # Held until the end: what somebody deletes meanwhile is forgotten behind this, and not before it.
        await ConversationStore(tx).current_step(turn.thread, turn.turn, 1)
    except ConversationNotFound:
        return 0
    stored = await TurnStore(tx).read(turn.thread, turn.turn)
    plan = stored.plan
    end = await _end(tx, turn, stored, stored.end, registry) if stored.end else None
    made = memory.extract_memories(end) if end else []
    if end and end.rfp_id and await RfpStore(tx).is_deleted(turn.thread.team, end.rfp_id):
        made = [(key, each) for key, each in made if each.kind is MemoryKind.PROCEDURAL]
    if plan and plan.route.agent is Agent.COPILOT:
        made = [(key, each) for key, each in made if each.kind is MemoryKind.SEMANTIC]
    await MemoryStore(tx).remember(turn.thread.team, made, now)
    _log.info("memories_stored", slack_thread=turn.thread.key, turn=turn.turn, count=len(made))
    return len(made)


async def _end(
    tx: Transaction, turn: ConversationTurn, stored: StoredTurn, settled: SettledTurn, registry: ToolRegistry
) -> EndedTurn:
    thread, number = turn.thread, turn.turn
    said = [each for each in stored.entries if each.message.role is Role.USER]
    words = [
        (stored.senders.get(each.key, settled.user_id), each.message.content)
        for each in said
        if DELETED not in each.message.content
    ]
    if plan := stored.plan:  # the RFP that the turn had for its scope: what is bound by now may be another
        rfp_id = plan.route.scope.rfp_id
    else:
        bound = (await ThreadBindingStore(tx).of(thread)).get(rfps.BINDING, "")
        rfp_id = resolve_scope("\n".join(text for _, text in words), bound).rfp_id
    return EndedTurn(
        thread,
        number,
        settled.user_id,
        words,
        settled.kind,
        settled.answer,
        list((await _uses(tx, turn, registry)).values()),
        rfp_id,
        whole=len(words) == len(said) and all(each.message.content != REMOVED for each in stored.entries),
    )


async def _uses(tx: Transaction, turn: ConversationTurn, registry: ToolRegistry) -> dict[str, ToolUse]:
    """What the calls of a turn came to that are on record, by their ids."""
    uses: dict[str, ToolUse] = {}
    for each in await ToolExecutionStore(tx).outcomes(turn.thread, turn.turn):
        tool = registry.get(each.tool_name)  # None: the model made the name up
        status = ExecutionStatus(each.status) if each.status else ExecutionStatus.UNKNOWN
        kind = tool.kind if tool else ToolKind.CHANGE
        uses[each.call_id] = ToolUse(tool.name if tool else "", status, kind, each.code)
    return uses
