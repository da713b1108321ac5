"""The words and rules of a bug case: its states, its legal transitions, its actions."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar

from threadline.slack.model import Thread
from threadline.slack.text import with_forwarded
from threadline.threads.model import IncomingMessage, ThreadOwner, format_utc

BUG_WORKFLOW = "BugInvestigationWorkflow"
SLA_WORKFLOW = "SLATrackingWorkflow"

_SESSIONS = uuid.UUID("6f1a4c0e-52f0-5d0b-9a53-0d0f3a1f7c11")

REPORT, SUMMARY, ESCALATION = "case:report", "case:summary", "case:escalation"
"""What a case's threads are: where it was reported, the developers' thread, and where people were called."""
CLOSING = "closing"
"""The kind of the posts that tell how a case ended."""


def case_owner(report: Thread, kind: str) -> ThreadOwner:
    """The case that was reported in `report`, as the owner of one of its threads."""
    return ThreadOwner(bug_workflow_id(report), kind)


class WorkflowState(StrEnum):
    """What the workflow of a case is doing; the values are shown in Temporal's UI and to the agent."""

    INVESTIGATING = "investigating"
    AWAITING_REPORTER = "awaiting_reporter"
    AWAITING_DEV = "awaiting_dev"


class CaseStatus(StrEnum):
    NEW = "new"
    INVESTIGATING = "investigating"
    AWAITING_REPORTER = "awaiting_reporter"
    PENDING_VERIFICATION = "pending_verification"
    ESCALATED = "escalated"
    RESOLVED = "resolved"


TRANSITIONS: dict[CaseStatus, frozenset[CaseStatus]] = {
    CaseStatus.NEW: frozenset({CaseStatus.INVESTIGATING, CaseStatus.RESOLVED}),
    CaseStatus.INVESTIGATING: frozenset(
        {CaseStatus.AWAITING_REPORTER, CaseStatus.PENDING_VERIFICATION, CaseStatus.ESCALATED, CaseStatus.RESOLVED}
    ),
    CaseStatus.AWAITING_REPORTER: frozenset({CaseStatus.INVESTIGATING, CaseStatus.RESOLVED}),
    CaseStatus.PENDING_VERIFICATION: frozenset({CaseStatus.INVESTIGATING, CaseStatus.RESOLVED}),
    CaseStatus.ESCALATED: frozenset({CaseStatus.INVESTIGATING, CaseStatus.RESOLVED}),
    CaseStatus.RESOLVED: frozenset({CaseStatus.INVESTIGATING}),
}
"""The only steps a case's status may take; a trigger in the database refuses any other as well."""

STATE_OF: dict[CaseStatus, WorkflowState] = {
    CaseStatus.NEW: WorkflowState.INVESTIGATING,
    CaseStatus.INVESTIGATING: WorkflowState.INVESTIGATING,
    CaseStatus.AWAITING_REPORTER: WorkflowState.AWAITING_REPORTER,
    CaseStatus.PENDING_VERIFICATION: WorkflowState.AWAITING_DEV,
    CaseStatus.ESCALATED: WorkflowState.AWAITING_DEV,
    CaseStatus.RESOLVED: WorkflowState.INVESTIGATING,
}
"""The status is the truth, and lies in the database; the workflow's state follows from it."""


def shown_state(status: CaseStatus) -> str:
    """The state as people see it: the workflow's, and `resolved` when there is nothing to do."""
    return status.value if status is CaseStatus.RESOLVED else STATE_OF[status].value


class Action(StrEnum):
    """What the agent asks for at the end of a turn."""

    ASK_REPORTER = "ask_reporter"
    POST_FINDINGS = "post_findings"
    ESCALATE = "escalate"
    RESOLVED = "resolved"


class Severity(StrEnum):
    S1 = "S1"
    S2 = "S2"
    S3 = "S3"
    S4 = "S4"


