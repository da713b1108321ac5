"""The end of a turn: one transaction writes down what is said and what the turn came to; then the answer is posted."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import structlog

from threadline.conversations.act import run_final
from threadline.conversations.call_input import append_unread
from threadline.conversations.contract import FinishedTurn, FinishRequest
from threadline.conversations.decide import escalate_turn
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.model import answers
from threadline.conversations.model.answers import decision_text, escalation_notice, fit_answer, list_sources
from threadline.conversations.model.conversation import ConversationNotFound, Execution, ExecutionStatus, OutcomeKind
from threadline.conversations.posting import TurnAnswer, claim_answer, publish_answer, read_answer
from threadline.conversations.prompt import parse_note
from threadline.conversations.replies import closing_question
from threadline.conversations.status import set_status
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.transcript import DELETED, REMOVED, TranscriptEntry, TranscriptStore
from threadline.conversations.store.turns import TurnPlan, TurnStore, TurnUsage
from threadline.db.engine import Transaction
from threadline.decisions.model import DecisionOutcome, DecisionRound, NextStep, last_round
from threadline.decisions.store import DecisionStore
from threadline.errors import InternalError, Permanent, Transient
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
from threadline.slack.model import Thread
from threadline.threads.activity_options import MAX_UNEXPECTED
from threadline.threads.model import turn_id
from threadline.threads.store import PostClaim, ThreadBindingStore
from threadline.tools.model import Author, Change, Operation
from threadline.tools.public_text import public_lines
from threadline.tools.registry import ToolRegistry
from threadline.tools.store import ToolExecutionStore, ToolOutcome

_BY_RULE = (OutcomeKind.TOLD, OutcomeKind.ASKED)
_ACCOUNTS = (OutcomeKind.STOPPED, OutcomeKind.FAILED)
"""Their words list what was tried."""
_QUESTIONS = (OutcomeKind.ASKED, OutcomeKind.CLARIFIED)
_BY_DECISION = (OutcomeKind.CLARIFIED, OutcomeKind.ESCALATED)
_THEIRS = (OutcomeKind.ANSWERED, OutcomeKind.FAILED, OutcomeKind.SPEECHLESS, *_BY_DECISION)
_RESULTS = {
    OutcomeKind.CLARIFIED: DecisionOutcome.CLARIFIED,
    OutcomeKind.ESCALATED: DecisionOutcome.ESCALATED,
    OutcomeKind.STOPPED: DecisionOutcome.FAILED,
    OutcomeKind.FAILED: DecisionOutcome.FAILED,
    OutcomeKind.SPEECHLESS: DecisionOutcome.FAILED,
}
_LEFT = "(This was not said: a person had taken the thread over.)"
_CLAIM_GOOD_FOR = 10.0
"""Seconds between the claim on a post and its use: less than its lease by more than one call of Slack."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Settled:
    """A turn that has ended. `own`: the answer where it is our own and no model's. `unread`: it has taken something up
    that its transcript does not hold. `remembers`: something of it is to be remembered. `claim`: on the answer, where
    it is to be posted now. `result`: what it came to, in figures."""

    finished: FinishedTurn
    own: str
    answer: TurnAnswer
    unread: bool
    remembers: bool
    claim: PostClaim | None
    result: Mapping[str, Any] | None


async def finish_turn(deps: ConversationDeps, request: FinishRequest, attempt: int) -> FinishedTurn:
    """See `ConversationActivities.finish_turn`; `attempt` counts from 1."""
    thread, turn = request.thread, request.turn
    final, settled = await _end_turn(deps, request, attempt)
    if settled is None:  # the call was refused, and the turn goes on
        async with deps.database.begin() as tx:
            return FinishedTurn(await ConversationStore(tx).snapshot(thread), final=final)
    finished = replace(settled.finished, final=final)
    # Before the post: while Slack is away, a run that begins anew posts the answer and looks at nothing else. What is
    # remembered with the post is read there.
    if settled.unread or settled.own:
        await append_unread(deps, thread, turn, settled.own)
    if settled.claim:
        fresh = deps.clock() - settled.claim.claimed_at < _CLAIM_GOOD_FOR
        finished = await _post(deps, settled, finished, settled.claim if fresh else None, attempt)
    if settled.remembers and not (settled.claim and finished.posted):
        async with deps.database.begin() as tx:
            await _remember(deps, tx, thread, turn)
    if request.status_shown and request.post and not (finished.handover or finished.posted):
        await set_status(deps.slack, thread, "")
    return finished


