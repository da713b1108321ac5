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
from threadline.conversations.prompt import NO_REPLY
from threadline.models.chat_model import Answer, ChatModel, Prompt
from threadline.models.errors import ModelUnavailable, RateLimited
from threadline.models.model import Message, ModelReply, Role, ToolCall, ToolChoice, Usage
from threadline.settings import OpenAISettings
from threadline_devstack.models.decision_script import decided

OWN_WORD = re.compile(r"\bt\d\d[mr]\d*\b")
"""What each message has for itself; an answer names those that it is about."""
TOOL = "estimates_createWbsItems"
SPEAK = "slack_post_summary"
SPOKEN = "posted into the thread now"
"""In the result of the call that ends an operator's turn."""
_ORDER = re.compile(r"add (t\d\d[mr]\d*) to (chaos-\d+)")
_NOTE = re.compile(r"note (t\d\d[mr]\d*) of (rfp_chaos\d+)")
_SCOPE = re.compile(r"rfp_id_scope: (rfp_\w+)")


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
    """In the place of `threadline.wiring.conversations._model`."""
    yield ScriptedChat(Path(os.environ["THREADLINE_HOME"]))


def reply_to(prompt: Prompt) -> ModelReply:
    """Order what was not ordered yet, leave to people what is theirs, or name what was said. Pure but for the ids."""
    if prompt.form:
        return ModelReply(json.dumps(decided(json.loads(prompt.messages[0].content))))
    said, may_call = _unanswered(prompt.messages), prompt.tool_choice is ToolChoice.AUTO
    if may_call and any(tool["name"] == SPEAK for tool in prompt.tools) and not _has_spoken(prompt.messages):
        return ModelReply(calls=tuple(_operated(prompt, said)))
    offered = any(tool["name"] == TOOL for tool in prompt.tools)
    if may_call and offered and (calls := tuple(_calls(prompt.messages, said))):
        return ModelReply(calls=calls)
    if may_call and said and all(ASIDE in each for each in said):
        return ModelReply(NO_REPLY)
    return ModelReply(f"I have read {', '.join(words_of(' '.join(said))) or 'nothing'}.")


def words_of(text: str) -> list[str]:
    """The messages' own words, each once, in order."""
    return list(dict.fromkeys(OWN_WORD.findall(text)))


def _operated(prompt: Prompt, said: Sequence[str]) -> Iterator[ToolCall]:
    """Load, change and write down what is to be noted, and speak, in one reply; without a note only load and speak."""
    made = " ".join(call.arguments for message in prompt.messages for call in message.calls)
    notes = [_NOTE.search(each) for each in said if not each.startswith("[Corrected]")]
    fresh = [note for note in notes if note and f'"{note[1]}"' not in made]
    if scope := _SCOPE.search(prompt.instructions):
        yield _call("opportunity_load", rfp_id=scope[1])
    for word, rfp_id in dict.fromkeys((each[1], each[2]) for each in fresh):
        yield _call("opportunity_patch", rfp_id=rfp_id, patch=json.dumps({"noted": {word: True}}), version=None)
        yield _call("journal_append", rfp_id=rfp_id, text=word, kind="note")
    yield _call(SPEAK, text=f"I have read {', '.join(words_of(' '.join(said))) or 'nothing'}.", rfp_id=None)


def _call(name: str, **given: object) -> ToolCall:
    return ToolCall(f"call_{uuid.uuid4().hex}", name, json.dumps(given))


def _has_spoken(dialogue: Sequence[Message]) -> bool:
    """Whether the turn has tried to speak, and was refused: then it ends in words."""
    tried = False
    for each in dialogue:
        tried = (tried or any(call.name == SPEAK for call in each.calls)) and each.role is not Role.USER
    return tried


def _unanswered(dialogue: Sequence[Message]) -> list[str]:
    """What people said since the last answer; that nothing is to be answered is no answer."""
    said: list[str] = []
    for each in dialogue:
        if each.role is Role.USER:
            said.append(each.content)
        elif _answers(each):
            said.clear()
    return said


def _answers(said: Message) -> bool:
    if said.role is Role.TOOL:
        return SPOKEN in said.content
    return said.role is Role.ASSISTANT and not said.calls and NO_REPLY not in said.content


def _calls(dialogue: Sequence[Message], said: Sequence[str]) -> Iterator[ToolCall]:
    """A correction is no new order."""
    made = " ".join(call.arguments for message in dialogue for call in message.calls)
    found = (_ORDER.search(each) for each in said if not each.startswith("[Corrected]"))
    for word, project in dict.fromkeys((each[1], each[2]) for each in found if each):
        if f'"{word}"' not in made:
            item = {"title": word, "role": ROLE, "days": 1}
            yield ToolCall(f"call_{uuid.uuid4().hex}", TOOL, json.dumps({"project_id": project, "items": [item]}))
