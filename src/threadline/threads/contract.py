"""CatchUpActivities, SweepActivities and ThreadActivities: what the workflows of this folder call, and their values. No
message travels in them: what is missing is read from Slack and signalled within one activity."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from threadline.slack.model import AuthorRefusal, Thread
from threadline.threads.activity_options import POST, SCAN, STORE, ActivityOptions, activity_options, retry_policy
from threadline.threads.model import INCOMING_MESSAGE, IncomingMessage
from threadline.threads.workflow_client import WorkflowStart

CATCH_UP_WORKFLOW = "CatchUpWorkflow"
CATCH_UP_ID = "catch-up"
"""Of the one catch-up that runs at a time, and of the schedule that starts the sweep and with it the catch-up."""
CATCH_UP_REQUESTED = "look"
"""A signal: start a pass now."""
SWEEP_WORKFLOW = "SweepWorkflow"
SWEEP_ID = "sweep"
"""The schedule adds the time to it."""
ROUTE_REPLY_WORKFLOW = "RouteReplyWorkflow"

LOOK_BACK = 30 * 86_400.0
"""Seconds: a thread in which nothing was said for longer is not compared any more."""
SETTLE_TIME = 60.0
"""Seconds: what was said later may still be on its way to the database by ordinary delivery."""
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
    """What became of an event. `outcome` names it in the counts: what was signalled, or why nothing was."""

    outcome: str
    signalled: bool = False

    @property
    def refused(self) -> bool:
        """Whether its author may not take part."""
        return isinstance(self.outcome, AuthorRefusal)


@dataclass(frozen=True)
class HistoryWindow:
    """A stretch of one channel's history between two Slack timestamps, both exclusive. `only_bot_threads`: only threads
    that the bot opened count there."""

    channel: str
    oldest: str
    latest: str
    scope: LookScope = LookScope.CASES
    only_bot_threads: bool = False


@dataclass(frozen=True)
class CatchUpPlan:
    """What one pass covers. `began`: seconds since 1970; `settle_time`: seconds for which fresh messages are left
    alone; `deep`: every active thread is compared, and not only those that show a change."""

    began: float
    deep: bool
    settle_time: float
    windows: list[HistoryWindow] = field(default_factory=list)
    scope: LookScope = LookScope.CASES


@dataclass
class CatchUpState:
    """All that survives continue-as-new. Whoever starts the workflow gives an empty one."""

    requested: bool = False
    """Somebody wants a pass that begins now; one that is under way does not count."""
    deep: bool = False
    """The next pass is a deep one."""
    follow_up: bool = False
    """A gateway that came back has requested a pass: what was too recent for it is looked at in one more."""
    followed: dict[str, float] = field(default_factory=dict)
    """When a gateway began to follow each channel, in seconds since 1970, until a pass has stored it."""
    plan: CatchUpPlan | None = None
    """The pass that the last run began, with threads of its scope still to be compared."""


def parse_request(args: Sequence[Any]) -> tuple[bool, dict[str, float]]:
    """Read the arguments of a request, whatever they are: whether the pass is to be deep, and since when the gateway
    follows each channel. What cannot be read requests a deep pass."""
    request = args[0] if len(args) == 1 and isinstance(args[0], Mapping) else {}
    deep, at, channels = request.get("deep") is not False, request.get("at"), request.get("channels")
    if isinstance(at, int | float) and isinstance(channels, list):
        return deep, {str(channel): float(at) for channel in channels}
    return deep, {}


@dataclass(frozen=True)
class PlanRequest:
    """A pass to plan. `followed`: since when gateways follow channels, where they were there before this worker."""

    deep: bool = False
    followed: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class PageRequest:
    """The page of a window's history that ends at `latest`; Slack shows the newest first."""

    window: HistoryWindow
    began: float
    latest: str


@dataclass(frozen=True)
class ChannelRead:
    """A channel was read to its end, or cannot be read: `error` says why."""

    channel: str
    deep: bool
    error: str = ""


