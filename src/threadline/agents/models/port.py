"""What a model that converses is asked and answers, in words of its own, whichever API carries them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Role = Literal["system", "user", "assistant", "tool"]
"""`system` is a note to the model amid the dialogue; the constant part of its orders is `Prompt.instructions`."""
ToolChoice = Literal["auto", "none"]
OnText = Callable[[str], None]
"""Is given the text piece by piece as it comes; a reply that fails may have begun so, too."""


@dataclass(frozen=True)
class ToolCall:
    """`arguments` is what the model wrote: meant as a JSON object, and checked by nobody yet."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Continuation:
    """What a reasoning model wants to get back with its own reply, to go on where it stopped thinking.

    `items` are JSON objects in the order of the reply: a `reasoning` item as it came (encrypted), and for each
    `message` and `function_call` a stub that holds its place. `model` is who wrote them; no other can read them.
    """

    model: str
    items: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class Message:
    """One message of the dialogue: `calls` of an assistant, and the `call_id` that a tool's `content` answers."""

    role: Role
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    continuation: Continuation | None = None


@dataclass(frozen=True)
class ToolDefinition:
    """A tool on offer: `name` of letters, digits, `_` and `-`; `parameters` a JSON schema that strict mode takes."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Prompt:
    """One question to the model.

    `instructions` and `tools` stay the same, byte for byte, for all calls of a turn, and `messages` only grow at their
    end: the provider's cache pays for what was sent before. `cache_key` is equal for prompts that begin alike.
    """

    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = "auto"
    cache_key: str = ""


@dataclass(frozen=True)
class Usage:
    """What one call used. `cached_tokens` are among the input, `reasoning_tokens` among the output."""

    model: str = ""
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float = 0.0


@dataclass(frozen=True)
class ModelReply:
    """Text, calls, both or neither; `cut` when it reached the model's limit and may end in mid-sentence."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    cut: bool = False
    continuation: Continuation | None = None

    def as_message(self) -> Message:
        """The reply as the next prompt of the same dialogue holds it."""
        return Message("assistant", self.text, self.calls, continuation=self.continuation)


class ChatModel(Protocol):
    """A model that converses and calls tools."""

    async def reply(self, prompt: Prompt, *, attempt: int = 1, on_text: OnText | None = None) -> ModelReply:
        """Ask once.

        Args:
            prompt: the question.
            attempt: how often the same question was asked, from 1 on: a rate limit is waited for longer each time.
            on_text: is given the text while it comes.

        Raises:
            Permanent | Transient: see `failures`.
        """
        ...
