"""What the workflow of an approval may ask for. Every method is safe to repeat: the record decides once."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import StrEnum

from temporalio import activity

from threadline.approvals.model import ApprovalRun, parse_button
from threadline.threads.activity_options import POST, STORE, ActivityOptions, activity_options, retry_policy
from threadline.threads.model import BUTTON_PRESSED, ButtonPress
from threadline.threads.workflow_client import WorkflowStart

APPROVAL_WORKFLOW = "ApprovalWorkflow"

CARRY_OUT = ActivityOptions(start_to_close=90, retry=retry_policy(1, 60), heartbeat=20)
"""Longer than any tool's own limit. Without an end, since nobody calls again: what was begun is on record and not made
twice."""
CARRY_OUT_TRIES = 60
"""How often a service that is away is asked, for about an hour; a database that is away is waited for without end."""


@dataclass(frozen=True)
class ActionRef:
    team: str
    action_id: str


class Stage(StrEnum):
    """How far a proposed action is."""

    UNKNOWN = "unknown"
    """The team has no such action."""
    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"


@dataclass(frozen=True)
class ActionState:
    """`expires_at`: seconds since 1970. `correlation_id` is of the turn that proposed it.

    `told`: what came of it, approved, has been said in the thread, so that nothing is to be made any more.
    """

    stage: Stage
    expires_at: float = 0.0
    correlation_id: str = ""
    told: bool = False

    @property
    def decided(self) -> bool:
        return self.stage in (Stage.APPROVED, Stage.REJECTED, Stage.EXPIRED)


@dataclass(frozen=True)
class DecideRequest:
    team: str
    action_id: str
    press: ButtonPress


@dataclass(frozen=True)
class DecideReply:
    """`words`: what the person who pressed is told, and nobody else; empty where the message itself will say it."""

    state: ActionState
    words: str = ""


@dataclass(frozen=True)
class Expiry:
    """The time is up, as the workflow's clock has it: `now` in seconds since 1970."""

    team: str
    action_id: str
    now: float


class ApprovalActivities(ABC):
    """A proposed action in the database, its message in Slack, and its execution. Run in the core worker."""

    @activity_options(STORE)
    @activity.defn
    @abstractmethod
    async def open_approval(self, ref: ActionRef) -> ActionState:
        """Read how far the action is."""

    @activity_options(STORE)
    @activity.defn
    @abstractmethod
    async def decide_action(self, request: DecideRequest) -> DecideReply:
        """Let a press decide, if it may by the settings of now; of any number the first one counts."""

    @activity_options(STORE)
    @activity.defn
    @abstractmethod
    async def expire_action(self, expiry: Expiry) -> ActionState:
        """Nobody has decided in time."""

    @activity_options(replace(POST, start_to_close=60, schedule_to_close=3600))
    @activity.defn
    @abstractmethod
    async def show_decision(self, ref: ActionRef) -> None:
        """Put the decision in the place of the message's buttons; nothing happens when the message is gone."""

    @activity_options(CARRY_OUT)
    @activity.defn
    @abstractmethod
    async def carry_out(self, ref: ActionRef) -> None:
        """Make the approved call, once; its outcome is on record afterwards."""

    @activity_options(replace(POST, start_to_close=120))
    @activity.defn
    @abstractmethod
    async def post_outcome(self, ref: ActionRef) -> None:
        """Say in the thread what came of an approved action, once."""


def approval_start(team: str, action_id: str, press: ButtonPress | None = None) -> WorkflowStart:
    """The workflow in which a proposed action waits for a decision, with a press of one of its buttons, if there was
    one."""
    identity, given = approval_workflow_id(team, action_id), () if press is None else (press,)
    signal = BUTTON_PRESSED if given else ""
    return WorkflowStart(APPROVAL_WORKFLOW, identity, ApprovalRun(team, action_id), signal, given)


def approval_pressed(team: str, press: ButtonPress) -> WorkflowStart | None:
    """The workflow that a press is for; None where the button was made for no approval."""
    made_for = parse_button(press.value)
    return approval_start(team, made_for[0], press) if made_for and team else None


def approval_workflow_id(team: str, action_id: str) -> str:
    """The workflow in which a proposed action waits for somebody's word."""
    return f"approval:{team}:{action_id}"
