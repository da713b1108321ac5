"""Reads a bug report by rule, before any agent runs: a title, a first severity and the components
that it names.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from threadline.cases.model import Severity

LONGEST_TITLE = 80
NO_TEXT = "Report without text"

_SEVERITIES: tuple[tuple[Severity, str], ...] = (
    (
        Severity.S1,
        r"(?:prod(?:uction)?|site|service|system|everything)"
        r"\s+(?:is\s+|are\s+)?(?:completely\s+)?down|outage"
        r"|data[\s-]?loss|lost\s+(?:our\s+|my\s+|all\s+)?data"
        r"|security\s+(?:breach|hole|incident)|data\s+leak"
        r"|(?:nobody|no\s+one)\s+can|all\s+(?:users|customers)",
    ),
    (
        Severity.S2,
        r"crash\w*|can(?:no|')?t\s+(?:log\s*in|pay|check\s*out|save|order)"
        r"|cannot\s+\w+|blocked|blocker|urgent"
        r"|many\s+(?:users|customers)|50[0-4]\b|broken|payments?\s+fail\w*",
    ),
    (Severity.S4, r"typo|cosmetic|misaligned|alignment|colou?r|wording|nitpick|minor|spelling"),
)
_STATED = re.compile(
    r"\b(?:severity|prio(?:rity)?)\s*[:=]?\s*[spSP]?([1-4])\b|\b[SP]([1-4])\b", re.IGNORECASE
)
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
        title=_title(text), severity=_severity(text), components=_components(text, services)
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


def _severity(text: str) -> Severity:
    if stated := _STATED.search(text):
        return Severity(f"S{stated.group(1) or stated.group(2)}")
    words = " ".join(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())
    for severity, pattern in _SEVERITIES:
        if re.search(rf"\b(?:{pattern})", words):
            return severity
    return Severity.S3


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
