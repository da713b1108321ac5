"""Proposed actions: what is proposed, its risk, who may decide it, its buttons, and what was decided. Pure."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from threadline.errors import Permanent
from threadline.models.model import ToolCall
from threadline.slack.model import Thread
from threadline.threads.model import ButtonPress, ButtonState
from threadline.tools.model import Author, Change, RecordGroup, Risk, ToolResult

APPROVE, REJECT = "approval_approve", "approval_reject"
"""`action_id` of the two buttons."""
CARD_KIND = "approval"
"""Kind of the record group that is shown as a card with buttons."""
MAX_ACTION_BYTES = 64_000
"""Of an action as JSON; a larger one is refused."""
MAX_REASON = 500
"""Characters of the reason that the model gives."""
_BUTTON_VALUE = re.compile(r"(ACT-[0-9]{1,18}):([0-9a-f]{64})")
_RISKS = (Risk.LOW, Risk.MEDIUM, Risk.HIGH)


class ApprovalDecision(StrEnum):
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"


@dataclass(frozen=True)
class ApprovalRules:
    """The settings of now: `approvers` are Slack user ids; an action expires after `expiry` seconds."""

    approvers: tuple[str, ...] = ()
    expiry: float = 24 * 3600.0


@dataclass(frozen=True)
class NewAction:
    """What is proposed, and by whom.

    Args:
        action: the tool's name and its arguments.
        author: the person who asked last; `actor` is their name.
        rfp_id: the RFP that it is about, or empty.
        co_requesters: everybody else who wrote in the turn, id to label.
    """

    action: Mapping[str, Any]
    risk: Risk
    author: Author
    rfp_id: str = ""
    actor: str = ""
    co_requesters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProposedAction:
    """A row of `proposed_actions`.

    `decision` is None while the action is open. `decided_by` is empty if no person decided; `decision_key` says what
    did: the press, the expiry, or the low risk. `author`, `actor` and `co_requesters` are the people who asked: an
    approved action runs for the same people. Its outcome is in the RFP's events and in the record of its tool call.
    """

    team: str
    action_id: str
    channel: str
    thread_ts: str
    rfp_id: str
    action: dict[str, Any]
    action_hash: str
    risk: Risk
    author: Author
    actor: str
    co_requesters: Mapping[str, str]
    approvers: tuple[str, ...]
    created_at: datetime
    expires_at: datetime
    decision: ApprovalDecision | None
    decided_at: datetime | None
    decided_by: str
    decision_key: str

    @property
    def thread(self) -> Thread:
        return Thread(self.team, self.channel, self.thread_ts)

    @property
    def tool(self) -> str:
        return str(self.action.get("tool", ""))

    def call(self, call_id: str) -> ToolCall:
        """Return the proposed call, under an id of its own."""
        return ToolCall(call_id, self.tool, json.dumps(self.action.get("arguments", {}), ensure_ascii=False))


@dataclass(frozen=True)
class Click:
    """One press of a button.

    Args:
        action_hash: of the action that the button was made for.
        key: the same for each delivery of one press, another for the next press.
        now: seconds since 1970.
    """

    user_id: str
    action_hash: str
    approve: bool
    key: str
    now: float


@dataclass(frozen=True)
class DecidedAction:
    """The decided action. `decided_by_this_press` is the same for each delivery of one press."""

    action: ProposedAction
    decided_by_this_press: bool


@dataclass
class ApprovalRun(ButtonState):
    """The input of the workflow of one proposed action."""

    team: str
    action_id: str


class ActionNotFound(Permanent):
    """The team has no such proposed action."""


class ActionRefused(Permanent):
    """The action cannot be proposed: nobody may decide it, it expires at once, or it is too large."""


class DecisionRefused(Permanent):
    """Whoever pressed may not decide this, or the button was made for another action. Nothing was decided."""


class Proposals(Protocol):
    """Puts proposed actions on record and starts their workflows. Tools of other features propose through it."""

    async def propose(self, change: Change, new: NewAction) -> ProposedAction:
        """Put an action on record, once for each operation. One that waits has its workflow when this returns.

        Raises:
            ActionRefused: nobody may decide it here, or it is too large.
        """
        ...

    async def record_failure(self, action: ProposedAction, status: str, now: float) -> None:
        """Record that an action of low risk, which counts as approved, did not succeed. Safe to repeat.

        Args:
            status: `error`, or `unknown` where nobody knows whether it took effect.
            now: seconds since 1970.
        """
        ...


def max_risk(risk: Risk, wanted: Risk | None) -> Risk:
    """Return the higher risk: a proposal may raise the risk of its tool, never lower it."""
    return max(risk, wanted or risk, key=_RISKS.index)


def action_hash(action: Mapping[str, Any]) -> str:
    """Return the SHA-256 of an action as hex digits, whatever the order of its fields."""
    written = json.dumps(action, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode("ascii")).hexdigest()


def button_value(action_id: str, action_hash: str) -> str:
    """Return the value of a button: the action's id and hash."""
    return f"{action_id}:{action_hash}"


