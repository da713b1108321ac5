"""Proposed actions: their content, risk, approvers, buttons and decision. Pure."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from threadline.errors import Permanent
from threadline.models.model import ToolCall
from threadline.slack.model import Thread
from threadline.threads.model import ButtonPress, ButtonState
from threadline.tools.model import FieldChange, Risk, ToolResult, ToolStatus, record_group

APPROVE = "approval_approve"
REJECT = "approval_reject"
"""`action_id` of the two buttons."""
CARD_KIND = "approval"
"""The kind of record group that is shown as a card with buttons."""
MAX_ACTION_BYTES = 64_000
"""Maximum bytes of an action as JSON; a larger one is refused."""
MAX_REASON = 500
"""Maximum characters of the model's reason."""
_BUTTON_VALUE = re.compile(r"(ACT-[0-9]{1,18}):([0-9a-f]{64})")


class ApprovalStage(StrEnum):
    UNKNOWN = "unknown"
    """The team has no such action."""
    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"


@dataclass(frozen=True)
class ApprovalRules:
    """The current settings: `approvers` are Slack user ids; an action expires after `expiry`
    seconds.
    """

    approvers: tuple[str, ...] = ()
    expiry: float = 24 * 3600.0


@dataclass(frozen=True)
class NewAction:
    """The content of a proposal.

    - `action`: the tool's name and its arguments, with `changes` (field, old, new) and `shown`
      (the fields of the card) where the tool knows them from its record;
    - `rfp_id`: the RFP that it is about, or empty;
    - `actor`: the name of the last requester;
    - `co_requesters`: all other people who wrote in the turn, id to label.
    """

    action: Mapping[str, Any]
    risk: Risk
    rfp_id: str = ""
    actor: str = ""
    co_requesters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProposedAction:
    """A row of `proposed_actions`, with the names of its columns.

    `decision` is None while the action is open. `decided_by` is empty if no person decided;
    `decision_key` names the cause: the press or the expiry. `requested_by`, `actor` and
    `co_requesters` are the people who asked: an approved action runs for the same people.
    `approvers` may decide as long as the settings still list them. Its outcome is in the RFP's
    events and in the record of its tool call.
    """

    id: int
    team: str
    action_id: str
    channel: str
    thread_ts: str
    rfp_id: str
    action: dict[str, Any]
    action_hash: str
    risk: Risk
    requested_by: str
    actor: str
    co_requesters: Mapping[str, str]
    approvers: tuple[str, ...]
    correlation_id: str
    created_at: datetime
    expires_at: datetime
    decision: ApprovalStage | None
    decided_at: datetime | None
    decided_by: str
    decision_key: str

    @property
    def thread(self) -> Thread:
        return Thread(self.team, self.channel, self.thread_ts)

    @property
    def tool(self) -> str:
        return str(self.action.get("tool", ""))

    @property
    def changes(self) -> tuple[FieldChange, ...]:
        """The changes that the action's card shows."""
        return tuple(FieldChange(**each) for each in self.action.get("changes", ()))

    @property
    def effect(self) -> tuple[str, str]:
        return effect_of(self.action)

    def call(self, call_id: str) -> ToolCall:
        """Return the proposed call, under the given id."""
        return ToolCall(
            call_id, self.tool, json.dumps(self.action.get("arguments", {}), ensure_ascii=False)
        )


@dataclass
class ApprovalRun(ButtonState):
    """The input of the workflow of one proposed action."""

    team: str
    action_id: str


class ActionNotFound(Permanent):
    """The team has no such proposed action."""


class DecisionRefused(Permanent):
    """The user may not decide this, or the button was made for another action. The action stays
    undecided.
    """


def action_hash(action: Mapping[str, Any]) -> str:
    """Return the SHA-256 of an action as hex digits, independent of the order of its fields."""
    return hashlib.sha256(
        json.dumps(action, sort_keys=True, separators=(",", ":")).encode("ascii")
    ).hexdigest()


