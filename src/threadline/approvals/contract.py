"""Activities of an approval's workflow, and the start of that workflow. Every activity is safe to
repeat.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from threadline.approvals.model import ApprovalRun, ApprovalStage, parse_button
from threadline.threads.activity_options import (
    POST_UNTIL_MENDED,
    STORE,
    ActivityOptions,
    activity_options,
    retry_policy,
)
from threadline.threads.model import BUTTON_PRESSED, ButtonPress
from threadline.threads.workflow_client import WorkflowStart

APPROVAL_WORKFLOW = "ApprovalWorkflow"

EXECUTE = ActivityOptions(start_to_close=90, retry=retry_policy(1, 60), heartbeat=20)
"""Longer than any tool's own limit. Retried without end, since there is no other caller to retry:
a call that was begun is recorded and is not made twice.
"""
EXECUTE_ATTEMPTS = 60
"""Calls to an unavailable service, over about an hour; an unavailable database is retried without
end.
"""


@dataclass(frozen=True)
class ApprovalRef:
    team: str
    action_id: str


@dataclass(frozen=True)
class ApprovalState:
    """The progress of a proposed action.

    - `expires_at`: seconds since 1970;
    - `correlation_id`: that of the turn that proposed it;
    - `finished`: no work is left: the outcome of an approved action is in the thread, or the
      approval is too old for an execution now;
    - `reply`: private text for the person who pressed; empty where the card itself shows the
      result.
    """

    stage: ApprovalStage
    expires_at: float = 0.0
    correlation_id: str = ""
    finished: bool = False
    reply: str = ""

    @property
    def decided(self) -> bool:
        return self.stage not in (ApprovalStage.UNKNOWN, ApprovalStage.OPEN)


@dataclass(frozen=True)
class DecideAction:
    ref: ApprovalRef
    press: ButtonPress


@dataclass(frozen=True)
class ExpireAction:
    """`now`: the workflow's time, in seconds since 1970."""

    ref: ApprovalRef
    now: float


class ApprovalActivities(ABC):
    """A proposed action in the database, its card in Slack, and its execution. Run in the core
    worker.
    """

    @activity_options(STORE)
    @abstractmethod
    async def load_approval(self, ref: ApprovalRef) -> ApprovalState:
        """Read the action's progress."""

    @activity_options(STORE)
    @abstractmethod
    async def decide_action(self, request: DecideAction) -> ApprovalState:
        """Apply a press, if the current settings allow it. The first valid press decides."""

    @activity_options(STORE)
    @abstractmethod
    async def expire_action(self, request: ExpireAction) -> ApprovalState:
        """Close an action whose time for a decision is over."""

    @activity_options(replace(POST_UNTIL_MENDED, start_to_close=60))
    @abstractmethod
    async def show_decision(self, ref: ApprovalRef) -> None:
        """Replace the card's buttons with the decision. Does nothing if the message was
        deleted.
        """

    @activity_options(EXECUTE)
    @abstractmethod
    async def execute_action(self, ref: ApprovalRef) -> None:
        """Make the approved call at most once, and record its outcome."""

    @activity_options(replace(POST_UNTIL_MENDED, start_to_close=120))
    @abstractmethod
    async def post_outcome(self, ref: ApprovalRef) -> None:
        """Post the outcome of an approved action in the thread, once."""


def approval_start(team: str, action_id: str, *presses: ButtonPress) -> WorkflowStart:
    """Return the start of a proposed action's workflow, with a press of one of its buttons if
    there was one.
    """
    identity = approval_workflow_id(team, action_id)
    signal = BUTTON_PRESSED if presses else ""
    return WorkflowStart(
        APPROVAL_WORKFLOW, identity, ApprovalRun(team, action_id), signal, presses
    )


def approval_pressed(team: str, press: ButtonPress) -> WorkflowStart | None:
    """Return the workflow of a press; None if the button belongs to no approval."""
    made_for = parse_button(press.value)
    return approval_start(team, made_for[0], press) if made_for and team else None


def approval_workflow_id(team: str, action_id: str) -> str:
    return f"approval:{team}:{action_id}"
