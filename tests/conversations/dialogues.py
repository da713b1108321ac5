"""Transcripts for the assistant's tests: tools that do nothing, and dialogues of any shape."""

import json
from collections.abc import Sequence
from itertools import count
from typing import Any

from hypothesis import strategies as st

from threadline.conversations.prompt import TurnNote, parse_note
from threadline.conversations.store.transcript import Transcript, TranscriptEntry
from threadline.models.model import Message, Role, ToolCall, ToolKind
from threadline.slack.model import Thread
from threadline.tools.context import ToolContext
from threadline.tools.registry import ToolRegistry, tool

THREAD = Thread("T1", "C1", "1700000000.000000")


@tool("tickets.search", "Search the tickets. By words.", remote=True)
async def search(context: ToolContext, *, words: str) -> str:
    return words


@tool("tickets.close_one", "Close a ticket.", kind=ToolKind.CHANGE, remote=True)
async def close_one(context: ToolContext, *, ticket: str) -> str:
    return ticket


@tool("rooms.book", "Book a room.", kind=ToolKind.CHANGE, remote=True)
async def book(context: ToolContext, *, room: str) -> str:
    return room


REGISTRY = ToolRegistry([search, close_one, book])


def brief(turn: int, **given: Any) -> TurnNote:
    plain: dict[str, Any] = {
        "at": 1_772_000_000.0,
        "user_id": "U1",
        "actor": "Ann",
        "request_id": "T1:C1:1",
    }
    return TurnNote(turn, **(plain | given))


def person(text: str, author: str = "") -> Message:
    return Message(Role.USER, text, author=author)


def bot(text: str, *calls: ToolCall, provider_data: str = "") -> Message:
    return Message(Role.ASSISTANT, text, calls, provider_data=provider_data)


def call(
    identity: str, name: str = "tickets.search", arguments: str = '{"words": "x"}'
) -> ToolCall:
    return ToolCall(identity, name, arguments, kind=ToolKind.READ)


def result(identity: str, data: object = None, **more: object) -> Message:
    return Message(Role.TOOL, json.dumps({"success": True, "data": data} | more), call_id=identity)


def placed(messages: Sequence[Message], first: int = 1) -> tuple[TranscriptEntry, ...]:
    """Entries of a transcript, each under a key of its own; a note has the key of its turn."""
    notes = [parse_note(each) for each in messages]
    keys = [f"c:{note.turn}" if note else f"m:{number}" for number, note in enumerate(notes)]
    return tuple(
        TranscriptEntry(position, key, 1, 1, message)
        for position, (key, message) in enumerate(zip(keys, messages, strict=True), start=first)
    )


def past(messages: Sequence[Message] = (), summary: str = "", first: int = 1) -> Transcript:
    """The transcript before a turn."""
    return Transcript(summary, first - 1, placed(messages, first))


_WORDS = st.text(max_size=400) | st.text(min_size=1, max_size=20).map(lambda text: text * 300)


@st.composite
def transcripts(draw: st.DrawFn, least: int = 21) -> list[Message]:
    """People, the bot and its tools in any order, with texts of any length; every call has its
    result.
    """
    ids = count()
    messages = list[Message]()
    while len(messages) < least:
        for shape in draw(
            st.lists(st.sampled_from(["user", "assistant", "tools"]), min_size=1, max_size=20)
        ):
            if shape == "tools":
                calls = tuple(call(str(next(ids))) for _ in range(draw(st.integers(1, 4))))
                messages += [bot("", *calls), *(result(each.id, draw(_WORDS)) for each in calls)]
            else:
                messages.append(Message(Role(shape), draw(_WORDS)))
    return messages