def effect_of(action: Mapping[str, Any]) -> tuple[str, str]:
    """Return an action's effect, independent of the wording of its call: equal for calls of the
    same effect.
    """
    known = {name: action[name] for name in ("changes", "shown") if name in action}
    return str(action.get("tool", "")), action_hash(known or action.get("arguments", {}))


def button_value(action_id: str, action_hash: str) -> str:
    return f"{action_id}:{action_hash}"


def parse_button(value: str) -> tuple[str, str] | None:
    """Return the action's id and hash; None if the button belongs to no approval."""
    found = _BUTTON_VALUE.fullmatch(value)
    return (found[1], found[2]) if found else None


def eligible_approvers(
    new: NewAction, user_id: str, approvers: Collection[str]
) -> tuple[str, ...]:
    """Return the users who may decide a user's proposal; for a high risk, all requesters are
    excluded.

    Raises:
        Permanent: there is no eligible approver.
    """
    if not approvers:
        raise Permanent(
            f"This is {new.risk} risk, and no approvers are set: the admin must set "
            "THREADLINE_APPROVERS. Nothing was proposed."
        )
    requesters = {user_id, *new.co_requesters} if new.risk is Risk.HIGH else set[str]()
    if found := tuple(each for each in dict.fromkeys(approvers) if each not in requesters):
        return found
    raise Permanent(
        f"This is {new.risk} risk. The requester may not approve it, and there is no other "
        "approver: somebody else must ask for it. Nothing was proposed."
    )


def check_press(
    action: ProposedAction, press: ButtonPress, approvers_now: Collection[str]
) -> None:
    """Check that a press may decide: it is on the action's own button, and its user was an
    approver at the proposal and is one now. Raises `DecisionRefused`.
    """
    made_for = parse_button(press.value) if press.action_id in (APPROVE, REJECT) else None
    if made_for != (action.action_id, action.action_hash):
        raise DecisionRefused(
            f"This button does not belong to {action.action_id}, so nothing was decided"
        )
    if press.user_id in action.approvers:
        if press.user_id in approvers_now:
            return
        raise DecisionRefused(
            f"You are no longer an approver: somebody else has to decide {action.action_id}"
        )
    if press.user_id in {action.requested_by, *action.co_requesters} and action.risk is Risk.HIGH:
        raise DecisionRefused(
            f"{action.action_id} is high risk: somebody other than the requester has to decide it"
        )
    raise DecisionRefused(f"You are not among those who may decide {action.action_id}")


def pending_result(does: str, action: ProposedAction, reason: str) -> ToolResult:
    """Return the result of a call that waits for a decision, with its card. `does`: the effect of
    the call, for the card.
    """
    card = {
        "action_id": action.action_id,
        "action_hash": action.action_hash,
        "does": does,
        "arguments": action.action.get("shown") or action.action.get("arguments", {}),
        "changes": action.action.get("changes", []),
        "risk": action.risk.value,
        "reason": reason,
        "requested_by": action.requested_by,
        "approvers": list(action.approvers),
        "expires_at": action.expires_at.timestamp(),
    }
    text = (
        f"I propose this and will do it once it is approved. It is {action.risk} risk "
        f"({action.action_id})."
    )
    return ToolResult(
        ToolStatus.PENDING, _pending_data(action), text, record_group(CARD_KIND, [card])
    )


def still_pending_result(action: ProposedAction) -> ToolResult:
    """Return the result of a call with the same effect as an open action, whose card is in the
    thread already.
    """
    text = (
        f"This is already waiting for approval ({action.action_id}). Nothing changes until it is "
        "approved."
    )
    return ToolResult(ToolStatus.PENDING, _pending_data(action), text)


def _pending_data(action: ProposedAction) -> dict[str, Any]:
    return {
        "action_id": action.action_id,
        "risk": action.risk.value,
        "waits_for": list(action.approvers),
        "until": action.expires_at.isoformat(),
        "done": False,
        "next": (
            f"Nothing was done. Tell the person that {action.action_id} waits for an approval. "
            "Do not call this again, and do not make the change in another way."
        ),
    }
