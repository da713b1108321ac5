"""The words of a conversation: a thread in which the bot was spoken to, what it is doing, and what survives of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from threadline.errors import Permanent
from threadline.models.model import ToolCall, ToolKind
from threadline.operator.model import protocol
from threadline.operator.model.protocol import ProtocolState, ToolRequest
from threadline.slack.model import Thread
from threadline.threads.model import IncomingMessage, turn_id

CONVERSATION_WORKFLOW = "ConversationWorkflow"
CONVERSATION = "conversation"
"""The kind of a thread in which people talk with the bot; see `threads.model.ThreadOwner`."""
MAX_PARALLEL = 10
"""Calls of one reply that run side by side, when all of them only read."""
CLARIFYING_QUESTION_TOOL = "slack.ask.clarifying.question"


@dataclass(frozen=True)
class ConversationTurn:
    """One turn of a thread's conversation; `turn` counts from 1."""

    thread: Thread
    turn: int

    @property
    def key(self) -> str:
        """Its correlation id: the same in all that it writes, and in the buttons of its handover."""
        return turn_id(self.thread, self.turn)


class ConversationNotFound(Permanent):
    """Nobody has written to the bot in this thread, or its retention has ended."""


class Refusal(StrEnum):
    """Why a message is stored and gets no turn."""

    DUPLICATE = "duplicate"
    THROTTLED = "throttled"
    THROTTLED_FIRST = "throttled_first"
    """As the first of its window: its writer is told, once."""


class ConversationState(StrEnum):
    """What the workflow of a conversation is doing; the values are shown in Temporal's UI."""

    IDLE = "idle"
    WORKING = "working"
    AWAITING_PERSON = "awaiting_person"
    """A question of the bot, or an approval, is open."""


class NoticeReason(StrEnum):
    """Short texts beside the answers."""

    THROTTLED = "throttled"
    MODEL_AWAY = "model_away"
    """Said once in a turn that waits for its model."""
    NOT_FORWARDED = "not_shown"
    """Said once in a turn that was for a person who could not be shown it."""
    FORWARDED_LATER = "shown_later"
    """Said once in a turn that the person is shown once Slack takes it."""


@dataclass(frozen=True)
class ConversationLimits:
    """What bounds a conversation; times are in seconds. It reaches the workflow with the thread, never from the
    worker's environment."""

    max_steps: int = 5
    """Model calls of one turn that may ask for tools."""
    idle_timeout: float = 24 * 3600
    """Silence after which the run ends; the next message starts another, which finds everything in the database."""
    model_patience: float = 3600
    """For which a turn waits for a model that is down, before it is given up with a message."""
    max_history_events: int = 0
    """Continue as new beyond this many events; 0: when Temporal suggests it."""


class ExecutionStatus(StrEnum):
    OK = "ok"
    CACHED = "cached"
    ERROR = "error"
    BLOCKED = "blocked"
    """A policy refused it before it ran: a locked record, a rate, a tool that is not on offer."""
    PENDING = "pending"
    """It waits for an approval."""
    UNKNOWN = "unknown"
    """It was begun, and nobody knows whether it was done."""


@dataclass(frozen=True)
class Execution:
    """What became of one call; the output itself lies in the transcript under `call_id`."""

    call_id: str
    tool: str
    status: ExecutionStatus
    note: str = ""
    """What was done, or why not and what to try, in a sentence without internals."""
    kind: ToolKind = ToolKind.CHANGE
    protocol: ProtocolState | None = None
    """Behind this call, in a turn of the operator."""
    critical: bool = False
    step: int = 0
    """The turn's call of the model that asked for it; known to the workflow alone."""

    @property
    def read_only(self) -> bool:
        return self.kind.read_only


def lost_call(asked: ToolCall, note: str, before: ProtocolState | None = None) -> Execution:
    """What became of a call that broke off: nobody knows what it changed. `before`: the operator's state before it."""
    status = ExecutionStatus.ERROR if asked.read_only else ExecutionStatus.UNKNOWN
    after = None if before is None else protocol.record_outcome(before, ToolRequest(asked.kind), None)
    told = note or "It was interrupted before it reported a result."
    return Execution(asked.id, asked.name, status, told, kind=asked.kind, protocol=after, critical=asked.critical)


def changed_something(executions: Sequence[Execution]) -> bool:
    """Whether anything was changed, or may have been: then people are told."""
    return any(not each.read_only and each.status is not ExecutionStatus.BLOCKED for each in executions)


