"""Calls of tools: run through all policies, their output kept in the transcript, and a line of each told."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog

from threadline.conversations.contract import ACT, ACT_CALL, ActRequest, FinishRequest
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.model.conversation import Execution, ExecutionStatus, OutcomeKind, lost_call
from threadline.conversations.prompt import TurnNote, parse_note, tool_message
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.transcript import THREAD_TOOLS, TranscriptStore
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Transaction
from threadline.db.values import storable_key
from threadline.errors import Permanent, Transient
from threadline.models.model import Message, ToolCall, ToolKind
from threadline.operator import enforcement as protocol
from threadline.operator.model.routing import Agent
from threadline.slack.model import name_with_id
from threadline.tools.context import ToolContext
from threadline.tools.model import ErrorCategory, ErrorCode, ToolResult
from threadline.tools.output import render_result, result_limit
from threadline.tools.public_text import public_sentence
from threadline.tools.registry import ToolRegistry
from threadline.tools.runner import OpenTransaction, ToolRunner

_ATTEMPTS = ACT.retry.maximum_attempts
_log = structlog.get_logger(__name__)


async def act(deps: ConversationDeps, request: ActRequest, attempt: int) -> list[Execution]:
    """See `ConversationActivities.act`; `attempt` counts from 1. Raises `Permanent` when the model has not made a
    single call that is asked for, and `Transient` when trying it again does no harm."""
    async with AsyncExitStack() as end:
        tx = await end.enter_async_context(deps.ledger.transaction())
        calls = await _read_calls(tx, deps, request, attempt)
        if request.unless_stopped and calls.is_over:
            return []
        if len(request.calls) == 1:
            return [await calls.run(request.calls[0].id, OpenTransaction(tx, end))]
    ran = await asyncio.gather(*map(calls.run_with_limit, request.calls), return_exceptions=True)
    if broken := [each for each in ran if isinstance(each, BaseException)]:
        raise broken[0]  # the next attempt finds the others on record
    return [each for each in ran if isinstance(each, Execution)]


AfterRun = Callable[[Transaction, Execution], Awaitable[None]]
"""What is done in the transaction that records what a call came to."""


async def run_final(deps: ConversationDeps, request: FinishRequest, attempt: int, after: AfterRun) -> Execution | None:
    """Run the call that ends a turn; where it is on record already, `after` is told of its result all the same. Returns
    None when somebody has said to stop, so that it was not run. Raises `Permanent` when the model has not made this
    call, and `Transient` when trying it again does no harm."""
    if request.final is None:
        raise TypeError("the request has no final call")
    asked = ActRequest(request.thread, request.turn, request.answer_step, (request.final,), request.protocol)
    async with AsyncExitStack() as end:
        tx = await end.enter_async_context(deps.ledger.transaction())
        if await is_stopped(tx, request):
            return None
        calls = await _read_calls(tx, deps, asked, attempt)
        return await calls.run(request.final.id, OpenTransaction(tx, end), after)


async def is_stopped(tx: Transaction, request: FinishRequest) -> bool:
    """Whether somebody has said to stop, also where an earlier attempt has ended the turn for it."""
    snapshot = await ConversationStore(tx).snapshot(request.thread)
    if snapshot.turn < request.turn:
        return snapshot.stop_due
    ended = await TurnStore(tx).settled(request.thread, request.turn)
    return ended is not None and ended.kind is OutcomeKind.STOPPED


@dataclass(frozen=True)
class _Calls:
    """Calls of one reply, and what holds for them.

    `reply`: with their arguments. `brief`: of whoever has asked last. `others`: who else has asked, by their ids.
    `deletions`: how often something had been deleted in the thread by then. `is_over`: the turn has ended, or somebody
    has said to stop.
    """

    deps: ConversationDeps
    request: ActRequest
    attempt: int
    reply: Message
    brief: TurnNote
    others: dict[str, str]
    deletions: int
    is_over: bool

    async def run_with_limit(self, asked: ToolCall) -> Execution:
        """One of several calls, which all only read. What goes wrong with it for good is told of this one alone. Raises
        `Transient`, or what nobody foresaw: there is another attempt."""
        limit = asyncio.timeout(ACT_CALL)
        try:
            async with limit:
                return await self.run(asked.id)
        except Permanent as error:
            return lost_call(asked, str(error), self.request.protocol)
        except Exception as error:
            if self.attempt < _ATTEMPTS and not limit.expired():
                raise
            _log.warning("call_broke_off", tool=asked.name, exc_info=error)
            if not isinstance(error, Transient | TimeoutError):
                await self.deps.alerts.record(asked.name)
            return lost_call(asked, "", self.request.protocol)

    async def run(
        self, call_id: str, opened: OpenTransaction | None = None, after: AfterRun | None = None
    ) -> Execution:
        deps, request, thread, brief = self.deps, self.request, self.request.thread, self.brief
        call = next((each for each in self.reply.calls if each.id == call_id), None)
        if call is None:
            raise Permanent("This call is not in the model's reply, so it was not made.")
        agent = Agent.OPERATOR if request.protocol else Agent.COPILOT
        policy = protocol.protocol_policy(request.protocol) if request.protocol else None
        runner = ToolRunner(deps.registry, deps.allowed_tools(brief, agent), deps.ledger, policy)
        context = ToolContext(
            team=thread.team,
            channel=thread.channel,
            thread_ts=thread.ts,
            user_id=brief.user_id,
            request_id=brief.request_id,
            correlation_id=request.key,
            clock=lambda: datetime.fromtimestamp(deps.clock(), UTC),
            services=deps.services.with_service(ToolRunner, runner),
            actor=brief.actor,
            turn=request.turn,
            step=request.step,
            call_id=call_id,
            co_requesters=self.others,
            retries_left=max(0, _ATTEMPTS - self.attempt),
        )
        appended = 0

        def describe(result: ToolResult) -> Execution:
            told = describe_execution(call, result, deps.registry)
            if request.protocol is None:
                return told
            return replace(told, protocol=protocol.record_result(deps.registry, request.protocol, call, result))

        async def keep(tx: Transaction, result: ToolResult) -> None:
            nonlocal appended
            # In a thread: a large result takes a while, in which others are to be served.
            shown = await asyncio.to_thread(render_result, result, result_limit(len(self.reply.calls)))
            gone = _reads_thread(call) and await MessageStore(tx).deletion_count(thread) != self.deletions
            entry = (f"t:{request.turn}:{request.step}:{call.id}", tool_message(call.id, shown))
            appended = await TranscriptStore(tx).append(thread, request.turn, request.step, [entry])
            if gone:
                await MessageStore(tx).delete_thread_reads(thread)
            if after:
                await after(tx, describe(result))

        result = await runner.run(call, context, keep, opened)
        if appended and result.error and result.error.code.category is ErrorCategory.INTERNAL:
            await deps.alerts.record(call.name)
        return describe(result)


async def _read_calls(tx: Transaction, deps: ConversationDeps, request: ActRequest, attempt: int) -> _Calls:
    thread, turn = request.thread, request.turn
    reply_key, note_key = f"a:{turn}:{request.step}", f"c:{turn}"
    found, snapshot = await TranscriptStore(tx).find_with_words(thread, turn, [reply_key, note_key])
    reply, brief = found.get(reply_key), parse_note(found.get(note_key))
    if reply is None or brief is None:
        raise Permanent("The model's reply is no longer stored, so nothing was done.")
    # Who has asked, by their ids, as the model was told of them.
    labels = {brief.user_id: name_with_id(brief.actor, brief.user_id)}
    others = {each.author for each in found.values()} - {"", labels[brief.user_id]}
    askers = await MessageStore(tx).askers(thread, turn, request.step) if others or not brief.user_id else []
    for each in askers:
        if each.user_id not in labels:
            said = found.get(storable_key(f"u:{each.message_id}"))
            labels[each.user_id] = (said.author if said else "") or each.user_id
    reads = any(_reads_thread(each) for each in request.calls)
    deletions = await MessageStore(tx).deletion_count(thread) if reads else 0
    if askers and askers[-1].user_id != brief.user_id:
        user, request_id = askers[-1].user_id, askers[-1].message_id
        brief = replace(brief, user_id=user, actor=labels[user].removesuffix(f" ({user})"), request_id=request_id)
    co_requesters = {each.user_id: labels[each.user_id] for each in askers if each.user_id != brief.user_id}
    is_over = snapshot.stop_due or snapshot.turn >= turn
    return _Calls(deps, request, attempt, reply, brief, co_requesters, deletions, is_over)


def _reads_thread(call: ToolCall) -> bool:
    """What it reads may be deleted in Slack while it does."""
    return call.name in THREAD_TOOLS


def describe_execution(call: ToolCall, result: ToolResult, registry: ToolRegistry) -> Execution:
    """A line for people: without a place, a secret or a program's words, and without a name that the model made up."""
    tool = registry.get(call.name)
    code = result.error.code if result.error else None
    # Which call the model is to make first is nothing for people.
    said = result.error.message if result.error and code is ErrorCode.PROTOCOL else result.user_text
    return Execution(
        call.id,
        tool.name if tool else "",
        ExecutionStatus.UNKNOWN if code is ErrorCode.OUTCOME_UNKNOWN else ExecutionStatus(result.status),
        note=public_sentence(said, ""),
        kind=tool.kind if tool else ToolKind.CHANGE,
        critical=tool is not None and tool.critical and (code is None or code.is_fault),
    )
