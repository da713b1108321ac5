"""An approval's activities: a click decides, the message says so, and what was approved is made once."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from temporalio import activity

from threadline.approvals import event_log as approval_events
from threadline.approvals import posts as approval_posts
from threadline.approvals import rehearsal as proposing
from threadline.approvals.blocks import Verdict, in_words
from threadline.approvals.contract import (
    CARRY_OUT_TRIES,
    ActionRef,
    ActionState,
    ApprovalActivities,
    DecideReply,
    DecideRequest,
    Expiry,
    Stage,
)
from threadline.approvals.model import (
    APPROVE,
    ActionNotFound,
    ApprovalRules,
    Click,
    Decision,
    DecisionRefused,
    ProposedAction,
    hash_pressed,
)
from threadline.approvals.posts import operation_of, unjournalled
from threadline.db.engine import Database
from threadline.db.unit_of_work import Work
from threadline.errors import Permanent
from threadline.operator.enforcement import OperatorProtocol
from threadline.operator.model.protocol import ProtocolState
from threadline.slack.client import Slack
from threadline.threads.activity import heartbeating
from threadline.threads.outbox import Outbox
from threadline.threads.store import PostStore
from threadline.tools.context import Services, ToolContext
from threadline.tools.ledger import ToolLedger
from threadline.tools.model import Risk
from threadline.tools.registry import AllowedTools, ToolRegistry, available_tools
from threadline.tools.runner import ToolRunner

_log = structlog.get_logger(__name__)
_STAGES = {Decision.APPROVED: Stage.APPROVED, Decision.REJECTED: Stage.REJECTED, Decision.EXPIRED: Stage.EXPIRED}
_GONE = "This action is no longer on record, so nothing was decided. Please ask for it again."


@dataclass(frozen=True)
class ApprovalDeps:
    """What an approved action is carried out with: all tools, whoever asked. `clock`: seconds since 1970."""

    registry: ToolRegistry
    services: Services
    ledger: ToolLedger
    clock: Callable[[], float] = time.time


class LiveApprovalActivities(ApprovalActivities):
    """Args: `settings` say who may decide now."""

    def __init__(
        self, database: Database, slack: Slack, outbox: Outbox, deps: ApprovalDeps, settings: ApprovalRules
    ) -> None:
        self._database = database
        self._slack = slack
        self._outbox = outbox
        self._deps = deps
        self._settings = settings

    @activity.defn
    async def open_approval(self, ref: ActionRef) -> ActionState:
        async with self._database.begin() as work:
            try:
                action = await work.proposed_actions.get(ref.team, ref.action_id)
            except ActionNotFound:
                return ActionState(Stage.UNKNOWN)
            return await _state(work, ref.team, action)

    @activity.defn
    async def decide_action(self, request: DecideRequest) -> DecideReply:
        press = request.press
        now = self._deps.clock()
        at = min(press.at or now, now)
        made_for = hash_pressed(press, request.action_id)
        click = Click(press.user_id, made_for, press.action_id == APPROVE, press.key, at)
        async with self._database.begin() as work:
            actions = work.proposed_actions
            try:
                decided = await actions.decide(request.team, request.action_id, click, self._settings.approvers)
            except ActionNotFound:
                return DecideReply(ActionState(Stage.UNKNOWN), _GONE)
            except DecisionRefused as refused:
                _log.info("approval_click_refused", action=request.action_id, user=press.user_id)
                action = await actions.get(request.team, request.action_id)
                return DecideReply(await _state(work, request.team, action), _sentence(str(refused)))
            action = decided.action
            state = await _state(work, request.team, action)
            await approval_events.decided(work.tx, request.team, action)
        _log.info("approval_click_handled", action=action.action_id, decision=action.decision, decided_now=decided.mine)
        return DecideReply(state, "" if decided.mine else _too_late(action))

    @activity.defn
    async def expire_action(self, expiry: Expiry) -> ActionState:
        async with self._database.begin() as work:
            action = await work.proposed_actions.expire(expiry.team, expiry.action_id, expiry.now)
            state = await _state(work, expiry.team, action)
            await approval_events.decided(work.tx, expiry.team, action)
        return state

    @activity.defn
    async def show_decision(self, ref: ActionRef) -> None:
        async with self._database.begin() as work:
            action = await work.proposed_actions.get(ref.team, ref.action_id)
            place = await approval_posts.shown_in(work, ref.team, action)
        if place is None:
            return
        shown = approval_posts.with_decision(place, action, _verdict(action))
        there = await self._slack.update(action.channel, place.ts, shown.text, shown.blocks)
        _log.info("decision_posted" if there else "approval_message_missing", action=action.action_id)

    @activity.defn
    async def carry_out(self, ref: ActionRef) -> None:
        async with self._database.begin() as work:
            action = await work.proposed_actions.get(ref.team, ref.action_id)
        if action.decision is not Decision.APPROVED or action.risk is Risk.LOW:
            raise Permanent("This action was not approved, so it is not carried out.")
        context = self._context(ref.team, action, activity.info().attempt)
        call = proposing.call_of(action.action, context.call_id)
        async with heartbeating():
            result = await self._runner(action).run(call, context)
        correlation = action.author.correlation_id
        _log.info("action_executed", action=action.action_id, status=result.status, correlation_id=correlation)

    @activity.defn
    async def post_outcome(self, ref: ActionRef) -> None:
        async with self._database.begin() as work:
            action = await work.proposed_actions.get(ref.team, ref.action_id)
            record = await work.tool_executions.get(operation_of(ref.team, action))
            at = datetime.fromtimestamp(self._deps.clock(), UTC)
            await approval_events.made(work.tx, ref.team, action, (record and record.status) or "unknown", at)
        await self._outbox.publish(approval_posts.outcome(ref.team, action, record))

    def _runner(self, action: ProposedAction) -> ToolRunner:
        """Everything that a turn's calls pass, for this one tool; a scoped call is held to the action's own RFP."""
        registry = self._deps.registry
        name = str(action.action.get("tool", ""))
        offered = {each.name for each in available_tools(registry, self._deps.services)}
        loaded = (action.rfp_id,) if action.rfp_id else ()
        state = ProtocolState(scope=action.rfp_id, loaded=loaded, did_load=bool(loaded))
        protocol = OperatorProtocol(state, unjournalled)
        return ToolRunner(registry, AllowedTools(frozenset(offered & {name})), self._deps.ledger, [protocol])

    def _context(self, team: str, action: ProposedAction, attempt: int) -> ToolContext:
        """It is made for whoever asked, as in the turn that proposed it."""
        operation = operation_of(team, action)
        return ToolContext(
            team=team,
            channel=action.channel,
            thread_ts=action.thread_ts,
            user_id=action.author.user_id,
            request_id=action.action_id,
            correlation_id=action.author.correlation_id,
            clock=lambda: datetime.fromtimestamp(self._deps.clock(), UTC),
            services=self._deps.services,
            turn=operation.turn,
            step=operation.step,
            call_id=operation.call_id,
            retries_left=max(0, CARRY_OUT_TRIES - attempt),
            approved_action_id=action.action_id,
        )


async def _state(work: Work, team: str, action: ProposedAction) -> ActionState:
    told = action.risk is Risk.LOW or await PostStore(work.tx).ts_of(approval_posts.outcome_key(team, action))
    stage = _STAGES[action.decision] if action.decision else Stage.OPEN
    return ActionState(stage, action.expires_at.timestamp(), action.author.correlation_id, bool(told))


def _verdict(action: ProposedAction) -> Verdict:
    if action.decision is None or action.decided_at is None:
        raise Permanent("Nobody has decided this action yet.")
    return Verdict(action.decision, action.decided_by, action.decided_at.timestamp())


def _too_late(action: ProposedAction) -> str:
    """For whoever clicked when it was decided already: who has, and when."""
    return f"{action.action_id} was already decided, so your click changes nothing. {in_words(_verdict(action))}"


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].rstrip('.')}. Your click changed nothing."
