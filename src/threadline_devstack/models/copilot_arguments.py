"""Arguments for a tool: what the words name, what earlier results hold, and else something plausible of the type."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from threadline_devstack.models.copilot_plan import Planned

_QUOTED = re.compile(r"[\"“”]([^\"“”]+)[\"“”]")
_ID = re.compile(r"\b(?:rfp_[a-z]*\d\w*|[A-Z][A-Z0-9]*-\d+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")
_MENTION = re.compile(r"<@([UW][A-Z0-9]+)")
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?)?")
_NUMBER = re.compile(r"(?<![\w-])\d+(?:\.\d+)?(?![\w-])")
_FOR = re.compile(r"\bfor (?:the|an?) ([a-z]\w*)")
_FREE_TEXT = frozenset({"text", "query", "question", "body", "comment", "reason", "summary", "message", "q"})
_NAMES = frozenset({"name", "title", "description", "label"})
_DEEPEST = 8
"""Levels of a schema that are filled; one that refers to itself would have no end."""


@dataclass
class Known:
    """What tools have returned in this turn, newest first, as JSON where it is some."""

    results: list[Any] = field(default_factory=list)

    def add(self, text: str) -> None:
        if (found := parsed(text)) is not None:
            self.results.insert(0, found)

    def value(self, name: str, index: int) -> Any:
        """The value that results have under this name, however it is spelled; of several the one at `index`."""
        found = [value for result in self.results for value in _named(result, _plain(name))]
        return found[min(index, len(found) - 1)] if found else None


def parsed(text: str) -> Any:
    """The JSON that the text is or begins with; None when there is none."""
    start = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if start < 0:
        return None
    try:
        return json.JSONDecoder().raw_decode(text[start:])[0]
    except (ValueError, RecursionError):
        return None


@dataclass
class Filler:
    """Fills one tool's schema. `prompt` is everything the person wrote, `planned.words` the part that asks for this."""

    schema: Mapping[str, Any]
    planned: Planned
    prompt: str
    known: Known

    def arguments(self) -> dict[str, Any]:
        """All that the schema requires, and of the rest what the words name."""
        return self._object(self.schema, 0, 0)

    def _object(self, schema: Mapping[str, Any], index: int, depth: int) -> dict[str, Any]:
        properties, required = schema.get("properties", {}), schema.get("required", ())
        filled = {name: self._value(name, inner, index, depth + 1) for name, inner in properties.items()}
        return {name: value for name, value in filled.items() if value is not None or name in required}

    def _value(self, name: str, schema: Mapping[str, Any], index: int, depth: int) -> Any:
        schema, optional = self._resolved(schema)
        named = self._named(name, schema, index)
        if named is not None or optional or depth > _DEEPEST:
            return named
        match schema.get("type"):
            case "object":
                return self._object(schema, index, depth)
            case "array":
                return self._array(name, schema, depth)
            case "integer" | "number":
                return max(1, schema.get("minimum", 1))
            case "boolean":
                return False
            case _:
                return self._text(name, schema, index)

    def _resolved(self, schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
        """The schema behind references and alternatives, and whether null would do."""
        optional = False
        for _ in range(_DEEPEST):
            if "$ref" in schema:
                schema = self.schema.get("$defs", {}).get(str(schema["$ref"]).rpartition("/")[2], {})
            elif "anyOf" in schema:
                optional = optional or any(each.get("type") == "null" for each in schema["anyOf"])
                schema = next((each for each in schema["anyOf"] if each.get("type") != "null"), {})
            elif isinstance(schema.get("type"), list):
                optional = optional or "null" in schema["type"]
                schema = {**schema, "type": next(each for each in schema["type"] if each != "null")}
        return schema, optional

    def _array(self, name: str, schema: Mapping[str, Any], depth: int) -> list[Any]:
        items, _ = self._resolved(schema.get("items", {}))
        quoted = _QUOTED.findall(self.planned.words)
        if items.get("type") == "string" and quoted:
            return quoted
        wanted = max(self.planned.count, len(quoted), 1)
        return [self._value(name.removesuffix("s"), items, index, depth + 1) for index in range(wanted)]

    def _named(self, name: str, schema: Mapping[str, Any], index: int) -> Any:
        """What the person or an earlier result says; None when neither does."""
        words, known = self.planned.words, self.known.value(name, index)
        if "const" in schema:
            return schema["const"]
        if choices := schema.get("enum"):
            return next((each for each in choices if str(each).lower() in words.lower()), None)
        kind, plain = schema.get("type"), _plain(name)
        if kind == "string" and _is_time(name, schema) and (date := _at(_DATE.findall(words), index)):
            return date
        if kind == "string" and plain.endswith(("id", "key")):
            return self._id(name, known, index)
        if kind == "string" and not _is_time(name, schema) and (quoted := _at(_QUOTED.findall(words), index)):
            return quoted
        if kind == "string" and (said := _set_to(name, words)):
            return said
        if kind in ("integer", "number"):
            return self._number(kind, known)
        return known if kind == "string" and isinstance(known, str) and plain not in _FREE_TEXT else None

    def _id(self, name: str, known: Any, index: int) -> str | None:
        words = self.planned.words
        if name == "attendee_id":
            return _at(_MENTION.findall(words), index)
        said = _at(_ID.findall(words), index) or _called(name, words)
        return said or _text_or_none(known) or _at(_ID.findall(self.prompt), 0)

    def _number(self, kind: str, known: Any) -> int | float | None:
        words = _DATE.sub(" ", self.planned.words)
        said = [each for each in _NUMBER.findall(words) if each != str(self.planned.count)]
        if said:
            return float(said[0]) if kind == "number" else int(float(said[0]))
        return known if isinstance(known, int | float) and not isinstance(known, bool) else None

    def _text(self, name: str, schema: Mapping[str, Any], index: int) -> Any:
        if schema.get("enum"):
            return schema["enum"][0]
        if _is_time(name, schema):
            return "2030-01-07" if schema.get("format") == "date" else "2030-01-07T09:00:00+00:00"
        if _plain(name).endswith(("id", "key")) and (quoted := _at(_QUOTED.findall(self.planned.words), index)):
            return quoted
        if _plain(name) in _FREE_TEXT:
            return self.planned.words
        if name == "words":
            return _about(self.planned.words)
        if name == "role" and (said := _FOR.search(self.planned.words)):
            return said[1]
        if _plain(name) in _NAMES:
            return f"{self.planned.thing} {index + 1}"
        return f"{name.replace('_', ' ').capitalize()} {index + 1}"


def _is_time(name: str, schema: Mapping[str, Any]) -> bool:
    """Some tools take times in more forms than a schema's format has words for; their names say what they are."""
    return "format" in schema or name.endswith(("_at", "_after", "_before")) or name in ("after", "before")


def _named(value: Any, plain: str) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if _plain(key) == plain and not isinstance(inner, Mapping | list):
                yield inner
            else:
                yield from _named(inner, plain)
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner, plain)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def _about(words: str) -> str:
    """What is to be searched for, without the words that say to search."""
    found = re.search(r"\b(?:of|about|from|named|called|with)\s+(\S.*)", words)
    return found[1].rstrip(".!?") if found else words


def _called(name: str, words: str) -> str | None:
    """What is named instead of its id: `project_id` by "the project Web shop"."""
    noun = name.removesuffix("_id").removesuffix("_key")
    found = re.search(rf"\b{re.escape(noun)} ([A-Z]\w*(?: \w+)*)", words)
    return found[1] if found else None


def _set_to(name: str, words: str) -> str | None:
    """What a field is to become, as in "my company name to Acme Corp", and what is booked: "with the meeting room"."""
    noun = re.escape(name.replace("_", " "))
    pattern = rf"\b(?:my|our|their|the) {noun}(?: name)? (?:to|is) ([^.,;!?\n]+)"
    if name == "resource":
        pattern = r"\b(?:with|book|reserve) the ([a-z]+(?: (?!on\b|at\b|for\b|from\b)[a-z]+)?)"
    found = re.search(pattern, words)
    return found[1].strip() if found else None


def _at(found: Sequence[str], index: int) -> str | None:
    return found[min(index, len(found) - 1)] if found else None


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)
