"""ApprovalStore: proposed actions, each decided once, and their events in the log of the RFP that they are about."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import structlog
from sqlalchemy import Row, and_, delete, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from threadline.approvals import model as rules
from threadline.approvals.model import (
    MAX_ACTION_BYTES,
    ActionNotFound,
    ActionRefused,
    ApprovalDecision,
    Click,
    DecidedAction,
    NewAction,
    ProposedAction,
)
from threadline.approvals.tables import proposed_actions
from threadline.db.engine import Transaction
from threadline.db.values import storable_json, storable_key
from threadline.errors import Permanent
from threadline.rfps.model import json_problem
from threadline.rfps.store import RfpStore, audit_values, operation_filter
from threadline.threads.tables import posts
from threadline.tools.model import Author, CallIdReused, Change, Operation, Risk

OUTCOME_DUE = timedelta(days=1)
"""How long after its approval an action is executed. Records of tool calls are kept for longer, so an action
that may have been executed is not executed again."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class UnfinishedAction:
    """A proposed action that is open, or approved without a posted outcome; `id` is its row's."""

    id: int
    team: str
    action_id: str


class ApprovalStore:
    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    async def propose(
        self, change: Change, new: NewAction, approvers: tuple[str, ...], expires_at: float
    ) -> ProposedAction:
        """Store an action, once for each operation. One of low risk is approved with it.

        Args:
            approvers: who may decide, as of now.
            expires_at: seconds since 1970.

        Raises:
            ActionRefused: it is too large, it expires at once, or nobody may decide it.
            CallIdReused: the operation has proposed another action.
        """
        action = _storable(new.action)
        approvers = tuple(dict.fromkeys(approvers))
        if new.risk is not Risk.LOW and not rules.eligible_approvers(new.risk, new.author.user_id, approvers):
            raise ActionRefused(f"no approver may decide an action of {new.risk} risk: set THREADLINE_APPROVERS")
        if expires_at <= change.now:
            raise ActionRefused("the action would expire before anybody could decide")

        row = _row(change, new, action, approvers, expires_at)
        await self._tx.execute(insert(proposed_actions).values(row).on_conflict_do_nothing())
        query = select(proposed_actions).where(*operation_filter(proposed_actions, change.operation))
        recorded = _action((await self._tx.execute(query)).one())
        if recorded.action_hash != rules.action_hash(action):
            raise CallIdReused(f"{change.operation.key} has proposed another action")
        return recorded

    async def get(self, team: str, action_id: str) -> ProposedAction:
        """Raises `ActionNotFound`."""
        row = proposed_actions.c
        query = select(proposed_actions).where(row.team == team, row.action_id == action_id)
        found = (await self._tx.execute(query)).one_or_none()
        if found is None:
            raise ActionNotFound(f"there is no proposed action {action_id[:40]}")
        return _action(found)

    async def undecided_about(self, team: str, rfp_id: str) -> list[str]:
        """Return the ids of the open actions about an RFP, in order."""
        row = proposed_actions.c
        query = select(row.action_id).where(row.team == team, row.rfp_id == rfp_id, row.decision.is_(None))
        return list((await self._tx.execute(query.order_by(row.id))).scalars())

    async def unfinished_after(self, after: int, limit: int) -> list[UnfinishedAction]:
        """Return a page of the actions of all teams that are open, or that were approved within `OUTCOME_DUE` and whose
        outcome is not posted, in order."""
        row = proposed_actions.c
        outcome_key = _outcome_key(row.team + ":" + row.channel + ":" + row.thread_ts, row.action_id)
        due = and_(
            row.decision == ApprovalDecision.APPROVED,
            row.risk != Risk.LOW,
            row.decided_at > func.now() - OUTCOME_DUE,
            ~exists().where(posts.c.key == outcome_key, posts.c.ts.is_not(None)),
        )
        query = select(row.id, row.team, row.action_id).where(or_(row.decision.is_(None), due), row.id > after)
        page = await self._tx.execute(query.order_by(row.id).limit(limit))
        return [UnfinishedAction(*each) for each in page]

    async def decide(self, team: str, action_id: str, click: Click, approvers_now: tuple[str, ...]) -> DecidedAction:
        """Return the action as it is decided: by this click, an earlier one, or its expiry.

        Args:
            approvers_now: who may decide by the settings of now.

        Raises:
            ActionNotFound, DecisionRefused: this click decided nothing; the message says why.
        """
        action = await self.get(team, action_id)
        key = f"click:{storable_key(click.key)}"
        if action.decision is None:
            if refused := rules.refuse_decision(action, click, approvers_now):
                raise refused
            decision = ApprovalDecision.APPROVED if click.approve else ApprovalDecision.REJECTED
            action = await self.expire(team, action_id, click.now)
            action = await self._decide(action, decision, click.now, click.user_id, key)
        return DecidedAction(action, (action.decision_key, action.decided_by) == (key, click.user_id))

    async def expire(self, team: str, action_id: str, now: float) -> ProposedAction:
        """Close the action if its time is up and nobody has decided it; returns it. Raises `ActionNotFound`."""
        action = await self.get(team, action_id)
        if action.decision or now < action.expires_at.timestamp():
            return action
        return await self._decide(action, ApprovalDecision.EXPIRED, now, "", "expiry")

    async def prune(self, before: float, limit: int = 1_000) -> int:
        """Delete what was decided before a moment (seconds since 1970), at most `limit`; returns how many."""
        row = proposed_actions.c
        old = select(row.id).where(row.decided_at < datetime.fromtimestamp(before, UTC)).limit(limit)
        return (await self._tx.execute(delete(proposed_actions).where(row.id.in_(old)))).rowcount

    async def record_proposal(self, action: ProposedAction) -> None:
        """Write the event `action_proposed`."""
        data = {"risk": action.risk.value, "tool": action.tool}
        await self._append_event(action, "action_proposed", data, action.author.user_id, action.created_at)

    async def record_decision(self, action: ProposedAction) -> None:
        """Write the event of a decision; none for an action that is open. An expiry has no author."""
        if action.decision and action.decided_at:
            kind = f"action_{action.decision.value}"
            await self._append_event(action, kind, {}, action.decided_by, action.decided_at)

    async def record_execution(self, action: ProposedAction, status: str, now: float) -> None:
        """Write the event `action_executed`.

        Args:
            status: that of the tool call; `unknown` where it has none.
            now: seconds since 1970.
        """
        data = {"status": status, "tool": action.tool}
        at = datetime.fromtimestamp(now, UTC)
        await self._append_event(action, "action_executed", data, action.author.user_id, at)

    async def _append_event(
        self, action: ProposedAction, kind: str, data: dict[str, Any], user_id: str, at: datetime
    ) -> None:
        """Append once for each kind. An event that the RFP's log refuses is logged, and stops nothing."""
        if not action.rfp_id:
            return
        operation = Operation(action.thread, 0, 0, f"{action.action_id}:{kind}")
        author = Author(user_id, action.author.correlation_id)
        payload = {"action_id": action.action_id} | data
        try:
            async with self._tx.begin_nested():
                change = Change(operation, at.timestamp())
                await RfpStore(self._tx).append_event(change, action.rfp_id, kind, payload, author)
        except Permanent as refused:
            _log.warning("action_event_refused", action=action.action_id, kind=kind, reason=str(refused))

    async def _decide(
        self, action: ProposedAction, decision: ApprovalDecision, now: float, user_id: str, key: str
    ) -> ProposedAction:
        """One statement decides. Whoever comes later reads that decision."""
        if action.decision:
            return action
        row = proposed_actions.c
        still_open = update(proposed_actions).where(row.action_id == action.action_id, row.decision.is_(None))
        moment = datetime.fromtimestamp(now, UTC)
        first = still_open.values(decision=decision, decided_at=moment, decided_by=user_id, decision_key=key)
        if decided := (await self._tx.execute(first.returning(proposed_actions))).one_or_none():
            return _action(decided)
        return await self.get(action.team, action.action_id)


