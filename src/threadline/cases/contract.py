"""The activities of a bug case. `AgentActivities` run in the agent worker, which holds no Slack
token and no push credential; all others in the core worker.

The live classes and the tests' fakes subclass these, so that a drifted signature is a type error.
Arguments are references: people's messages stay in the database.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from temporalio.common import RetryPolicy

from threadline.cases.model import (
    BUG_WORKFLOW,
    SLA_WORKFLOW,
    BugState,
    CaseLimits,
    CaseSnapshot,
    CaseStatus,
    NoticeKind,
    Reason,
    Settled,
    SlaEventKind,
    SlaTarget,
    TurnEnded,
    bug_workflow_id,
    sla_workflow_id,
)
from threadline.slack.model import Thread
from threadline.threads.activity_options import (
    POST,
    POST_UNTIL_MENDED,
    READ_SLACK,
    STORE,
    ActivityOptions,
    activity_options,
    retry_policy,
)
from threadline.threads.model import (
    AGENTS_QUEUE,
    CLOSE_REQUESTED,
    INCOMING_MESSAGE,
    Fault,
    IncomingMessage,
    MessageKind,
)
from threadline.threads.workflow_client import WorkflowStart

FETCH_ATTEMPTS = 5
FORGE = replace(
    POST, start_to_close=660, heartbeat=30, retry=retry_policy(2, 120), schedule_to_close=3600
)
"""More time between heartbeats than for a post: a repeated clone or push is expensive.

After an hour without the code host, the workflow notifies people, who may ask again.
"""
FORGE_STATE = ActivityOptions(
    start_to_close=660, heartbeat=30, retry=retry_policy(2, 60, attempts=5)
)
FETCH_FILES = ActivityOptions(
    start_to_close=300, heartbeat=10, retry=retry_policy(1, 10, attempts=FETCH_ATTEMPTS)
)
CLEANUP = ActivityOptions(
    120, retry_policy(5, 60, attempts=5), AGENTS_QUEUE, schedule_to_close=900, heartbeat=30
)
TURN_GRACE = 120.0
"""Seconds beyond the turn's own limit, to prepare the workspace, take the diff and commit the
outcome.
"""
AGENT_TURN = ActivityOptions(
    start_to_close=CaseLimits().turn_timeout + TURN_GRACE,
    retry=RetryPolicy(maximum_attempts=1),
    task_queue=AGENTS_QUEUE,
    heartbeat=10,
)
"""A single attempt: only the workflow knows whether and how a turn may be tried again.

A turn whose worker was merely away for the heartbeat's time costs its model twice, so that time is
longer than for a post.
"""


def agent_turn_options(limits: CaseLimits) -> ActivityOptions:
    """Return the options of one attempt at a turn of this case.

    The turn's own limit, inside the activity, runs out first.
    """
    return replace(AGENT_TURN, start_to_close=limits.turn_timeout + TURN_GRACE)


@dataclass(frozen=True)
class FlushRequest:
    """A batch to store: at most 100 messages and 256 KiB, or empty when a run begins without any.

    With `start_turn` the case becomes `investigating` at once when a turn is due. `first` marks
    the first request of a run.
    """

    thread: Thread
    messages: list[IncomingMessage]
    start_turn: bool = False
    first: bool = False


@dataclass(frozen=True)
class StoredCase:
    """The result of a flush.

    `case.bug_id` is empty when the thread has no case, and nothing was stored. The other fields
    are set only for the first request of a run.
    """

    case: CaseSnapshot
    limits: CaseLimits | None = None
    """The limits in force."""
    closing_unposted: bool = False
    """The case has ended, and its run was terminated before it posted the end."""


@dataclass(frozen=True)
class StatusChange:
    """A change of a case's status.

    `wait`: seconds of the wait that begins with the attempt that stores it; 0 for none.
    """

    bug_id: str
    to: CaseStatus
    reason: Reason
    wait: float = 0.0


@dataclass(frozen=True)
class TurnRef:
    bug_id: str
    turn: int


@dataclass(frozen=True)
class TurnRequest:
    """One attempt at a turn; its batch is the messages that are unused when it is claimed."""

    bug_id: str
    turn: int
    attempt: int
    session_id: str
    limits: CaseLimits
    unanswered: bool = False


@dataclass(frozen=True)
class SettleRequest:
    """Settle a turn: its attempts lose their claim, and the case takes over the committed outcome.

    With `failure` (a sentence for people) a turn without an outcome is settled as an escalation.
    """

    bug_id: str
    turn: int
    failure: str = ""
    fault: Fault | None = None
    """An installation fault that ended the attempt; the admin is notified."""


@dataclass(frozen=True)
class EndRequest:
    """Resolve a case.

    Refused when an unused message contradicts it: then the snapshot comes back unresolved.
    """

    bug_id: str
    reason: Reason


@dataclass(frozen=True)
class Notice:
    """A short text in one of the case's threads; `ordinal` (a turn's number) makes its key
    unique.
    """

    bug_id: str
    kind: NoticeKind
    ordinal: int = 0
    detail: str = ""


@dataclass(frozen=True)
class Escalation:
    """A call for people on call.

    `tiers`: number of on-call tiers. `started`, in seconds since 1970, is set by the workflow
    whose clock counts.
    """

    bug_id: str
    number: int
    target: SlaTarget
    tiers: int = 0
    started: float = 0.0


@dataclass(frozen=True)
class SlaNotice:
    """A due event of an escalation's clock; `tier` is the on-call tier to call, from 0."""

    bug_id: str
    escalation: int
    kind: SlaEventKind
    ordinal: int
    tier: int


