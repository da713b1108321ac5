"""The activities of a bug case. `AgentActivities` run in the agent worker, which holds no Slack token and no push
credential; all others in the core worker.

The live classes and the tests' fakes subclass these, so that a drifted signature is a type error. Arguments are
references: what people wrote stays in the database.
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
FORGE = replace(POST, start_to_close=660, heartbeat=30, retry=retry_policy(2, 120), schedule_to_close=3600)
"""Longer without a heartbeat than a post: a clone and a push are not begun anew lightly. After an hour without the code
host people are told, and may ask again."""
FORGE_STATE = ActivityOptions(start_to_close=660, heartbeat=30, retry=retry_policy(2, 60, attempts=5))
FETCH_FILES = ActivityOptions(start_to_close=300, heartbeat=10, retry=retry_policy(1, 10, attempts=FETCH_ATTEMPTS))
CLEANUP = ActivityOptions(120, retry_policy(5, 60, attempts=5), AGENTS_QUEUE, schedule_to_close=900, heartbeat=30)
TURN_GRACE = 120.0
"""Seconds beyond the turn's own limit: laying the workspace, taking the diff, committing the outcome."""
AGENT_TURN = ActivityOptions(
    start_to_close=CaseLimits().turn_timeout + TURN_GRACE,
    retry=RetryPolicy(maximum_attempts=1),
    task_queue=AGENTS_QUEUE,
    heartbeat=10,
)
"""Tried once: only the workflow knows whether a turn may be tried again, and how. A turn whose worker was merely away
for the heartbeat's time costs its model twice, so the time is longer than for a post."""


def agent_turn_options(limits: CaseLimits) -> ActivityOptions:
    """Of one attempt at a turn of this case; what runs out first is the turn's own limit, inside the activity."""
    return replace(AGENT_TURN, start_to_close=limits.turn_timeout + TURN_GRACE)


@dataclass(frozen=True)
class FlushRequest:
    """At most 100 messages, 256 KiB; none where a run begins without any. With `start_turn` the case becomes
    `investigating` at once when a turn is due. `first`: of its run."""

    thread: Thread
    messages: list[IncomingMessage]
    start_turn: bool = False
    first: bool = False


@dataclass(frozen=True)
class StoredCase:
    """`case.bug_id` is empty when the thread has no case, and nothing was stored. The rest is told to the first request
    of a run."""

    case: CaseSnapshot
    limits: CaseLimits | None = None
    """Those in force."""
    closing_unposted: bool = False
    """The case has ended, and its run was terminated before people were told."""


@dataclass(frozen=True)
class StatusChange:
    """`wait_until`: when the wait that begins with it ends, in seconds since 1970; 0 for none."""

    bug_id: str
    to: CaseStatus
    reason: Reason
    wait_until: float = 0.0


@dataclass(frozen=True)
class TurnRef:
    bug_id: str
    turn: int


@dataclass(frozen=True)
class TurnRequest:
    """One attempt at a turn. Its batch is what the database holds unused when the turn is claimed."""

    bug_id: str
    turn: int
    attempt: int
    session_id: str
    limits: CaseLimits
    unanswered: bool = False


@dataclass(frozen=True)
class SettleRequest:
    """Settle a turn: whatever runs for it loses its claim, and what it has committed is taken over. With `failure` (a
    sentence for people) a turn that has no outcome is settled as an escalation. With `post_then` findings without a fix
    are posted in the same breath, and the case takes that step."""

    bug_id: str
    turn: int
    failure: str = ""
    post_then: StatusChange | None = None
    fault: Fault | None = None
    """A fault of the installation that ended the attempt: the admin is told."""


@dataclass(frozen=True)
class EndRequest:
    """Resolve a case. It is refused (the snapshot comes back unresolved) when an unused message speaks against it."""

    bug_id: str
    reason: Reason


@dataclass(frozen=True)
class Notice:
    """A short text in one of the case's threads; `ordinal` (a turn's number) makes its key unique."""

    bug_id: str
    kind: NoticeKind
    ordinal: int = 0
    detail: str = ""


@dataclass(frozen=True)
class Escalation:
    """`tiers` of on-call there are; `started`, in seconds since 1970, is set by the workflow whose clock counts."""

    bug_id: str
    number: int
    target: SlaTarget
    tiers: int = 0
    started: float = 0.0


@dataclass(frozen=True)
class SlaNotice:
    """Something is due on an escalation's clock; `tier` is whom to call, from 0."""

    bug_id: str
    escalation: int
    kind: SlaEventKind
    ordinal: int
    tier: int


