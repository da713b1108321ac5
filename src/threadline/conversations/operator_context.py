"""The operator's context of a turn: gathered from records and Slack, with an analysis of the
request.
"""

import asyncio
from dataclasses import asdict, dataclass, replace

import structlog

from threadline.conversations.deps import ConversationDeps
from threadline.conversations.model.conversation import ConversationSnapshot
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.turns import TurnPlan, TurnStore
from threadline.db.engine import Transaction
from threadline.errors import Permanent, Transient
from threadline.operator.context import (
    LAYER_TIMEOUT,
    Context,
    ContextRequest,
    Records,
    RelatedThread,
    build_context,
    read_records,
    reason_of,
)
from threadline.operator.prompt import RequestAnalysis, analyse_request
from threadline.rfps.model import BINDING
from threadline.slack.model import Thread
from threadline.slack.store import UserStore
from threadline.threads.store import ThreadBindingStore

_RELATED_THREADS = 20
_READINGS = 3
"""Attempts to gather while messages are being deleted in the thread; after them the operator goes
on without the context.
"""
LONGEST_CONTEXT = 80.0
"""Seconds for the whole context."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class OperatorQuestion:
    """A turn's question to the operator. `deletions`: the thread's deletion count when it was
    read.
    """

    request: ContextRequest
    deletions: int


async def gather_context(
    deps: ConversationDeps, turn: int, plan: TurnPlan, asked: OperatorQuestion, attempt: int
) -> tuple[TurnPlan, ConversationSnapshot | None]:
    """Gather the operator's context, and analyse the request. If any of it fails, the operator
    goes on with its tools alone. The model analyses a request once: an attempt after a lost one
    finds the context on record, and does without the analysis.

    Returns:
        The plan with the context, and the snapshot; no snapshot if words that were read earlier
        may have been deleted.

    Raises:
        Transient: The first attempt could not store the context.
    """
    thread = asked.request.thread
    try:
        async with asyncio.timeout(LONGEST_CONTEXT):
            for reading in range(_READINGS):
                made = await _build(deps, turn, asked)
                # Stored before the analysis, which is requested only once.
                async with deps.database.begin() as tx:
                    is_kept = await _keep(tx, turn, asked, made)
                if is_kept:
                    question = asked.request.question
                    analysis = await analyse_request(
                        deps.model, question, made.text, deps.operator_profile.tools
                    )
                    async with deps.database.begin() as tx:
                        kept, snapshot = await _keep_analysis(tx, turn, asked, analysis)
                    if kept:
                        return kept, None if reading else snapshot
                async with deps.database.begin() as tx:
                    asked = await read_question(tx, thread, turn, asked.request.user_id, plan)
                _log.info("context_read_again", slack_thread=thread.key, turn=turn)
    except Exception as error:  # the turn goes on without the context
        if isinstance(error, Transient) and attempt == 1:
            raise
        _log.warning("context_not_gathered", slack_thread=thread.key, turn=turn, exc_info=error)
    return plan, None


async def _build(deps: ConversationDeps, turn: int, asked: OperatorQuestion) -> Context:
    records: Records | str
    asked = await _without_hidden(deps, turn, asked)
    try:
        # This transaction does not lock the conversation's row, for which incoming messages would
        # wait.
        async with asyncio.timeout(LAYER_TIMEOUT), deps.database.begin() as tx:
            records = await read_records(tx, asked.request)
    except (TimeoutError, Permanent) as missing:
        records = reason_of(missing, "records")
    names = {each.wire_name for each in deps.operator_profile.tools}
    return await build_context(
        asked.request, records, deps.operator_slack, names, deps.operator_tokens
    )


async def _without_hidden(
    deps: ConversationDeps, turn: int, asked: OperatorQuestion
) -> OperatorQuestion:
    """Return the question with the kinds of record that its askers may not see."""
    if not deps.hides_records:
        return asked
    thread = asked.request.thread
    async with deps.database.begin() as tx:
        askers = [each.user_id for each in await MessageStore(tx).askers(thread, turn, 1)]
    hidden = await deps.hidden_from({asked.request.user_id, *askers}, thread.channel)
    return replace(asked, request=replace(asked.request, hidden=hidden))


async def _keep(tx: Transaction, turn: int, asked: OperatorQuestion, made: Context) -> bool:
    """Store the operator's context; first write wins. Returns False, and stores no text, if a
    message was deleted in the thread meanwhile.
    """
    thread = asked.request.thread
    if await MessageStore(tx).deletion_count(thread) != asked.deletions:
        return False
    await TurnStore(tx).set_context(
        thread, turn, made.text, made.patterns, [asdict(each) for each in made.layers]
    )
    if made.new_profile:
        await UserStore(tx).save(thread.team, made.new_profile)
    sizes = {each.name: each.tokens for each in made.layers if not each.missing}
    _log.info(
        "context_built",
        slack_thread=thread.key,
        turn=turn,
        layers=sizes,
        tokens=sum(sizes.values()),
    )
    return True


async def _keep_analysis(
    tx: Transaction, turn: int, asked: OperatorQuestion, analysis: RequestAnalysis
) -> tuple[TurnPlan | None, ConversationSnapshot]:
    """Store the analysis, and its cost in any case. Returns no plan if a message was deleted
    meanwhile.
    """
    thread = asked.request.thread
    if usage := analysis.usage:
        await ConversationStore(tx).add_usage(
            thread, turn, 0, "analyse", usage, analysis.milliseconds
        )
    if failure := analysis.failure:
        call = (thread, turn, 0, "analyse")
        await ConversationStore(tx).add_failure(*call, failure, analysis.milliseconds)
    plan = None
    if await MessageStore(tx).deletion_count(thread) == asked.deletions:
        plan = await TurnStore(tx).set_analysis(thread, turn, analysis.text)
    return plan, await ConversationStore(tx).snapshot(thread)


async def read_question(
    tx: Transaction, thread: Thread, turn: int, user: str, plan: TurnPlan
) -> OperatorQuestion:
    """Load a turn's question in the name of a user, with the facts that the conversations hold."""
    deletions = await MessageStore(tx).deletion_count(thread)
    said = await TurnStore(tx).request_texts(thread, turn, plan=plan)
    return OperatorQuestion(
        await context_request(tx, thread, user, "\n".join(said), plan.route.scope.rfp_id),
        deletions,
    )


async def context_request(
    tx: Transaction, thread: Thread, user_id: str, question: str, rfp_id: str
) -> ContextRequest:
    """Return the context request for a user's question, with the facts that the conversations
    hold.
    """
    begun = await MessageStore(tx).first_said_at(thread)
    threads = await _other_threads(tx, thread, rfp_id) if rfp_id else ()
    return ContextRequest(
        thread, user_id, question, rfp_id, None if begun is None else float(begun), threads
    )


async def _other_threads(tx: Transaction, here: Thread, rfp_id: str) -> list[RelatedThread]:
    """Return the other threads about the same RFP. Answers are quoted only from the same channel,
    and other direct messages are not mentioned at all.
    """
    about = await ThreadBindingStore(tx).threads_of(here.team, BINDING, rfp_id, _RELATED_THREADS)
    others = [each for each in about if each != here]
    same = [each.ts for each in others if each.channel == here.channel]
    answered = await TurnStore(tx).last_answers(here.team, here.channel, same)
    elsewhere = dict.fromkeys(each.channel for each in others if each.channel != here.channel)
    return [
        *(RelatedThread(here.channel, answer, at) for answer, at in answered),
        *(RelatedThread(channel) for channel in elsewhere if not channel.startswith("D")),
    ]