class CaseActivities(ABC):
    """The case in the database, its report in Slack and its fix at the code host.

    Run in the core worker.
    """

    @activity_options(STORE)
    @abstractmethod
    async def flush_messages(self, request: FlushRequest) -> StoredCase:
        """Store a batch; safe to repeat.

        A thread's first message opens its case, whose title is parsed from it.
        """

    @activity_options(STORE)
    @abstractmethod
    async def update_status(self, change: StatusChange) -> CaseSnapshot:
        """Take one step of the case's life and record it."""

    @activity_options(replace(STORE, heartbeat=POST.heartbeat))
    @abstractmethod
    async def save_investigation_result(self, request: SettleRequest) -> Settled:
        """Settle a turn.

        Only here does an outcome become the case's, however the attempt ended.
        """

    @activity_options(STORE)
    @abstractmethod
    async def end_case(self, request: EndRequest) -> CaseSnapshot:
        """Resolve the case, revoke a running turn's claim, and mark the messages that this
        answers.
        """

    @activity_options(READ_SLACK)
    @abstractmethod
    async def fetch_report(self, thread: Thread) -> IncomingMessage | None:
        """Fetch the thread's root message from Slack as a report.

        Returns None when the root is gone, or its author may not report.
        """

    @activity_options(FETCH_FILES)
    @abstractmethod
    async def fetch_attachments(self, bug_id: str) -> None:
        """Download the attachments that are not stored yet."""

    @activity_options(FORGE)
    @abstractmethod
    async def open_pull_request(self, turn: TurnRef) -> CaseSnapshot:
        """Bring the turn's fix to the code host, and announce it in the case's threads."""

    @activity_options(FORGE_STATE)
    @abstractmethod
    async def check_pull_request(self, bug_id: str) -> CaseSnapshot:
        """Ask the code host whether the case's fix was merged.

        A merge is stored, and resolves the case.
        """

    @activity_options(replace(STORE, never_gives_up=False, retry=retry_policy(1, 10, attempts=3)))
    @abstractmethod
    async def check_agents_worker(self, bug_id: str) -> bool:
        """Return whether a worker serves the agents' queue: it polls Temporal, or holds a turn.

        The admin is notified when none does.
        """


class CasePostActivities(ABC):
    """The case's posts in Slack. Run in the core worker."""

    @activity_options(POST)
    @abstractmethod
    async def post_notice(self, notice: Notice) -> None:
        """Post a short text that belongs to a step of the case."""

    @activity_options(POST)
    @abstractmethod
    async def post_clarification_question(self, turn: TurnRef) -> None:
        """Ask the reporter in the report's thread."""

    @activity_options(POST)
    @abstractmethod
    async def create_summary_thread(self, bug_id: str) -> None:
        """Post the case's root in the summaries channel, once, and store its thread."""

    @activity_options(POST)
    @abstractmethod
    async def update_card(self, bug_id: str) -> None:
        """Show the case as it is now in the root of its summary thread. Idempotent."""

    @activity_options(replace(POST, start_to_close=120))
    @abstractmethod
    async def post_investigation_results(self, turn: TurnRef) -> None:
        """Post a turn's findings in the case's summary thread."""

    @activity_options(POST)
    @abstractmethod
    async def escalate_to_humans(self, turn: TurnRef) -> Escalation:
        """Call people in the escalation channel; return the input of the SLA clock."""

    @activity_options(replace(POST, start_to_close=60))
    @abstractmethod
    async def post_closing(self, bug_id: str) -> None:
        """Post in the case's threads how it ended and how to reopen it."""

    @activity_options(POST_UNTIL_MENDED)
    @abstractmethod
    async def report_sla_event(self, notice: SlaNotice) -> bool:
        """Record and post a due event; return False once the case needs no clock."""


class AgentActivities(ABC):
    """The agent's turns. Run in the agent worker, on a queue of their own."""

    @activity_options(AGENT_TURN)
    @abstractmethod
    async def run_agent_investigation(self, request: TurnRequest) -> TurnEnded:
        """Run the first turn of a case."""

    @activity_options(AGENT_TURN)
    @abstractmethod
    async def run_continuation_investigation(self, request: TurnRequest) -> TurnEnded:
        """Run a later turn, in the agent's session as of the last settled turn."""

    @activity_options(CLEANUP)
    @abstractmethod
    async def cleanup_workspace(self, bug_id: str) -> None:
        """Remove the case's files from this machine, once no turn holds them."""


def case_start(thread: Thread, message: IncomingMessage | None = None) -> WorkflowStart:
    """Return the start of the workflow of the case that was reported in `thread`.

    Args:
        thread: The thread of the report.
        message: A message from one of the case's threads, sent as a signal. Without it, the
            workflow carries on from the database.
    """
    identity = bug_workflow_id(thread)
    state = BugState(thread=thread)
    if message is None:
        return WorkflowStart(BUG_WORKFLOW, identity, state, channel=thread.channel)
    signal = CLOSE_REQUESTED if message.kind == MessageKind.CLOSE else INCOMING_MESSAGE
    return WorkflowStart(BUG_WORKFLOW, identity, state, signal, (message,), thread.channel)


def clock_start(escalation: Escalation, *, acknowledged: bool = False) -> WorkflowStart:
    """Return the start of an escalation's SLA clock.

    Args:
        escalation: The escalation.
        acknowledged: A developer has answered it.
    """
    identity = sla_workflow_id(escalation.bug_id, escalation.number)
    return WorkflowStart(
        SLA_WORKFLOW, identity, escalation, "acknowledged" if acknowledged else ""
    )
