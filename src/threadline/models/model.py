"""The messages between a person, a model and the tools, and `ChatModel`, the interface of all
providers.

The values are frozen, and pydantic converts them to JSON and back. The transcript holds them
whole. A workflow only carries a call without its arguments, a reply with bounded text, and one
line of a tool's output.
"""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from threadline.errors import Permanent

MESSAGES = 20
TOKENS = 12_000
"""Limits of the dialogue in one model call, unless a setting overrides them."""


class Role(StrEnum):
    """The author of a message; the values are the providers' own."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"
    """A note by Threadline within the dialogue, such as `[Side Effect] …`; never the system
    prompt, which is constant.
    """


NO_REPLY = "NO_REPLY"
"""The model's whole reply to a message that was not meant for the bot."""


class ToolChoice(StrEnum):
    """Whether a model may call tools; the values are the providers' own."""

    AUTO = "auto"
    NONE = "none"


class ToolKind(StrEnum):
    """The effect of a tool. The operator's protocol and concurrent execution depend on it.

    LOOKUP reads the team's documents, LOAD loads an RFP.
    """

    READ = "read"
    LOOKUP = "lookup"
    LOAD = "load"
    PATCH = "patch"
    JOURNAL = "journal"
    EVENT = "event"
    CHANGE = "change"
    """Changes something that belongs to no RFP: a job, a file."""
    SPEAK = "speak"
    PROPOSE = "propose"

    @property
    def read_only(self) -> bool:
        return self in (ToolKind.READ, ToolKind.LOOKUP, ToolKind.LOAD)

    @property
    def changes_rfp(self) -> bool:
        """Whether the tool changes the RFP that it names."""
        return self in (ToolKind.PATCH, ToolKind.JOURNAL, ToolKind.EVENT)


@dataclass(frozen=True)
class ToolCall:
    """A model's request to run a tool.

    `id` is unique in its conversation: `OpenAIModel` replaces the ids of providers that restart
    their numbering with each reply. `name` is the tool's own dotted name. `arguments` is the
    model's text, which may be invalid JSON.
    """

    id: str
    name: str
    arguments: str = ""
    kind: ToolKind = ToolKind.CHANGE
    """The registry's value. An unknown tool may change something, so its call runs alone and in
    order.
    """
    binds_record: bool = False
    """Whether the call may set the thread's record, and with it the meaning of later calls. Such a
    call runs in order, too.
    """
    critical: bool = False
    """Whether a person takes over when the call fails for good."""

    @property
    def read_only(self) -> bool:
        return self.kind.read_only

    def reference(self) -> "ToolCall":
        """Return the call for a workflow: its arguments stay in the transcript."""
        return replace(self, arguments="")


@dataclass(frozen=True)
class ModelReply:
    """The result of one model call: text, tool calls, both or neither."""

    text: str = ""
    """Markdown; in a workflow only its beginning. The whole text is posted from the transcript."""
    calls: tuple[ToolCall, ...] = ()
    silent: bool = False
    """The model judged that nothing was addressed to the bot; counts only where silence is
    allowed.
    """
    provider_data: str = ""
    """See `Message.provider_data`; empty in a workflow."""


@dataclass(frozen=True)
class Message:
    """One message of a dialogue. An assistant's may have `calls`; a tool's answers the call
    `call_id`.
    """

    role: Role
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    author: str = ""
    """Author of a user's message in a dialogue of several people: the name that the model sees."""
    provider_data: str = ""
    """The provider's own form of an assistant's message (its reasoning, say) as JSON, sent back to
    it unread.
    """

    @property
    def spoken(self) -> bool:
        """Whether a person or the agent wrote text: no tool output, no note by Threadline, no tool
        calls without text.
        """
        return self.role in (Role.USER, Role.ASSISTANT) and bool(self.content.strip())


@dataclass(frozen=True)
class Usage:
    """The usage of one call. `cached_tokens` are among the input, `reasoning_tokens` among the
    output.

    `cost_usd`: None where the price of the model is unknown.
    """

    model: str = ""
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = 0.0

    @classmethod
    def read(cls, model: str, used: Any, input_name: str, output_name: str) -> "Usage":
        """Read the usage in an answer of OpenAI's SDK; a missing count is 0.

        Args:
            used: the SDK's object, or None.
            input_name: the attribute of the input count.
            output_name: the attribute of the output count.
        """
        if used is None:
            return cls(model)
        inward = getattr(used, f"{input_name}_details")
        outward = getattr(used, f"{output_name}_details")
        return cls(
            model,
            input_tokens=getattr(used, input_name) or 0,
            cached_tokens=(inward.cached_tokens or 0) if inward else 0,
            output_tokens=getattr(used, output_name) or 0,
            reasoning_tokens=(outward.reasoning_tokens or 0) if outward else 0,
        )


def add_costs(costs: Iterable[float | None]) -> float | None:
    """Return the sum of costs; None where one is unknown."""
    known = list(costs)
    return None if None in known else math.fsum(each for each in known if each is not None)


@dataclass(frozen=True)
class CallFailure:
    """A model call that failed.

    Args:
        told: the sentence about it, which quotes nothing.
        reason: the API's own text without secrets, which may quote the conversation; empty where
            the API gave none.
    """

    told: str
    reason: str = ""


@dataclass(frozen=True)
class ResponseFormat:
    """The required form of an answer: `schema` is a JSON schema for strict structured outputs."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Prompt:
    """One request to the model.

    `tools` are OpenAI's function schemas in the flat form of the Responses API: name, description,
    parameters, strict. Tools have the provider's names here, also in the calls of `messages`.

    `instructions` and `tools` are byte for byte the same in all calls of a turn, and `messages`
    only grow at their end, so that the provider's cache covers the earlier part. Prompts with the
    same beginning share a `cache_key`.

    `max_output_tokens` bounds the model's output, its reasoning included, where the API takes such
    a limit; 0: no limit. With `form`, the reply is JSON of that form.
    """

    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: ToolChoice = ToolChoice.AUTO
    cache_key: str = ""
    max_output_tokens: int = 0
    form: ResponseFormat | None = None


class Ended(StrEnum):
    """The way in which an answer ended."""

    WHOLE = "whole"
    LENGTH = "length"
    """At the limit of output tokens, so its text or its last call is incomplete."""
    FILTER = "filter"
    """The provider's content filter removed a part of it, or all."""
    REFUSED = "refused"
    """The model itself refused, and its text says so."""


@dataclass(frozen=True)
class Completion:
    """A reply, whose calls have ids that the prompt does not use. An answer that broke off raises
    `Transient` instead.
    """

    reply: ModelReply
    usage: Usage = field(default_factory=Usage)
    ended: Ended = Ended.WHOLE


class ChatModel(Protocol):
    """A model that converses and calls tools."""

    async def ask(self, prompt: Prompt, *, attempt: int = 1) -> Completion:
        """Ask once.

        Args:
            attempt: how often the same question was asked, from 1 on. The wait after a rate limit
                grows with it.

        Raises:
            Permanent: see `models.errors.translate`.
            Transient: see `models.errors.translate`.
        """


def text_with_author(message: Message) -> str:
    """Return a message's text for the model, with its author in front where one is named."""
    return f"{message.author}: {message.content}" if message.author else message.content


Ask = Callable[[str, Sequence[str], str, Mapping[str, Any]], Awaitable[str]]
"""A model that answers in a format; raises the model's errors.

Its arguments: instructions; the dialogue so far, with the model's own answers at odd positions;
the format's name; its schema.
"""


class StepFailed(Permanent):
    """A step failed, and its caller stopped waiting; the message is a sentence for the person."""
