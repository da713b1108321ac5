"""CatchUpActivities, SweepActivities and ThreadActivities: the activities of this folder's
workflows, and their values. No message travels in them: one activity reads the missing messages
from Slack and signals them.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from threadline.slack.model import AuthorRefusal, Thread
from threadline.threads.activity_options import (
    POST,
    SCAN,
    STORE,
    ActivityOptions,
    activity_options,
    retry_policy,
)
from threadline.threads.model import INCOMING_MESSAGE, IncomingMessage
from threadline.threads.workflow_client import WorkflowStart

CATCH_UP_WORKFLOW = "CatchUpWorkflow"
CATCH_UP_ID = "catch-up"
"""Id of the one catch-up that runs at a time, and of the schedule that starts the sweep, which
starts the catch-up.
"""
CATCH_UP_REQUESTED = "look"
"""A signal: start a pass now."""
SWEEP_WORKFLOW = "SweepWorkflow"
SWEEP_ID = "sweep"
"""Prefix of a sweep's id: the schedule appends the time."""
ROUTE_REPLY_WORKFLOW = "RouteReplyWorkflow"

LOOK_BACK = 30 * 86_400.0
"""Seconds of silence after which a thread is no longer compared."""
SETTLE_TIME = 60.0
"""Seconds for which a message may still be on its way to the database by ordinary delivery."""
CASE_INTERVAL = 300.0
"""Seconds between passes over the channels of cases while a pass over conversations goes on."""
RETRY_INTERVAL = 300.0
"""Seconds from a pass that failed to the next one."""


class LookScope(StrEnum):
    """The two parts of a pass. Cases come first, since conversations may take hours."""

    CASES = "cases"
    CONVERSATIONS = "conversations"


@dataclass(frozen=True)
class Handled:
    """The result of handling an event. `outcome` names it in the counts: the signal that was sent,
    or the reason for none.
    """

    outcome: str
    signalled: bool = False

    @property
    def refused(self) -> bool:
        """Whether its author may not take part."""
        return isinstance(self.outcome, AuthorRefusal)


@dataclass(frozen=True)
class HistoryWindow:
    """A stretch of one channel's history between two Slack timestamps, both exclusive.
    `only_bot_threads`: only threads that the bot opened count there.
    """

    channel: str
    oldest: str
    latest: str
    scope: LookScope = LookScope.CASES
    only_bot_threads: bool = False


@dataclass(frozen=True)
class CatchUpPlan:
    """The extent of one pass.

    - `began`: when it began, in seconds since 1970;
    - `deep`: compares every active thread, not only those that show a change;
    - `settle_time`: seconds for which fresh messages are left alone.
    """

    began: float
    deep: bool
    settle_time: float
    windows: list[HistoryWindow] = field(default_factory=list)
    scope: LookScope = LookScope.CASES


@dataclass
class CatchUpState:
    """The state that survives continue-as-new. A new workflow starts with an empty one."""

    requested: bool = False
    """A pass that begins now was requested; one that is under way does not count."""
    deep: bool = False
    """The next pass is a deep one."""
    follow_up: bool = False
    """A gateway that came back has requested a pass: one more pass covers the messages that were
    too recent for it.
    """
    followed: dict[str, float] = field(default_factory=dict)
    """When a gateway began to follow each channel, in seconds since 1970, until a pass has stored
    it.
    """
    plan: CatchUpPlan | None = None
    """The pass that the last run began, with threads of its scope left to compare."""


def parse_request(args: Sequence[Any]) -> tuple[bool, dict[str, float]]:
    """Parse the arguments of a request. Never fails: unreadable arguments request a deep pass.

    Returns:
        Whether the pass is deep, and the time from which the gateway follows each channel.
    """
    request = args[0] if len(args) == 1 and isinstance(args[0], Mapping) else {}
    deep = request.get("deep") is not False
    at = request.get("at")
    channels = request.get("channels")
    if isinstance(at, int | float) and isinstance(channels, list):
        return deep, {str(channel): float(at) for channel in channels}
    return deep, {}


@dataclass(frozen=True)
class PlanRequest:
    """A pass to plan. `followed`: the time from which gateways follow channels, where they started
    before this worker.
    """

    deep: bool = False
    followed: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PageRequest:
    """A request for the page of a window's history that ends at `latest`; Slack shows the newest
    messages first.
    """

    window: HistoryWindow
    began: float
    latest: str


