"""Model of a conversation, which is a thread in which a user addressed the bot: its state, its
limits, and the input that survives continue-as-new.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from threadline.errors import Permanent
from threadline.models.model import ToolCall, ToolKind
from threadline.operator.model import protocol
from threadline.operator.model.protocol import ProtocolState, ToolRequest
from threadline.slack.model import Thread
from threadline.threads.model import IncomingMessage, turn_id
from threadline.tools.model import ToolStatus

CONVERSATION_WORKFLOW = "ConversationWorkflow"
CONVERSATION = "conversation"
"""The kind of a thread in which people talk with the bot; see `threads.model.ThreadOwner`."""
MAX_PARALLEL = 10
"""Tool calls of one reply that run concurrently, when all of them only read."""
DEFAULT_MAX_STEPS = 5
CLARIFYING_QUESTION_TOOL = "slack.ask.clarifying.question"


@dataclass(frozen=True)
class ConversationTurn:
    """One turn of a thread's conversation; `turn` counts from 1."""

    thread: Thread
    turn: int

    @property
    def key(self) -> str:
        """The correlation id: the same in every record that the turn writes, and in the buttons of
        its handover.
        """
        return turn_id(self.thread, self.turn)


class ConversationNotFound(Permanent):
    """The thread has no conversation: no message was addressed to the bot, or its retention has
    ended.
    """


class Refusal(StrEnum):
    """The reason why a message is stored and gets no turn."""

    DUPLICATE = "duplicate"
    THROTTLED = "throttled"
    THROTTLED_FIRST = "throttled_first"
    """The first throttled message of its window: its author gets one notice."""


class ConversationState(StrEnum):
    """The state of a conversation's workflow; Temporal's UI shows the values."""

    IDLE = "idle"
    WORKING = "working"
    AWAITING_PERSON = "awaiting_person"
    """A question of the bot, or an approval, is open."""


class NoticeReason(StrEnum):
    """The reasons for short messages beside the answers."""

    THROTTLED = "throttled"
    MODEL_AWAY = "model_away"
    """Posted once in a turn that waits for its model."""
    MODEL_SLOW = "model_slow"
    """Posted in place of `MODEL_AWAY` while a model call is still running."""
    NOT_FORWARDED = "not_shown"
    """Posted once in a turn that could not be shown to the person who has the thread."""
    FORWARDED_LATER = "shown_later"
    """Posted once in a turn that the person sees later, once Slack accepts it."""


@dataclass(frozen=True)
class ConversationLimits:
    """Limits of a conversation; times are in seconds.

    They reach the workflow with the thread, never from the worker's environment.
    """

    max_steps: int = DEFAULT_MAX_STEPS
    """Model calls of one turn that may ask for tools; after them the model is called once more,
    and only for text.
    """
    idle_timeout: float = 24 * 3600
    """Silence after which the run ends; the next message starts another run, which reads
    everything from the database.
    """
    model_patience: float = 3600
    """Time for which a turn waits for a model that is down, before it ends with a message."""
    max_history_events: int = 0
    """Continue as new beyond this many events; 0: when Temporal suggests it."""


@dataclass(frozen=True)
class Execution:
    """The outcome of one tool call; its output is in the transcript under `call_id`."""

    call_id: str
    tool: str
    status: ToolStatus
    note: str = ""
    """The result, or the reason of the failure and what to try; one sentence without internals."""
    kind: ToolKind = ToolKind.CHANGE
    protocol: ProtocolState | None = None
    """The operator's state after this tool call; None in other turns."""
    critical: bool = False
    step: int = 0
    """The step of the model call that asked for it; only the workflow sets it."""

    @property
    def read_only(self) -> bool:
        return self.kind.read_only


def lost_call(asked: ToolCall, note: str, before: ProtocolState | None = None) -> Execution:
    """Return the outcome of a tool call that broke off, whose changes are unknown.

    Args:
        asked: the tool call.
        note: a sentence for people; empty for the default.
        before: the operator's state before the call.
    """
    status = ToolStatus.ERROR if asked.read_only else ToolStatus.UNKNOWN
    after = (
        None if before is None else protocol.record_outcome(before, ToolRequest(asked.kind), None)
    )
    told = note or "It was interrupted before it reported a result."
    return Execution(
        asked.id,
        asked.name,
        status,
        told,
        kind=asked.kind,
        protocol=after,
        critical=asked.critical,
    )


def changed_something(executions: Sequence[Execution]) -> bool:
    """Return whether the executions changed something, or may have; if so, people must know of
    it.
    """
    return any(not each.read_only and each.status is not ToolStatus.BLOCKED for each in executions)