async def _end_turn(
    deps: ConversationDeps, request: FinishRequest, attempt: int
) -> tuple[Execution | None, _Settled | None]:
    """Run the final call, if there is one, and settle the turn unless that is refused: in one transaction.

    A word to stop wins over the call.
    """
    settled: _Settled | None = None

    async def settle(tx: Transaction, ran: Execution) -> None:
        nonlocal settled
        posted = ran.protocol is not None and ran.protocol.did_post
        # An earlier transaction may have been rolled back: what it settled counts no more.
        settled = await _settle(deps, tx, replace(request, protocol=ran.protocol)) if posted else None

    final = None
    try:
        if request.final and (final := await run_final(deps, request, attempt, settle)) is None:
            request = _without_final(request, OutcomeKind.STOPPED, answers.stopped_text(()))
    except InternalError:
        raise
    except Permanent as error:  # as where its reply is no longer stored
        _log.warning("final_call_lost", slack_thread=request.thread.key, turn=request.turn, reason=str(error))
        request = _without_final(request, OutcomeKind.FAILED, "")
    if request.final is None:
        async with deps.database.begin() as tx:
            settled = await _settle(deps, tx, request)
    if settled and settled.result:
        _log.info("turn_result", slack_thread=request.thread.key, turn=request.turn, **settled.result)
    return final, settled


def _without_final(request: FinishRequest, kind: OutcomeKind, text: str) -> FinishRequest:
    return replace(request, final=None, kind=kind, text=text, answered_at=0)


async def _post(
    deps: ConversationDeps, settled: _Settled, finished: FinishedTurn, claim: PostClaim | None, attempt: int
) -> FinishedTurn:
    """Post the answer. One that Slack refuses for good, or that cannot be rendered, keeps nobody waiting."""
    answer = settled.answer

    async def remember(tx: Transaction) -> None:
        if settled.remembers:
            await _remember(deps, tx, answer.thread, answer.turn)

    try:
        snapshot = await publish_answer(deps, answer, claim=claim, afterwards=remember)
    except Transient:
        raise
    except Exception as error:
        expected = isinstance(error, Permanent) and not isinstance(error, InternalError)
        if not expected and attempt < MAX_UNEXPECTED:
            raise
        _log.warning("answer_refused", slack_thread=answer.thread.key, turn=answer.turn, exc_info=error)
        return replace(finished, post_error=str(error) or type(error).__name__)
    return replace(finished, snapshot=snapshot, posted=True)


async def _remember(deps: ConversationDeps, tx: Transaction, thread: Thread, turn: int) -> None:
    """It was answered already, and without that the next turn remembers less."""
    try:
        async with tx.begin_nested():
            await remember_turn(tx, thread, turn, deps.registry, deps.clock())
    except Exception as error:  # noqa: BLE001 - the turn is over, whatever is wrong with what it leaves
        _log.warning("memories_not_stored", slack_thread=thread.key, turn=turn, exc_info=error)


async def _settle(deps: ConversationDeps, tx: Transaction, request: FinishRequest) -> _Settled:
    """Write down how the turn ended. The first word about a turn stands."""
    thread, turn = request.thread, request.turn
    await ConversationStore(tx).current_step(thread, turn, 1)  # nobody else settles it meanwhile
    row = await ConversationStore(tx).lock(thread)
    plan = await TurnStore(tx).plan(thread, turn)
    request = await _taken_back(tx, request, plan)
    if request.escalate:
        await escalate_turn(deps, tx, thread, turn, request.escalate)
    made = last_round(await DecisionStore(tx).rounds(row.id, turn))
    request, left = await _taken_over(tx, request)
    mine = {each.key: each.message for each in await TranscriptStore(tx).entries_of(thread, turn)}
    answer, end, own = await _answer(tx, request, plan, made, mine.get(f"a:{turn}:{request.answered_at}"))
    brief = parse_note(mine.get(f"c:{turn}"))
    user = brief.user_id if brief else await _asker(tx, request)
    answer = await _written_down(tx, request, user, answer, end)
    notes = await _notes(tx, request, plan) if answer else ()
    # Somebody has asked for a long answer in what this turn has used.
    detail = any(answers.wants_detail(each.content) for each in mine.values() if each.role is Role.USER)
    said = fit_answer("\n".join(notes), answer, end, detail=detail)
    ours = fit_answer("", answer, end, detail=detail) if own else ""
    spent = await TurnStore(tx).usage(thread, turn)
    handover = await _decided(tx, request, made, user, spent, left=left) if made else False
    question = _question(request, answer)
    result = _result(request, plan, spent, answer) if plan else None
    await TurnStore(tx).settle(
        *(thread, turn, request.kind, said, user),
        wants_detail=detail,
        model_calls=request.model_calls,
        question=question,
        result=result,
    )
    to_post = await read_answer(tx, thread, turn)
    if to_post is None:
        raise Permanent("The conversation was deleted, so its turn cannot end.")
    unread = bool(await MessageStore(tx).unread(thread, turn))
    snapshot = await ConversationStore(tx).snapshot(thread)
    finished = FinishedTurn(snapshot, posted=to_post.posted, handover=handover, left_to_person=left)
    posts = request.post and not handover and bool(to_post.text)
    claim = await claim_answer(tx, deps.outbox, to_post) if posts else None
    remembers = plan is not None and (plan.route.agent is Agent.OPERATOR or plan.route.remembers)
    if plan:
        finished = replace(finished, summary=_in_words(turn, request.kind, plan, spent))
    return _Settled(finished, ours, to_post, unread, remembers, claim, result)


