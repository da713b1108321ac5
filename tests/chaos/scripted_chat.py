"""The scripted model of conversations: behind the product's own activities, with no wire between."""

import asyncio
import json
import os
import re
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.chaos.talk_plan import ASIDE, ROLE
from threadline.agents.copilot.prompt import NO_REPLY
from threadline.agents.models.failures import ModelUnavailable, RateLimited
from threadline.agents.models.port import Answer, ChatModel, Prompt
from threadline.domain.dialogue import Message, ModelReply, Role, ToolCall, ToolChoice, Usage
from threadline.settings import OpenAISettings

OWN_WORD = re.compile(r"\bt\d\d[mr]\d*\b")
"""What each message has for itself; an answer names those that it is about."""
TOOL = "estimates_createWbsItems"
_ORDER = re.compile(r"add (t\d\d[mr]\d*) to (chaos-\d+)")


@dataclass(frozen=True)
class Mood:
    """Shares of the calls that fail in one way or another, how long one takes, in seconds, and when none is answered.

    `away_from` and `away_until` are in seconds since 1970.
    """

    overloaded: float = 0.0
    broken_off: float = 0.0
    shortest: float = 0.05
    longest: float = 0.6
    away_from: float = 0.0
    away_until: float = 0.0

    @classmethod
    def now(cls, home: Path) -> "Mood":
        return cls(**json.loads((home / "chaos.json").read_text()).get("chat", {}))


class ScriptedChat(ChatModel):
    """Does what it is told once, names what it has read, and is hit by what the mood says."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._dice = Random()  # noqa: S311 - no secret depends on it

    async def ask(self, prompt: Prompt, *, attempt: int = 1) -> Answer:
        mood = Mood.now(self._home)
        await asyncio.sleep(self._dice.uniform(mood.shortest, mood.longest))
        if mood.away_from <= time.time() < mood.away_until:
            raise ModelUnavailable("The model could not be reached.")
        fate = self._dice.random()
        if fate < mood.overloaded:
            raise RateLimited("The model is asked too often.", retry_after=0.5)
        if fate < mood.overloaded + mood.broken_off:
            raise ModelUnavailable("The model's answer broke off.")
        return Answer(reply_to(prompt), Usage("scripted", input_tokens=len(prompt.messages)))


@asynccontextmanager
async def scripted_chat(settings: OpenAISettings) -> AsyncIterator[ScriptedChat]:
    """In the place of `threadline.bootstrap.conversations._model`."""
    yield ScriptedChat(Path(os.environ["THREADLINE_HOME"]))


def reply_to(prompt: Prompt) -> ModelReply:
    """Order what was not ordered yet, leave to people what is theirs, or name what was said. Pure but for the ids."""
    said, may_call = _unanswered(prompt.messages), prompt.tool_choice is ToolChoice.AUTO
    offered = any(tool["name"] == TOOL for tool in prompt.tools)
    if may_call and offered and (calls := tuple(_calls(prompt.messages, said))):
        return ModelReply(calls=calls)
    if may_call and said and all(ASIDE in each for each in said):
        return ModelReply(NO_REPLY)
    return ModelReply(f"I have read {', '.join(words_of(' '.join(said))) or 'nothing'}.")


def words_of(text: str) -> list[str]:
    """The messages' own words, each once, in order."""
    return list(dict.fromkeys(OWN_WORD.findall(text)))


def _unanswered(dialogue: Sequence[Message]) -> list[str]:
    """What people said since the last answer; that nothing is to be answered is no answer."""
    said: list[str] = []
    for each in dialogue:
        if each.role is Role.USER:
            said.append(each.content)
        elif each.role is Role.ASSISTANT and not each.calls and NO_REPLY not in each.content:
            said.clear()
    return said


def _calls(dialogue: Sequence[Message], said: Sequence[str]) -> Iterator[ToolCall]:
    """A correction is no new order."""
    made = " ".join(call.arguments for message in dialogue for call in message.calls)
    found = (_ORDER.search(each) for each in said if not each.startswith("[Corrected]"))
    for word, project in dict.fromkeys((each[1], each[2]) for each in found if each):
        if f'"{word}"' not in made:
            item = {"title": word, "role": ROLE, "days": 1}
            yield ToolCall(f"call_{uuid.uuid4().hex}", TOOL, json.dumps({"project_id": project, "items": [item]}))
