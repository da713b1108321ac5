"""The threads of `silence.yaml`, played through the gateway's rules and a real Postgres, and those
that the rules leave to the model, judged by it.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tests.evals import labelled
from threadline.conversations.model.conversation import ConversationSnapshot, OutcomeKind
from threadline.conversations.model.listening import Listen, Listening
from threadline.conversations.prompt import INSTRUCTIONS, TurnNote
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Database
from threadline.gateway.routes import Route, RoutingConfig, route
from threadline.models.model import ChatModel, Message, Prompt, Role, ToolChoice
from threadline.slack.model import Thread

THREADS = Path(__file__).parent / "silence.yaml"
FLOOR = 0.97
"""The least share of right decisions among those that the rules make alone."""
DECIDED = 0.8
"""The least share of threads that the rules decide alone."""
MODEL_FLOOR = 0.8
"""The least share of right decisions by the model, among those that the rules leave to it."""
AT_ONCE = 4
_TEAM = "T1"
_BOT = "U0BOT"
_USERS = {"bot": _BOT, "ana": "U0ANA", "ben": "U0BEN"}
_LINE = re.compile(r"(ana|ben|bot\??): (.+)", re.DOTALL)
_FIRST = 1_700_000_000


class By(StrEnum):
    """The end of a thread as the rules decide it."""

    ANSWER = "answer"
    SILENT = "silent"
    MODEL = "model"


class _Thread(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    said: Annotated[tuple[str, ...], Field(min_length=1)]
    mode: Listen = Listen.MEANT
    direct: bool = False
    model: bool = False
    about: str = ""


class _Threads(labelled._Entry):
    answer: tuple[_Thread, ...]
    silent: tuple[_Thread, ...]


@dataclass(frozen=True)
class Example:
    """A labelled thread. `answers`: the bot has to answer the last line."""

    answers: bool
    lines: tuple[tuple[str, str], ...]
    mode: Listen
    direct: bool
    for_model: bool
    about: str


@dataclass(frozen=True)
class Judged:
    """`by_rule`: the rules' decision. `by_model`: whether the model answers; None where it was not
    asked.
    """

    example: Example
    by_rule: By
    by_model: bool | None = None

    @property
    def right(self) -> bool | None:
        """Whether the rules decide right; None where they leave it to the model."""
        if self.by_rule is By.MODEL:
            return None
        return (self.by_rule is By.ANSWER) is self.example.answers


def examples(path: Path = THREADS) -> tuple[Example, ...]:
    """Read the threads.

    Raises:
        WrongSet: the file is invalid.
    """
    read = labelled._read(path, _Threads)
    return tuple(
        Example(answers, _lines(path, each), each.mode, each.direct, each.model, each.about)
        for answers, threads in ((True, read.answer), (False, read.silent))
        for each in threads
    )


def _lines(path: Path, thread: _Thread) -> tuple[tuple[str, str], ...]:
    found = [_LINE.fullmatch(each) for each in thread.said]
    lines = tuple((each[1], each[2]) for each in found if each)
    if len(lines) != len(found) or lines[-1][0].startswith("bot"):
        raise labelled.WrongSet(
            f"{path.name}: write each line as `ana: …`, `ben: …`, `bot: …` or `bot?: …`, a "
            f"person's last: {thread.said}"
        )
    return lines


async def judge_by_rules(all_examples: Sequence[Example], database: Database) -> list[Judged]:
    """Play each thread, and read from the database what its last line makes due."""
    return [
        Judged(each, await _Played(database, number, each).run())
        for number, each in enumerate(all_examples)
    ]


async def judge_by_model(judged: Sequence[Judged], model: ChatModel) -> list[Judged]:
    """Ask the model about the threads that the rules leave to it.

    Raises:
        Permanent, Transient: the model cannot be called.
    """
    few = asyncio.Semaphore(AT_ONCE)

    async def one(each: Judged) -> Judged:
        if each.by_rule is not By.MODEL:
            return each
        async with few:
            reply = (await model.ask(_prompt(each.example))).reply
        return replace(each, by_model=not reply.silent)

    return list(await asyncio.gather(*map(one, judged)))


def share_right(judged: Sequence[Judged]) -> float:
    """Return the share of right decisions among those that the rules make alone."""
    decided = [each for each in judged if each.right is not None]
    return sum(each.right is True for each in decided) / len(decided)


def share_decided(judged: Sequence[Judged]) -> float:
    """Return the share of threads that the rules decide alone."""
    return sum(each.right is not None for each in judged) / len(judged)


def share_right_by_model(judged: Sequence[Judged]) -> float:
    asked = [each for each in judged if each.by_model is not None]
    right = sum(each.by_model is each.example.answers for each in asked)
    return right / len(asked) if asked else 1.0


def _prompt(example: Example) -> Prompt:
    """Return the prompt of a turn that overhears, as the product writes it."""
    said = [
        Message(Role.ASSISTANT, text)
        if who.startswith("bot")
        else Message(Role.USER, _plain(text), author=f"{who.capitalize()} ({_USERS[who]})")
        for who, text in example.lines
    ]
    who = example.lines[-1][0]
    note = TurnNote(
        2, _FIRST, _USERS[who], who.capitalize(), "", several=True, addressed=False
    ).message()
    messages = (*said[:-1], replace(note, provider_data=""), said[-1])
    return Prompt(INSTRUCTIONS, messages, tool_choice=ToolChoice.NONE)


def _plain(text: str) -> str:
    return text.replace("@bot", "@Threadline")


class _Played:
    """One thread that is being played."""

    def __init__(self, database: Database, number: int, example: Example) -> None:
        channel = f"{'D' if example.direct else 'C'}0EVAL{number:04}"
        self.database = database
        self.example = example
        self.thread = Thread(_TEAM, channel, f"{_FIRST}.000100")
        self.listening = Listening(by_channel={channel: example.mode})
        self.config = RoutingConfig(bot_user_id=_BOT, team=_TEAM, listening=self.listening)
        self.turn = 0

    async def run(self) -> By:
        lines = self.example.lines
        found = ConversationSnapshot()
        for place, (who, text) in enumerate(lines):
            if who.startswith("bot"):
                kind = OutcomeKind.CLARIFIED if who == "bot?" else OutcomeKind.ANSWERED
                await self.end_turn(text, kind, self.last_person(place))
                continue
            found = await self.hear(place, who, text)
            next_is_person = place + 1 < len(lines) and not lines[place + 1][0].startswith("bot")
            if next_is_person and found.turn_due:
                await self.end_turn("", OutcomeKind.SILENT, _USERS[who])
        if not found.turn_due:
            return By.SILENT
        return By.ANSWER if found.addressed_due else By.MODEL

    def last_person(self, place: int) -> str:
        before = [who for who, _ in self.example.lines[:place] if not who.startswith("bot")]
        return _USERS[before[-1]]

    async def hear(self, place: int, who: str, text: str) -> ConversationSnapshot:
        """Deliver a person's line as Slack would, and store it."""
        event = {
            "type": "message",
            "channel": self.thread.channel,
            "channel_type": "im" if self.example.direct else "channel",
            "user": _USERS[who],
            "text": re.sub(r"@(bot|ana|ben)\b", lambda found: f"<@{_USERS[found[1]]}>", text),
            "ts": f"{_FIRST + place}.000100",
        }
        if place:
            root = _USERS[self.example.lines[0][0]]
            event |= {"thread_ts": self.thread.ts, "parent_user_id": root}
        found = route({"event": event}, self.config)
        if not isinstance(found, Route):
            return ConversationSnapshot()
        async with self.database.begin() as tx:
            stored = await MessageStore(tx).store(self.thread, [found.message], self.listening)
            if not stored.exists:
                return ConversationSnapshot()
            verdicts = {each.message_id: None for each in stored.unjudged}
            return await MessageStore(tx).judge(self.thread, verdicts)

    async def end_turn(self, answer: str, kind: OutcomeKind, user: str) -> None:
        self.turn += 1
        async with self.database.begin() as tx:
            found = await ConversationStore(tx).snapshot(self.thread)
            if not found.turn_due:
                raise labelled.WrongSet(
                    f"The bot answers a message that it ignores: {self.example.lines}"
                )
            await MessageStore(tx).take_up(self.thread, self.turn, 1)
            question = answer if kind is OutcomeKind.CLARIFIED else ""
            await TurnStore(tx).settle(
                self.thread, self.turn, kind, answer, user, model_calls=1, question=question
            )
            if answer:
                await TurnStore(tx).mark_posted(self.thread, self.turn)
