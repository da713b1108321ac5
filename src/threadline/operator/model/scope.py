"""Whether a request needs an RFP, by its words, and which way it takes then.

The rules may change and run in an activity; docs/operator.md shows them and is written from this file.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cache

from threadline.rfps.model import find_rfp_ids
from threadline.slack.text import plain_words


class Step(IntEnum):
    """The order in which a text is looked through; the first step with a phrase in it decides."""

    FREE = 1
    JOB = 2
    WRITE = 3
    RELATED = 4
    DEFAULT = 5


MEANING: Mapping[Step, str] = {
    Step.FREE: "it says itself that no RFP is needed: something new, an upload, a search, what the bot can do",
    Step.JOB: "it is about jobs",
    Step.WRITE: "it asks for a change of an opportunity's state or of its journal",
    Step.RELATED: "it has to do with RFPs",
    Step.DEFAULT: "anything else",
}


@dataclass(frozen=True)
class Phrase:
    """Words that count where they stand as whole words, one after the other, whatever marks are around them.

    Between words, `…` is up to 160 characters of the same sentence; `rfp_…` is an id.
    """

    text: str
    step: Step
    forms: tuple[str, ...] = ()
    """Others that count as the same: the plural, an id in place of the word."""

    def stands_in(self, words: str) -> bool:
        """Whether it is there.

        Args:
            words: of `plain_words`.
        """
        return any(_pattern(each).search(words) for each in (self.text, *self.forms))


PHRASES: tuple[Phrase, ...] = (
    Phrase("new rfp", Step.FREE, ("new rfps",)),
    Phrase("brand new", Step.FREE),
    Phrase("it's new", Step.FREE),
    Phrase("upload … new", Step.FREE),
    Phrase("upload the file", Step.FREE, ("upload the files",)),
    Phrase("upload this", Step.FREE),
    Phrase("can you upload", Step.FREE),
    Phrase("search for", Step.FREE),
    Phrase("find a new", Step.FREE),
    Phrase("what can you", Step.FREE),
    Phrase("what tools", Step.FREE),
    Phrase("schedule job", Step.JOB, ("schedule jobs",)),
    Phrase("agent job", Step.JOB, ("agent jobs",)),
    Phrase("job list", Step.JOB, ("job lists",)),
    Phrase("job status", Step.JOB),
    Phrase("query jobs", Step.JOB),
    Phrase("runner", Step.JOB, ("runners",)),
    Phrase("journal entry", Step.WRITE),
    Phrase("add to journal", Step.WRITE),
    Phrase("append journal", Step.WRITE),
    Phrase("opportunity state", Step.WRITE, ("opportunity states",)),
    Phrase("update opportunity", Step.WRITE),
    Phrase("patch opportunity", Step.WRITE),
    Phrase("update rfp", Step.WRITE, ("update rfps", "update rfp_…")),
    Phrase("update the rfp", Step.WRITE, ("update the rfps", "update the rfp_…")),
    Phrase("rfp", Step.RELATED, ("rfps", "rfp_…")),
    Phrase("proposal", Step.RELATED, ("proposals",)),
    Phrase("opportunity", Step.RELATED, ("opportunities",)),
    Phrase("bid", Step.RELATED, ("bids",)),
)
"""In the order in which they are looked for, which is that of their steps."""

QUERIES: tuple[Phrase, ...] = (
    Phrase("what is", Step.RELATED),
    Phrase("tell me about", Step.RELATED),
    Phrase("show me", Step.RELATED),
    Phrase("list", Step.RELATED),
    Phrase("search", Step.RELATED),
)
"""With one of these, what has to do with RFPs is a general question."""

REMOVED: Mapping[str, str] = {
    "opportunity": "too broad: somebody may only want to read of it",
    "journal": 'too broad: "what\'s in the journal?" only reads',
    "state": "too broad: anything has a state",
    "patch": "too broad: code is patched, too",
    "rfp review": "only reads",
    "seed tasks": "may be about no RFP at all",
    "assign task": "may be about no RFP at all",
    "complete task": "may be about no RFP at all",
}
"""What must not make a request one that needs an RFP, and why: no phrase of `Step.WRITE`, alone or in a sentence."""


@dataclass(frozen=True)
class Requirement:
    """Whether a request needs an RFP (None: unclear), and what has decided that.

    `phrase` is empty at `Step.DEFAULT`; `exception` is what turned the step's usual answer: the id in a request about
    jobs, the phrase by which something is a general question; else empty.
    """

    required: bool | None
    step: Step
    phrase: str = ""
    exception: str = ""


def decide(text: str) -> Requirement:
    """Whether a message needs an RFP before anything can be done about it, and why."""
    words = plain_words(text)
    found = next((each for each in PHRASES if each.stands_in(words)), None)
    if found is None:
        return Requirement(False, Step.DEFAULT)
    if found.step is Step.JOB:
        named = next(iter(find_rfp_ids(text)), "")
        return Requirement(bool(named), found.step, found.text, named)
    if found.step is Step.RELATED:
        query = next((each.text for each in QUERIES if each.stands_in(words)), "")
        return Requirement(False if query else None, found.step, found.text, query)
    return Requirement(found.step is Step.WRITE, found.step, found.text)


def operations_requiring_scope(text: str) -> bool | None:
    """Whether what a message asks for needs an RFP: it does, it does not, or (None) nobody can tell by rule."""
    return decide(text).required


class Branch(StrEnum):
    """Which way a request takes."""

    A = "A"
    B = "B"
    C = "C"
    D = "D"

    @property
    def delegates(self) -> bool:
        """The conversational agent is asked first."""
        return self in (Branch.A, Branch.B)

    @property
    def falls_through(self) -> bool:
        """When that agent fails, the operator goes on without an RFP."""
        return self is Branch.B


WAYS: Mapping[Branch, str] = {
    Branch.A: "the conversational agent answers",
    Branch.B: "the conversational agent answers; when it fails, the operator goes on without an RFP",
    Branch.C: "the person is asked which RFP it is",
    Branch.D: "the operator goes on",
}


def branch(rfp_id: str, required: bool | None) -> Branch:
    """The way of a request.

    Args:
        rfp_id: what it is about; empty when nobody said so, in the message or by binding its thread.
        required: of `operations_requiring_scope`.
    """
    if rfp_id:
        return Branch.D
    return {False: Branch.A, None: Branch.B, True: Branch.C}[required]


def which_rfp(bot_name: str) -> str:
    """What a person is asked in branch C, with the two ways to answer.

    Args:
        bot_name: by which people mention the bot, without the `@`.
    """
    return f"Which RFP is this about? Include an id like `rfp_...` or bind this thread with: `@{bot_name} link rfp_...`"


@cache
def _pattern(phrase: str) -> re.Pattern[str]:
    """A word ends before the last mark of `_italics_`, and does not end before the rest of an id."""
    starts, ends = r"(?<![^\W_])(?<![^\W_]_)", r"(?![^\W_]|_[^\W_])"
    parts = (
        r"[ _-]+".join(r"rfp_[a-z0-9][\w-]*" if word == "rfp_…" else re.escape(word) for word in part.split())
        for part in phrase.split(" … ")
    )
    gap = rf"{ends}(?:(?![.!?;] ).){{1,160}}?{starts}"
    return re.compile(f"{starts}{gap.join(parts)}{ends}")
