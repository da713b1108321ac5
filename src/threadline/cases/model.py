"""The words and rules of a bug case: its states, its legal transitions, its actions."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar

from threadline.slack.model import Thread, permalink
from threadline.slack.text import with_forwarded
from threadline.threads.model import IncomingMessage, ThreadOwner, format_utc

BUG_WORKFLOW = "BugInvestigationWorkflow"
SLA_WORKFLOW = "SLATrackingWorkflow"

_SESSIONS = uuid.UUID("6f1a4c0e-52f0-5d0b-9a53-0d0f3a1f7c11")

REPORT = "case:report"
SUMMARY = "case:summary"
ESCALATION = "case:escalation"
"""The kinds of a case's threads: the report's, the developers', and those in which people on call
were called.
"""
CLOSING = "closing"
"""The kind of the posts that announce how a case ended."""


def case_owner(report: Thread, kind: str) -> ThreadOwner:
    """Return the case that was reported in `report` as the owner of one of its threads."""
    return ThreadOwner(bug_workflow_id(report), kind)


class WorkflowState(StrEnum):
    """The phase of a case's workflow; Temporal's UI and the agent's prompt show the values."""

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
        {
            CaseStatus.AWAITING_REPORTER,
            CaseStatus.PENDING_VERIFICATION,
            CaseStatus.ESCALATED,
            CaseStatus.RESOLVED,
        }
    ),
    CaseStatus.AWAITING_REPORTER: frozenset({CaseStatus.INVESTIGATING, CaseStatus.RESOLVED}),
    CaseStatus.PENDING_VERIFICATION: frozenset({CaseStatus.INVESTIGATING, CaseStatus.RESOLVED}),
    CaseStatus.ESCALATED: frozenset({CaseStatus.INVESTIGATING, CaseStatus.RESOLVED}),
    CaseStatus.RESOLVED: frozenset({CaseStatus.INVESTIGATING}),
}
"""The only legal changes of a case's status; a trigger in the database refuses any other."""

STATE_OF: dict[CaseStatus, WorkflowState] = {
    CaseStatus.NEW: WorkflowState.INVESTIGATING,
    CaseStatus.INVESTIGATING: WorkflowState.INVESTIGATING,
    CaseStatus.AWAITING_REPORTER: WorkflowState.AWAITING_REPORTER,
    CaseStatus.PENDING_VERIFICATION: WorkflowState.AWAITING_DEV,
    CaseStatus.ESCALATED: WorkflowState.AWAITING_DEV,
    CaseStatus.RESOLVED: WorkflowState.INVESTIGATING,
}
"""The workflow's state for each status. The status, in the database, is authoritative."""


def shown_state(status: CaseStatus) -> str:
    """Return the state as people see it: the workflow's, or `resolved` for a resolved case."""
    return status.value if status is CaseStatus.RESOLVED else STATE_OF[status].value


class Action(StrEnum):
    """The agent's request at the end of a turn."""

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
    """The reason for a change of a case's status.

    It is stored with each transition, and is the source of the sentence that people read.
    """

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
    ADMIN_CANCELLED = "admin_cancelled"
    ADMIN_RESOLVED = "admin_resolved"


SOLVED = (Reason.AGENT_RESOLVED, Reason.FIX_MERGED, Reason.ADMIN_RESOLVED)
"""Ends after which the bug is gone. The others only close the case."""

MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0


@dataclass(frozen=True)
class SlaTarget:
    """Seconds from the escalation to a human's first answer (`acknowledge`) and to the case's
    resolution.
    """

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
    QUESTION_UNANSWERED = "question_unanswered"
    REOPENED = "reopened"
    UNDELIVERABLE = "undeliverable"
    NOBODY_CALLED = "nobody_called"
    FIX_REFUSED = "fix_refused"
    WAITS_FOR_MENDING = "waits_for_mending"
    WAITS_FOR_WORKER = "waits_for_worker"


@dataclass(frozen=True)
class CaseLimits:
    """The limits of a case; times in seconds.

    They reach the workflow with the case, never from the worker's environment.
    """

    reporter_timeout: float = 2 * 3600
    developer_timeout: float = 48 * 3600
    turn_timeout: float = 15 * 60
    max_questions: int = 3
    turn_budget_usd: float = 2.0
    case_budget_usd: float = 10.0
    pull_request_poll: float = 30 * 60
    """Seconds between two looks at an open fix on the code host while its case waits."""
    worker_patience: float = 180.0
    """Seconds that a turn may run or wait before the workflow checks that a worker serves its
    queue.
    """
    max_history_events: int = 0
    """Continue as new beyond this many events; 0: when Temporal suggests it."""