class OutcomeKind(StrEnum):
    """How a turn came to its end."""

    ANSWERED = "answered"
    """In the model's words."""
    SUMMARISED = "summarised"
    """The model had none, so that the executions were listed."""
    NO_ANSWER = "no_answer"
    """Nor was anything executed."""
    STOPPED = "stopped"
    """A person asked for it."""
    FAILED = "failed"
    SILENT = "silent"
    """The message was not for the bot; the only kind without a text."""
    REPLIED_BY_RULE = "replied_by_rule"
    """By rule, about the thread itself: what it is bound to, or that there is no such RFP."""
    ASKED = "asked"
    """A person's answer goes on with the request: by rule for the RFP, or by the operator's clarifying question."""
    POSTED_BY_TOOL = "posted_by_tool"
    """By the operator's summary, in the words of its final call."""
    PROPOSED = "proposed"
    """With an action that the operator proposes."""
    CLARIFIED = "clarified"
    """With a question that the decision engine has for the person."""
    ESCALATED = "escalated"
    """With a person, who takes over."""


@dataclass(frozen=True)
class ConversationOutcome:
    """The end of a turn: one text for the person, and what led to it."""

    kind: OutcomeKind
    text: str
    step: int = 0
    """The model call, counted from 1, whose reply the text is; 0: it is no model's."""
    model_calls: int = 0
    executions: tuple[Execution, ...] = ()


@dataclass(frozen=True)
class ConversationSnapshot:
    """What the database knows of a conversation, as of revision `rev`. Results of activities arrive in another order
    than their commits: whoever holds snapshots keeps the one with the highest `rev`. The `*_due` flags are computed
    under the conversation row's lock from the messages that no settled turn has used, so that an answer lost on its way
    says the same when asked for again."""

    rev: int = 0
    exists: bool = False
    """Something is stored: the thread is followed since."""
    message_count: int = 0
    """How many messages of people are stored: the highest `seq`."""
    turn: int = 0
    """The last settled turn; the next one is `turn + 1`."""
    turn_due: bool = False
    """Some message wants a turn: it is neither a correction, nor a duplicate, nor throttled, nor a word to stop."""
    addressed_due: bool = False
    """One of these was addressed to the bot: by a mention, in a direct message, or with nobody else in the thread."""
    stop_due: bool = False
    """Somebody said to stop after one of these."""
    unposted_turns: tuple[int, ...] = ()
    """The turns whose answer was settled and is not in Slack yet, in order; not all of very many."""
    open_question: str = ""
    """The start of what the bot has asked and nobody has answered, for the sentence that Temporal's UI shows."""
    cost_usd: float = 0.0


@dataclass
class ConversationInput:
    """All that survives continue-as-new. A gateway starts a conversation's workflow with the thread alone."""

    thread: Thread
    pending: list[IncomingMessage] = field(default_factory=list)
    seen: dict[str, None] = field(default_factory=dict)
    snapshot: ConversationSnapshot = field(default_factory=ConversationSnapshot)
    limits: ConversationLimits = field(default_factory=ConversationLimits)
    cancelled: bool = False
    """An operator cancelled the workflow: it stores what it has, ends the turn under way with a word, and ends."""
    throttle_notices_due: list[str] = field(default_factory=list)
    """The `ts` of messages whose writers are still to be told that it is too much at once."""
    last: str = ""
    """What the last settled turn came to, in words."""
    turns_to_show_again: list[int] = field(default_factory=list)
    """Turns of which the person who has the thread is still to see something as it reads now."""
    turns_to_forward: list[int] = field(default_factory=list)
    """Turns that were left to a person, and that Slack refuses to show them until the admin mends something."""


def conversation_workflow_id(thread: Thread) -> str:
    return f"conversation:{thread.key}"


def thread_of_conversation(workflow_id: str) -> Thread:
    _, team, channel, ts = workflow_id.split(":")
    return Thread(team, channel, ts)


def call_groups(calls: Sequence[ToolCall]) -> list[Sequence[ToolCall]]:
    """The calls of one reply as they are run, one group after the other: side by side when all of them only read, else
    each by itself. A call that has the turn's last words comes behind the others."""
    ordered = sorted(calls, key=lambda each: each.kind is ToolKind.SPEAK)
    width = MAX_PARALLEL if all(each.read_only and not each.binds_record for each in ordered) else 1
    return [ordered[start : start + width] for start in range(0, len(ordered), width)]


def speech_kind(tool: str) -> OutcomeKind:
    """The end of a turn whose last words a call of this tool has."""
    return OutcomeKind.ASKED if tool == CLARIFYING_QUESTION_TOOL else OutcomeKind.POSTED_BY_TOOL
