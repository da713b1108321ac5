"""Tool calls of a turn: run through all policies, with the output stored in the transcript and one
line about each for people.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import structlog

from threadline.conversations.contract import ACT, ACT_CALL, ActRequest
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.model.conversation import Execution, lost_call
from threadline.conversations.model.turn_route import Agent
from threadline.conversations.prompt import TurnNote, parse_note, tool_message
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.transcript import THREAD_TOOLS, TranscriptStore
from threadline.db.engine import Transaction
from threadline.db.values import storable_key
from threadline.errors import Permanent, Transient
from threadline.models.model import Message, ToolCall, ToolKind
from threadline.operator import enforcement as protocol
from threadline.slack.model import name_with_id
from threadline.tools.context import ToolContext
from threadline.tools.model import ErrorCategory, ErrorCode, ToolResult, ToolStatus
from threadline.tools.output import render_result, result_limit
from threadline.tools.public_text import public_sentence
from threadline.tools.registry import ToolRegistry
from threadline.tools.runner import OpenTransaction, ToolRunner

_ATTEMPTS = ACT.retry.maximum_attempts
_log = structlog.get_logger(__name__)


async def act(deps: ConversationDeps, request: ActRequest, attempt: int) -> list[Execution]:
    """See `ConversationActivities.act`; `attempt` counts from 1.

    Raises:
        Permanent: The model's reply does not contain a single requested call.
        Transient: Another attempt does no harm.
    """
    async with AsyncExitStack() as end:
        tx = await end.enter_async_context(deps.ledger.transaction())
        calls = await _read_calls(tx, deps, request, attempt)
        if calls.is_over:
            return []
        if len(request.calls) == 1:
            return [await calls.run(request.calls[0].id, OpenTransaction(tx, end))]
    ran = await asyncio.gather(*map(calls.run_with_limit, request.calls), return_exceptions=True)
    if broken := [each for each in ran if isinstance(each, BaseException)]:
        raise broken[0]  # the next attempt finds the others on record
    return [each for each in ran if isinstance(each, Execution)]


@dataclass(frozen=True)
class _Calls:
    """Calls of one reply, with their context.

    - `reply`: the reply with the calls' arguments;
    - `brief`: the turn's note, in the name of the last asker;
    - `others`: names of the other askers, by user id;
    - `deletions`: the thread's deletion count before the calls;
    - `is_over`: the turn has ended or a stop was requested, which the workflow may not know yet.
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
        """Run one of several calls, which all only read. A permanent failure affects this call
        alone. Any other error is raised while another attempt is left, unless the call has timed
        out.
        """
        limit = asyncio.timeout(ACT_CALL)
        try:
            async with limit:
                return await self.run(asked.id)
        except Permanent as error:
            return lost_call(asked, str(error), self.request.protocol)
        except Exception as error:
            if self.attempt < _ATTEMPTS and not limit.expired():
                raise
            _log.warning("tool_call_interrupted", tool=asked.name, exc_info=error)
            if not isinstance(error, Transient | TimeoutError):
                await self.deps.alerts.record(asked.name)
            return lost_call(asked, "", self.request.protocol)

    async def run(self, call_id: str, opened: OpenTransaction | None = None) -> Execution:
        deps = self.deps
        request = self.request
        thread = self.request.thread
        brief = self.brief
        call = next((each for each in self.reply.calls if each.id == call_id), None)
        if call is None:
            raise Permanent("This call is not in the model's reply, so it was not made.")
        agent = Agent.OPERATOR if request.protocol else Agent.ASSISTANT
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
            return replace(
                told,
                protocol=protocol.record_result(deps.registry, request.protocol, call, result),
            )

        async def keep(tx: Transaction, result: ToolResult) -> None:
            nonlocal appended
            # In a thread, since rendering a large result would block the event loop.
            shown = await asyncio.to_thread(
                render_result, result, result_limit(len(self.reply.calls))
            )
            gone = (
                _reads_thread(call)
                and await MessageStore(tx).deletion_count(thread) != self.deletions
            )
            entry = (f"t:{request.turn}:{request.step}:{call.id}", tool_message(call.id, shown))
            appended = await TranscriptStore(tx).append(
                thread, request.turn, request.step, [entry]
            )
            if gone:
                await MessageStore(tx).delete_thread_reads(thread)

        result = await runner.run(call, context, keep, opened)
        if appended and result.error and result.error.code.category is ErrorCategory.INTERNAL:
            await deps.alerts.record(call.name)
        return describe(result)


async def _read_calls(
    tx: Transaction, deps: ConversationDeps, request: ActRequest, attempt: int
) -> _Calls:
    thread = request.thread
    turn = request.turn
    reply_key = f"a:{turn}:{request.step}"
    note_key = f"c:{turn}"
    found = await TranscriptStore(tx).find_with_words(thread, turn, [reply_key, note_key])
    snapshot = await ConversationStore(tx).snapshot(thread)
    reply = found.get(reply_key)
    brief = parse_note(found.get(note_key))
    if reply is None or brief is None:
        raise Permanent("The model's reply is no longer stored, so nothing was done.")
    # The askers' names by user id, as the model knows them.
    labels = {brief.user_id: name_with_id(brief.actor, brief.user_id)}
    others = {each.author for each in found.values()} - {"", labels[brief.user_id]}
    askers = (
        await MessageStore(tx).askers(thread, turn, request.step)
        if others or not brief.user_id
        else []
    )
    for each in askers:
        if each.user_id not in labels:
            said = found.get(storable_key(f"u:{each.message_id}"))
            labels[each.user_id] = (said.author if said else "") or each.user_id
    reads = any(_reads_thread(each) for each in request.calls)
    deletions = await MessageStore(tx).deletion_count(thread) if reads else 0
    if askers and askers[-1].user_id != brief.user_id:
        user = askers[-1].user_id
        request_id = askers[-1].message_id
        brief = replace(
            brief,
            user_id=user,
            actor=labels[user].removesuffix(f" ({user})"),
            request_id=request_id,
        )
    co_requesters = {
        each.user_id: labels[each.user_id] for each in askers if each.user_id != brief.user_id
    }
    is_over = snapshot.stop_due or snapshot.turn >= turn
    return _Calls(deps, request, attempt, reply, brief, co_requesters, deletions, is_over)


def _reads_thread(call: ToolCall) -> bool:
    """Whether a call reads the thread, where messages may be deleted during the call."""
    return call.name in THREAD_TOOLS


def describe_execution(call: ToolCall, result: ToolResult, registry: ToolRegistry) -> Execution:
    """Return an execution with a line for people: no place, no secret, no internal message, and no
    name that the model made up.
    """
    tool = registry.get(call.name)
    code = result.error.code if result.error else None
    # The protocol's hint at the next call is for the model only.
    said = (
        result.error.message if result.error and code is ErrorCode.PROTOCOL else result.user_text
    )
    return Execution(
        call.id,
        tool.name if tool else "",
        ToolStatus.UNKNOWN if code is ErrorCode.OUTCOME_UNKNOWN else ToolStatus(result.status),
        note=public_sentence(said, ""),
        kind=tool.kind if tool else ToolKind.CHANGE,
        critical=tool is not None and tool.critical and (code is None or code.is_fault),
    )