class Reason(StrEnum):
    """Why a case's status changed; stored with each transition, and the source of the sentence people read."""

    REPORTED = "reported"
    REOPENED = "reopened"
    NEW_MESSAGES = "new_messages"
    QUESTION_ASKED = "question_asked"
    QUESTION_UNANSWERED = "question_unanswered"
    FINDINGS_POSTED = "findings_posted"
    FINDINGS_REFUSED = "findings_refused"
    FIX_PROPOSED = "fix_proposed"
    FIX_MERGED = "fix_merged"
    ESCALATED = "escalated"
    AGENT_RESOLVED = "agent_resolved"
    REPORTER_CLOSED = "reporter_closed"
    NO_REPLY = "no_reply"
    OPERATOR_CANCELLED = "operator_cancelled"
    OPERATOR_RESOLVED = "operator_resolved"


MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


@dataclass(frozen=True)
class SlaTarget:
    """Seconds from the escalation until a human has answered (`acknowledge`), and until the case is resolved."""

    acknowledge: float
    resolve: float


DEFAULT_TARGETS: dict[Severity, SlaTarget] = {
    Severity.S1: SlaTarget(15 * MINUTE, 4 * HOUR),
    Severity.S2: SlaTarget(1 * HOUR, 24 * HOUR),
    Severity.S3: SlaTarget(8 * HOUR, 5 * DAY),
    Severity.S4: SlaTarget(24 * HOUR, 14 * DAY),
}


class SlaEventKind(StrEnum):
    ACKNOWLEDGE_REMINDER = "acknowledge_reminder"
    ACKNOWLEDGE_BREACH = "acknowledge_breach"
    RESOLVE_REMINDER = "resolve_reminder"
    RESOLVE_BREACH = "resolve_breach"
    DAILY_REMINDER = "daily_reminder"


class NoticeKind(StrEnum):
    INTAKE = "intake"
    FORWARDED = "forwarded"
    QUESTION_UNANSWERED = "question_unanswered"
    REOPENED = "reopened"
    UNDELIVERABLE = "undeliverable"
    NOBODY_CALLED = "nobody_called"
    FIX_REFUSED = "fix_refused"
    WAITS_FOR_MENDING = "waits_for_mending"
    WAITS_FOR_WORKER = "waits_for_worker"


@dataclass(frozen=True)
class CaseLimits:
    """What bounds a case; it reaches the workflow with the case, never from the worker's environment. Seconds."""

    reporter_timeout: float = 2 * 3600
    developer_timeout: float = 48 * 3600
    turn_timeout: float = 15 * 60
    max_questions: int = 3
    turn_budget_usd: float = 2.0
    case_budget_usd: float = 10.0
    pull_request_poll: float = 30 * 60
    """How often an open fix is looked up at the code host while its case waits."""
    worker_patience: float = 180.0
    """How long a turn may run or wait before it is asked whether a worker serves its queue."""
    max_history_events: int = 0
    """Continue as new beyond this many events; 0: when Temporal suggests it."""


