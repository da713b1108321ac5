"""LiveApprovalActivities: decide a proposed action, show the decision on its card, execute it, post the outcome."""

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from temporalio import activity

from threadline.approvals import blocks
from threadline.approvals.blocks import ApprovalVerdict, verdict_text
from threadline.approvals.contract import (
    EXECUTE_ATTEMPTS,
    ApprovalActivities,
    ApprovalRef,
    ApprovalStage,
    ApprovalState,
    DecideAction,
    DecideReply,
    ExpireAction,
)
from threadline.approvals.model import (
    APPROVE,
    ActionNotFound,
    ApprovalDecision,
    ApprovalRules,
    Click,
    DecisionRefused,
    ProposedAction,
    pressed_hash,
)
from threadline.approvals.store import OUTCOME_DUE, ApprovalStore, outcome_key
from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent
from threadline.slack.client import SlackClient
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread
from threadline.threads.activity import heartbeating
from threadline.threads.outbox import Outbox, Post
from threadline.threads.store import PostStore
from threadline.tools.context import Services, ToolContext
from threadline.tools.model import Operation, Risk
from threadline.tools.public_text import public_sentence
from threadline.tools.registry import AllowedTools, ToolRegistry, available_tools
from threadline.tools.runner import ToolPolicy, ToolRunner
from threadline.tools.store import ToolExecution, ToolExecutionStore, ToolLedger

_STAGES = {
    None: ApprovalStage.OPEN,
    ApprovalDecision.APPROVED: ApprovalStage.APPROVED,
    ApprovalDecision.REJECTED: ApprovalStage.REJECTED,
    ApprovalDecision.EXPIRED: ApprovalStage.EXPIRED,
}
_NOT_FOUND = "This action is no longer on record, so nothing was decided. Please ask for it again."
_UNKNOWN = "It is not known whether it took effect. Please check before you ask for it again."

