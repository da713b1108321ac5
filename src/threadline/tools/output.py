"""Fits any result into a byte limit, storable and free of secrets, with a note of what was cut;
also wordings of a result's text.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from itertools import islice
from math import isfinite
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from threadline.privacy.redaction import redact, redact_value
from threadline.tools.model import RecordGroup, ToolResult, ToolStatus

MODEL_LIMIT = 19_000
"""Bytes of one result for the model: about five thousand tokens, of which a turn may need a dozen
times as many.
"""
STEP_LIMIT = 60_000
"""Bytes of all results of one reply's calls: each later step of the turn sends them again."""
STORE_LIMIT = 2 * 1024 * 1024
"""Bytes of one stored result. A longer one is cut and says so: its tool should offer pages or a
filter.
"""
_DEEPEST = 20
_SHARES = 16
"""A value in a container may take one part in `_SHARES` of the remaining room, or more if fewer
values follow, so that the later ones get some.
"""
_LEAST = 24
"""Bytes that must remain to begin another value."""
_LOOKED_AT = 20_000
"""Characters after a cut that are searched for secrets too: no rule recognises half a token."""
_CUTS = 10
"""Cuts that are named; further ones are only counted."""
_HALF_A_TOKEN = 400
_MAX_KEY = 200
_MAX_CUTS = 600
_EXACT = 10**18
_READABLE = 10**300
"""Whole numbers beyond the first become texts, which can be cut; beyond the second Python refuses
to print some.
"""


@dataclass
class Fitted:
    """A fitted value. `value`: JSON within the given bytes. `cuts`: sentences about the missing
    parts.
    """

    value: Any
    cuts: list[str] = field(default_factory=list)


def fit_json(value: Any, limit: int) -> Fitted:
    """Convert a value of any kind to JSON of at most `limit` bytes (256 or more), without secrets.
    Takes time in proportion to `limit`, not to the value: the excess is counted, not read.
    """
    fitting = _Fitting()
    fits, _ = fitting.value(value, max(limit, _LEAST), path="", name="", depth=0)
    more = fitting.cut_count - len(fitting.cuts)
    return Fitted(fits, [*fitting.cuts, *([f"and {more:,} more places were cut"] if more else [])])


