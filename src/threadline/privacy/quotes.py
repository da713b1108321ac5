"""Quotes another service's words about its refusal for people, without the sentences that name a
place or hold a secret.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from threadline.privacy.redaction import redact

MAX_QUOTE = 400
"""Characters; the rest is omitted."""
WITHHELD = "…"
"""The mark for omitted sentences, and for text beyond the limit."""
_LOOKED_AT = 20_000
"""Characters of one text that are searched for sentences."""
_DEEPEST = 5
"""Levels of an answer that are searched for texts."""
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|[\r\n]+")
_DATE_FORM = re.compile(r"\b(?:[dMyHhms]{1,4}|\d{1,4})(?:/(?:[dMyHhms]{1,4}|\d{1,4})){2}\b")
_PLACE = re.compile(
    r"[\\@{}<>]|://|localhost|redacted:|traceback|\b0x[0-9a-f]"
    r"|(?<![\w/])(?:~|\.{1,2})?/\w|(?<!\w)~/"  # a path from the root or a home
    # a relative path, which `Component/s` is not
    r"|\w/[\w.@+-]+/\w|\w/[\w@+-]+\.\w|(?<!\w)\.\w+/"
    # a host, or a program's name with dots
    r"|(?<![\w.])(?:[\w-]+\.)+(?-i:[a-z]{2,}|[A-Z][A-Z]+(?=[:/]|\.?$))\b"
    r"|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}\b"
    r"|\b[a-z][\w.-]*:\d{2,5}\b"  # a host's port
    r"|(?<![\w:])(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}(?![\w:])",
    re.IGNORECASE,
)
"""The signs of an address, a path, a host, a mail address, or of a program's own form."""

_MESSAGES = ("message", "errorMessage", "error_description", "title", "detail", "reason")
_CODES = {
    "missing": "it does not exist",
    "missing_field": "it is required",
    "invalid": "it is not valid",
    "already_exists": "there is one already",
    "unprocessable": "it cannot be processed",
}
"""GitHub's codes of a field's fault:
https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api."""


def quotable(*said: object) -> str:
    """Join the words of a service into one line for a person; empty if no sentence may be
    repeated.
    """
    kept = list[str]()
    withheld = False
    for text in said:
        for sentence in _sentences(text):
            if not _may_be_read(sentence):
                withheld = True
            elif sum(map(len, kept)) + len(sentence) + len(kept) > MAX_QUOTE:
                withheld = True
                break
            elif sentence not in kept:
                kept.append(sentence)
    if not kept:
        return ""
    return _joined([*kept, WITHHELD] if withheld else kept)


def quote_refusal(answer: object) -> str:
    """Quote the texts of a refusal's JSON, each with the field that it is about."""
    return quotable(*_texts(answer))


def _sentences(text: object) -> Iterator[str]:
    if isinstance(text, str):
        for sentence in _SENTENCE_END.split(redact(text[:_LOOKED_AT])):
            if visible := " ".join(sentence.split()):
                yield visible


def _may_be_read(sentence: str) -> bool:
    has_words = any(map(str.isalpha, sentence))
    if not (has_words and sentence.isprintable()) or len(sentence) > MAX_QUOTE:
        return False
    return not _PLACE.search(_DATE_FORM.sub("", sentence))


def _joined(sentences: Iterable[str]) -> str:
    line = ""
    for sentence in sentences:
        between = " " if line.endswith((".", "!", "?", ";")) or sentence == WITHHELD else "; "
        line = f"{line}{between}{sentence}" if line else sentence
    return line


def _texts(answer: object, depth: int = 0) -> Iterator[str]:
    """Yield the texts in the forms of GitHub, Jira and RFC 9457: messages, lists of messages, and
    faults by field.
    """
    if depth > _DEEPEST:
        return
    if isinstance(answer, str):
        yield answer
    elif isinstance(answer, list):
        for each in answer:
            yield from _texts(each, depth + 1)
    elif isinstance(answer, Mapping):
        yield from _texts_of_fault(answer)
        for name in ("error", "errorMessages"):
            yield from _texts(answer.get(name), depth + 1)
        errors = answer.get("errors")
        if isinstance(errors, Mapping):
            yield from _texts_by_field(errors, depth + 1)
        else:
            yield from _texts(errors, depth + 1)


def _texts_of_fault(fault: Mapping[str, Any]) -> Iterator[str]:
    told = [
        fault[name]
        for name in _MESSAGES
        if isinstance(fault.get(name), str) and fault[name].strip()
    ]
    if not told and fault.get("code") in _CODES:
        told = [_CODES[str(fault["code"])]]
    for text in told:
        yield _about(fault.get("field"), text)


def _texts_by_field(errors: Mapping[str, Any], depth: int) -> Iterator[str]:
    for name, told in errors.items():
        for text in _texts(told, depth):
            yield _about(name, text)


def _about(field: object, text: str) -> str:
    """Return the text prefixed with its field's key, unless the text names the key itself."""
    if not isinstance(field, str) or not field or f"'{field}'" in text:
        return text
    return f"{field}: {text}"
