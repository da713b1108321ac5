"""What passes between a person, a model and the tools, and `ChatModel`, which is the same for each provider.

The values are frozen, become JSON and come back by pydantic. The transcript holds them whole; through a workflow travel
a call without its arguments, a reply whose text is bounded, and of a tool's output one line.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from threadline.errors import Permanent

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


class ToolKind(StrEnum):
    """What a tool does, for the rules about it: the operator's protocol, and what may run side by side. LOOKUP reads
    the team's documents, LOAD loads an RFP."""

    READ = "read"
    LOOKUP = "lookup"
    LOAD = "load"
    PATCH = "patch"
    JOURNAL = "journal"
    EVENT = "event"
    CHANGE = "change"
    """It changes something that belongs to no RFP: a job, a file."""
    SPEAK = "speak"
    PROPOSE = "propose"

    @property
    def read_only(self) -> bool:
        return self in (ToolKind.READ, ToolKind.LOOKUP, ToolKind.LOAD)

    @property
    def changes_rfp(self) -> bool:
        """Whether it changes the RFP that it names."""
        return self in (ToolKind.PATCH, ToolKind.JOURNAL, ToolKind.EVENT)


@dataclass(frozen=True)
class ToolCall:
    """A model's wish to have a tool run. `id` is unique in its conversation (whoever reads a provider that numbers each
    reply's calls anew makes it so), `name` the tool's own dotted name, `arguments` what the model wrote: JSON, or
    whatever it took for JSON."""

    id: str
    name: str
    arguments: str = ""
    kind: ToolKind = ToolKind.CHANGE
    """As the registry has it. An unknown tool may change something, so its call runs alone and in order."""
    binds_record: bool = False
    """It may decide what the thread is about, and with that what the calls behind it mean: it runs in order, too."""
    critical: bool = False
    """When it fails for good, a person takes over."""

    @property
    def read_only(self) -> bool:
        return self.kind.read_only

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
    provider_data: str = ""
    """See `Message.provider_data`; empty in a workflow."""


@dataclass(frozen=True)
class Message:
    """One message of a dialogue. An assistant's may have `calls`; a tool's answers the call `call_id`."""

    role: Role
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    author: str = ""
    """Of a user's message, where several people write: a name, as the model is shown it."""
    provider_data: str = ""
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

    @classmethod
    def read(cls, model: str, used: Any, input_name: str, output_name: str) -> "Usage":
        """The usage in an answer of OpenAI's SDK; the names are of its two counts. What is missing counts as 0."""
        if used is None:
            return cls(model)
        inward, outward = getattr(used, f"{input_name}_details"), getattr(used, f"{output_name}_details")
        return cls(
            model,
            input_tokens=getattr(used, input_name) or 0,
            cached_tokens=(inward.cached_tokens or 0) if inward else 0,
            output_tokens=getattr(used, output_name) or 0,
            reasoning_tokens=(outward.reasoning_tokens or 0) if outward else 0,
        )


@dataclass(frozen=True)
class ResponseFormat:
    """What an answer has to look like: `schema` is a JSON schema as strict structured outputs take it."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Prompt:
    """One question to the model.

    `tools` are OpenAI's function schemas in the flat form of the Responses API: name, description, parameters, strict.
    Tools have the provider's names here, also in the calls of `messages`. `instructions` and `tools` stay the same,
    byte for byte, for all calls of a turn, and `messages` only grow at their end: the provider's cache pays for what
    was sent before. `cache_key` is equal for prompts that begin alike. `max_output_tokens`: what the model may write,
    its thoughts included, where the API takes such a limit; 0: as much as it likes. `form`: the reply is JSON of it.
    """

    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: ToolChoice = ToolChoice.AUTO
    cache_key: str = ""
    max_output_tokens: int = 0
    form: ResponseFormat | None = None


class Ended(StrEnum):
    """How an answer ended."""

    WHOLE = "whole"
    LENGTH = "length"
    """At the limit of what the model may write, so its text or its last call is incomplete."""
    FILTER = "filter"
    """The provider's content filter has taken a part, or all of it."""
    REFUSED = "refused"
    """The model itself refused, and its text says so."""


@dataclass(frozen=True)
class Completion:
    """A reply, whose calls have ids that the prompt does not hold yet. One that broke off raises `Transient`."""

    reply: ModelReply
    usage: Usage = field(default_factory=Usage)
    ended: Ended = Ended.WHOLE


class ChatModel(Protocol):
    """A model that converses and calls tools."""

    async def ask(self, prompt: Prompt, *, attempt: int = 1) -> Completion:
        """Ask once; raises `Permanent` or `Transient`, as `models.errors.translate` has it. `attempt`: how often the
        same question was asked, from 1 on: a rate limit is waited for longer each time."""


def text_with_author(message: Message) -> str:
    """A message's text as the model is shown it: with its author in front, where one is named."""
    return f"{message.author}: {message.content}" if message.author else message.content


Ask = Callable[[str, Sequence[str], str, Mapping[str, Any]], Awaitable[str]]
"""A model that answers in a format; raises what the model raises. Its arguments: instructions; what was said so far,
the model's own answers at odd places; the format's name; its schema."""


class StepFailed(Permanent):
    """A step cannot be had, and nobody waits for it any longer; the message is a sentence for the person."""
