"""The end of a turn: load the facts, decide the ending (`ending.py`), and write it, in one
transaction.
"""

import time

import structlog

from threadline.conversations.call_input import append_unread
from threadline.conversations.contract import FinishedTurn, FinishRequest
from threadline.conversations.decide import escalate_turn
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.ending import (
    ACCOUNTS,
    EndFacts,
    Ending,
    JournalEntry,
    decide_ending,
    is_handed_over,
    turn_figures,
    turn_summary,
)
from threadline.conversations.memories import tool_uses, try_to_remember
from threadline.conversations.model.conversation import ConversationSnapshot, OutcomeKind
from threadline.conversations.model.turn_route import Agent
from threadline.conversations.status import set_status
from threadline.conversations.store.conversation import Conversation, ConversationStore
from threadline.conversations.store.handovers import HandoverStore
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.transcript import TranscriptStore
from threadline.conversations.store.turns import SettledTurn, StoredTurn, TurnStore
from threadline.db.engine import Transaction, savepoint
from threadline.decisions.model import last_round
from threadline.decisions.store import DecisionStore
from threadline.operator.model.routing import MAX_QUESTION, normalise_question
from threadline.rfps.model import RfpNotFound, RfpRefused
from threadline.rfps.store import RfpStore
from threadline.tools.model import Author, Change, Operation
from threadline.tools.store import ToolExecutionStore

_NOT_POSTED = "(This was not posted: a person had taken over the thread.)"
_STOPPED = "(This was not posted: somebody had asked me to stop.)"
_HUSHED = "(This was not posted: somebody had asked me to be quiet.)"
_log = structlog.get_logger(__name__)


async def finish_turn(deps: ConversationDeps, request: FinishRequest) -> FinishedTurn:
    """See `ConversationActivities.finish_turn`."""
    async with deps.database.begin() as tx:
        conversation = await ConversationStore(tx).lock(request.thread)
        snapshot = await ConversationStore(tx).snapshot(request.thread)
        stored = await TurnStore(tx).read(request.thread, request.turn)
        if stored.end:
            is_quiet = _is_quiet(deps, conversation, stored)
            finished = await _finished_before(
                tx, request, snapshot, stored, stored.end, is_quiet=is_quiet
            )
            is_silent = not stored.end.answer
        else:
            facts = await _load_facts(
                deps, tx, request, conversation, stored, stop_due=snapshot.stop_due
            )
            ending = decide_ending(request, facts)
            finished = await _write(deps, tx, request, facts, ending)
            is_silent = not ending.text
    if is_silent and request.status_shown:  # a silent turn posts nothing that would remove it
        await set_status(deps.slack, request.thread, "")
    return finished


async def _finished_before(
    tx: Transaction,
    request: FinishRequest,
    snapshot: ConversationSnapshot,
    stored: StoredTurn,
    end: SettledTurn,
    *,
    is_quiet: bool,
) -> FinishedTurn:
    """Return the recorded end of a turn that an earlier attempt has settled, maybe in another way:
    the result of that attempt was lost, or it broke off.
    """
    spent = await TurnStore(tx).usage(request.thread, request.turn)
    handover = await HandoverStore(tx).open_for(request.thread)
    return FinishedTurn(
        snapshot,
        turn_summary(request, end.kind, stored.plan, spent) if stored.plan else "",
        handover=is_handed_over(request, handover),
        left_to_person=end.kind is OutcomeKind.SILENT
        and request.kind is not OutcomeKind.SILENT
        and not is_quiet,
        approvals=spent.approvals,
    )


