"""Reads a bug report by rule, before any agent runs: a title, a first severity and the components
that it names.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from threadline.cases.model import Severity
from threadline.cases.severity import severity_of

LONGEST_TITLE = 80
NO_TEXT = "Report without text"

_COMPONENT = re.compile(
    r"\b(?:components?|services?|modules?)\s*[:=]\s*([\w./-]+(?:\s*,\s*[\w./-]+)*)", re.IGNORECASE
)
_PATH = re.compile(r"(?<![\w/:.])(?:\./)?([\w.-]+)/(?:[\w.-]+/)*[\w-]+\.[A-Za-z]{1,5}\b")
_MARKUP = re.compile(r"<[@#!]\w[^<>]*>|:[a-z0-9_+'\-]+:|[*_~`]", re.IGNORECASE)
_LINK = re.compile(r"\[((?:[^\[\]\\\n]|\\.)+)\]\([^()\s]+\)|https?://[^\s<>()]+")


@dataclass(frozen=True)
class ParsedReport:
    """The first reading of a report; `components` in the order of their mention, each once."""

    title: str
    severity: Severity
    components: list[str]


def parse_bug_report(text: str, services: Sequence[str] = ()) -> ParsedReport:
    """Read a report's root message, decoded; it may be empty, or contain only emoji.

    Names of `services` count as components wherever they occur as a word.
    """
    return ParsedReport(
        title=_title(text), severity=severity_of(text), components=_components(text, services)
    )


def _title(text: str) -> str:
    plain = _MARKUP.sub(" ", _LINK.sub(lambda link: link.group(1) or " ", text))
    lines = [" ".join(line.split()) for line in plain.splitlines()]
    line = next(
        (line for line in lines if any(character.isalnum() for character in line)), NO_TEXT
    )
    sentence = re.split(r"(?<=[.!?])\s", line, maxsplit=1)[0].rstrip(". ")
    if len(sentence) <= LONGEST_TITLE:
        return sentence
    return sentence[: LONGEST_TITLE - 1].rsplit(" ", 1)[0] + "…"


def _components(text: str, services: Sequence[str]) -> list[str]:
    named = [
        name.strip() for match in _COMPONENT.finditer(text) for name in match.group(1).split(",")
    ]
    from_paths = [match.group(1) for match in _PATH.finditer(_LINK.sub(" ", text))]
    known = [
        name
        for name in services
        if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text, re.IGNORECASE)
    ]
    return list(dict.fromkeys(name.rstrip(".") for name in [*named, *known, *from_paths] if name))
