"""Actions that wait for somebody's word. Each is decided once: of any number of clicks the first one counts."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from sqlalchemy import Row, and_, delete, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.approvals import model as rules
from threadline.approvals.model import (
    MOST_ACTION,
    ActionNotFound,
    ActionRefused,
    Click,
    Decided,
    Decision,
    NewAction,
    ProposedAction,
)
from threadline.approvals.tables import proposed_actions
from threadline.db.values import storable_json, storable_key
from threadline.rfps.model import json_problem
from threadline.rfps.store import audit_values, operation_filter
from threadline.slack.model import Thread
from threadline.threads.tables import posts
from threadline.tools.model import Author, CallIdReused, Change, Risk

OUTCOME_DUE = timedelta(days=1)
"""How long after its approval an action is taken up again. Records of executions are kept for longer, so that an action
which may have been carried out is not carried out again."""


@dataclass(frozen=True)
class OpenAction:
    """A proposed action that is not finished; `id` is its place in the order of all."""

    id: int
    team: str
    action_id: str


class ProposedActions:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def propose(self, change: Change, new: NewAction, author: Author) -> ProposedAction:
        """Put an action on record, once for each operation. One of low risk is approved with it.

        Raises:
            ActionRefused: it is too large, it expires at once, or nobody may decide it.
            CallIdReused: the operation has proposed another action.
        """
        action = _storable(new.action)
        approvers = tuple(dict.fromkeys(new.approvers))
        if new.risk is not Risk.LOW and not rules.deciders(new.risk, author.user_id, approvers):
            raise ActionRefused(f"no approver may decide an action of {new.risk} risk: set THREADLINE_APPROVERS")
        if new.expires_at <= change.now:
            raise ActionRefused("the action would expire before anybody could decide")

        row = _row(change, new, author) | {"action": action, "approvers": list(approvers)}
        await self._connection.execute(insert(proposed_actions).values(row).on_conflict_do_nothing())
        query = select(proposed_actions).where(*operation_filter(proposed_actions, change.operation))
        recorded = _action((await self._connection.execute(query)).one())
        if recorded.action_hash != rules.action_hash(action):
            raise CallIdReused(f"{change.operation.key} has proposed another action")
        return recorded

    async def get(self, team: str, action_id: str) -> ProposedAction:
        """Raises `ActionNotFound`."""
        row = proposed_actions.c
        query = select(proposed_actions).where(row.team == team, row.action_id == action_id)
        found = (await self._connection.execute(query)).one_or_none()
        if found is None:
            raise ActionNotFound(f"there is no proposed action {action_id[:40]}")
        return _action(found)

    async def of_thread(self, thread: Thread, limit: int = 20) -> list[ProposedAction]:
        """What was proposed in a thread, the newest first."""
        row = proposed_actions.c
        here = (row.team == thread.team, row.channel == thread.channel, row.thread_ts == thread.ts)
        query = select(proposed_actions).where(*here).order_by(row.id.desc()).limit(limit)
        return [_action(each) for each in await self._connection.execute(query)]

    async def undecided_about(self, team: str, rfp_id: str) -> list[str]:
        """The ids of the actions about an RFP that wait for a decision."""
        row = proposed_actions.c
        query = select(row.action_id).where(row.team == team, row.rfp_id == rfp_id, row.decision.is_(None))
        return list((await self._connection.execute(query.order_by(row.id))).scalars())

    async def open_after(self, after: int, limit: int) -> list[OpenAction]:
        """A page of the actions of all teams that are not decided, or were approved within `OUTCOME_DUE` and whose
        outcome is not posted, in order."""
        row = proposed_actions.c
        thread = row.team + ":" + row.channel + ":" + row.thread_ts
        outcome_key = "talk:" + thread + ":approval:" + row.action_id  # as in `posts.outcome_key`
        due = and_(
            row.decision == Decision.APPROVED,
            row.risk != Risk.LOW,
            row.decided_at > func.now() - OUTCOME_DUE,
            ~exists().where(posts.c.key == outcome_key, posts.c.ts.is_not(None)),
        )
        query = select(row.id, row.team, row.action_id).where(or_(row.decision.is_(None), due), row.id > after)
        page = await self._connection.execute(query.order_by(row.id).limit(limit))
        return [OpenAction(*each) for each in page]

    async def decide(self, team: str, action_id: str, click: Click, approvers_now: tuple[str, ...]) -> Decided:
        """Somebody pressed a button: the action as it is decided, by this click, by another, or by its expiry.

        Args:
            approvers_now: who may decide by the settings of now.

        Raises:
            ActionNotFound, DecisionRefused: nothing was decided by it; the message says why.
        """
        action = await self.get(team, action_id)
        how = f"click:{storable_key(click.key)}"
        if action.decision is None:
            if refused := rules.refusal(action, click, approvers_now):
                raise refused
            decision = Decision.APPROVED if click.approve else Decision.REJECTED
            action = await self.expire(team, action_id, click.now)
            action = await self._decide(team, action, decision, click.now, click.user_id, how)
        return Decided(action, (action.decided_how, action.decided_by) == (how, click.user_id))

    async def prune(self, before: float, limit: int = 1_000) -> int:
        """Forget what was decided before a moment (seconds since 1970), at most `limit`; returns how many."""
        row = proposed_actions.c
        old = select(row.id).where(row.decided_at < datetime.fromtimestamp(before, UTC)).limit(limit)
        return (await self._connection.execute(delete(proposed_actions).where(row.id.in_(old)))).rowcount

    async def expire(self, team: str, action_id: str, now: float) -> ProposedAction:
        """The action, over when its time is and nobody has decided it. Raises `ActionNotFound`."""
        action = await self.get(team, action_id)
        if action.decision or now < action.expires_at.timestamp():
            return action
        return await self._decide(team, action, Decision.EXPIRED, now, "", "expiry")

    async def _decide(
        self, team: str, action: ProposedAction, decision: Decision, now: float, by: str, how: str
    ) -> ProposedAction:
        """One statement decides: whoever comes later finds a decision, and reads it."""
        if action.decision:
            return action
        row = proposed_actions.c
        still = update(proposed_actions).where(row.action_id == action.action_id, row.decision.is_(None))
        moment = datetime.fromtimestamp(now, UTC)
        first = still.values(decision=decision, decided_at=moment, decided_by=by, decided_how=how)
        if decided := (await self._connection.execute(first.returning(proposed_actions))).one_or_none():
            return _action(decided)
        return await self.get(team, action.action_id)


def _storable(action: object) -> dict[str, Any]:
    if fault := json_problem(action, MOST_ACTION):
        raise ActionRefused(f"an action {fault}")
    return cast(dict[str, Any], storable_json(action))


def _row(change: Change, new: NewAction, author: Author) -> dict[str, Any]:
    created = datetime.fromtimestamp(change.now, UTC)
    done = {"decision": Decision.APPROVED, "decided_at": created, "decided_how": "low risk"}
    return {
        "team": change.team,
        **audit_values(change),
        "rfp_id": new.rfp_id,
        "action_hash": rules.action_hash(_storable(new.action)),
        "risk": new.risk,
        "asked_by": author.user_id,
        "correlation_id": author.correlation_id,
        "created_at": created,
        "expires_at": datetime.fromtimestamp(new.expires_at, UTC),
        **(done if new.risk is Risk.LOW else {}),
    }


def _action(row: Row[Any]) -> ProposedAction:
    return ProposedAction(
        action_id=row.action_id,
        channel=row.channel,
        thread_ts=row.thread_ts,
        rfp_id=row.rfp_id,
        action=row.action,
        action_hash=row.action_hash,
        risk=Risk(row.risk),
        author=Author(row.asked_by, row.correlation_id),
        approvers=tuple(row.approvers),
        created_at=row.created_at,
        expires_at=row.expires_at,
        decision=Decision(row.decision) if row.decision else None,
        decided_at=row.decided_at,
        decided_by=row.decided_by,
        decided_how=row.decided_how,
    )
