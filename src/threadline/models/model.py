"""What passes between a person, a model and the tools: the values of a conversation, small enough to travel.

All are frozen and become JSON and come back by pydantic. The transcript holds them whole; through a workflow travel a
call without its arguments, a reply whose text is bounded, and of a tool's output one line.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from threadline.errors import Permanent
from threadline.operator.model.protocol import ProtocolState

MESSAGES, TOKENS = 20, 12_000
"""Of a dialogue, what a call of the model is sent, unless a setting says otherwise."""


class Role(StrEnum):
    """Who a message is from; the values are the providers' own."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"
    """A note of ours amid the dialogue, such as `[Side Effect] …`; never the system prompt, which is constant."""


class ToolChoice(StrEnum):
    """Whether a model may ask for tools; the values are the providers' own."""

    AUTO = "auto"
    NONE = "none"


@dataclass(frozen=True)
class ToolCall:
    """A model's wish to have a tool run.

    `id` is unique in its conversation (whoever reads a provider that numbers each reply's calls anew makes it so),
    `name` the tool's own dotted name, `arguments` what the model wrote: JSON, or whatever it took for JSON.
    """

    id: str
    name: str
    arguments: str = ""
    read_only: bool = False
    """As the registry has it; what nobody knows may change something, so it runs alone and in order."""

    binds: bool = False
    """It may decide what the thread is about, and with that what the calls behind it mean: it runs in order, too."""

    critical: bool = False
    """When it fails for good, a person takes over."""

    def reference(self) -> "ToolCall":
        """The call as it travels through a workflow: its arguments stay in the transcript."""
        return replace(self, arguments="")


@dataclass(frozen=True)
class ModelReply:
    """What one call of a model came to; text and calls may come together, and either may be missing."""

    text: str = ""
    """Markdown; in a workflow only its beginning, of which an answer is posted whole from the transcript."""
    calls: tuple[ToolCall, ...] = ()
    silent: bool = False
    """The model holds that nothing in it was for the bot; counts only where silence is allowed."""
    opaque: str = ""
    """See `Message.opaque`; empty in a workflow."""


class ExecutionStatus(StrEnum):
    OK = "ok"
    CACHED = "cached"
    ERROR = "error"
    BLOCKED = "blocked"
    """A policy refused it before it ran: a locked record, a rate, a tool that is not on offer."""
    UNKNOWN = "unknown"
    """It was begun, and nobody knows whether it was done."""


@dataclass(frozen=True)
class Execution:
    """What became of one call: a line for people; the output itself lies in the transcript under `call_id`."""

    call_id: str
    tool: str
    status: ExecutionStatus
    note: str = ""
    """What was done, or why not and what to try, in a sentence without internals."""
    read_only: bool = False
    protocol: ProtocolState | None = None
    """Behind this call, in a turn of the operator."""
    critical: bool = False
    step: int = 0
    """The turn's call of the model that asked for it; known to the workflow alone."""


def touched(executions: Sequence[Execution]) -> bool:
    """Whether anything was changed, or may have been: then people are told."""
    return any(not each.read_only and each.status is not ExecutionStatus.BLOCKED for each in executions)


@dataclass(frozen=True)
class Message:
    """One message of a dialogue. An assistant's may have `calls`; a tool's answers the call `call_id`."""

    role: Role
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    author: str = ""
    """Of a user's message, where several people write: a name, as the model is shown it."""
    opaque: str = ""
    """The provider's own form of an assistant's message (its reasoning, say) as JSON, handed back to it unread."""

    @property
    def spoken(self) -> bool:
        """Somebody said it, a person or the agent; no tool's output, no note of ours, and no mere calls."""
        return self.role in (Role.USER, Role.ASSISTANT) and bool(self.content.strip())


@dataclass(frozen=True)
class Usage:
    """What one call used. `cached_tokens` are among the input, `reasoning_tokens` among the output."""

    model: str = ""
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float = 0.0


class OutcomeKind(StrEnum):
    """How a turn came to its end."""

    ANSWERED = "answered"
    """In the model's words."""
    SUMMARISED = "summarised"
    """The model had none, so that the executions were listed."""
    SPEECHLESS = "speechless"
    """Nor was anything executed."""
    STOPPED = "stopped"
    """A person asked for it."""
    FAILED = "failed"
    SILENT = "silent"
    """The message was not for the bot; the only kind without a text."""
    TOLD = "told"
    """By rule, about the thread itself: what it is bound to, or that there is no such RFP."""
    ASKED = "asked"
    """A person's answer goes on with the request: by rule for the RFP, or by the operator's clarifying question."""
    SPOKEN = "spoken"
    """By the operator's summary, in the words of its call."""
    PROPOSED = "proposed"
    """With an action that the operator proposes."""
    CLARIFIED = "clarified"
    """With a question that the decision engine has for the person."""
    ESCALATED = "escalated"
    """With a person, who takes over."""


@dataclass(frozen=True)
class Outcome:
    """The end of a turn: one text for the person, and what led to it."""

    kind: OutcomeKind
    text: str
    step: int = 0
    """The model call, counted from 1, whose reply the text is; 0: it is no model's."""
    model_calls: int = 0
    executions: tuple[Execution, ...] = ()
    spoken_by: str = ""
    """The id of the call that has the words; empty where they are a reply's own, or no model's."""


class StepFailed(Permanent):
    """A step cannot be had, and nobody waits for it any longer; the message is a sentence for the person."""