def wait_in(status: CaseStatus, limits: CaseLimits, *, escalated: bool) -> float:
    """Return the seconds after which silence ends a status; 0 for a status without a limit.

    Once people were called, only the question to the reporter has a limit.
    """
    if status is CaseStatus.AWAITING_REPORTER:
        return limits.reporter_timeout
    if status is CaseStatus.PENDING_VERIFICATION and not escalated:
        return limits.developer_timeout
    return 0.0


@dataclass(frozen=True)
class CaseFields:
    """The fields of a case that its workflow and people see."""

    bug_id: str = ""
    """`BUG-<n>`; empty until a message opens a case in this thread."""
    reporter_id: str = ""
    title: str = ""
    severity: Severity = Severity.S3
    status: CaseStatus = CaseStatus.NEW
    turn: int = 0
    """The last settled turn; the next one is `turn + 1`, also in a reopened case."""
    questions: int = 0
    escalations: int = 0
    closings: int = 0
    cost_usd: float | None = 0.0
    """None when the price of a model is unknown."""


@dataclass(frozen=True)
class CaseSnapshot(CaseFields):
    """The state of a case in the database, as of revision `rev`.

    Results of activities arrive in another order than their commits: keep the one with the highest
    `rev`. The flags about messages are computed, under the case row's lock, from the messages that
    no settled turn has used, so that a repeated request gets the same answer when the first one
    was lost.
    """

    rev: int = 0
    message_count: int = 0
    """Number of stored messages by people: the highest `seq`."""
    escalated: bool = False
    """People were called, so silence never resolves the case; reset when it is resolved."""
    wait_until: float = 0.0
    """End of the present wait, in seconds since 1970; 0 when no wait has a limit."""
    has_unread: bool = False
    """An unused message wants a turn; corrections, and thanks after the end, want none."""
    reporter_wrote: bool = False
    """An unused message or edit is by the reporter."""
    close_requested: bool = False
    """The last message of the reporter or the admin asks to close the case."""
    attachments_pending: bool = False
    """An attachment was not fetched yet."""
    attempts: int = 0
    """Number of claims of the next turn so far; its next attempt has the number after this one."""
    pull_request_open: bool = False
    last_action: str = ""
    question: str = ""
    """Beginning of the last question, for the sentence in Temporal's UI."""
    session_id: str = ""
    has_summary_thread: bool = False
    unanswered: bool = False
    """The last question timed out and the reporter has written nothing since: the next turn may
    not ask again.
    """

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do; also true when the thread has no case."""
        return not self.bug_id or (self.status is CaseStatus.RESOLVED and not self.has_unread)


@dataclass(frozen=True, kw_only=True)
class CaseRecord(CaseFields):
    """A case as people see it; `summary` is its thread in the summaries channel, `pull_request` an
    address, or empty.
    """

    thread: Thread
    summary: Thread | None
    components: list[str]
    close_reason: str
    created_at: datetime
    pull_request: str = ""


@dataclass(frozen=True)
class Settled:
    """A settled turn; without an `action` it committed nothing, and may be tried again."""

    case: CaseSnapshot
    action: Action | None = None
    has_fix: bool = False
    may_resolve: bool = False
    """The agent asks to resolve the case, and no open fix of its own prevents that."""


@dataclass(frozen=True)
class TurnEnded:
    """The result of an attempt.

    The outcome itself is in the database, where `save_investigation_result` reads it.
    """

    action: Action
    cost_usd: float | None = 0.0


START_REASONS = {
    CaseStatus.NEW: Reason.REPORTED,
    CaseStatus.AWAITING_REPORTER: Reason.NEW_MESSAGES,
    CaseStatus.PENDING_VERIFICATION: Reason.NEW_MESSAGES,
    CaseStatus.ESCALATED: Reason.NEW_MESSAGES,
}
"""The reason for a turn's start, by the case's status.