FindPart = Callable[[Transaction, Thread, int, Callable[[Rendered], bool]], Awaitable[tuple[str, Rendered] | None]]
"""Finds the message of a turn's answer for which a predicate holds: its `ts` and its content, None if there is none.

Raises `Transient` while the turn has not ended or the message is not in Slack.
"""
Render = Callable[[str, Sequence[tuple[str, Sequence[Any]]]], tuple[Rendered, ...]]
"""Renders a text and the record groups of tools as messages."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ApprovalDeps:
    """What the activities need.

    Args:
        registry, services, ledger: an approved call may use every tool that is set up.
        policies: the policies that an approved call passes, for the RFP that it is about (or "").
        find_part, render: how conversations post answers.
        rules: who may decide now.
        clock: seconds since 1970.
    """

    database: Database
    slack: SlackClient
    outbox: Outbox
    registry: ToolRegistry
    services: Services
    ledger: ToolLedger
    policies: Callable[[str], Sequence[ToolPolicy]]
    find_part: FindPart
    render: Render
    rules: ApprovalRules
    clock: Callable[[], float] = time.time


class LiveApprovalActivities(ApprovalActivities):
    def __init__(self, deps: ApprovalDeps) -> None:
        self._deps = deps
        self._database = deps.database

    @activity.defn
    async def load_approval(self, ref: ApprovalRef) -> ApprovalState:
        async with self._database.begin() as tx:
            try:
                action = await ApprovalStore(tx).get(ref.team, ref.action_id)
            except ActionNotFound:
                return ApprovalState(ApprovalStage.UNKNOWN)
            return await _state(tx, action, self._deps.clock())

    @activity.defn
    async def decide_action(self, request: DecideAction) -> DecideReply:
        ref, press, now = request.ref, request.press, self._deps.clock()
        at = min(press.at or now, now)
        click = Click(press.user_id, pressed_hash(press, ref.action_id), press.action_id == APPROVE, press.key, at)
        async with self._database.begin() as tx:
            store = ApprovalStore(tx)
            try:
                decided = await store.decide(ref.team, ref.action_id, click, self._deps.rules.approvers)
            except ActionNotFound:
                return DecideReply(ApprovalState(ApprovalStage.UNKNOWN), _NOT_FOUND)
            except DecisionRefused as refused:
                _log.info("decision_refused", action=ref.action_id, user=press.user_id)
                action = await store.get(ref.team, ref.action_id)
                return DecideReply(await _state(tx, action, self._deps.clock()), _refusal_text(str(refused)))
            action, decided_now = decided.action, decided.decided_by_this_press
            state = await _state(tx, action, self._deps.clock())
            await store.record_decision(action)
        _log.info("decision_recorded", action=action.action_id, decision=action.decision, decided_now=decided_now)
        return DecideReply(state, "" if decided_now else _already_decided_text(action))

    @activity.defn
    async def expire_action(self, request: ExpireAction) -> ApprovalState:
        async with self._database.begin() as tx:
            store = ApprovalStore(tx)
            action = await store.expire(request.ref.team, request.ref.action_id, request.now)
            await store.record_decision(action)
            return await _state(tx, action, self._deps.clock())

    @activity.defn
    async def show_decision(self, ref: ApprovalRef) -> None:
        def is_card(part: Rendered) -> bool:
            return blocks.has_buttons(part, ref.action_id)

        shown = None
        while True:  # until nothing was decided during the update: of two updates, Slack may get the older one last
            async with self._database.begin() as tx:
                action = await ApprovalStore(tx).get(ref.team, ref.action_id)
                card = await self._deps.find_part(tx, action.thread, _turn_of(action), is_card)
                if card is None:
                    return
                ts, rendered = card
                rendered = await _with_decisions(tx, ref.team, rendered)
            if rendered == shown:
                return
            found = await self._deps.slack.update(action.channel, ts, rendered.text, rendered.blocks)
            _log.info("decision_posted" if found else "approval_message_missing", action=action.action_id)
            shown = rendered

    @activity.defn
    async def execute_action(self, ref: ApprovalRef) -> None:
        async with self._database.begin() as tx:
            action = await ApprovalStore(tx).get(ref.team, ref.action_id)
        if action.decision is not ApprovalDecision.APPROVED or action.risk is Risk.LOW:
            raise Permanent("This action was not approved, so it is not carried out.")
        context = self._context(action, activity.info().attempt)
        async with heartbeating():
            result = await self._runner(action).run(action.call(context.call_id), context)
        correlation = action.author.correlation_id
        _log.info("action_executed", action=action.action_id, status=result.status, correlation_id=correlation)

    @activity.defn
    async def post_outcome(self, ref: ApprovalRef) -> None:
        async with self._database.begin() as tx:
            store = ApprovalStore(tx)
            action = await store.get(ref.team, ref.action_id)
            record = await ToolExecutionStore(tx).get(operation_of(action))
            await store.record_execution(action, (record and record.status) or "unknown", self._deps.clock())
        result = record.result if record and isinstance(record.result, Mapping) else {}
        rendered = self._deps.render(_outcome_text(action, record, result), list(_record_groups(result)))
        await self._deps.outbox.publish(Post(outcome_key(action), action.channel, action.thread_ts, rendered))

    def _runner(self, action: ProposedAction) -> ToolRunner:
        """Return a runner for this one tool, with the policies of a turn; the RFP of the action counts as loaded."""
        deps = self._deps
        offered = {each.name for each in available_tools(deps.registry, deps.services)}
        allowed = AllowedTools(frozenset(offered & {action.tool}))
        return ToolRunner(deps.registry, allowed, deps.ledger, deps.policies(action.rfp_id))

    def _context(self, action: ProposedAction, attempt: int) -> ToolContext:
        """Return a context for the people who asked, as in the turn that proposed the action."""
        operation = operation_of(action)
        return ToolContext(
            team=action.team,
            channel=action.channel,
            thread_ts=action.thread_ts,
            user_id=action.author.user_id,
            request_id=action.action_id,
            correlation_id=action.author.correlation_id,
            clock=lambda: datetime.fromtimestamp(self._deps.clock(), UTC),
            services=self._deps.services,
            actor=action.actor,
            turn=operation.turn,
            step=operation.step,
            call_id=operation.call_id,
            retries_left=max(0, EXECUTE_ATTEMPTS - attempt),
            co_requesters=action.co_requesters,
            approved_action_id=action.action_id,
        )


def operation_of(action: ProposedAction) -> Operation:
    """Return the operation under which an approved action is executed once. It belongs to no turn: its outcome is a
    post of its own."""
    return Operation(action.thread, 0, 0, f"approved:{action.action_id}")


async def _with_decisions(tx: Transaction, team: str, rendered: Rendered) -> Rendered:
    """Return a message with the decision on each of its cards that is decided: a message may hold several."""
    for action_id in blocks.action_ids(rendered):
        action = await ApprovalStore(tx).get(team, action_id)
        if action.decision:
            rendered = blocks.with_decision(rendered, action_id, _verdict(action))
    return rendered


async def _state(tx: Transaction, action: ProposedAction, now: float) -> ApprovalState:
    overdue = action.decided_at is not None and action.decided_at.timestamp() < now - OUTCOME_DUE.total_seconds()
    posted = action.risk is Risk.LOW or overdue or await PostStore(tx).ts_of(outcome_key(action))
    stage = _STAGES[action.decision]
    return ApprovalState(stage, action.expires_at.timestamp(), action.author.correlation_id, bool(posted))


def _turn_of(action: ProposedAction) -> int:
    """Return the turn whose answer shows the card; 0 if the correlation id names none."""
    key = action.thread.key
    turn = action.author.correlation_id.removeprefix(f"{key}:")
    return int(turn) if turn != action.author.correlation_id and turn.isdecimal() else 0


def _verdict(action: ProposedAction) -> ApprovalVerdict:
    if action.decision is None or action.decided_at is None:
        raise Permanent("Nobody has decided this action yet.")
    return ApprovalVerdict(action.decision, action.decided_by, action.decided_at.timestamp())


def _already_decided_text(action: ProposedAction) -> str:
    text = verdict_text(_verdict(action))
    return f"{action.action_id} was already decided, so your click changes nothing. {text}"


def _refusal_text(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:].rstrip('.')}. Your click changed nothing."


def _outcome_text(action: ProposedAction, record: ToolExecution | None, result: Mapping[str, Any]) -> str:
    if record is None:  # an intent is written down before anything is done
        return f"{action.action_id} was approved but could not be started. Nothing was done. Please ask for it again."
    if record.status is None:
        return f"{action.action_id} was approved and started. {_UNKNOWN}"
    error = result.get("error")
    if isinstance(error, Mapping):
        reason = public_sentence(f"{error.get('message', '')} {error.get('suggestion', '')}", "Something went wrong.")
        return f"{action.action_id} was approved but could not be carried out: {reason}"
    done = public_sentence(str(result.get("display_text") or ""), "Done.")
    return f"{action.action_id} was approved and carried out: {done}"


def _record_groups(result: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the record groups that the call returned; see `tools.model.RecordGroup`."""
    for group in result.get("structured") or ():
        if isinstance(group, Mapping) and group.get("records"):
            yield str(group.get("kind") or ""), group["records"]