def result_limit(calls: int) -> int:
    """Return the bytes of each result when one reply makes this many calls."""
    return min(MODEL_LIMIT, STEP_LIMIT // max(calls, 1))


def render_result(result: ToolResult, limit: int = MODEL_LIMIT) -> str:
    """Render a result for the model, as JSON of at most `limit` bytes (3,000 or more) regardless
    of its content. An error's message is never cut, and may take 4,300 bytes.
    """
    shown: dict[str, Any] = {"success": result.success}
    if result.status is ToolStatus.PENDING:
        shown = {"success": False, "waits_for_approval": True}
    if result.error:
        error = result.error
        shown["error"] = {
            "code": error.code.value,
            "message": error.message,
            "suggestion": error.suggestion,
        }
    room = limit - _size(shown)
    for name, given, most in (
        ("notes", list(result.notes), limit // 8),
        ("text", result.display_text, limit // 8),
        ("data", result.data, limit),
    ):
        if given in (None, "", []):
            continue
        most_now = min(most, room - _MAX_CUTS - 100)
        if most_now < _LEAST:
            part: dict[str, Any] = {f"{name}_cut": "left out: no room"}
        else:
            fits = fit_json(given, most_now)
            cut = (
                {f"{name}_cut": _first_bytes("; ".join(fits.cuts), _MAX_CUTS)} if fits.cuts else {}
            )
            part = {name: fits.value} | cut
        shown |= part
        room -= _size(part) + 2
    return _json(shown)


def fit_result(result: ToolResult, limit: int = STORE_LIMIT) -> ToolResult:
    """Cut a result to about `limit` bytes of JSON, without secrets; a note names the cuts."""
    data = fit_json(result.data, limit - limit // 8)
    text = fit_json(result.display_text, limit // 8)
    records = fit_json([[each.kind, each.records] for each in result.structured], limit // 8)
    notes = fit_json(list(result.notes), limit // 8)
    sources = fit_json(list(result.sources), limit // 8)
    cuts = [*data.cuts, *text.cuts, *records.cuts, *notes.cuts, *sources.cuts]
    told = (
        [f"[Cut] The result was too large to keep whole: {'; '.join(cuts)}. Ask for less at once."]
        if cuts
        else []
    )
    kept = (each for each in records.value if len(each) == 2)
    return replace(
        result,
        data=data.value,
        display_text=text.value,
        structured=tuple(RecordGroup(kind, tuple(rows)) for kind, rows in kept),
        notes=(*notes.value, *told),
        sources=tuple(sources.value),
    )


class _Fitting:
    def __init__(self) -> None:
        self.cuts: list[str] = []
        self.cut_count = 0
        self._keys: dict[str, str] = {}

    def value(self, value: Any, room: int, *, path: str, name: str, depth: int) -> tuple[Any, int]:
        """Return the value within `room` bytes, and the bytes that it takes."""
        if isinstance(value, BaseModel):
            value = {each: getattr(value, each) for each in type(value).model_fields}
        elif is_dataclass(value) and not isinstance(value, type):
            value = {each.name: getattr(value, each.name) for each in fields(value)}
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            if depth >= _DEEPEST:
                self._cut(path, "what lies deeper was left out")
                return None, 4
            if isinstance(value, Mapping):
                return self._mapping(value, room, path, depth)
            return self._sequence(value, room, path, name, depth)
        leaf = _plain(value)
        return self._text(leaf, room, path, name) if isinstance(leaf, str) else (leaf, _size(leaf))

    def _mapping(
        self, given: Mapping[Any, Any], room: int, path: str, depth: int
    ) -> tuple[dict[str, Any], int]:
        fits: dict[str, Any] = {}
        used = 2
        for index, (raw, value) in enumerate(given.items()):
            key = self._key(str(_plain(raw)))
            key = key if key not in fits else f"{key} ({index})"
            left = room - used - _size(key) - 4
            if left < _LEAST:
                self._cut(path, f"{index:,} of {len(given):,} fields are shown")
                break
            result_limit = left // min(len(given) - index, _SHARES)
            at = f"{path}.{key}" if path else key
            fits[key], size = self.value(
                value, max(result_limit, _LEAST), path=at, name=key, depth=depth + 1
            )
            used += size + _size(key) + 4
        return fits, used

    def _sequence(
        self, given: Collection[Any], room: int, path: str, name: str, depth: int
    ) -> tuple[list[Any], int]:
        fits: list[Any] = []
        used = 2
        count = len(given)
        for index, value in enumerate(islice(given, room)):
            left = room - used - 2
            if left < _LEAST:
                break
            result_limit = left // min(count - index, _SHARES)
            at = f"{path}[{index}]"
            fit, size = self.value(
                value, max(result_limit, _LEAST), path=at, name=name, depth=depth + 1
            )
            fits.append(fit)
            used += size + 2
        if len(fits) < count:
            self._cut(path, f"{len(fits):,} of {count:,} entries are shown")
        return fits, used

    def _key(self, key: str) -> str:
        if key not in self._keys:
            self._keys[key] = _storable(redact(key[:_MAX_KEY]))
        return self._keys[key]

    def _text(self, text: str, room: int, path: str, name: str) -> tuple[str, int]:
        looked_at = text[: room + _LOOKED_AT]
        clean = str(redact_value(_storable(looked_at), field=name))
        size = _size(clean)
        if size <= room and len(looked_at) == len(text):
            return clean, size
        # marks may have brought the end into view, which may hold half a token
        if len(looked_at) < len(text):
            clean = clean[:-_HALF_A_TOKEN]
        shown = _first_bytes(clean, room)
        self._cut(path, f"the first {len(shown):,} of {len(text):,} characters are shown")
        return shown, _size(shown)

    def _cut(self, path: str, what: str) -> None:
        self.cut_count += 1
        if len(self.cuts) < _CUTS:
            self.cuts.append(f"{path[-80:] or 'the whole'}: {what}")


def _plain(value: Any) -> Any:
    """Return a text, number, boolean or None, which JSON and Postgres can both hold."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"[{len(value):,} bytes]"
    plain = to_jsonable_python(value, fallback=lambda each: f"[{type(each).__name__}]")
    if isinstance(plain, int) and abs(plain) > _EXACT:
        return str(plain) if abs(plain) < _READABLE else "[a number too long to show]"
    if isinstance(plain, float) and not isfinite(plain):
        return "[not a number]"
    return plain if isinstance(plain, str | int | float | bool) else f"[{type(value).__name__}]"


def _first_bytes(text: str, room: int) -> str:
    """Return the longest beginning that takes `room` bytes in JSON; a binary search, since an
    escape takes up to six bytes.
    """
    low = 0
    high = min(len(text), room)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _size(text[:middle]) <= room else (low, middle - 1)
    return text[:low]


def _storable(text: str) -> str:
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


def _size(value: Any) -> int:
    return len(_json(value).encode())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def counted(count: int, one: str, many: str = "", *, more: bool = False) -> str:
    """Return a count with its noun, as in `3 RFPs`. `more`: there are further ones."""
    return f"{'more than ' if more else ''}{count} {one if count == 1 else many or f'{one}s'}"


def moment(at: datetime) -> str:
    """Return the time in ISO 8601 with its zone."""
    return at.isoformat(timespec="minutes")