@dataclass(frozen=True)
class CaseSnapshot:
    """What the database knows of a case, as of revision `rev`. Results of activities arrive in another order than their
    commits: keep the one with the highest `rev`. The flags about messages are computed from those that no settled turn
    has used, under the case row's lock, so that an answer lost on its way says the same when asked for again."""

    rev: int = 0
    bug_id: str = ""
    """`BUG-<n>`; empty as long as nothing has opened a case in this thread."""
    title: str = ""
    status: CaseStatus = CaseStatus.NEW
    severity: Severity = Severity.S3
    reporter_id: str = ""
    message_count: int = 0
    """How many messages of people are stored: the highest `seq`."""
    turn: int = 0
    """The last settled turn; the next one is `turn + 1`, also in a case that was reopened."""
    questions: int = 0
    escalations: int = 0
    closings: int = 0
    escalated: bool = False
    """Silence never resolves a case that humans were asked to take; reset when it is resolved."""
    wait_until: float = 0.0
    """When the present wait ends, in seconds since 1970; 0 when nothing is waited for with a limit."""
    has_unread: bool = False
    """Some message wants a turn: not a correction, nor thanks after the end."""
    reporter_wrote: bool = False
    """Some unused message or edit is by the reporter."""
    developer_wrote: bool = False
    close_requested: bool = False
    """The reporter's last word is to close the case."""
    attachments_pending: bool = False
    """Something was attached that was not fetched yet."""
    attempts: int = 0
    """How often the next turn was claimed already: its next attempt has the number after this one."""
    pull_request_open: bool = False
    last_action: str = ""
    question: str = ""
    """The start of what was last asked, for the sentence that Temporal's UI shows."""
    session_id: str = ""
    cost_usd: float = 0.0
    has_summary_thread: bool = False
    """The case has its summary thread."""
    unanswered: bool = False
    """The last question timed out and the reporter has written nothing since: the next turn may not ask again."""

    @property
    def ended(self) -> bool:
        """Nothing is open here; also where nothing has opened a case."""
        return not self.bug_id or (self.status is CaseStatus.RESOLVED and not self.has_unread)


@dataclass(frozen=True)
class CaseRecord:
    """A case as people are shown it. `summary`: its thread in the summaries channel."""

    bug_id: str
    thread: Thread
    reporter_id: str
    title: str
    severity: Severity
    components: list[str]
    status: CaseStatus
    summary: Thread | None
    turn: int
    questions: int
    escalations: int
    closings: int
    close_reason: str
    cost_usd: float
    created_at: datetime


@dataclass(frozen=True)
class Settled:
    """`action` is None when the turn had committed nothing: it may be tried again."""

    case: CaseSnapshot
    action: Action | None = None
    has_fix: bool = False
    may_resolve: bool = False
    """The agent asks for the end, and no open fix of its own speaks against it."""
    posted: bool = False
    """The findings are posted, and the case has taken the step that follows them."""


@dataclass(frozen=True)
class TurnEnded:
    """What an attempt returns; the outcome itself lies in the database, where `save_investigation_result` reads it."""

    action: Action
    cost_usd: float = 0.0


START_REASONS = {
    CaseStatus.NEW: Reason.REPORTED,
    CaseStatus.AWAITING_REPORTER: Reason.NEW_MESSAGES,
    CaseStatus.PENDING_VERIFICATION: Reason.NEW_MESSAGES,
    CaseStatus.ESCALATED: Reason.NEW_MESSAGES,
}
"""Why a turn starts, by what the case was. A reopening is told to people first, and the workflow takes that step."""


def may_start_turn(snapshot: CaseSnapshot) -> bool:
    """Whether storing a batch may start the turn at once: as the workflow decides it for a case that is at rest."""
    due = snapshot.reporter_wrote if snapshot.status is CaseStatus.AWAITING_REPORTER else snapshot.has_unread
    return due and not snapshot.close_requested and snapshot.status in START_REASONS


def describe_state(case: CaseSnapshot, trouble: str) -> str:
    """What Temporal's UI shows of a case: a heading and a sentence. `trouble`: why the last attempt at the present turn
    failed."""
    until = f", until {format_utc(case.wait_until)}" if case.wait_until else ""
    what = {
        CaseStatus.NEW: "Waiting for the investigation to start.",
        CaseStatus.INVESTIGATING: f"The agent is investigating (turn {case.turn + 1}). {trouble}".rstrip(),
        CaseStatus.AWAITING_REPORTER: f"Waiting for the reporter ({case.reporter_id}){until}: {case.question}",
        CaseStatus.PENDING_VERIFICATION: f"Findings are posted; waiting for developers{until}.",
        CaseStatus.ESCALATED: "Escalated to people; it stays open until somebody resolves it.",
        CaseStatus.RESOLVED: "Resolved; a message reopens it.",
    }[case.status]
    return f"**{case.bug_id}** ({case.severity}) {case.title}\n\n{what}"