class CaseActivities(ABC):
    """The case in the database, its report in Slack and its fix at the code host. Run in the core worker."""

    @activity_options(STORE)
    @abstractmethod
    async def flush_messages(self, request: FlushRequest) -> StoredCase:
        """Store a batch. A thread's first message opens its case, and its title is read from it. Safe to repeat."""

    @activity_options(STORE)
    @abstractmethod
    async def update_status(self, change: StatusChange) -> CaseSnapshot:
        """Take one step of the case's life and record it."""

    @activity_options(replace(STORE, start_to_close=60, heartbeat=POST.heartbeat))
    @abstractmethod
    async def save_investigation_result(self, request: SettleRequest) -> Settled:
        """Settle a turn: the one place where an outcome becomes the case's, whatever way the attempt ended."""

    @activity_options(STORE)
    @abstractmethod
    async def end_case(self, request: EndRequest) -> CaseSnapshot:
        """Resolve the case, take the claim of a running turn away, and mark the messages this answers."""

    @activity_options(READ_SLACK)
    @abstractmethod
    async def fetch_report(self, thread: Thread) -> IncomingMessage | None:
        """The thread's root message from Slack as a report; None when no person wrote it or it is gone."""

    @activity_options(FETCH_FILES)
    @abstractmethod
    async def fetch_attachments(self, bug_id: str) -> None:
        """Download what was attached and is not stored yet."""

    @activity_options(FORGE)
    @abstractmethod
    async def open_pull_request(self, turn: TurnRef) -> CaseSnapshot:
        """Bring the turn's fix to the code host, and say so in the summary thread."""

    @activity_options(FORGE_STATE)
    @abstractmethod
    async def check_pull_request(self, bug_id: str) -> CaseSnapshot:
        """Ask the code host whether the case's fix was merged; a merge is recorded and resolves the case."""

    @activity_options(replace(STORE, never_gives_up=False, retry=retry_policy(1, 10, attempts=3)))
    @abstractmethod
    async def check_agents_worker(self, bug_id: str) -> bool:
        """Find out whether a worker serves the agents' queue: it asks Temporal for work, or holds a turn. The admin is
        told when none does."""


class CasePostActivities(ABC):
    """What is said in Slack. Run in the core worker."""

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
        """Post the case's root in the summaries channel, once, and remember its thread."""

    @activity_options(replace(POST, start_to_close=120))
    @abstractmethod
    async def post_investigation_results(self, turn: TurnRef) -> None:
        """Post a turn's findings in the case's summary thread."""

    @activity_options(POST)
    @abstractmethod
    async def escalate_to_humans(self, turn: TurnRef) -> Escalation:
        """Call on-call in the escalation channel; returns what the SLA clock needs."""

    @activity_options(replace(POST, start_to_close=60))
    @abstractmethod
    async def post_closing(self, bug_id: str) -> None:
        """Say in both threads how the case ended and how to reopen it."""

    @activity_options(POST_UNTIL_MENDED)
    @abstractmethod
    async def report_sla_event(self, notice: SlaNotice) -> bool:
        """Record and post what is due; False when the case needs no clock any more."""


class AgentActivities(ABC):
    """Run in the agent worker, on a queue of their own."""

    @activity_options(AGENT_TURN)
    @abstractmethod
    async def run_agent_investigation(self, request: TurnRequest) -> TurnEnded:
        """The first turn of a case."""

    @activity_options(AGENT_TURN)
    @abstractmethod
    async def run_continuation_investigation(self, request: TurnRequest) -> TurnEnded:
        """A later turn, in the agent's session as of the last settled turn."""

    @activity_options(CLEANUP)
    @abstractmethod
    async def cleanup_workspace(self, bug_id: str) -> None:
        """Remove the case's files from this machine, once no turn holds them."""


def case_start(thread: Thread, message: IncomingMessage | None = None) -> WorkflowStart:
    """The workflow of the case that was reported in `thread`, with something that was written in one of its threads;
    without it, the case carries on from the database."""
    identity, state = bug_workflow_id(thread), BugState(thread=thread)
    if message is None:
        return WorkflowStart(BUG_WORKFLOW, identity, state, channel=thread.channel)
    signal = CLOSE_REQUESTED if message.kind == MessageKind.CLOSE else INCOMING_MESSAGE
    return WorkflowStart(BUG_WORKFLOW, identity, state, signal, (message,), thread.channel)


def clock_start(escalation: Escalation, *, acknowledged: bool = False) -> WorkflowStart:
    """The SLA clock of an escalation; `acknowledged`: a developer has answered it."""
    identity = sla_workflow_id(escalation.bug_id, escalation.number)
    return WorkflowStart(SLA_WORKFLOW, identity, escalation, "acknowledged" if acknowledged else "")
