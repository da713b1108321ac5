"""LiveApprovalActivities: decide a proposed action, show the decision on its card, execute it, and
post the outcome.

PostgresProposals records an action. After the turn has ended, the conversation starts the workflow
that waits for the decision; the sweep `open_approvals` starts it where it is missing.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import structlog
from temporalio import activity

from threadline.approvals import blocks
from threadline.approvals.blocks import fits_on_card, verdict_text
from threadline.approvals.contract import (
    EXECUTE_ATTEMPTS,
    ApprovalActivities,
    ApprovalRef,
    ApprovalState,
    DecideAction,
    ExpireAction,
)
from threadline.approvals.model import (
    ActionNotFound,
    ApprovalRules,
    ApprovalStage,
    DecisionRefused,
    NewAction,
    ProposedAction,
    effect_of,
    pending_result,
    still_pending_result,
)
from threadline.approvals.store import OUTCOME_DUE, ApprovalStore, is_decided_by, outcome_key
from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent
from threadline.rfps.model import rfp_id_in
from threadline.slack.client import SlackClient
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread
from threadline.threads.outbox import Outbox, Post
from threadline.threads.store import PostStore
from threadline.tools.context import Services, ToolContext
from threadline.tools.model import Change, Operation, ToolResult
from threadline.tools.proposals import HeldCall, Proposals
from threadline.tools.public_text import public_sentence
from threadline.tools.registry import AllowedTools, ToolRegistry, available_tools
from threadline.tools.runner import ToolPolicy, ToolRunner
from threadline.tools.store import ToolExecutionStore, ToolLedger

_NOT_FOUND = "This action is no longer on record, so nothing was decided. Please ask for it again."
_UNKNOWN = "It is not known whether it took effect. Please check before you ask for it again."

FindPart = Callable[
    [Transaction, Thread, int, Callable[[Rendered], bool]], Awaitable[tuple[str, Rendered] | None]
]
"""Finds the message of a turn's answer that matches a predicate: its `ts` and its content, None if
there is none.