def parse_button(value: str) -> tuple[str, str] | None:
    """Return the action's id and hash; None if it is no button of an approval."""
    found = _BUTTON_VALUE.fullmatch(value)
    return (found[1], found[2]) if found else None


def pressed_hash(press: ButtonPress, action_id: str) -> str:
    """Return the hash on the button that was pressed; empty, which decides nothing, for a button of another action."""
    made_for = parse_button(press.value) if press.action_id in (APPROVE, REJECT) else None
    return made_for[1] if made_for and made_for[0] == action_id else ""


def eligible_approvers(risk: Risk, requested_by: str, approvers: Sequence[str]) -> tuple[str, ...]:
    """Return the approvers who may decide. Whoever asked for a high risk does not decide it."""
    return tuple(each for each in approvers if risk is not Risk.HIGH or each != requested_by)


def refuse_decision(action: ProposedAction, click: Click, approvers_now: Sequence[str]) -> DecisionRefused | None:
    """Return why this click may not decide, None if it may.

    Whoever decides was an approver when the action was proposed and is one now.
    """
    if click.action_hash != action.action_hash:
        return DecisionRefused(f"this button is not for what {action.action_id} proposes: nothing was decided")
    if click.user_id in eligible_approvers(action.risk, action.author.user_id, action.approvers):
        if click.user_id in approvers_now:
            return None
        return DecisionRefused(f"you are no approver any more: somebody else has to decide {action.action_id}")
    if click.user_id in {action.author.user_id, *action.co_requesters} and action.risk is Risk.HIGH:
        return DecisionRefused(f"{action.action_id} is of high risk: somebody other than who asked has to decide it")
    return DecisionRefused(f"you are not among those who may decide {action.action_id}")


def pending_result(summary: str, arguments: Mapping[str, Any], action: ProposedAction, reason: str) -> ToolResult:
    """Return the result of a tool whose action waits for a decision, with the card that shows it.

    Args:
        summary: what the call does, in a few words.
    """
    approvers = list(eligible_approvers(action.risk, action.author.user_id, action.approvers))
    data = {
        "action_id": action.action_id,
        "risk": action.risk.value,
        "waits_for": approvers,
        "until": action.expires_at.isoformat(),
        "done": False,
    }
    card = {
        "action_id": action.action_id,
        "action_hash": action.action_hash,
        "does": summary,
        "arguments": dict(arguments),
        "risk": action.risk.value,
        "reason": reason,
        "requested_by": action.author.user_id,
        "approvers": approvers,
        "expires_at": action.expires_at.timestamp(),
    }
    text = f"I propose this and will do it once it is approved. It is {action.risk} risk ({action.action_id})."
    return ToolResult(data=data, display_text=text, structured=(RecordGroup(CARD_KIND, (card,)),))