def outcome_key(action: ProposedAction) -> str:
    """Return the key of the post that tells the outcome of an action."""
    return str(_outcome_key(action.thread.key, action.action_id))


def _outcome_key(thread: Any, action_id: Any) -> Any:
    """The key, of strings or of columns."""
    return "talk:" + thread + ":approval:" + action_id


def _storable(action: object) -> dict[str, Any]:
    if problem := json_problem(action, MAX_ACTION_BYTES):
        raise ActionRefused(f"an action {problem}")
    return cast(dict[str, Any], storable_json(action))


def _row(
    change: Change, new: NewAction, action: dict[str, Any], approvers: tuple[str, ...], expires_at: float
) -> dict[str, Any]:
    created = datetime.fromtimestamp(change.now, UTC)
    approved = {"decision": ApprovalDecision.APPROVED, "decided_at": created, "decision_key": "low risk"}
    return {
        "team": change.team,
        **audit_values(change),
        "rfp_id": new.rfp_id,
        "action": action,
        "action_hash": rules.action_hash(action),
        "risk": new.risk,
        "requested_by": new.author.user_id,
        "actor": storable_key(new.actor),
        "co_requesters": storable_json(dict(new.co_requesters)),
        "approvers": list(approvers),
        "correlation_id": new.author.correlation_id,
        "created_at": created,
        "expires_at": datetime.fromtimestamp(expires_at, UTC),
        **(approved if new.risk is Risk.LOW else {}),
    }


def _action(row: Row[Any]) -> ProposedAction:
    return ProposedAction(
        team=row.team,
        action_id=row.action_id,
        channel=row.channel,
        thread_ts=row.thread_ts,
        rfp_id=row.rfp_id,
        action=row.action,
        action_hash=row.action_hash,
        risk=Risk(row.risk),
        author=Author(row.requested_by, row.correlation_id),
        actor=row.actor,
        co_requesters=row.co_requesters,
        approvers=tuple(row.approvers),
        created_at=row.created_at,
        expires_at=row.expires_at,
        decision=ApprovalDecision(row.decision) if row.decision else None,
        decided_at=row.decided_at,
        decided_by=row.decided_by,
        decision_key=row.decision_key,
    )