async def _taken_back(tx: Transaction, request: FinishRequest, plan: TurnPlan | None) -> FinishRequest:
    """What is asked by rule is not asked any more once somebody has said to stop, of which the workflow may not have
    heard, and no person takes over. What is told by rule was done, and is told."""
    asks = plan is not None and request.kind in _QUESTIONS and request.final is None
    if not (asks or request.escalate):
        return request
    if await ConversationStore(tx).current_step(request.thread, request.turn, 1):
        stopped = (await ConversationStore(tx).snapshot(request.thread)).stop_due
    else:  # an earlier try has settled it, and has used the word
        before = await TurnStore(tx).settled(request.thread, request.turn)
        stopped = before is not None and before.kind is OutcomeKind.STOPPED
    if not stopped:
        return request
    if request.kind is OutcomeKind.ESCALATED:  # the text tells what was done until then
        text = "\n\n".join(filter(None, (answers.stopped_text(()), request.text)))
        return replace(request, kind=OutcomeKind.STOPPED, text=text, escalate=None)
    if asks:
        return replace(request, kind=OutcomeKind.STOPPED, text=answers.stopped_text(()), escalate=None)
    return replace(request, escalate=None)


async def _taken_over(tx: Transaction, request: FinishRequest) -> tuple[FinishRequest, bool]:
    """Where a person has taken the thread over since the turn began, it is theirs to answer: what the turn was about
    they were shown. What a turn has changed is told all the same.

    Returns:
        what is settled, and whether it is left to them.
    """
    if request.kind not in _THEIRS or request.changed_something:
        return request, False
    thread, turn = request.thread, request.turn
    handover = await HandoverStore(tx).open_for(thread)
    theirs = handover is not None and handover.taken_by and handover.ref.turn != turn
    before = await TurnStore(tx).settled(thread, turn)
    if before:
        theirs = before.kind is OutcomeKind.SILENT  # the first word stands
    if not theirs:
        return request, False
    if request.answered_at:
        await TranscriptStore(tx).rewrite(thread, f"a:{turn}:{request.answered_at}", _LEFT)
    return replace(request, kind=OutcomeKind.SILENT, text=""), True


async def _answer(
    tx: Transaction,
    request: FinishRequest,
    plan: TurnPlan | None,
    made: DecisionRound | None,
    reply: Message | None,
) -> tuple[str, str, bool]:
    """What is to be said, what has to be read with it, and whether it is our own and no model's; a silent turn says
    nothing.

    Args:
        reply: the model's that has the answer; None where its words are our own.
    """
    if request.kind is OutcomeKind.SILENT:
        return "", "", False
    if request.kind in _BY_DECISION:
        return decision_text(request.kind, made), request.text, True
    if plan and request.kind in _BY_RULE and request.final is None:
        return plan.route.reply, "", True
    if reply and request.final:
        call = next((each for each in reply.calls if each.id == request.final.id), None)
        words = spoken.final_tool_text(call.arguments) if call else ""
        return (words, "", False) if words else (public_lines(request.text, answers.GENERIC_FAILURE), "", True)
    if request.kind in _ACCOUNTS:
        return reply.content if reply else public_lines(request.text, answers.GENERIC_FAILURE), "", reply is None
    notice = escalation_notice(made)
    if reply is None:
        return public_lines(request.text, answers.GENERIC_FAILURE), notice, True
    found = await ToolExecutionStore(tx).sources(request.thread, request.turn)
    shown = made.sources if made and not (plan and plan.route.agent is Agent.OPERATOR) else ()
    sources = list_sources(reply.content, shown, found)
    return reply.content, "\n\n".join(filter(None, (sources, notice))), False


