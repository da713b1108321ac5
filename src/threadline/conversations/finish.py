"""The end of a turn: one transaction writes down what is said and what the turn came to; then the answer is posted."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import structlog

from threadline.conversations import decision_texts as decision_words
from threadline.conversations import replies
from threadline.conversations import turn_note as briefing
from threadline.conversations.contract import FinishedTurn, FinishRequest
from threadline.conversations.decide import Deciding
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import OutcomeKind
from threadline.conversations.posting import TurnAnswer, publish_answer, read_answer
from threadline.conversations.status import set_status
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.transcript import TranscriptStore
from threadline.conversations.store.turns import TurnPlan, TurnStore, TurnUsage
from threadline.conversations.think import Thinking
from threadline.conversations.turn_memory import Remembering
from threadline.db.engine import Database, Transaction
from threadline.decisions.model import DecisionOutcome, DecisionRound, NextStep, last_round
from threadline.decisions.store import DecisionStore
from threadline.errors import InternalError, Permanent, Transient
from threadline.handovers.store import HandoverStore
from threadline.models.model import Role
from threadline.operator import enforcement as spoken
from threadline.operator.model import protocol
from threadline.operator.model import routing as questions
from threadline.operator.model.protocol import FinalText
from threadline.operator.model.routing import Agent
from threadline.rfps.model import MAX_ENTRY, EntryKind, InvalidEntry, NewEntry, RfpNotFound
from threadline.rfps.store import RfpStore
from threadline.slack.client import SlackClient
from threadline.slack.model import Thread
from threadline.threads.activity_options import MAX_UNEXPECTED
from threadline.threads.model import turn_id
from threadline.threads.outbox import Outbox
from threadline.tools.model import Author, Change, Operation
from threadline.tools.public_text import public_lines
from threadline.tools.store import ToolExecutionStore

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
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Settled:
    """A turn that has ended. `own`: the answer where it is our own and no model's. `unread`: it has taken something up
    that its transcript does not hold. `remembers`: something of it is to be remembered."""

    finished: FinishedTurn
    own: str
    answer: TurnAnswer
    unread: bool
    remembers: bool


class Finishing:
    """Args: `thinking` and `remembering` keep what a turn has left for later ones."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        slack: SlackClient,
        deciding: Deciding,
        thinking: Thinking,
        remembering: Remembering,
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._slack = slack
        self._deciding = deciding
        self._thinking = thinking
        self._remembering = remembering

    async def finish(self, request: FinishRequest, attempt: int) -> FinishedTurn:
        """See `ConversationActivities.finish_turn`; `attempt` counts from 1."""
        thread, turn = request.thread, request.turn
        settled = await self._settle(request)
        finished = settled.finished
        if settled.unread or settled.own:
            await self._thinking.remember(thread, turn, settled.own)
        posts = request.post and not finished.handover
        if posts and settled.answer.text:
            finished = await self._post(finished, settled.answer, attempt)
        if settled.remembers:
            await self._remember(thread, turn)
        if request.status_shown and posts and not finished.posted:
            await set_status(self._slack, thread, "")
        return finished

    async def _post(self, finished: FinishedTurn, answer: TurnAnswer, attempt: int) -> FinishedTurn:
        """Post the answer. One that Slack refuses for good, or that cannot be rendered, keeps nobody waiting."""
        try:
            marks = await publish_answer(self._database, self._outbox, answer)
        except Transient:
            raise
        except Exception as error:
            expected = isinstance(error, Permanent) and not isinstance(error, InternalError)
            if not expected and attempt < MAX_UNEXPECTED:
                raise
            _log.warning("answer_refused", slack_thread=answer.thread.key, turn=answer.turn, exc_info=error)
            return replace(finished, post_error=str(error) or type(error).__name__)
        return replace(finished, marks=marks, posted=True)

    async def _remember(self, thread: Thread, turn: int) -> None:
        """It was answered already, and without that the next turn remembers less."""
        try:
            await self._remembering.remember(thread, turn)
        except Exception as error:  # noqa: BLE001 - the turn is over, whatever is wrong with what it leaves
            _log.warning("memories_not_stored", slack_thread=thread.key, turn=turn, exc_info=error)

    async def _settle(self, request: FinishRequest) -> _Settled:
        """Write down how the turn ended. The first word about a turn stands."""
        thread, turn = request.thread, request.turn
        async with self._database.begin() as tx:
            await ConversationStore(tx).current_step(thread, turn, 1)  # nobody else settles it meanwhile
            row = await ConversationStore(tx).lock(thread)
            plan = await TurnStore(tx).plan(thread, turn)
            request = await _taken_back(tx, request, plan)
            if request.escalate:
                await self._deciding.escalate(tx, thread, turn, request.escalate)
            made = last_round(await DecisionStore(tx).rounds(row.id, turn))
            request, left = await _taken_over(tx, request)
            answer, end, own = await _answer(tx, request, plan, made)
            brief = briefing.read(await TranscriptStore(tx).get(thread, f"c:{turn}"))
            user = brief.user_id if brief else await _asker(tx, request)
            answer = await _written_down(tx, request, user, answer, end)
            notes = await _notes(tx, request, plan) if answer else ()
            detail = await _wants_detail(tx, thread, turn)
            said = decision_words.fitting("\n".join(notes), answer, end, detail=detail)
            ours = decision_words.fitting("", answer, end, detail=detail) if own else ""
            handover = await _decided(tx, request, made, user, left=left) if made else False
            question = _question(request, answer)
            spent = await TurnStore(tx).usage(thread, turn)
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
            marks = await ConversationStore(tx).snapshot(thread)
            finished = FinishedTurn(marks, posted=to_post.posted, handover=handover, left_to_person=left)
            if plan is None or result is None:
                return _Settled(finished, ours, to_post, unread, remembers=False)
        _log.info("turn_result", slack_thread=thread.key, turn=turn, **result)
        remembers = plan.route.agent is Agent.OPERATOR or plan.route.remembers
        summary = _in_words(turn, request.kind, plan, spent)
        return _Settled(replace(finished, summary=summary), ours, to_post, unread, remembers)