Raises `Transient` while the turn has not ended or the message is not in Slack.
"""
Render = Callable[[str, Sequence[tuple[str, Sequence[Any]]]], tuple[Rendered, ...]]
"""Renders a text and the record groups of tools as messages."""

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class PostgresProposals(Proposals):
    rules: ApprovalRules

    async def propose(self, tx: Transaction, change: Change, call: HeldCall) -> ToolResult:
        assessed = call.assessed
        store = ApprovalStore(tx)
        changes = [asdict(each) for each in assessed.changes]
        if not fits_on_card(call.arguments if assessed.shown is None else assessed.shown, changes):
            raise Permanent(
                "The proposal is too long to show in full with its buttons: propose less at "
                "once. Nothing was proposed."
            )
        action: dict[str, Any] = {"tool": call.tool, "arguments": dict(call.arguments)}
        if changes:
            action["changes"] = changes
        if assessed.shown is not None:
            action["shown"] = dict(assessed.shown)
        rfp_id = call.rfp_id or rfp_id_in(call.arguments)
        new = NewAction(action, assessed.risk, rfp_id, call.actor, call.co_requesters)
        for waiting in await store.open_in(change.operation.thread, change.now):
            if waiting.effect == effect_of(action):
                return still_pending_result(waiting)
        return pending_result(call.does, await store.propose(change, new, self.rules), call.reason)


@dataclass(eq=False)
class LiveApprovalActivities(ApprovalActivities):
    """Activities on the live services. An approved call may use every tool of `registry` that is
    set up, under the `policy` for its RFP (or "").

    - `find_part`, `render`: the lookup and rendering of conversations' answers;
    - `rules`: the current settings;
    - `clock`: seconds since 1970.
    """

    database: Database
    slack: SlackClient
    outbox: Outbox
    registry: ToolRegistry
    services: Services
    ledger: ToolLedger
    policy: Callable[[str], ToolPolicy]
    find_part: FindPart
    render: Render
    rules: ApprovalRules
    clock: Callable[[], float] = time.time

    async def load_approval(self, ref: ApprovalRef) -> ApprovalState:
        async with self.database.begin() as tx:
            try:
                action = await ApprovalStore(tx).get(ref.team, ref.action_id)
            except ActionNotFound:
                return ApprovalState(ApprovalStage.UNKNOWN)
            return await _state(tx, action, self.clock())

    async def decide_action(self, request: DecideAction) -> ApprovalState:
        ref = request.ref
        press = request.press
        now = self.clock()
        at = min(press.at or now, now)
        async with self.database.begin() as tx:
            store = ApprovalStore(tx)
            try:
                action = await store.decide(ref.team, ref.action_id, press, self.rules, at)
            except ActionNotFound:
                return ApprovalState(ApprovalStage.UNKNOWN, reply=_NOT_FOUND)
            except DecisionRefused as refused:
                _log.info("decision_refused", action=ref.action_id, user=press.user_id)
                state = await _state(tx, await store.get(ref.team, ref.action_id), self.clock())
                return replace(state, reply=f"{refused}. Your click changed nothing.")
            state = await _state(tx, action, self.clock())
        decided_now = is_decided_by(action, press)
        _log.info(
            "decision_recorded",
            action=action.action_id,
            decision=action.decision,
            decided_now=decided_now,
        )
        already = (
            f"{action.action_id} was already decided, so your click changes nothing. "
            f"{verdict_text(action)}"
        )
        return state if decided_now else replace(state, reply=already)

    async def expire_action(self, request: ExpireAction) -> ApprovalState:
        async with self.database.begin() as tx:
            action = await ApprovalStore(tx).expire(
                request.ref.team, request.ref.action_id, request.now
            )
            return await _state(tx, action, self.clock())

    async def show_decision(self, ref: ApprovalRef) -> None:
        def is_card(part: Rendered) -> bool:
            return ref.action_id in blocks.action_ids(part)

        shown = None
        # until no action was decided during the update: of two concurrent updates, Slack may apply
        # the older one last
        while True:
            async with self.database.begin() as tx:
                store = ApprovalStore(tx)
                action = await store.get(ref.team, ref.action_id)
                thread_key, _, turn = action.correlation_id.rpartition(":")
                known = int(turn) if thread_key == action.thread.key and turn.isdecimal() else 0
                card = await self.find_part(tx, action.thread, known, is_card)
                if card is None:
                    return
                ts, rendered = card
                for each in blocks.action_ids(rendered):  # a message may hold several cards
                    rendered = blocks.with_decision(rendered, await store.get(ref.team, each))
            if rendered == shown:
                return
            found = await self.slack.update(action.channel, ts, rendered.text, rendered.blocks)
            _log.info(
                "decision_posted" if found else "approval_message_missing", action=action.action_id
            )
            shown = rendered

    async def execute_action(self, ref: ApprovalRef) -> None:
        async with self.database.begin() as tx:
            action = await ApprovalStore(tx).get(ref.team, ref.action_id)
        if action.decision is not ApprovalStage.APPROVED:
            raise Permanent("This action was not approved, so it is not carried out.")
        operation = _operation_of(action)
        context = ToolContext(  # for the people who asked, as in the turn that proposed the action
            team=action.team,
            channel=action.channel,
            thread_ts=action.thread_ts,
            user_id=action.requested_by,
            request_id=action.action_id,
            correlation_id=action.correlation_id,
            clock=lambda: datetime.fromtimestamp(self.clock(), UTC),
            services=self.services,
            actor=action.actor,
            turn=operation.turn,
            step=operation.step,
            call_id=operation.call_id,
            retries_left=max(0, EXECUTE_ATTEMPTS - activity.info().attempt),
            co_requesters=action.co_requesters,
            approved_action_id=action.action_id,
            approved_changes=action.changes,
        )
        offered = {each.name for each in available_tools(self.registry, self.services)}
        allowed = AllowedTools(frozenset(offered & {action.tool}))
        runner = ToolRunner(self.registry, allowed, self.ledger, self.policy(action.rfp_id))
        result = await runner.run(action.call(context.call_id), context)
        correlation = action.correlation_id
        _log.info(
            "action_executed",
            action=action.action_id,
            status=result.status,
            correlation_id=correlation,
        )

    async def post_outcome(self, ref: ApprovalRef) -> None:
        async with self.database.begin() as tx:
            store = ApprovalStore(tx)
            action = await store.get(ref.team, ref.action_id)
            record = await ToolExecutionStore(tx).get(_operation_of(action))
            await store.record_execution(
                action, (record and record.status) or "unknown", self.clock()
            )
        result = (record and record.tool_result) or ToolResult()
        if record is None:  # an intent is recorded before any execution
            said = "but could not be started. Nothing was done. Please ask for it again."
        elif record.status is None:
            said = f"and started. {_UNKNOWN}"
        elif result.error:
            said = f"but could not be carried out: {result.error.text}"
        else:
            said = f"and carried out: {public_sentence(result.display_text, 'Done.')}"
        groups = [(each.kind, each.records) for each in result.structured]
        rendered = self.render(f"{action.action_id} was approved {said}", groups)
        await self.outbox.publish(
            Post(outcome_key(action), action.channel, action.thread_ts, rendered)
        )


def _operation_of(action: ProposedAction) -> Operation:
    """Return the operation of an approved action, which makes the execution happen at most once.
    It belongs to no turn: its outcome is a separate post.
    """
    return Operation(action.thread, 0, 0, f"approved:{action.action_id}")


async def _state(tx: Transaction, action: ProposedAction, now: float) -> ApprovalState:
    overdue = (
        action.decided_at is not None
        and action.decided_at.timestamp() < now - OUTCOME_DUE.total_seconds()
    )
    posted = overdue or await PostStore(tx).ts_of(outcome_key(action))
    stage = action.decision or ApprovalStage.OPEN
    return ApprovalState(stage, action.expires_at.timestamp(), action.correlation_id, bool(posted))
