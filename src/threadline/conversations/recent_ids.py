"""What "it", "that ticket" and "the second one" may mean: the ids in what the tools last returned."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from threadline.models.model import Message, Role

MOST = 20
"""Ids that are listed; the model finds older ones in the dialogue or looks them up again."""

_ID = re.compile(r"[A-Za-z0-9][\w.:#/-]{0,63}")
"""What may stand in a list that the model takes for ours: no blank, so no sentence."""
_NAMED = re.compile(r"\b[A-Z][A-Z0-9]{1,9}-\d{1,9}\b")
"""Ids that are known by their form wherever they stand, such as BUG-12."""
_OF_US = frozenset({"userid", "teamid", "channelid", "requestid", "correlationid", "callid"})
"""Names of ids of people and places, which nobody means by "it"."""
_DEEPEST = 30


def ids(messages: Sequence[Message], earlier: Sequence[str] = (), most: int = MOST) -> tuple[str, ...]:
    """The ids in the results of tools: the newest result first, each in its own order, none twice.

    Args:
        messages: a dialogue, oldest first; only what tools returned is looked at, and of that what went well.
        earlier: ids that were listed before, for results that are in the dialogue no more.
    """
    results = (message.content for message in reversed(messages) if message.role is Role.TOOL)
    found = chain.from_iterable(_in_result(content) for content in results)
    return tuple(islice(dict.fromkeys(chain(found, earlier)), most))


def _in_result(content: str) -> Iterator[str]:
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        yield from _NAMED.findall(content)
        return
    if not (isinstance(told, Mapping) and told.get("success") is False):
        yield from _walk(told, "", 0)


def _walk(value: Any, name: str, depth: int) -> Iterator[str]:
    if isinstance(value, Mapping) and depth < _DEEPEST:
        for key, inner in value.items():
            yield from _walk(inner, str(key), depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST:
        for inner in value:
            yield from _walk(inner, name, depth + 1)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        if _names_an_id(name) and _ID.fullmatch(str(value)):
            yield str(value)
        elif isinstance(value, str):
            yield from _NAMED.findall(value)


def _names_an_id(name: str) -> bool:
    plain = re.sub("[^a-z0-9]", "", name.lower())
    if plain in _OF_US:
        return False
    return plain in ("id", "ids", "key", "keys") or name.endswith(("_id", "_ids", "Id", "Ids", "ID", "_key", "Key"))
