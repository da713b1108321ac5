"""The ids of RFPs as people write them, and which one a message is about."""

import re
from dataclasses import dataclass
from enum import StrEnum

LONGEST = 64
"""Characters of an id; what is longer is none."""
NOT_IDS = frozenset({"rfp_list", "rfp_search", "rfp_get", "rfp_create_from_slack_file"})
"""Tools: who names one in a message names no RFP."""

_FILES = "pdf|docx?|xlsx?|pptx?|csv|txt|md|rtf|odt|html?|json|zip|eml|msg|png|jpe?g"
_MORE = "(?:_+|-)[A-Za-z0-9]"
_ID = rf"[rR][fF][pP]_[A-Za-z0-9]+(?:{_MORE}+)*(?![A-Za-z0-9]|{_MORE})"
"""As long as it can be: of `rfp_7-b` nobody takes `rfp_7`, which may be another record. By a look ahead: a possessive
group takes too much before Python 3.11.5 (python/cpython#106052)."""
_IN_TEXT = re.compile(rf"(?<![A-Za-z0-9])(?<![A-Za-z0-9]_){_ID}(?!@|\.(?i:{_FILES})(?![A-Za-z0-9]))")
"""Also in `_italics_`; a file's name (`rfp_answer.pdf`) or a mail address is no id."""
_ALONE = re.compile(_ID)
_CALL = re.compile(r"<[@#!][^<>]*>")
"""Slack's markup of a person, a group or a channel, which may be called `rfp_team`."""


class Origin(StrEnum):
    """Where a scope was found."""

    MESSAGE = "message"
    BINDING = "binding"
    """Of the thread."""
    NONE = "none"


@dataclass(frozen=True)
class Scope:
    """The RFP that a request is about.

    `others` are further ids of the message, in its order: who wrote them has to be told that the first one counts.
    """

    rfp_id: str = ""
    origin: Origin = Origin.NONE
    others: tuple[str, ...] = ()


def rfp_ids(text: str) -> tuple[str, ...]:
    """The ids in a text, each once, in the order in which they stand there, in lower case; the first one counts.

    One in a block of code, in a link's address or its label is an id like any other. Whether there are such RFPs, the
    database knows.
    """
    named = (found.group().lower() for found in _IN_TEXT.finditer(_CALL.sub(" ", text)))
    return tuple(dict.fromkeys(each for each in named if len(each) <= LONGEST and each not in NOT_IDS))


def is_only_ids(text: str) -> bool:
    """Whether a text is an id, or several, and besides that blanks and marks alone."""
    return bool(rfp_ids(text)) and not re.search(r"[^\W_]", _IN_TEXT.sub(" ", text))


def as_rfp_id(word: str) -> str:
    """The id that a word is, in lower case; empty when it is none, such as the `rfp_...` of a hint."""
    return word.lower() if len(word) <= LONGEST and _ALONE.fullmatch(word) else ""


def scope_of(text: str, bound: str = "") -> Scope:
    """The first id of the message, else what its thread is bound to, else none.

    Args:
        bound: the RFP of the thread, or nothing.
    """
    first, *others = rfp_ids(text) or ("",)
    if first:
        return Scope(first, Origin.MESSAGE, tuple(others))
    return Scope(bound, Origin.BINDING) if bound else Scope()
