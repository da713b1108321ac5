"""How what people, files and records say reaches the model: without secrets, in single lines, and inside of a fence."""

import json
import re

from threadline.domain.redaction import redact, redact_value

_FENCE = re.compile(r"<(?=\s*/?\s*(?:context|analysis|patterns)\b)", re.IGNORECASE)
_CUT = " […]"


def size(text: str) -> int:
    """Bytes: a token is taken for four of them, since nothing here knows the model's own alphabet."""
    return len(text.encode("utf-8", "surrogatepass"))


def neutral(text: str) -> str:
    """A text in which nothing opens or closes a fence."""
    return _FENCE.sub("&lt;", text)


def line(text: str, longest: int) -> str:
    """One line without secrets, of at most `longest` bytes: so nothing in it can pass for another entry."""
    return shortened(neutral(" ".join(redact(text).split())), longest)


def value(data: object, longest: int, *, field: str = "") -> str:
    """JSON in one line, likewise; `field` is the name under which it stands."""
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
