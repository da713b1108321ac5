"""How what people, files and records say reaches the model: without secrets, in single lines, and inside of a fence."""

import json
import re
from collections.abc import Mapping
from typing import Any

from threadline.privacy.redaction import redact, redact_value

_FENCE = re.compile(r"<(?=\s*/?\s*(?:context|analysis|patterns|request)\b)", re.IGNORECASE)
_CUT = " […]"
_LOOKED_AT = 8_000
"""Characters that are searched for secrets, which takes its time."""
_DEEPEST = 20
"""Levels of a value that are shown where it is large."""
_END = "\n</context>"


def size(text: str) -> int:
    """Bytes: a token is taken for four of them, since nothing here knows the model's own alphabet."""
    return len(text.encode("utf-8", "surrogatepass"))


def neutral(text: str) -> str:
    """A text in which nothing opens or closes a fence."""
    return _FENCE.sub("&lt;", text)


def line(text: str, longest: int) -> str:
    """One line without secrets, of at most `longest` bytes: so nothing in it can pass for another entry."""
    return shortened(neutral(plain(text)), longest)


def plain(text: str) -> str:
    """One line without secrets. Of a huge text only the beginning, which is more than anybody is shown."""
    if len(text) <= _LOOKED_AT:
        return " ".join(redact(text).split())
    redacted = redact(text[:_LOOKED_AT])
    # What the cut has halved may be a secret that nobody recognises any more: it is never part of what is kept.
    return " ".join(redacted[: max(0, len(redacted) - _LOOKED_AT // 2)].split()) + _CUT


def value(data: object, longest: int, *, field: str = "") -> str:
    """JSON in one line, likewise; `field` is the name under which it stands."""
    said = json.dumps(_hidden(data, field), ensure_ascii=False, default=str)
    if len(said) > _LOOKED_AT:
        return line(said, longest)
    said = json.dumps(redact_value(data, field=field), ensure_ascii=False, default=str)
    return shortened(neutral(" ".join(said.split())), longest)


def _hidden(data: Any, field: str, depth: int = 0) -> Any:
    """The value without what its fields' names call a secret; its texts are not looked at, so it takes little time."""
    if isinstance(data, Mapping | list | tuple) and depth >= _DEEPEST:
        return _CUT.strip()
    if isinstance(data, Mapping):
        return {str(name): _hidden(each, str(name), depth + 1) for name, each in data.items()}
    if isinstance(data, list | tuple):
        return [_hidden(each, field, depth + 1) for each in data]
    return redact_value("x", field=field) if isinstance(data, str) and _names_a_secret(field) else data


def _names_a_secret(field: str) -> bool:
    return bool(redact_value("x", field=field) != "x")


def shortened(text: str, longest: int) -> str:
    """The text, or as much of it as `longest` bytes hold, with a mark at its end; nothing where there is no room."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= longest:
        return text
    kept = data[: max(0, longest - size(_CUT))].decode("utf-8", "ignore")
    return f"{kept}{_CUT}" if kept else ""


def beginning(context: str, longest: int) -> str:
    """Of layers in their fences as many lines as `longest` bytes hold; one that is cut is closed all the same."""
    if size(context) <= longest:
        return context
    kept = shortened(context, longest - size(_END) - size(_CUT)).rpartition("\n")[0]
    if not kept:
        return ""
    return f"{kept}{_CUT}{_END if kept.rfind('<context') > kept.rfind('</context>') else ''}"


def was_cut(text: str) -> bool:
    """Whether `shortened` has left something out."""
    return text.endswith(_CUT)


def fenced(tag: str, text: str, name: str = "") -> str:
    """The text between marks that nothing in it can forge, once it is neutral; `name` says of what it is."""
    of = f' layer="{name}"' if name else ""
    return f"<{tag}{of}>\n{text}\n</{tag}>"
