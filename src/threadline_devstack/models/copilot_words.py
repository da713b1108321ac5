"""What the scripts over OpenAI's APIs say of a tool's result: a sentence for people, made of the result alone."""

from collections.abc import Iterator, Mapping
from typing import Any

from threadline_devstack.models.copilot_arguments import parsed

QUOTE = 300
"""Characters of a result, or of what people wrote, that a sentence repeats."""


def told(text: str) -> str:
    """What a result says for people, where it does; else its beginning."""
    found = parsed(text)
    if isinstance(found, Mapping):
        inner = found.get("error") or found.get("data")
        found = inner if isinstance(inner, Mapping) and not found.get("text") else found
        named = ("text", "message", "suggestion", "error")
        said = [str(found[name]).rstrip(".") for name in named if isinstance(found.get(name), str)]
        text = ". ".join(said) + "." if said else ", ".join(_facts(found)) or text
    return quoted(text)


def quoted(text: str, longest: int = QUOTE) -> str:
    """In one line, and cut at a word."""
    flat = " ".join(text.split())
    return flat if len(flat) <= longest else f"{flat[:longest].rsplit(' ', 1)[0]} …"


def _facts(found: Mapping[str, Any]) -> Iterator[str]:
    for name, value in found.items():
        if isinstance(value, list):
            yield f"{len(value)} {name.replace('_', ' ')}"
        elif not isinstance(value, Mapping | bool) and value is not None:
            yield f"{name.replace('_', ' ')} {value}"