async def _load_facts(
    deps: ConversationDeps,
    tx: Transaction,
    request: FinishRequest,
    conversation: Conversation,
    stored: StoredTurn,
    *,
    stop_due: bool,
) -> EndFacts:
    thread = request.thread
    turn = request.turn
    route = stored.plan.route if stored.plan else None
    may_be_decided = route is None or route.agent is Agent.ASSISTANT or route.branch.falls_through
    rounds = await DecisionStore(tx).rounds(conversation.id, turn) if may_be_decided else ()
    has_note = any(each.key == f"c:{turn}" for each in stored.entries)
    askers = () if has_note else await MessageStore(tx).askers(thread, turn, 1)
    by_operator = route is not None and route.agent is Agent.OPERATOR and not route.ends
    texts = await TurnStore(tx).texts(thread, turn) if by_operator else []
    may_be_account = stop_due or request.kind in ACCOUNTS
    return EndFacts(
        stored=stored,
        stop_due=stop_due,
        uses=await tool_uses(tx, request, deps.registry) if may_be_account else {},
        decided=last_round(rounds),
        handover=await HandoverStore(tx).open_for(thread),
        asker=askers[-1].user_id if askers else "",
        sources=await ToolExecutionStore(tx).sources(thread, turn) if request.answer_step else (),
        is_quiet=_is_quiet(deps, conversation, stored),
        cut_message=any(len(normalise_question(each)) > MAX_QUESTION for each in texts),
    )


async def _write(
    deps: ConversationDeps,
    tx: Transaction,
    request: FinishRequest,
    facts: EndFacts,
    ending: Ending,
) -> FinishedTurn:
    thread = request.thread
    turn = request.turn
    plan = facts.stored.plan
    turns = TurnStore(tx)
    if ending.escalate:
        await escalate_turn(deps, tx, request, ending.escalate)
    for key in ending.unsaid:
        await TranscriptStore(tx).rewrite(thread, key, _unsaid_text(facts, ending))
    for entry in ending.journal:
        await _journal(tx, request, ending.user_id, entry)
    spent = await turns.usage(thread, turn)
    if ending.result:
        conversation = await ConversationStore(tx).lock(thread)
        await DecisionStore(tx).close(conversation.id, turn, ending.result, spent.cost_usd)
    if ending.opens_handover:
        await HandoverStore(tx).open(thread, turn, ending.user_id)
    figures = (
        turn_figures(request, ending.kind, plan, spent, answered=bool(ending.answer))
        if plan
        else None
    )
    snapshot = await turns.settle(
        *(thread, turn, ending.kind, ending.text, ending.user_id),
        wants_detail=ending.wants_detail,
        model_calls=request.model_calls,
        question=ending.question,
        result=figures,
    )
    await append_unread(deps, tx, request, ending.own_words)
    if plan and (plan.route.agent is Agent.OPERATOR or plan.route.has_fact_to_remember):
        await try_to_remember(tx, deps, request)
    if figures:
        _log.info("turn_result", slack_thread=thread.key, turn=turn, **figures)
    return FinishedTurn(
        snapshot,
        turn_summary(request, ending.kind, plan, spent) if plan else "",
        handover=ending.waits_for_person,
        left_to_person=ending.left_to_person,
        approvals=spent.approvals,
    )


def _is_quiet(deps: ConversationDeps, conversation: Conversation, stored: StoredTurn) -> bool:
    """Whether the thread is quiet, and the turn was not addressed to the bot."""
    not_addressed = stored.plan is not None and stored.plan.route.not_addressed
    return not_addressed and float(conversation.quiet_until) > deps.clock()


def _unsaid_text(facts: EndFacts, ending: Ending) -> str:
    """Return the transcript's line in place of words that were not posted."""
    if ending.left_to_person:
        return _NOT_POSTED
    return _HUSHED if facts.is_quiet and ending.kind is OutcomeKind.SILENT else _STOPPED


async def _journal(
    tx: Transaction, request: FinishRequest, user_id: str, entry: JournalEntry
) -> None:
    """Add an entry to an RFP's journal. Logs a warning if the RFP is gone or refuses it."""
    change = Change(
        Operation(request.thread, request.turn, 0, f"said:{entry.rfp_id}"),
        Author(user_id, request.key),
        time.time(),
    )
    try:
        async with savepoint(tx):  # a refused entry is rolled back alone
            await RfpStore(tx).append_entry(change, entry.rfp_id, entry.words, entry.kind)
    except (RfpNotFound, RfpRefused) as error:
        _log.warning(
            "answer_not_journalled",
            slack_thread=request.thread.key,
            rfp=entry.rfp_id,
            reason=str(error),
        )