async def _decided(
    tx: Transaction, request: FinishRequest, made: DecisionRound, user: str, spent: TurnUsage, *, left: bool
) -> bool:
    """What came of the turn's decision; one that ends with a person waits for them from now on.

    Returns:
        whether it is this turn that waits for a person.
    """
    result = _RESULTS.get(request.kind, DecisionOutcome.ANSWERED)
    if left:
        result = DecisionOutcome.TAKEN_OVER
    elif made.judgement and made.judgement.next_step is NextStep.ESCALATE and result is not DecisionOutcome.FAILED:
        result = DecisionOutcome.ESCALATED
        await HandoverStore(tx).open(request.thread, request.turn, user)
    handover = await HandoverStore(tx).open_for(request.thread)
    row = await ConversationStore(tx).lock(request.thread)
    await DecisionStore(tx).close(row.id, request.turn, result, spent.cost_usd)
    return handover is not None and handover.ref.turn == request.turn


async def _written_down(tx: Transaction, request: FinishRequest, user: str, answer: str, end: str) -> str:
    """An operator's last words go into the journal before they are said, unless the turn has written by itself; what
    has failed is told with them. Where the RFP is gone there is no journal, and the log says so.

    The words of a final call are in the journal already, under its own operation, which is once."""
    by_rule = request.kind in _BY_RULE and request.final is None
    if request.protocol is None or by_rule or not answer:
        return answer
    final = protocol.final_text_rule(request.protocol)
    if request.kind is OutcomeKind.STOPPED and request.protocol.only_reads:
        return answer  # it was stopped before it had anything to tell
    if final.text is FinalText.WITH_FAILURES and request.kind not in _ACCOUNTS:
        answer = f"{request.failures}\n\n{answer}".strip() if request.failures else answer
    failed = final.text is FinalText.WITH_FAILURES and request.kind is not OutcomeKind.PROPOSED
    kind = EntryKind.FAILED if failed else EntryKind.SAID  # a proposal may have been made at once
    for rfp_id in final.journal_in:
        operation = Operation(request.thread, request.turn, 0, f"said:{rfp_id}")
        if request.final and rfp_id == request.protocol.scope:
            operation = Operation(request.thread, request.turn, request.answered_at, request.final.id)
        author = Author(user, turn_id(request.thread, request.turn))
        try:
            words = "\n\n".join(filter(None, (answer, end)))[:MAX_ENTRY]
            async with tx.begin_nested():  # of an entry that is refused, nothing is left
                await RfpStore(tx).append_entry(Change(operation, time.time()), rfp_id, words, author, kind)
        except (RfpNotFound, RfpRefused) as error:
            _log.warning("answer_not_journalled", slack_thread=request.thread.key, rfp=rfp_id, reason=str(error))
    return answer


async def _notes(tx: Transaction, request: FinishRequest, plan: TurnPlan | None) -> Sequence[str]:
    """What stands before an answer; also that the operator has not read the whole of what came while it worked."""
    if plan is None:
        return ()
    said = await TurnStore(tx).texts(request.thread, request.turn)
    cut = any(len(questions.normalise_question(each)) > questions.MAX_QUESTION for each in said)
    own = [questions.truncation_notice()] if cut and plan.route.agent is Agent.OPERATOR and not plan.route.ends else []
    return tuple(dict.fromkeys([*plan.route.notes, *own]))


async def _asker(tx: Transaction, request: FinishRequest) -> str:
    """Whom a turn answers that ended before the loop."""
    askers = await MessageStore(tx).askers(request.thread, request.turn, 1)
    return askers[-1].user_id if askers else ""


def _question(request: FinishRequest, answer: str) -> str:
    """The start of what is asked with the answer; empty where it asks nothing."""
    if request.kind in _QUESTIONS:
        return " ".join(answer.split())
    return closing_question(answer) if request.kind is OutcomeKind.ANSWERED else ""


