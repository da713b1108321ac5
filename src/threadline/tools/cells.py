"""Values of records as people read them: one line each, of bounded length, without secrets. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any

from threadline.conversations.model.answers import is_blank
from threadline.privacy.redaction import redact

LONGEST_CELL = 300
LONGEST_LABEL = 60
NOTHING = "–"
"""Where there is no value: Slack refuses a cell or a field without a character."""

_LOOKED_AT = 8_000
"""Characters of a value that are searched for secrets, far more than are shown: half of one is known to no rule."""
_DEEPEST, _WIDEST = 3, 20
_LARGEST = 10**18
"""Whole numbers beyond it are not written out: Python refuses to print some."""
_UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, those that turn the order of a line around, and halves of a pair."""
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z]+|[A-Z]")


def cell(value: object, longest: int = LONGEST_CELL) -> str:
    """A value of any kind as one line of 1 to `longest` characters."""
    return _bounded(redact(_text(value, _DEEPEST)[:_LOOKED_AT]), longest)


def is_whole(value: object, longest: int) -> bool:
    """Whether a cell of this length shows all of a value, but for secrets."""
    return _is_shallow(value, _DEEPEST) and len(cell(value, _LOOKED_AT)) <= longest


def _is_shallow(value: object, depth: int) -> bool:
    if isinstance(value, str) or not isinstance(value, Mapping | Sequence):
        return True
    inner = value.values() if isinstance(value, Mapping) else value
    return depth > 0 and len(value) <= _WIDEST and all(_is_shallow(each, depth - 1) for each in inner)


def label(name: object) -> str:
    """A field's name in words: `dayRate` and `day_rate` are both "Day rate"."""
    words = " ".join(each if each.isupper() else each.lower() for each in _WORDS.findall(str(name)[:_LOOKED_AT]))
    return _bounded(redact(words[:1].upper() + words[1:]), LONGEST_LABEL)


def _text(value: object, depth: int) -> str:
    match value:
        case None:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case int():
            return str(value) if abs(value) < _LARGEST else "a number too long to show"
        case str():
            return _moment(value)
    if depth == 0 and isinstance(value, Mapping | Sequence):
        return "…"
    if isinstance(value, Mapping):
        return _joined(value, [f"{_text(str(name), 0)}: {_text(value[name], depth - 1)}" for name in _some(value)])
    if isinstance(value, Sequence):
        return _joined(value, [_text(each, depth - 1) for each in _some(value)])
    return str(value)


def _some(values: Collection[Any]) -> list[Any]:
    return list(islice(values, _WIDEST))


def _joined(values: Collection[Any], texts: list[str]) -> str:
    return ", ".join([*texts, "…"] if len(values) > _WIDEST else texts) or NOTHING


def _moment(text: str) -> str:
    """An ISO 8601 time as people write it, with its offset; any other text as it is."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return text[:_LOOKED_AT]
    offset = {"Z": "UTC", "+00:00": "UTC", None: ""}.get(found[3], found[3])
    return f"{found[1]} {found[2]} {offset}".strip()


def _bounded(text: str, limit: int) -> str:
    line = " ".join(_UNSHOWN.sub(" ", text).split())
    if is_blank(line):
        return NOTHING
    if len(line) <= limit:
        return line
    head = line[: limit - 1]
    return (head.rpartition(" ")[0] or head) + "…"