class OutcomeKind(StrEnum):
    """The way in which a turn ended."""

    ANSWERED = "answered"
    """With the model's answer."""
    SUMMARISED = "summarised"
    """The model wrote no answer, so the executions were listed."""
    NO_ANSWER = "no_answer"
    """The model wrote no answer, and nothing was executed."""
    STOPPED = "stopped"
    """At a person's request."""
    FAILED = "failed"
    SILENT = "silent"
    """The message was not for the bot; the only kind without a text."""
    REPLIED_BY_RULE = "replied_by_rule"
    """With a rule's reply about the thread itself: its binding, or that there is no such RFP."""
    ASKED = "asked"
    """With a question whose answer continues the request: the rule's for the RFP, or the
    operator's clarifying question.
    """
    POSTED_BY_TOOL = "posted_by_tool"
    """With the operator's summary, the text of its final tool call."""
    PROPOSED = "proposed"
    """With an action that the operator proposes."""
    CLARIFIED = "clarified"
    """With the decision engine's question to the person."""
    ESCALATED = "escalated"
    """With a handover to a person."""


@dataclass(frozen=True)
class ConversationOutcome:
    """The end of a turn: one text for the person, and its origin."""

    kind: OutcomeKind
    text: str
    step: int = 0
    """The model call, counted from 1, whose reply the text is; 0 where no model wrote it."""
    model_calls: int = 0
    executions: tuple[Execution, ...] = ()
    speech: str = ""
    """The id of the operator's tool call that holds the text."""


@dataclass(frozen=True)
class ConversationSnapshot:
    """The database's view of a conversation at revision `rev`.

    Results of activities arrive in another order than their commits, so a holder of snapshots
    keeps the one with the highest `rev`. The `*_due` flags are computed under the conversation
    row's lock from the messages that no settled turn has used: a repeated request after a lost
    reply gets the same flags.
    """

    rev: int = 0
    exists: bool = False
    """The conversation is stored, and the bot follows its thread."""
    message_count: int = 0
    """The number of stored messages of people: the highest `seq`."""
    turn: int = 0
    """The last settled turn; the next one is `turn + 1`."""
    turn_due: bool = False
    """An unused message needs a turn: it is neither a correction, nor a duplicate, nor throttled,
    nor a request to stop.
    """
    addressed_due: bool = False
    """One of these was addressed to the bot: by a mention, in a direct message, or by a user who
    is alone with the bot in the thread.
    """
    stop_due: bool = False
    """A request to stop came after one of these."""
    unposted_turns: tuple[int, ...] = ()
    """Turns whose answer was settled and is not in Slack yet, in order; only the first 20."""
    open_question: str = ""
    """The start of the bot's unanswered question, for the sentence in Temporal's UI."""
    cost_usd: float | None = 0.0
    files_due: bool = False
    """One of these shows a file whose text is not fetched yet."""


@dataclass
class ConversationInput:
    """The workflow's whole state across continue-as-new; a gateway starts the workflow with only
    the thread.
    """

    thread: Thread
    pending: list[IncomingMessage] = field(default_factory=list)
    seen: dict[str, None] = field(default_factory=dict)
    snapshot: ConversationSnapshot = field(default_factory=ConversationSnapshot)
    limits: ConversationLimits = field(default_factory=ConversationLimits)
    cancelled: bool = False
    """The admin cancelled the workflow: it stores its messages, ends the turn under way with a
    message, and ends.
    """
    throttle_notices_due: list[str] = field(default_factory=list)
    """The `ts` of throttled messages whose authors have not had their notice yet."""
    last: str = ""
    """The outcome of the last settled turn, in a few words."""
    turns_to_show_again: list[int] = field(default_factory=list)
    """Turns that the person who has the thread has yet to see in their present wording."""
    turns_to_forward: list[int] = field(default_factory=list)
    """Turns for a person that Slack refuses to show them, until the admin fixes the cause."""


def conversation_workflow_id(thread: Thread) -> str:
    return f"conversation:{thread.key}"


def thread_of_conversation(workflow_id: str) -> Thread:
    _, team, channel, ts = workflow_id.split(":")
    return Thread(team, channel, ts)


def call_groups(calls: Sequence[ToolCall]) -> list[Sequence[ToolCall]]:
    """Return the tool calls of one reply in groups, which run one after the other.

    Calls that all only read share a group and run concurrently; else each runs alone. A call that
    ends the turn with its text runs last.
    """
    ordered = sorted(calls, key=lambda each: each.kind is ToolKind.SPEAK)
    width = (
        MAX_PARALLEL if all(each.read_only and not each.binds_record for each in ordered) else 1
    )
    return [ordered[start : start + width] for start in range(0, len(ordered), width)]


def speech_kind(tool: str) -> OutcomeKind:
    """Return the outcome of a turn that ends with the text of this tool's call."""
    return OutcomeKind.ASKED if tool == CLARIFYING_QUESTION_TOOL else OutcomeKind.POSTED_BY_TOOL
