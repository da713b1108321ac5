"""One call of a tool: run through all policies, its output kept in the transcript, and a line of it told."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from threadline.conversations import context_window as context
from threadline.conversations import tool_execution as telling
from threadline.conversations import turn_note as briefing
from threadline.conversations.contract import ActRequest
from threadline.conversations.model.conversation import Execution
from threadline.conversations.store.messages import Asker, MessageStore
from threadline.conversations.store.transcript import THREAD_TOOLS, TranscriptStore
from threadline.conversations.think import Mind
from threadline.conversations.turn_note import Briefing
from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent
from threadline.models.model import Message, ToolCall
from threadline.operator import enforcement as protocol
from threadline.operator.model.routing import Agent
from threadline.slack.model import Thread, name_with_id
from threadline.threads.alerts import FailureAlerts
from threadline.threads.model import turn_id
from threadline.tools.context import ToolContext
from threadline.tools.model import ErrorCategory, ToolResult
from threadline.tools.output import render_result, result_limit
from threadline.tools.runner import ToolRunner
from threadline.tools.store import ToolLedger


class Acting:
    """Args: `attempts` is how often one call is tried at most."""

    def __init__(
        self, database: Database, mind: Mind, ledger: ToolLedger, alerts: FailureAlerts, attempts: int
    ) -> None:
        self._database = database
        self._mind = mind
        self._ledger = ledger
        self._alerts = alerts
        self._attempts = attempts

    async def act(self, request: ActRequest, attempt: int) -> Execution:
        """See `ConversationActivities.act`; `attempt` counts from 1.

        Raises:
            Permanent: the model has not made this call.
            Transient: trying it again does no harm.
        """
        reply, brief, others = await self._asked(request)
        call = next((each for each in reply.calls if each.id == request.call.id), None)
        if call is None:
            raise Permanent("This call is not in the model's reply, so it was not made.")
        agent = Agent.OPERATOR if request.protocol else Agent.COPILOT
        policies = [protocol.OperatorProtocol(request.protocol)] if request.protocol else []
        runner = ToolRunner(self._mind.registry, self._mind.allowed(brief, agent), self._ledger, policies)
        where = self._context(request, brief, others, attempt)
        deletions = 0
        if _reads_thread(call):
            async with self._database.begin() as tx:
                deletions = await MessageStore(tx).deletion_count(request.thread)
        appended = 0

        async def keep(tx: Transaction, result: ToolResult) -> None:
            nonlocal appended
            # In a thread: a large result takes a while, in which others are to be served.
            shown = await asyncio.to_thread(render_result, result, result_limit(len(reply.calls)))
            key = f"t:{request.turn}:{request.step}:{call.id}"
            gone = _reads_thread(call) and await MessageStore(tx).deletion_count(request.thread) != deletions
            entry = (key, context.result(call.id, shown))
            appended = await TranscriptStore(tx).append(request.thread, request.turn, request.step, [entry])
            if gone:
                await MessageStore(tx).delete_thread_reads(request.thread)

        result = await runner.run(call, replace(where, services=where.services.with_service(ToolRunner, runner)), keep)
        if appended and result.error and result.error.code.category is ErrorCategory.INTERNAL:
            await self._alerts.record(call.name)
        told = telling.execution(call, result, self._mind.registry)
        if request.protocol is None:
            return told
        return replace(told, protocol=protocol.after(self._mind.registry, request.protocol, call, result))

    async def _asked(self, request: ActRequest) -> tuple[Message, Briefing, dict[str, str]]:
        """The reply that the call is in, with its arguments, what holds for the turn, of whoever has asked last by
        then, and who else has asked, by their ids."""
        thread, turn = request.thread, request.turn
        async with self._database.begin() as tx:
            reply = await TranscriptStore(tx).get(thread, f"a:{turn}:{request.step}")
            brief = briefing.read(await TranscriptStore(tx).get(thread, f"c:{turn}"))
            if reply is None or brief is None:
                raise Permanent("The model's reply is no longer stored, so nothing was done.")
            askers = await MessageStore(tx).askers(thread, turn, request.step)
            labels = await _labels(tx, thread, brief, askers)
        if askers and askers[-1].user_id != brief.user_id:
            user, request_id = askers[-1].user_id, askers[-1].message_id
            name = labels[user].removesuffix(f" ({user})")
            brief = replace(brief, user_id=user, actor=name, request_id=request_id)
        return reply, brief, {each.user_id: labels[each.user_id] for each in askers if each.user_id != brief.user_id}

    def _context(self, request: ActRequest, brief: Briefing, others: dict[str, str], attempt: int) -> ToolContext:
        thread = request.thread
        return ToolContext(
            team=thread.team,
            channel=thread.channel,
            thread_ts=thread.ts,
            user_id=brief.user_id,
            request_id=brief.request_id,
            correlation_id=turn_id(thread, request.turn),
            clock=lambda: datetime.fromtimestamp(self._mind.clock(), UTC),
            services=self._mind.services,
            actor=brief.actor,
            turn=request.turn,
            step=request.step,
            call_id=request.call.id,
            co_requesters=others,
            retries_left=max(0, self._attempts - attempt),
        )


def _reads_thread(call: ToolCall) -> bool:
    """What it reads may be deleted in Slack while it does."""
    return call.name in THREAD_TOOLS


async def _labels(tx: Transaction, thread: Thread, brief: Briefing, askers: Sequence[Asker]) -> dict[str, str]:
    """Who has asked, by their ids, as the model was told of them."""
    labels = {brief.user_id: name_with_id(brief.actor, brief.user_id)}
    for each in askers:
        if each.user_id not in labels:
            said = await TranscriptStore(tx).get(thread, f"u:{each.message_id}")
            labels[each.user_id] = (said.author if said else "") or each.user_id
    return labels
