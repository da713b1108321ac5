"""Actions that wait for somebody's word: what was proposed, how risky it is, who may decide, by which buttons, and what
was decided."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from threadline.errors import Permanent
from threadline.threads.model import ButtonPress, ButtonState
from threadline.tools.model import Author, Risk

APPROVE, REJECT = "approval_approve", "approval_reject"
"""The buttons' ids (`action_id` in Slack's words)."""
MOST_ACTION = 64_000
"""Bytes of an action as JSON; a larger one is refused."""
_VALUE = re.compile(r"(ACT-[0-9]{1,18}):([0-9a-f]{64})")


_RISKS = (Risk.LOW, Risk.MEDIUM, Risk.HIGH)


def max_risk(risk: Risk, wanted: Risk | None) -> Risk:
    """Return the higher one: a proposal may call an action riskier than its tool does, and never safer."""
    return max(risk, wanted or risk, key=_RISKS.index)


class Decision(StrEnum):
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"


@dataclass(frozen=True)
class ApprovalRules:
    """The settings of now: who may decide (Slack's user ids), and for how many seconds an action waits."""

    approvers: tuple[str, ...] = ()
    expiry: float = 24 * 3600.0


@dataclass(frozen=True)
class NewAction:
    """`approvers`: who may decide, as of now; `expires_at`: seconds since 1970; `rfp_id`: its request, or empty."""

    action: dict[str, Any]
    risk: Risk
    approvers: tuple[str, ...]
    expires_at: float
    rfp_id: str = ""


@dataclass(frozen=True)
class ProposedAction:
    """`decision` is None as long as it is open; then `decided_by`, empty where no person decided, and `decided_how`.

    What came of an approved one is no part of it: the RFP's events say so, and the record of its call.
    `author` is who asked for it.
    """

    action_id: str
    channel: str
    thread_ts: str
    rfp_id: str
    action: dict[str, Any]
    action_hash: str
    risk: Risk
    author: Author
    approvers: tuple[str, ...]
    created_at: datetime
    expires_at: datetime
    decision: Decision | None
    decided_at: datetime | None
    decided_by: str
    decided_how: str


@dataclass(frozen=True)
class Click:
    """Somebody's word about an action.

    `key` is the click's own: the same when it is delivered again, another when the button is pressed again.
    `action_hash` is of the action that the button was made for. `now`: seconds since 1970.
    """

    user_id: str
    action_hash: str
    approve: bool
    key: str
    now: float


@dataclass(frozen=True)
class Decided:
    """The action as it is decided; `mine` where it was this click that decided it, however often it is delivered."""

    action: ProposedAction
    mine: bool


@dataclass
class ApprovalRun(ButtonState):
    """One proposed action that waits: what its workflow starts with."""

    team: str
    action_id: str


class ActionNotFound(Permanent):
    """The team has no such proposed action."""


class ActionRefused(Permanent):
    """It cannot be proposed: nobody may decide it, it is over before it begins, or it is too large."""


class DecisionRefused(Permanent):
    """Whoever clicked may not decide this, or the button was made for another action. Nothing was decided."""


def action_hash(action: Mapping[str, Any]) -> str:
    """The same for the same action alone, however its fields are ordered."""
    written = json.dumps(action, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode("ascii")).hexdigest()


def button_value(action_id: str, action_hash: str) -> str:
    """What a button carries: which action it was made for, and for what exactly."""
    return f"{action_id}:{action_hash}"


def parse_button(value: str) -> tuple[str, str] | None:
    """The action's id and hash; None for what is no button of an approval."""
    found = _VALUE.fullmatch(value)
    return (found[1], found[2]) if found else None


def hash_pressed(press: ButtonPress, action_id: str) -> str:
    """The hash on the button that was pressed; empty, which decides nothing, where it is no button of this action."""
    made_for = parse_button(press.value) if press.action_id in (APPROVE, REJECT) else None
    return made_for[1] if made_for and made_for[0] == action_id else ""


def deciders(risk: Risk, asked_by: str, approvers: Sequence[str]) -> tuple[str, ...]:
    """Who of the approvers may decide: of a high risk never the one who asked."""
    return tuple(each for each in approvers if risk is not Risk.HIGH or each != asked_by)


def refusal(action: ProposedAction, click: Click, approvers_now: Sequence[str]) -> DecisionRefused | None:
    """Why this click may not decide; None when it may. Who decides was an approver then and still is one."""
    if click.action_hash != action.action_hash:
        return DecisionRefused(f"this button is not for what {action.action_id} proposes: nothing was decided")
    if click.user_id in deciders(action.risk, action.author.user_id, action.approvers):
        if click.user_id in approvers_now:
            return None
        return DecisionRefused(f"you are no approver any more: somebody else has to decide {action.action_id}")
    if click.user_id == action.author.user_id and action.risk is Risk.HIGH:
        return DecisionRefused(f"{action.action_id} is of high risk: somebody other than who asked has to decide it")
    return DecisionRefused(f"you are not among those who may decide {action.action_id}")