@dataclass(frozen=True)
class ChannelRead:
    """The result of reading a channel to its end. `error`: the reason why it cannot be read."""

    channel: str
    deep: bool
    error: str = ""


@dataclass(frozen=True)
class ComparisonResult:
    """The result of a batch. `left`: threads that remain to be compared, at most a thousand;
    `sent`: events that it signalled.
    """

    left: int
    sent: int = 0


PLAN = replace(STORE, never_gives_up=False)
"""For the catch-up's own steps in the database: when one fails, the workflow waits and begins
again.
"""


class CatchUpActivities(ABC):
    """Activities that any worker may repeat: their progress is in the database."""

    @activity_options(PLAN)
    @abstractmethod
    async def plan_catch_up(self, request: PlanRequest) -> CatchUpPlan:
        """Start to follow channels that are new here, and plan the windows to read."""

    @activity_options(SCAN)
    @abstractmethod
    async def read_history_page(self, request: PageRequest) -> str:
        """Record one page; returns the end of the next one, empty after the last."""

    @activity_options(PLAN)
    @abstractmethod
    async def record_channel(self, read: ChannelRead) -> None:
        """Record that a channel was read, or the error that prevented it."""

    @activity_options(PLAN)
    @abstractmethod
    async def select_threads(self, plan: CatchUpPlan) -> int:
        """Make some threads without a sign of change due; returns the number of threads to
        compare.
        """

    @activity_options(SCAN)
    @abstractmethod
    async def compare_threads(self, plan: CatchUpPlan) -> ComparisonResult:
        """Compare some due threads with the stored messages, and signal missing ones, the oldest
        first.
        """


@dataclass(frozen=True)
class SweepRequest:
    """The sweeps to run, by name and in order."""

    names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SweepPage:
    """The page of a sweep that begins after the row `after`."""

    name: str
    after: int = 0


SWEEP = ActivityOptions(start_to_close=120, heartbeat=30, retry=retry_policy(1, 60, attempts=10))
"""Gives up after some minutes. The schedule's next tick sweeps again, after this sweep has ended.
"""


class SweepActivities(ABC):
    @activity_options(SWEEP)
    @abstractmethod
    async def sweep(self, page: SweepPage) -> SweepPage | None:
        """Repair the rows that a page of a sweep finds; returns the next page, None after the
        last. A name that the worker does not know has no page: two builds may run at once.
        """


@dataclass(frozen=True)
class ForwardedReply:
    """A reply whose thread the gateway could not resolve in time."""

    thread: Thread
    message: IncomingMessage


@dataclass(frozen=True)
class PrivateReply:
    """A text for one person, in a thread that others read as well."""

    channel: str
    thread_ts: str
    user_id: str
    text: str


PRIVATE_REPLY = ActivityOptions(
    start_to_close=30, retry=retry_policy(1, 30, attempts=5), schedule_to_close=300
)


class ThreadActivities(ABC):
    """Activities for the workflows of any thread. The core worker runs them."""

    @activity_options(replace(POST, retry=retry_policy(1, 300), never_gives_up=True))
    @abstractmethod
    async def forward_reply(self, reply: ForwardedReply) -> bool:
        """Find the workflow of a thread and signal the message to it; returns False when the
        thread has no owner.
        """

    @activity_options(PRIVATE_REPLY)
    @abstractmethod
    async def reply_privately(self, reply: PrivateReply) -> None:
        """Post a reply that only one person sees, such as the result of a press."""


def catch_up_start(*, deep: bool, channels: Collection[str], at: float) -> WorkflowStart:
    """Return the start of the one catch-up with a request for a pass.

    Args:
        deep: compares also threads that show no change.
        channels: channels that the gateway follows.
        at: when it began to follow them, in seconds since 1970.
    """
    request = {"deep": deep, "channels": list(channels), "at": at}
    return WorkflowStart(
        CATCH_UP_WORKFLOW, CATCH_UP_ID, CatchUpState(), CATCH_UP_REQUESTED, (request,)
    )


def route_reply_start(thread: Thread, message: IncomingMessage) -> WorkflowStart:
    """Return the start of a workflow that takes its time to find a reply's owner, and keeps the
    reply until then.
    """
    return WorkflowStart(
        ROUTE_REPLY_WORKFLOW, route_reply_workflow_id(thread), thread, INCOMING_MESSAGE, (message,)
    )


def route_reply_workflow_id(thread: Thread) -> str:
    return f"route:{thread.key}"
