"""ApprovalStore: proposed actions, each decided once, and their events in the log of their RFP."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from pydantic import TypeAdapter
from sqlalchemy import RowMapping, and_, delete, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from threadline.approvals.model import (
    APPROVE,
    MAX_ACTION_BYTES,
    ActionNotFound,
    ApprovalRules,
    ApprovalStage,
    NewAction,
    ProposedAction,
    action_hash,
    check_press,
    eligible_approvers,
)
from threadline.approvals.tables import proposed_actions
from threadline.db.engine import Store, savepoint
from threadline.db.values import storable_json, storable_key
from threadline.errors import Permanent
from threadline.rfps.model import json_problem
from threadline.rfps.store import RfpStore, audit_values, operation_filter
from threadline.slack.model import Thread
from threadline.threads.model import ButtonPress
from threadline.threads.tables import posts
from threadline.tools.model import Author, CallIdReused, Change, Operation

OUTCOME_DUE = timedelta(days=1)
"""Time after its approval in which an action may be executed. Records of tool calls are kept for
longer, so an action that may have been executed is not executed again.
"""
_ACTION = TypeAdapter(ProposedAction)


class ApprovalStore(Store):
    async def propose(
        self, change: Change, new: NewAction, rules: ApprovalRules
    ) -> ProposedAction:
        """Store an action, once for each operation.

        Raises:
            Permanent: it is too large, it expires at once, or it has no eligible approver.
            CallIdReused: the operation has proposed another action.
        """
        if problem := json_problem(new.action, MAX_ACTION_BYTES):
            raise Permanent(f"an action {problem}")
        if rules.expiry <= 0:
            raise Permanent("the action would expire before anybody could decide")
        action = cast(dict[str, Any], storable_json(new.action))
        row = audit_values(change) | {
            "rfp_id": new.rfp_id,
            "action": action,
            "action_hash": action_hash(action),
            "risk": new.risk,
            "requested_by": change.author.user_id,
            "actor": storable_key(new.actor),
            "co_requesters": storable_json(dict(new.co_requesters)),
            "approvers": list(eligible_approvers(new, change.author.user_id, rules.approvers)),
            "expires_at": _moment(change.now + rules.expiry),
        }
        await self._tx.execute(insert(proposed_actions).values(row).on_conflict_do_nothing())
        query = select(proposed_actions).where(
            *operation_filter(proposed_actions, change.operation)
        )
        recorded = _action((await self._tx.execute(query)).mappings().one())
        if recorded.action_hash != row["action_hash"]:
            raise CallIdReused(f"{change.operation.key} has proposed another action")
        data = {"risk": recorded.risk.value, "tool": recorded.tool}
        await self._append_event(
            recorded, "action_proposed", data, recorded.requested_by, recorded.created_at
        )
        return recorded

    async def open_in(self, thread: Thread, now: float) -> list[ProposedAction]:
        """Return the undecided actions of a thread, in order. `now`: seconds since 1970."""
        row = proposed_actions.c
        here = (row.team == thread.team, row.channel == thread.channel, row.thread_ts == thread.ts)
        query = select(proposed_actions).where(
            *here, row.decision.is_(None), row.expires_at > _moment(now)
        )
        return [
            _action(each) for each in (await self._tx.execute(query.order_by(row.id))).mappings()
        ]

    async def get(self, team: str, action_id: str) -> ProposedAction:
        """Return an action. Raises `ActionNotFound`."""
        row = proposed_actions.c
        query = select(proposed_actions).where(row.team == team, row.action_id == action_id)
        found = (await self._tx.execute(query)).mappings().one_or_none()
        if found is None:
            raise ActionNotFound(f"there is no proposed action {action_id[:40]}")
        return _action(found)

    async def undecided_about(self, team: str, rfp_id: str) -> list[str]:
        """Return the ids of the open actions about an RFP, in order."""
        row = proposed_actions.c
        query = select(row.action_id).where(
            row.team == team, row.rfp_id == rfp_id, row.decision.is_(None)
        )
        return list((await self._tx.execute(query.order_by(row.id))).scalars())

    async def unfinished_after(self, after: int, limit: int) -> list[ProposedAction]:
        """Return a page of the unfinished actions of all teams, in order: those that are open, and
        those that were approved within `OUTCOME_DUE` and whose outcome is not posted.
        """
        row = proposed_actions.c
        thread = row.team + ":" + row.channel + ":" + row.thread_ts
        due = and_(
            row.decision == ApprovalStage.APPROVED,
            row.decided_at > func.now() - OUTCOME_DUE,
            ~exists().where(
                posts.c.key == _outcome_key(thread, row.action_id), posts.c.ts.is_not(None)
            ),
        )
        query = select(proposed_actions).where(or_(row.decision.is_(None), due), row.id > after)
        page = await self._tx.execute(query.order_by(row.id).limit(limit))
        return [_action(each) for each in page.mappings()]

    async def decide(
        self, team: str, action_id: str, press: ButtonPress, rules: ApprovalRules, now: float
    ) -> ProposedAction:
        """Return the action with its decision: by this press, an earlier one, or its expiry.

        Args:
            now: the time of the press, in seconds since 1970.

        Raises:
            ActionNotFound: the team has no such action.
            DecisionRefused: the press decided nothing; the message gives the reason.
        """
        action = await self.get(team, action_id)
        if action.decision is None:
            check_press(action, press, rules.approvers)
            action = await self.expire(team, action_id, now)
        if action.decision is None:
            decision = (
                ApprovalStage.APPROVED if press.action_id == APPROVE else ApprovalStage.REJECTED
            )
            action = await self._decide(action, decision, now, press.user_id, _press_key(press))
        return action

    async def expire(self, team: str, action_id: str, now: float) -> ProposedAction:
        """Close the action if its time is up and it is undecided, and return it. Raises
        `ActionNotFound`.
        """
        action = await self.get(team, action_id)
        if action.decision or now < action.expires_at.timestamp():
            return action
        return await self._decide(action, ApprovalStage.EXPIRED, now, "", "expiry")

    async def prune(self, before: float, limit: int = 1_000) -> int:
        """Delete at most `limit` actions that were decided before a moment (seconds since 1970),
        and return their number.
        """
        row = proposed_actions.c
        old = select(row.id).where(row.decided_at < _moment(before)).limit(limit)
        return (await self._tx.execute(delete(proposed_actions).where(row.id.in_(old)))).rowcount

    async def record_execution(self, action: ProposedAction, status: str, now: float) -> None:
        """Write the event `action_executed`, once.

        Args:
            status: that of the tool call; `unknown` if it may or may not have taken effect.
            now: seconds since 1970.
        """
        data = {"status": status, "tool": action.tool}
        await self._append_event(
            action, "action_executed", data, action.requested_by, _moment(now)
        )

    async def _append_event(
        self, action: ProposedAction, kind: str, data: dict[str, Any], user_id: str, at: datetime
    ) -> None:
        """Append an event, once for each kind. An event that the RFP's log refuses is only
        logged.
        """
        if not action.rfp_id:
            return
        operation = Operation(action.thread, 0, 0, f"{action.action_id}:{kind}")
        payload = {"action_id": action.action_id} | data
        try:
            async with savepoint(self._tx):
                change = Change(operation, Author(user_id, action.correlation_id), at.timestamp())
                await RfpStore(self._tx).append_event(change, action.rfp_id, kind, payload)
        except Permanent as refused:
            import structlog  # a command that only reads does without it

            details = {"action": action.action_id, "kind": kind, "reason": str(refused)}
            structlog.get_logger(__name__).warning("action_event_refused", **details)

    async def _decide(
        self, action: ProposedAction, decision: ApprovalStage, now: float, user_id: str, key: str
    ) -> ProposedAction:
        """Decide in one statement and write the event with it. First write wins: a later caller
        gets the stored decision.
        """
        row = proposed_actions.c
        still_open = update(proposed_actions).where(row.id == action.id, row.decision.is_(None))
        first = still_open.values(
            decision=decision, decided_at=_moment(now), decided_by=user_id, decision_key=key
        )
        decided = (
            (await self._tx.execute(first.returning(proposed_actions))).mappings().one_or_none()
        )
        if decided is None:
            return await self.get(action.team, action.action_id)
        await self._append_event(action, f"action_{decision}", {}, user_id, _moment(now))
        return _action(decided)


def is_decided_by(action: ProposedAction, press: ButtonPress) -> bool:
    """Return whether this press made the decision; the same for each of its deliveries."""
    return (action.decision_key, action.decided_by) == (_press_key(press), press.user_id)


def outcome_key(action: ProposedAction) -> str:
    """Return the key of the post with an action's outcome."""
    return str(_outcome_key(action.thread.key, action.action_id))


def _outcome_key(thread: Any, action_id: Any) -> Any:
    """Return the key, from strings or from columns."""
    return "conversation:" + thread + ":approval:" + action_id


def _press_key(press: ButtonPress) -> str:
    return f"click:{storable_key(press.key)}"


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _action(row: RowMapping) -> ProposedAction:
    return _ACTION.validate_python(dict(row))