def _result(request: FinishRequest, plan: TurnPlan, spent: TurnUsage, answer: str) -> Mapping[str, Any]:
    return {
        "kind": request.kind.value,
        "did_post": bool(answer),
        "agent": plan.route.agent.value,
        "branch": plan.route.branch.value,
        "scope": plan.route.scope.rfp_id,
        "steps": request.model_calls,
        "tools": list(spent.tools),
        "tokens": spent.tokens,
        "cost_usd": spent.cost_usd,
        "seconds": round(spent.seconds, 3),
        "correlation_id": turn_id(request.thread, request.turn),
        "protocol": asdict(request.protocol) if request.protocol else None,
    }


def _in_words(turn: int, kind: OutcomeKind, plan: TurnPlan, spent: TurnUsage) -> str:
    """For Temporal's UI, where nobody's words are to be."""
    took = f"{spent.model_calls} model calls, {len(spent.tools)} tools, {spent.tokens:,} tokens"
    return f"turn {turn}: {kind}, {plan.route.summary}; {took}, ${spent.cost_usd:.4f}, {spent.seconds:.1f} s"


async def remember_turn(tx: Transaction, thread: Thread, turn: int, registry: ToolRegistry, now: float) -> int:
    """Remember a settled turn: how many memories that is. Safe to repeat: each is kept once, as it was first.

    Nothing is left of a turn that is forgotten, is not settled, or of which all that was asked is deleted; of one
    about an RFP that was deleted since, only how tools did; of the conversational agent's, only what somebody has
    asked to have remembered.

    Args:
        now: seconds since 1970.

    Raises:
        Permanent, Transient: as the database did.
    """
    try:
        # Held until the end: what somebody deletes meanwhile is forgotten behind this, and not before it.
        await ConversationStore(tx).current_step(thread, turn, 1)
    except ConversationNotFound:
        return 0
    plan = await TurnStore(tx).plan(thread, turn)
    end = await _end(tx, thread, turn, plan, registry)
    made = memory.extract_memories(end) if end else []
    if end and end.rfp_id and await RfpStore(tx).is_deleted(thread.team, end.rfp_id):
        made = [(key, each) for key, each in made if each.kind is MemoryKind.PROCEDURAL]
    if plan and plan.route.agent is Agent.COPILOT:
        made = [(key, each) for key, each in made if each.kind is MemoryKind.SEMANTIC]
    await MemoryStore(tx).remember(thread.team, made, now)
    _log.info("memories_stored", slack_thread=thread.key, turn=turn, count=len(made))
    return len(made)


async def _end(
    tx: Transaction, thread: Thread, turn: int, plan: TurnPlan | None, registry: ToolRegistry
) -> EndedTurn | None:
    settled = await TurnStore(tx).settled(thread, turn)
    if settled is None:
        return None
    placed = await TranscriptStore(tx).entries_of(thread, turn)
    said = [each for each in placed if each.message.role is Role.USER]
    by = await MessageStore(tx).find(thread, [_id(each) for each in said])
    words = [
        (by[_id(each)].sender_id if _id(each) in by else settled.user_id, each.message.content)
        for each in said
        if DELETED not in each.message.content
    ]
    return EndedTurn(
        thread,
        turn,
        settled.user_id,
        words,
        settled.kind,
        settled.answer,
        _used(registry, await ToolExecutionStore(tx).outcomes(thread, turn)),
        await _about(tx, thread, plan, "\n".join(text for _, text in words)),
        whole=len(words) == len(said) and all(each.message.content != REMOVED for each in placed),
    )


def _used(registry: ToolRegistry, outcomes: Sequence[ToolOutcome]) -> list[ToolUse]:
    """The calls under the tools' own names; a name that the model made up is none."""
    found = []
    for each in outcomes:
        tool = registry.get(each.tool_name)
        status = ExecutionStatus(each.status) if each.status else ExecutionStatus.UNKNOWN
        kind = tool.kind if tool else ToolKind.CHANGE
        found.append(ToolUse(tool.name if tool else "", status, kind, each.code))
    return found


def _id(placed: TranscriptEntry) -> str:
    """Of the message that a row of the transcript holds."""
    return placed.key.removeprefix("u:")


async def _about(tx: Transaction, thread: Thread, plan: TurnPlan | None, request: str) -> str:
    """The RFP that the turn had for its scope: what is bound by now may be another."""
    if plan:
        return plan.route.scope.rfp_id
    return resolve_scope(request, (await ThreadBindingStore(tx).of(thread)).get(rfps.BINDING, "")).rfp_id
