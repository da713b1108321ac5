"""Proposed actions: decided once, by an eligible approver, and only for the action of the
button.
"""

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.recording import AUTHOR, explained, until_waited_for
from tests.support.tool_store import NOW, change
from threadline.approvals.model import (
    APPROVE,
    REJECT,
    ActionNotFound,
    ApprovalRules,
    ApprovalStage,
    DecisionRefused,
    NewAction,
    ProposedAction,
    action_hash,
    button_value,
)
from threadline.approvals.store import OUTCOME_DUE, ApprovalStore, is_decided_by, outcome_key
from threadline.db.engine import Database
from threadline.errors import AppendOnly, Permanent
from threadline.threads.model import ButtonPress
from threadline.threads.store import PostStore
from threadline.tools.model import Risk

ACTION = {"tool": "opportunity_patch", "arguments": {"status": "won", "nul": "a\x00b"}}
APPROVERS = ("U1", "U2", "U3")


async def propose(
    database: Database,
    risk: Risk = Risk.MEDIUM,
    call_id: str = "a1",
    approvers: tuple[str, ...] = APPROVERS,
    **more: Any,
) -> ProposedAction:
    new = NewAction(more.pop("action", ACTION), risk, "rfp_abc123", "Ana", {"U7": "Ben (U7)"})
    proposed = change(call_id, now=more.pop("now", NOW))
    rules = ApprovalRules(approvers, more.pop("expiry", 3600.0))
    async with database.begin() as tx:
        return await ApprovalStore(tx).propose(proposed, new, rules)


def pressed(
    action: ProposedAction, user_id: str, *, key: str, approve: bool = True, made_for: str = ""
) -> ButtonPress:
    value = button_value(action.action_id, made_for or action.action_hash)
    return ButtonPress(user_id, APPROVE if approve else REJECT, value, key, 0.0, "C1", "17.1")


async def click(
    database: Database,
    action: ProposedAction,
    user_id: str = "U2",
    *,
    key: str = "k1",
    **more: Any,
) -> tuple[bool, ProposedAction]:
    """Press a button; return whether the press decided, and the action afterwards."""
    rules = ApprovalRules(more.pop("approvers_now", APPROVERS))
    now = more.pop("now", NOW + 1)
    press = pressed(action, user_id, key=key, **more)
    async with database.begin() as tx:
        decided = await ApprovalStore(tx).decide("T1", action.action_id, press, rules, now)
    return is_decided_by(decided, press), decided


async def open_actions(database: Database) -> list[str]:
    async with database.begin() as tx:
        return [each.action_id for each in await ApprovalStore(tx).unfinished_after(0, 10)]


async def test_old_decisions_are_pruned_and_open_actions_kept(database: Database) -> None:
    done = await propose(database)
    pending = await propose(database, call_id="a2")
    await click(database, done)
    async with database.begin() as tx:
        assert await ApprovalStore(tx).prune(NOW + 1) == 0
        assert await ApprovalStore(tx).prune(NOW + 2) == 1
        assert await ApprovalStore(tx).get("T1", pending.action_id) == pending
        with pytest.raises(ActionNotFound):
            await ApprovalStore(tx).get("T1", done.action_id)


@pytest.mark.parametrize(
    ("risk", "approve", "age", "is_open"),
    [
        (Risk.MEDIUM, True, OUTCOME_DUE - timedelta(minutes=1), True),
        (Risk.HIGH, True, timedelta(), True),
        (Risk.MEDIUM, True, OUTCOME_DUE + timedelta(minutes=1), False),
        (Risk.MEDIUM, False, timedelta(), False),
    ],
)
async def test_approved_action_is_open_for_a_while_until_its_outcome_is_posted(
    database: Database, risk: Risk, approve: bool, age: timedelta, is_open: bool
) -> None:
    now = time.time() - age.total_seconds()
    action = await propose(database, risk, now=now)
    assert await open_actions(database) == [action.action_id]
    await click(database, action, approve=approve, now=now)
    assert await open_actions(database) == [action.action_id] * is_open
    key = outcome_key(action)
    async with database.begin() as tx:
        await PostStore(tx).claim(key, "C1", None)
    assert await open_actions(database) == [action.action_id] * is_open
    async with database.begin() as tx:
        await PostStore(tx).record_posted(key, "17.1")
    assert await open_actions(database) == []


async def test_action_is_proposed_once_per_call(database: Database) -> None:
    action = await propose(database)
    assert await propose(database) == action
    assert (action.action_id, action.decision, action.risk) == ("ACT-1", None, Risk.MEDIUM)
    assert (action.requested_by, action.correlation_id) == (AUTHOR.user_id, AUTHOR.correlation_id)
    assert (action.approvers, action.rfp_id) == (APPROVERS, "rfp_abc123")
    assert (action.actor, action.co_requesters) == ("Ana", {"U7": "Ben (U7)"})
    assert action.action == {
        "tool": "opportunity_patch",
        "arguments": {"status": "won", "nul": "ab"},
    }
    assert action.action_hash == action_hash(action.action)
    assert (action.created_at.timestamp(), action.expires_at.timestamp()) == (NOW, NOW + 3600)
    async with database.begin() as tx:
        assert await ApprovalStore(tx).get("T1", "ACT-1") == action
        for team, action_id in (("T2", "ACT-1"), ("T1", "ACT-2"), ("T1", "\x00")):
            with pytest.raises(ActionNotFound):
                await ApprovalStore(tx).get(team, action_id)


def test_hash_of_an_action_ignores_the_order_of_fields() -> None:
    assert action_hash({"a": 1, "b": {"c": 2, "d": 3}}) == action_hash(
        {"b": {"d": 3, "c": 2}, "a": 1}
    )
    assert action_hash({"a": 1}) != action_hash({"a": "1"})


