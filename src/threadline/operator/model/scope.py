"""What a request is about: its text in order, what it says of its thread, whether it needs an RFP by its words, and
which way it takes then.

The rules may change and run in an activity; docs/operator.md shows them and is written from this file.
"""

import re
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cache

from threadline.rfps.model import find_rfp_ids, parse_rfp_id
from threadline.slack.text import mentions_in, plain_words, remove_mention

MAX_QUESTION = 5_000
"""Characters of a question; a longer one is cut at a word, and its writer is told."""

_UNSEEN = re.compile(r"[\u200b\u2060\ufeff]")
"""Marks without a width that come along when text is copied, amid words and ids; not those that join an emoji."""
_MENTION = re.compile(r"<@[^<>]*>")
_MARKUP = 300
"""Characters of a link or a mention that a cut spares; a `<` further back is somebody's own sign."""
_LINK = re.compile(r"(?:link|bind) _*(rfp_\S{0,200})[ .,!?]*")
_LINK_BY_ADDRESS = re.compile(r"\W*(?:link|bind)\s+<https?:[^<>\s]*>\W*", re.IGNORECASE)
_WHERE = re.compile(r"where[?!. ]*")
_EDGES = "_ .,;:!?…"


class ScopeRule(IntEnum):
    """The order in which a text is looked through; the first step with a phrase in it decides."""

    FREE = 1
    JOB = 2
    WRITE = 3
    RELATED = 4
    DEFAULT = 5


@dataclass(frozen=True)
class Phrase:
    """Words that count where they stand as whole words, one after the other, whatever marks are around them.

    Between words, `…` is up to 160 characters of the same sentence; `rfp_…` is an id.
    """

    text: str
    step: ScopeRule
    forms: tuple[str, ...] = ()
    """Others that count as the same: the plural, an id in place of the word."""

    def stands_in(self, words: str) -> bool:
        """Whether it is there.

        Args:
            words: of `plain_words`.
        """
        return any(_pattern(each).search(words) for each in (self.text, *self.forms))


PHRASES: tuple[Phrase, ...] = (
    Phrase("new rfp", ScopeRule.FREE, ("new rfps",)),
    Phrase("brand new", ScopeRule.FREE),
    Phrase("it's new", ScopeRule.FREE),
    Phrase("upload … new", ScopeRule.FREE),
    Phrase("upload the file", ScopeRule.FREE, ("upload the files",)),
    Phrase("upload this", ScopeRule.FREE),
    Phrase("can you upload", ScopeRule.FREE),
    Phrase("search for", ScopeRule.FREE),
    Phrase("find a new", ScopeRule.FREE),
    Phrase("what can you", ScopeRule.FREE),
    Phrase("what tools", ScopeRule.FREE),
    Phrase("schedule job", ScopeRule.JOB, ("schedule jobs",)),
    Phrase("agent job", ScopeRule.JOB, ("agent jobs",)),
    Phrase("job list", ScopeRule.JOB, ("job lists",)),
    Phrase("job status", ScopeRule.JOB),
    Phrase("query jobs", ScopeRule.JOB),
    Phrase("runner", ScopeRule.JOB, ("runners",)),
    Phrase("journal entry", ScopeRule.WRITE),
    Phrase("add to journal", ScopeRule.WRITE),
    Phrase("append journal", ScopeRule.WRITE),
    Phrase("opportunity state", ScopeRule.WRITE, ("opportunity states",)),
    Phrase("update opportunity", ScopeRule.WRITE),
    Phrase("patch opportunity", ScopeRule.WRITE),
    Phrase("update rfp", ScopeRule.WRITE, ("update rfps", "update rfp_…")),
    Phrase("update the rfp", ScopeRule.WRITE, ("update the rfps", "update the rfp_…")),
    Phrase("rfp", ScopeRule.RELATED, ("rfps", "rfp_…")),
    Phrase("proposal", ScopeRule.RELATED, ("proposals",)),
    Phrase("opportunity", ScopeRule.RELATED, ("opportunities",)),
    Phrase("bid", ScopeRule.RELATED, ("bids",)),
)
"""In the order in which they are looked for, which is that of their steps."""

QUERIES: tuple[Phrase, ...] = (
    Phrase("what is", ScopeRule.RELATED),
    Phrase("tell me about", ScopeRule.RELATED),
    Phrase("show me", ScopeRule.RELATED),
    Phrase("list", ScopeRule.RELATED),
    Phrase("search", ScopeRule.RELATED),
)
"""With one of these, what has to do with RFPs is a general question."""


@dataclass(frozen=True)
class ScopeRequirement:
    """Whether a request needs an RFP (None: unclear), and what has decided that.

    `phrase` is empty at `ScopeRule.DEFAULT`; `exception` is what turned the step's usual answer: the id in a request
    about jobs, the phrase by which something is a general question; else empty.
    """

    required: bool | None
    step: ScopeRule
    phrase: str = ""
    exception: str = ""


