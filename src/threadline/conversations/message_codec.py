"""A message of the transcript as text that Postgres takes, and back again: the same to the last character.

The text is JSON in ASCII. Python's strings may hold halves of surrogate pairs, and JSON writes two halves that meet
as it writes the character which they would make; so a half is written as a mark of ours and its number. The mark is a
noncharacter, which Unicode leaves to programs for such uses (https://www.unicode.org/faq/private_use.html).
"""

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from threadline.models.model import Message, Role, ToolCall, ToolKind

_MARK = "\ufdd0"
_UNWRITABLE = re.compile(r"[\ud800-\udfff\ufdd0]")
_MARKED = re.compile(r"\ufdd0([0-9a-f]{4})")


def written(message: Message) -> str:
    """What is empty is left out."""
    return json.dumps(_each_text(_marked, {name: value for name, value in asdict(message).items() if value}))


def read(body: str) -> Message:
    raw = _each_text(_unmarked, json.loads(body))
    calls = tuple(ToolCall(**{**call, "kind": ToolKind(call["kind"])}) for call in raw.pop("calls", ()))
    return Message(role=Role(raw.pop("role")), calls=calls, **raw)


def _each_text(change: Callable[[str], str], value: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {name: _each_text(change, each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_each_text(change, each) for each in value]
    return value


def _marked(text: str) -> str:
    return _UNWRITABLE.sub(lambda found: f"{_MARK}{ord(found[0]):04x}", text)


def _unmarked(text: str) -> str:
    return _MARKED.sub(lambda found: chr(int(found[1], 16)), text)