@dataclass(frozen=True)
class UnpostedTurn:
    """A settled turn whose action is still to be done, because Slack refused its posts."""

    turn: int
    action: Action


@dataclass(frozen=True)
class UnsaidNotice:
    """The parts of a notice; see `Notice` in `cases/contract.py`."""

    kind: NoticeKind
    ordinal: int
    detail: str


@dataclass
class BugState:
    """All that survives continue-as-new. A gateway starts a case's workflow with the thread alone."""

    thread: Thread
    pending: list[IncomingMessage] = field(default_factory=list)
    seen: dict[str, None] = field(default_factory=dict)
    case: CaseSnapshot = field(default_factory=CaseSnapshot)
    limits: CaseLimits = field(default_factory=CaseLimits)
    acted_turn: int = 0
    """The last turn whose action was done. The action of a later settled turn is still to be done."""
    sla_clock: int = 0
    """The last escalation whose clock was started, by this run or one that it continues."""
    acknowledged_escalation: int = 0
    """The last escalation that a developer has answered."""
    cancelled: bool = False
    """Somebody cancelled the workflow in Temporal: it stores what it has, closes the case and ends."""
    unposted: list[UnpostedTurn] = field(default_factory=list)
    """Turns whose findings Slack refuses until the admin mends something, before the last turn, in order."""
    unsaid: list[UnsaidNotice] = field(default_factory=list)
    """Notices that are refused in the same way."""
    post_again_at: float = 0.0
    """When the refused posts are tried again, in seconds since 1970; 0 while none was refused."""
    refusals: int = 0
    """How often they were refused one after the other."""


@dataclass(frozen=True)
class Entry:
    """One message as it reads now, with what its author forwards. `seq` numbers what people wrote; the bot's own posts
    have 0. `read`: a settled turn has used it, or has at least read it through its tool."""

    seq: int
    sender_type: str
    sender_id: str
    kind: str
    text: str
    at: datetime
    read: bool = False


@dataclass(frozen=True)
class ConversationPage:
    """`next_cursor` is None on the last page."""

    entries: Sequence[Entry]
    next_cursor: str | None


@dataclass(frozen=True)
class CaseReaders:
    """Who reads where. `developers`: the channels that only developers read, such as the summaries'. `workspace`: the
    address of the workspace, such as `https://example.slack.com/`, for links."""

    setup_hint: ClassVar[str] = "Set THREADLINE_SUMMARIES_CHANNEL."

    developers: Collection[str]
    workspace: str

    def link(self, thread: Thread) -> str:
        """See the example at https://docs.slack.dev/reference/methods/chat.getPermalink."""
        return f"{self.workspace.rstrip('/')}/archives/{thread.channel}/p{thread.ts.replace('.', '')}"


@dataclass(frozen=True)
class Service:
    name: str
    description: str
    owner: str
    channel: str
    repository: str


def entry_of(row: Mapping[Any, Any]) -> Entry:
    """An entry from a row of the view `agent_conversations`."""
    return Entry(
        seq=row["seq"] or 0,
        sender_type=row["sender_type"],
        sender_id=row["sender_id"],
        kind=row["message_type"],
        text=with_forwarded(row["message_text"], row["forwarded"]),
        at=datetime.fromtimestamp(float(row["said_at"]), UTC),
        read=row["read"],
    )


def bug_workflow_id(thread: Thread) -> str:
    """The workflow of the case that was reported in `thread` (the root message in the reports channel)."""
    return f"bug:{thread.key}"


def sla_workflow_id(bug_id: str, escalation: int) -> str:
    """One SLA clock for each escalation, so that a second one is not taken for the first."""
    return f"sla:{bug_id}:{escalation}"


def session_id(bug_id: str, turn: int, attempt: int) -> str:
    """The agent session of one attempt: known before it starts, and never shared with another attempt."""
    return str(uuid.uuid5(_SESSIONS, f"{bug_id}:{turn}:{attempt}"))