@pytest.mark.parametrize(
    ("risk", "approvers", "says"),
    [
        (Risk.MEDIUM, (), "no approvers are set"),
        (Risk.HIGH, (), "no approvers are set"),
        (Risk.HIGH, ("U1", "U1"), "there is no other approver"),
        (Risk.HIGH, ("U1", "U7"), "there is no other approver"),
    ],
)
async def test_action_without_an_eligible_approver_is_refused(
    database: Database, risk: Risk, approvers: tuple[str, ...], says: str
) -> None:
    with pytest.raises(Permanent, match=says):
        await propose(database, risk, approvers=approvers)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"expiry": 0.0}, "would expire before"),
        ({"action": {"x": "y" * 1_000_000}}, "the maximum is 64,000"),
        ({"action": ["x"]}, "must be a JSON object"),
    ],
)
async def test_impossible_action_is_refused(
    database: Database, given: dict[str, Any], says: str
) -> None:
    with pytest.raises(Permanent, match=says):
        await propose(database, **given)


async def test_click_that_waited_for_another_gets_its_decision(database: Database) -> None:
    action = await propose(database)
    async with database.begin() as tx:
        press = pressed(action, "U2", key="k1", approve=False)
        first = await ApprovalStore(tx).decide(
            "T1", action.action_id, press, ApprovalRules(APPROVERS), NOW + 1
        )
        second = asyncio.create_task(click(database, action, "U3", key="k2"))
        await until_waited_for(tx)
    assert await second == (False, first)
    assert (is_decided_by(first, press), first.decision, first.decided_by) == (
        True,
        ApprovalStage.REJECTED,
        "U2",
    )


async def test_click_delivered_again_is_the_same_click(database: Database) -> None:
    action = await propose(database)
    is_mine, first = await click(database, action)
    assert (is_mine, first.decision, first.decided_by) == (True, ApprovalStage.APPROVED, "U2")
    assert await click(database, action) == (True, first)
    assert await click(database, action, now=NOW + 9_999) == (True, first), "also after its expiry"
    assert await click(database, action, key="k2", approve=False) == (False, first)
    assert await click(database, action, "U9", key="k1") == (False, first)


@pytest.mark.parametrize(
    ("risk", "user_id", "more", "says"),
    [
        (Risk.MEDIUM, "U9", {}, "not among those who may decide"),
        (Risk.HIGH, "U1", {}, "somebody other than the requester"),
        (Risk.HIGH, "U9", {}, "not among those who may decide"),
        (Risk.MEDIUM, "U2", {"approvers_now": ("U3",)}, "no longer an approver"),
        (Risk.MEDIUM, "U9", {"approvers_now": ("U9",)}, "not among those who may decide"),
        (Risk.MEDIUM, "U2", {"made_for": "0" * 64}, "does not belong to ACT-1"),
    ],
)
async def test_click_that_may_not_decide_is_refused(
    database: Database, risk: Risk, user_id: str, more: dict[str, Any], says: str
) -> None:
    action = await propose(database, risk)
    with pytest.raises(DecisionRefused, match=says):
        await click(database, action, user_id, **more)
    assert (await click(database, action, "U3"))[0]


async def test_action_expires_by_a_click_or_by_the_clock(database: Database) -> None:
    clicked = await propose(database)
    waited = await propose(database, call_id="a2")
    is_mine, late = await click(database, clicked, now=NOW + 3600)
    assert (is_mine, late.decision, late.decided_by) == (False, ApprovalStage.EXPIRED, "")
    async with database.begin() as tx:
        assert (
            await ApprovalStore(tx).expire("T1", waited.action_id, NOW + 3599)
        ).decision is None
        over = await ApprovalStore(tx).expire("T1", waited.action_id, NOW + 3600)
        assert (over.decision, over.decision_key) == (ApprovalStage.EXPIRED, "expiry")
        assert await ApprovalStore(tx).expire("T1", waited.action_id, NOW + 9999) == over
    assert await click(database, waited) == (False, over)
    _, decided = await click(database, await propose(database, call_id="a3"))
    async with database.begin() as tx:
        assert await ApprovalStore(tx).expire("T1", decided.action_id, NOW + 9999) == decided


@pytest.mark.parametrize(
    "change_",
    [
        "decision = 'rejected'",
        "decided_by = 'U3'",
        "action = '{}'",
        "approvers = '{U9}'",
        "risk = 'low'",
    ],
)
async def test_decided_action_is_not_rewritten(database: Database, change_: str) -> None:
    action = await propose(database)
    if change_.startswith("deci"):
        await click(database, action)

    async def attempt() -> None:
        async with database.begin() as tx:
            await tx.execute(text(f"UPDATE proposed_actions SET {change_}"))  # noqa: S608 - fixed

    with pytest.raises(AppendOnly, match="decided once"):
        await attempt()


async def test_queries_use_an_index(database: Database) -> None:
    many = """
    INSERT INTO proposed_actions (team, channel, thread_ts, rfp_id, action, action_hash, risk,
                                  requested_by, approvers, correlation_id, operation_key,
                                  created_at, expires_at)
    SELECT 'T1', 'C1', n::text, '', '{}', repeat('0', 64), 'low', 'U1', '{}', 'c', 'k' || n,
           now(), now() + '1h'
    FROM generate_series(1, 20000) n
    """
    async with database.begin() as tx:
        await tx.execute(text(many))
        await tx.execute(text("ANALYZE proposed_actions"))
    async with explained(database) as (tx, asked):
        await ApprovalStore(tx).get("T1", "ACT-1")
    for plan in asked.plans:
        assert "Index Scan" in plan, plan
