"""How what people, files and records say reaches the model: without secrets, in single lines, and inside of a fence."""

import json
import re

from threadline.domain.redaction import redact, redact_value

_FENCE = re.compile(r"<(?=\s*/?\s*(?:context|analysis|patterns)\b)", re.IGNORECASE)
_CUT = " […]"
_LOOKED_AT = 8_000
"""Characters that are searched for secrets, which takes its time."""


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
    hidden = redact_value("x", field=field)
    said = json.dumps(data if hidden == "x" else hidden, ensure_ascii=False, default=str)
    if len(said) > _LOOKED_AT:
        return line(said, longest)
    said = json.dumps(redact_value(data, field=field), ensure_ascii=False, default=str)
    return shortened(neutral(" ".join(said.split())), longest)


def shortened(text: str, longest: int) -> str:
    """The text, or as much of it as `longest` bytes hold, with a mark at its end; nothing where there is no room."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= longest:
        return text
    kept = data[: max(0, longest - size(_CUT))].decode("utf-8", "ignore")
    return f"{kept}{_CUT}" if kept else ""


def was_cut(text: str) -> bool:
    """Whether `shortened` has left something out."""
    return text.endswith(_CUT)


def fenced(tag: str, text: str, name: str = "") -> str:
    """The text between marks that nothing in it can forge, once it is neutral; `name` says of what it is."""
    of = f' layer="{name}"' if name else ""
    return f"<{tag}{of}>\n{text}\n</{tag}>"