async def _taken_back(tx: Transaction, request: FinishRequest, plan: TurnPlan | None) -> FinishRequest:
    """What is asked by rule is not asked any more once somebody has said to stop, of which the workflow may not have
    heard, and no person takes over. What is told by rule was done, and is told."""
    asks = plan is not None and request.kind in _QUESTIONS and not request.spoken_by
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
        text = "\n\n".join(filter(None, (answers.stopped(()), request.text)))
        return replace(request, kind=OutcomeKind.STOPPED, text=text, escalate=None)
    if asks:
        return replace(request, kind=OutcomeKind.STOPPED, text=answers.stopped(()), escalate=None)
    return replace(request, escalate=None)


async def _taken_over(tx: Transaction, request: FinishRequest) -> tuple[FinishRequest, bool]:
    """Where a person has taken the thread over since the turn began, it is theirs to answer: what the turn was about
    they were shown. What a turn has changed is told all the same.

    Returns:
        what is settled, and whether it is left to them.
    """
    if request.kind not in _THEIRS or request.touched:
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
    tx: Transaction, request: FinishRequest, plan: TurnPlan | None, made: DecisionRound | None
) -> tuple[str, str, bool]:
    """What is to be said, what has to be read with it, and whether it is our own and no model's; a silent turn says
    nothing."""
    if request.kind is OutcomeKind.SILENT:
        return "", "", False
    if request.kind in _BY_DECISION:
        return decision_words.said(request.kind, made), request.text, True
    if plan and request.kind in _BY_RULE and not request.spoken_by:
        return plan.route.reply, "", True
    key = f"a:{request.turn}:{request.answered_at}"
    reply = await TranscriptStore(tx).get(request.thread, key) if request.answered_at else None
    if reply and request.spoken_by:
        call = next((each for each in reply.calls if each.id == request.spoken_by), None)
        words = spoken.final_tool_text(call.arguments) if call else ""
        return (words, "", False) if words else (public_lines(request.text, answers.TROUBLE), "", True)
    if request.kind in _ACCOUNTS:
        return reply.content if reply else public_lines(request.text, answers.TROUBLE), "", reply is None
    notice = decision_words.passed_on(made)
    if reply is None:
        return public_lines(request.text, answers.TROUBLE), notice, True
    found = await ToolExecutionStore(tx).sources(request.thread, request.turn)
    shown = made.sources if made and not (plan and plan.route.agent is Agent.OPERATOR) else ()
    sources = decision_words.sources_of(reply.content, shown, found)
    return reply.content, "\n\n".join(filter(None, (sources, notice))), False


async def _decided(tx: Transaction, request: FinishRequest, made: DecisionRound, user: str, *, left: bool) -> bool:
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
    spent = await TurnStore(tx).usage(request.thread, request.turn)
    row = await ConversationStore(tx).lock(request.thread)
    await DecisionStore(tx).close(row.id, request.turn, result, spent.cost_usd)
    return handover is not None and handover.ref.turn == request.turn


async def _written_down(tx: Transaction, request: FinishRequest, user: str, answer: str, end: str) -> str:
    """An operator's last words go into the journal before they are said, unless the turn has written by itself; what
    has failed is told with them. Where the RFP is gone there is no journal, and the log says so.

    The words of a speaking call are in the journal already, under its own operation; of a call that broke off nobody
    knows, and the same operation is once."""
    by_rule = request.kind in _BY_RULE and not request.spoken_by
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
        if request.spoken_by and rfp_id == request.protocol.scope:
            operation = Operation(request.thread, request.turn, request.answered_at, request.spoken_by)
        author = Author(user, turn_id(request.thread, request.turn))
        try:
            entry = NewEntry("\n\n".join(filter(None, (answer, end)))[:MAX_ENTRY], kind)
            async with tx.begin_nested():  # of an entry that is refused, nothing is left
                await RfpStore(tx).append_entry(Change(operation, time.time()), rfp_id, entry, author)
        except (RfpNotFound, InvalidEntry) as error:
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


async def _wants_detail(tx: Transaction, thread: Thread, turn: int) -> bool:
    """Whether somebody has asked for a long answer in what this turn has used."""
    mine = (each.message for each in await TranscriptStore(tx).entries_of(thread, turn))
    return any(answers.wants_detail(message.content) for message in mine if message.role is Role.USER)


def _question(request: FinishRequest, answer: str) -> str:
    """The start of what is asked with the answer; empty where it asks nothing."""
    if request.kind in _QUESTIONS:
        return " ".join(answer.split())
    return replies.question(answer) if request.kind is OutcomeKind.ANSWERED else ""


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
    return f"turn {turn}: {kind}, {plan.route.about}; {took}, ${spent.cost_usd:.4f}, {spent.seconds:.1f} s"