A resolved case is missing: the workflow takes that step itself, and announces the reopening.
"""


def may_start_turn(snapshot: CaseSnapshot) -> bool:
    """Return whether storing a batch may start the turn at once.

    The rule is the workflow's own for a case at rest.
    """
    due = (
        snapshot.reporter_wrote
        if snapshot.status is CaseStatus.AWAITING_REPORTER
        else snapshot.has_unread
    )
    return due and not snapshot.close_requested and snapshot.status in START_REASONS


def card_facts(case: CaseSnapshot) -> str:
    """Return the facts that a case's card shows, to compare; empty while it has no card. During a
    turn only the status counts: the rest changes at its end.
    """
    if not case.has_summary_thread:
        return ""
    if case.status in (CaseStatus.NEW, CaseStatus.INVESTIGATING):
        return CaseStatus.INVESTIGATING.value
    pull_request = "open" if case.pull_request_open else ""
    return f"{case.status} {case.severity} {case.turn} {pull_request} {case.title}"


def describe_state(case: CaseSnapshot, trouble: str) -> str:
    """Return a heading and a sentence about a case, for Temporal's UI.

    Args:
        case: The case.
        trouble: The reason why the last attempt at the present turn failed; may be empty.
    """
    until = f", until {format_utc(case.wait_until)}" if case.wait_until else ""
    what = {
        CaseStatus.NEW: "Waiting for the investigation to start.",
        CaseStatus.INVESTIGATING: (
            f"The agent is investigating (turn {case.turn + 1}). {trouble}".rstrip()
        ),
        CaseStatus.AWAITING_REPORTER: (
            f"Waiting for the reporter ({case.reporter_id}){until}: {case.question}"
        ),
        CaseStatus.PENDING_VERIFICATION: f"Findings are posted; waiting for developers{until}.",
        CaseStatus.ESCALATED: "Escalated to people; it stays open until somebody resolves it.",
        CaseStatus.RESOLVED: "Resolved; a message reopens it.",
    }[case.status]
    return f"**{case.bug_id}** ({case.severity}) {case.title}\n\n{what}"


@dataclass(frozen=True)
class UnpostedTurn:
    """A settled turn whose action is outstanding, because Slack refused its posts."""

    turn: int
    action: Action


@dataclass(frozen=True)
class UnsaidNotice:
    """A notice that Slack refused; its fields are as in `Notice` in `cases/contract.py`."""

    kind: NoticeKind
    ordinal: int
    detail: str


@dataclass
class BugState:
    """The state that survives continue-as-new.

    A gateway starts a case's workflow with the thread alone.
    """

    thread: Thread
    pending: list[IncomingMessage] = field(default_factory=list)
    seen: dict[str, None] = field(default_factory=dict)
    case: CaseSnapshot = field(default_factory=CaseSnapshot)
    limits: CaseLimits = field(default_factory=CaseLimits)
    acted_turn: int = 0
    """The last turn whose action was done; the action of a later settled turn is outstanding."""
    sla_clock: int = 0
    """The last escalation whose clock was started, by this run or an earlier one."""
    acknowledged_escalation: int = 0
    """The last escalation that a developer has answered."""
    cancelled: bool = False
    """An admin cancelled the workflow in Temporal: it stores its inbox, closes the case and ends.
    """
    unposted: list[UnpostedTurn] = field(default_factory=list)
    """Turns before the last one whose findings Slack refuses until the admin mends something, in
    order.
    """
    unsaid: list[UnsaidNotice] = field(default_factory=list)
    """Notices that Slack refuses in the same way."""
    post_again_at: float = 0.0
    """Time of the next try at the refused posts, in seconds since 1970; 0 when none was refused.
    """
    refusals: int = 0
    """Number of consecutive refusals."""
    card: str = ""
    """The facts that the case's card shows, see `card_facts`."""


@dataclass(frozen=True)
class Entry:
    """One message in its present wording, with the text that its author forwarded.

    `seq` numbers the messages of people; the bot's own posts have 0. `read`: a settled turn has
    used the message, or has at least read it through its tool.
    """

    seq: int
    sender_type: str
    sender_id: str
    kind: str
    text: str
    at: datetime
    read: bool = False


@dataclass(frozen=True)
class ConversationPage:
    """A page of a conversation; `next_cursor` is None on the last one."""

    entries: Sequence[Entry]
    next_cursor: str | None


@dataclass(frozen=True)
class CaseReaders:
    """The readers of Slack's channels.

    `developers`: the channels that only developers read, such as the summaries'. `workspace`: the
    workspace's address, such as `https://example.slack.com/`, for links.
    """

    setup_hint: ClassVar[str] = "Set THREADLINE_SUMMARIES_CHANNEL."

    developers: Collection[str]
    workspace: str

    def link(self, thread: Thread) -> str:
        """Return the permalink of a thread's root."""
        return permalink(self.workspace, thread)


@dataclass(frozen=True)
class Service:
    name: str
    description: str
    owner: str
    channel: str
    repository: str


def entry_of(row: Mapping[Any, Any]) -> Entry:
    """Build an entry from a row of the view `agent_conversations`."""
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
    """Return the workflow id of the case that was reported in `thread`, its root message."""
    return f"bug:{thread.key}"


def sla_workflow_id(bug_id: str, escalation: int) -> str:
    """Return the id of an escalation's SLA clock.

    Each escalation has its own, so that a second one is not taken for the first.
    """
    return f"sla:{bug_id}:{escalation}"


def session_id(bug_id: str, turn: int, attempt: int) -> str:
    """Return the id of an attempt's agent session.

    It is known before the attempt starts, and never shared with another attempt.
    """
    return str(uuid.uuid5(_SESSIONS, f"{bug_id}:{turn}:{attempt}"))