@dataclass(frozen=True)
class ComparisonResult:
    """`left`: threads that are still to be compared, at most a thousand; `sent`: events that were signalled now."""

    left: int
    sent: int = 0


PLAN = replace(STORE, never_gives_up=False)
"""The catch-up's own steps in the database: the workflow waits and begins again when one fails."""


class CatchUpActivities(ABC):
    """Each of them may be repeated, by whichever worker: how far it came is in the database."""

    @activity_options(PLAN)
    @abstractmethod
    async def plan_catch_up(self, request: PlanRequest) -> CatchUpPlan:
        """Start to follow channels that are new here, and plan what to read."""

    @activity_options(SCAN)
    @abstractmethod
    async def read_history_page(self, request: PageRequest) -> str:
        """Record one page; returns where the next one ends, empty after the last."""

    @activity_options(PLAN)
    @abstractmethod
    async def record_channel(self, read: ChannelRead) -> None:
        """Record that a channel was read, or why it could not be."""

    @activity_options(PLAN)
    @abstractmethod
    async def select_threads(self, plan: CatchUpPlan) -> int:
        """Make some threads due that show no change; returns how many are to be compared."""

    @activity_options(SCAN)
    @abstractmethod
    async def compare_threads(self, plan: CatchUpPlan) -> ComparisonResult:
        """Compare some due threads with what is stored, and signal what is missing, the oldest first."""


@dataclass(frozen=True)
class SweepRequest:
    """The sweeps to run, by name and in order."""

    names: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SweepPage:
    """The page of a sweep that begins behind the row `after`."""

    name: str
    after: int = 0


SWEEP = ActivityOptions(start_to_close=120, heartbeat=30, retry=retry_policy(1, 60, attempts=10))
"""Given up after some minutes: the next tick of the schedule sweeps again, and waits for this one to end."""


class SweepActivities(ABC):
    @activity_options(SWEEP)
    @abstractmethod
    async def sweep(self, page: SweepPage) -> SweepPage | None:
        """Repair what a page of a sweep finds; returns the next page, None after the last. A name that the worker does
        not know has no page: two builds may run at once."""


@dataclass(frozen=True)
class ForwardedReply:
    """A reply in a thread that the gateway could not place in time."""

    thread: Thread
    message: IncomingMessage


@dataclass(frozen=True)
class PrivateReply:
    """A text for one person, in a thread that others read too."""

    channel: str
    thread_ts: str
    user_id: str
    text: str


PRIVATE_REPLY = ActivityOptions(start_to_close=30, retry=retry_policy(1, 30, attempts=5), schedule_to_close=300)


class ThreadActivities(ABC):
    """What any workflow of a thread may ask for. Run in the core worker."""

    @activity_options(replace(POST, retry=retry_policy(1, 300), never_gives_up=True))
    @abstractmethod
    async def forward_reply(self, reply: ForwardedReply) -> bool:
        """Find the workflow of a thread and hand it the message; False when the thread is nobody's."""

    @activity_options(PRIVATE_REPLY)
    @abstractmethod
    async def reply_privately(self, reply: PrivateReply) -> None:
        """Tell one person something that nobody else sees, such as what became of a press."""


def catch_up_start(*, deep: bool, channels: Collection[str], at: float) -> WorkflowStart:
    """The one catch-up, which is asked for a pass; the gateway follows `channels` since `at`, in seconds since 1970.
    `deep`: also at threads that show no change."""
    request = {"deep": deep, "channels": list(channels), "at": at}
    return WorkflowStart(CATCH_UP_WORKFLOW, CATCH_UP_ID, CatchUpState(), CATCH_UP_REQUESTED, (request,))


def route_reply_start(thread: Thread, message: IncomingMessage) -> WorkflowStart:
    """A workflow that takes its time to find out whose thread a reply is in, and keeps the reply until then."""
    return WorkflowStart(ROUTE_REPLY_WORKFLOW, route_reply_workflow_id(thread), thread, INCOMING_MESSAGE, (message,))


def route_reply_workflow_id(thread: Thread) -> str:
    return f"route:{thread.key}"