def detect_scope_requirement(text: str) -> ScopeRequirement:
    """Whether a message needs an RFP before anything can be done about it, and why."""
    words = plain_words(text)
    found = next((each for each in PHRASES if each.stands_in(words)), None)
    if found is None:
        return ScopeRequirement(False, ScopeRule.DEFAULT)
    if found.step is ScopeRule.JOB:
        named = next(iter(find_rfp_ids(text)), "")
        return ScopeRequirement(bool(named), found.step, found.text, named)
    if found.step is ScopeRule.RELATED:
        query = next((each.text for each in QUERIES if each.stands_in(words)), "")
        return ScopeRequirement(False if query else None, found.step, found.text, query)
    return ScopeRequirement(found.step is ScopeRule.WRITE, found.step, found.text)


def operations_requiring_scope(text: str) -> bool | None:
    """Whether what a message asks for needs an RFP: it does, it does not, or (None) nobody can tell by rule."""
    return detect_scope_requirement(text).required


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


def choose_branch(rfp_id: str, required: bool | None) -> Branch:
    """The way of a request.

    Args:
        rfp_id: what it is about; empty when nobody said so, in the message or by binding its thread.
        required: of `operations_requiring_scope`.
    """
    if rfp_id:
        return Branch.D
    return {False: Branch.A, None: Branch.B, True: Branch.C}[required]


def ask_for_rfp_id(bot_name: str) -> str:
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


class MissingInput(StrEnum):
    """Why nothing is done, on record under this name."""

    QUESTION = "missing_question"
    """Nothing was said besides mentions."""
    CHANNEL = "missing_channel"
    THREAD = "missing_thread"


@dataclass(frozen=True)
class Question:
    """`cut`: it was longer, and the reply has to say so. `thread_ts`: of the thread's root."""

    text: str
    channel: str
    thread_ts: str
    cut: bool = False


def validate_question(text: str | None, channel: str | None, thread_ts: str | None) -> Question | MissingInput:
    """The question as the operator takes it, or the first thing that it lacks."""
    whole = normalise_question(text or "")
    if not _MENTION.sub("", whole).strip():
        return MissingInput.QUESTION
    if not (channel or "").strip():
        return MissingInput.CHANNEL
    if not (thread_ts or "").strip():
        return MissingInput.THREAD
    kept = truncate_question(whole)
    return Question(kept, (channel or "").strip(), (thread_ts or "").strip(), cut=kept != whole)


def truncation_notice() -> str:
    """The sentence that tells somebody that their question was too long."""
    return f"Your message is longer than {MAX_QUESTION:,} characters. I have read only the part before that."


def normalise_question(text: str) -> str:
    """One blank for many, no blanks around a line, one empty line for many: a list stays a list."""
    lines = (" ".join(line.split()) for line in _UNSEEN.sub("", text).splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def truncate_question(text: str) -> str:
    """At most `MAX_QUESTION` characters of a normalised text: whole words, unless one has no end."""
    if len(text) <= MAX_QUESTION:
        return text
    gaps = [text.rfind(blank, MAX_QUESTION // 2, MAX_QUESTION + 1) for blank in (" ", "\n")]
    kept = text[: max(gaps)] if max(gaps) > 0 else text[:MAX_QUESTION]
    before, opened, inside = kept.rpartition("<")
    if opened and before.strip() and ">" not in inside and len(inside) < _MARKUP:
        kept = before
    return kept.rstrip()


@dataclass(frozen=True)
class LinkCommand:
    """Bind the thread to an RFP. `rfp_id` is empty when what was named cannot be one, such as `rfp_...`."""

    rfp_id: str


@dataclass(frozen=True)
class WhereCommand:
    """Say what the thread is bound to."""


ThreadCommand = LinkCommand | WhereCommand


def parse_thread_command(text: str, bot: str = "") -> ThreadCommand | None:
    """What a message says about its thread; None when it says anything else.

    Args:
        text: of a `Question`.
        bot: the bot's own user id; a mention of it does not count as something else. With a mention of anybody else,
            or of a group, the message is for them.
    """
    said = remove_mention(text, bot) if bot else text
    if mentions_in(said) or "<!" in said:
        return None
    words = plain_words(said).lstrip("_ ")
    if _WHERE.fullmatch(words.rstrip("_ ")):
        return WhereCommand()
    if found := _LINK.fullmatch(words):
        return LinkCommand(parse_rfp_id(found[1].rstrip(_EDGES)))
    named = find_rfp_ids(said) if _LINK_BY_ADDRESS.fullmatch(said) else ()
    return LinkCommand(named[0]) if len(named) == 1 else None
