"""What is asked of a model and what it answers, the same for each provider: a chat, or a form (`Ask`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from threadline.models.model import Message, ModelReply, ToolChoice, Usage


@dataclass(frozen=True)
class Form:
    """What an answer has to look like: `schema` is a JSON schema as strict structured outputs take it."""

    name: str
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Prompt:
    """One question to the model.

    `tools` are OpenAI's function schemas in the flat form of the Responses API: name, description, parameters, strict.
    Tools have the provider's names here, also in the calls of `messages`. `instructions` and `tools` stay the same,
    byte for byte, for all calls of a turn, and `messages` only grow at their end: the provider's cache pays for what
    was sent before. `cache_key` is equal for prompts that begin alike. `longest`: tokens that the model may write, its
    thoughts included, where the API takes such a limit; 0: as many as it likes. `form`: the reply's text is JSON of it.
    """

    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: ToolChoice = ToolChoice.AUTO
    cache_key: str = ""
    longest: int = 0
    form: Form | None = None


@dataclass(frozen=True)
class Answer:
    """A reply, whose calls have ids that the prompt does not hold yet; `cut` when it ended at the model's limit."""

    reply: ModelReply
    usage: Usage = field(default_factory=Usage)
    cut: bool = False


class ChatModel(Protocol):
    """A model that converses and calls tools."""

    async def ask(self, prompt: Prompt, *, attempt: int = 1) -> Answer:
        """Ask once.

        Args:
            prompt: the question.
            attempt: how often the same question was asked, from 1 on: a rate limit is waited for longer each time.

        Raises:
            Permanent | Transient: see `failures`.
        """
        ...


def shown(message: Message) -> str:
    """A message's text as the model is shown it: with its author in front, where one is named."""
    return f"{message.author}: {message.content}" if message.author else message.content


class Ask(Protocol):
    """A model that answers in a form. Raises what the model raises."""

    async def __call__(self, instructions: str, questions: Sequence[str], name: str, form: Mapping[str, Any]) -> str:
        """Args: `questions`: what was said so far, the model's own answers at odd places; `form`: a JSON schema."""
        ...
