"""The rules for requests about RFPs: whether a request needs an RFP, the commands about a thread,
and the questions back.

The rules may change, so they run in an activity, and the turn keeps their result. docs/operator.md
documents them and must match this file.
"""

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

from threadline.rfps.model import (
    Scope,
    ScopeSource,
    contains_only_rfp_ids,
    find_rfp_ids,
    parse_rfp_id,
)
from threadline.slack.text import mentions_in, plain_words

MAX_QUESTION = 5_000
"""Characters of a question; a longer one is cut at a word, and its author gets a notice."""

_UNSEEN = re.compile(r"[\u200b\u2060\ufeff]")
"""Zero-width marks that copied text brings into words and ids; not those that join an emoji."""
_MENTION = re.compile(r"<@[^<>]*>")
# characters of a link or a mention that a cut does not split; a `<` further back is the author's
# own
_MARKUP = 300
_BIND = (
    r"(?:(?:hey|hi|hello|ok|okay|so|and|now|then|please|pls|kindly|just|can|could|would|will"
    r"|you|let's|let|us|we|i|want|need|would|like|to)[\s,]+)*"
    r"(?:link|bind)(?:\s+(?:it|us|this|here|(?:this|the|our)\s+(?:thread|conversation)))?"
    r"(?:\s+(?:up\s+)?(?:to|with))?\s+"
)
"""The words of the command in everyday phrasing; its only object is the thread."""
_THANKS = r"(?:[\s.,!?]+(?:please|pls|thanks|thank\s+you|now|instead|then|here))*"
_LINK = re.compile(rf"{_BIND}_*(rfp_\S{{0,200}}?){_THANKS}[ .,!?]*")
_LINK_BY_ADDRESS = re.compile(rf"\W*{_BIND}<https?:[^<>\s]*>{_THANKS}\W*", re.IGNORECASE)
_WHERE = re.compile(r"where[?!. ]*")
_EDGES = "_ .,;:!?…"


class ScopeRule(IntEnum):
    """The order of the checks on a text; the first step with a matching phrase decides."""

    FREE = 1
    JOB = 2
    WRITE = 3
    RELATED = 4
    DEFAULT = 5


@dataclass(frozen=True)
class Phrase:
    """Whole words in a row, regardless of the marks around them. Between words, `…` is up to 160
    characters of the same sentence; `rfp_…` is an id.
    """

    text: str
    step: ScopeRule
    forms: tuple[str, ...] = ()
    """Equivalent forms: the plural, or an id in place of the word."""

    def is_in(self, words: str) -> bool:
        """Whether the phrase occurs in words of `plain_words`."""
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
"""In search order, which is the order of their steps."""

QUERIES = tuple(
    Phrase(each, ScopeRule.RELATED)
    for each in ("what is", "tell me about", "show me", "list", "search")
)
"""Phrases that turn a text about RFPs into a general question."""


@dataclass(frozen=True)
class ScopeRequirement:
    """Whether a request needs an RFP (None: unclear), and the phrase that decided; no phrase at
    `ScopeRule.DEFAULT`. `exception`: the text that reversed the step's usual answer: the id in a
    request about jobs, or the phrase of a general question.
    """

    required: bool | None
    step: ScopeRule
    phrase: str = ""
    exception: str = ""


def detect_scope_requirement(text: str) -> ScopeRequirement:
    """Return whether a message needs an RFP before any work on it, with the reason."""
    words = plain_words(text)
    found = next((each for each in PHRASES if each.is_in(words)), None)
    if found is None:
        return ScopeRequirement(False, ScopeRule.DEFAULT)
    if found.step is ScopeRule.JOB:
        named = next(iter(find_rfp_ids(text)), "")
        return ScopeRequirement(bool(named), found.step, found.text, named)
    if found.step is ScopeRule.RELATED:
        query = next((each.text for each in QUERIES if each.is_in(words)), "")
        return ScopeRequirement(False if query else None, found.step, found.text, query)
    return ScopeRequirement(found.step is ScopeRule.WRITE, found.step, found.text)


def ask_for_rfp_id(bot_name: str) -> str:
    """Return the question of branch C. `bot_name`: the bot's name without the `@`."""
    return (
        "Which RFP is this about? Include an id like `rfp_...` or bind this thread with: "
        f"`@{bot_name} link rfp_...`"
    )


@cache
def _pattern(phrase: str) -> re.Pattern[str]:
    """Compile a phrase. A word ends before the last mark of `_italics_`, but not before the rest
    of an id.
    """
    starts = r"(?<![^\W_])(?<![^\W_]_)"
    ends = r"(?![^\W_]|_[^\W_])"
    parts = (
        r"[ _-]+".join(
            r"rfp_[a-z0-9][\w-]*" if word == "rfp_…" else re.escape(word) for word in part.split()
        )
        for part in phrase.split(" … ")
    )
    gap = rf"{ends}(?:(?![.!?;] ).){{1,160}}?{starts}"
    return re.compile(f"{starts}{gap.join(parts)}{ends}")


def truncation_notice() -> str:
    """Return the sentence for the author of a question that was cut."""
    return (
        f"Your message is longer than {MAX_QUESTION:,} characters. I have read only the part "
        "before that."
    )


def normalise_question(text: str) -> str:
    """Collapse runs of blanks and of empty lines and strip each line; lists stay lists."""
    lines = (" ".join(line.split()) for line in _UNSEEN.sub("", text).splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def is_only_mentions(question: str) -> bool:
    return not _MENTION.sub("", question).strip()


def truncate_question(text: str) -> str:
    """Cut a normalised text to at most `MAX_QUESTION` characters, at a word unless one word is too
    long.
    """
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
    """Bind the thread to an RFP. `rfp_id` is empty if the text is no valid id, as `rfp_...`."""

    rfp_id: str


@dataclass(frozen=True)
class WhereCommand:
    """Show the RFP that the thread is bound to."""


ThreadCommand = LinkCommand | WhereCommand


def parse_thread_command(text: str) -> ThreadCommand | None:
    """Parse a message that is a command about its thread; None for any other message. `text` is
    normalised, without the mention of the bot; a message that mentions others is for them.
    """
    if mentions_in(text) or "<!" in text:
        return None
    words = plain_words(text).lstrip("_ ")
    if _WHERE.fullmatch(words.rstrip("_ ")):
        return WhereCommand()
    if found := _LINK.fullmatch(words):
        return LinkCommand(parse_rfp_id(found[1].rstrip(_EDGES)))
    named = find_rfp_ids(text) if _LINK_BY_ADDRESS.fullmatch(text) else ()
    return LinkCommand(named[0]) if len(named) == 1 else None


# words of an answer that may contain a request's phrase; a longer message is a new request
_SHORT = 6
_WORD = re.compile(r"[\w'-]+")
_LITTLE = re.compile(
    r"a|an|the|it|it's|its|is|that|that's|this|these|for|of|about|on|in|to|with|and|or|no|not"
    r"|yes|yeah|yep|ok|okay|i|we|our|my|mean|meant|please|thanks|ones?"
)
_ASKING = re.compile(
    r"create|make|add|upload|open|start|register|schedule|cancel|find|search|show|list|tell"
    r"|give|post|send|do|run|set|update|change|delete|remove|write"
)


def is_new_request(text: str, asked: str = "") -> bool:
    """Whether a message is a request by itself, and so no answer to the bot's question.

    An id is an answer, even with a question mark. A change without an RFP ("a journal entry") is
    an answer as well: it adds to the request that the bot asked about. So are a few words that
    only say that something is new, and a few words that the question offers.

    Args:
        asked: the bot's question; empty if it is unknown.
    """
    if contains_only_rfp_ids(text):
        return False
    if text.rstrip().endswith("?"):
        return True
    if _answers(_WORD.findall(plain_words(text)), _WORD.findall(plain_words(asked))):
        return False
    found = detect_scope_requirement(text)
    if found.step is ScopeRule.WRITE:
        return bool(find_rfp_ids(text))
    return found.step in (ScopeRule.FREE, ScopeRule.JOB) or (
        found.step is ScopeRule.RELATED and bool(found.exception)
    )


def _answers(words: list[str], asked: list[str]) -> bool:
    """Whether a few words answer a question by themselves, even if they contain a request's
    phrase.
    """
    telling = [each for each in words if not _LITTLE.fullmatch(each)]
    if not telling or len(words) > _SHORT:
        return False
    says_new = telling[0] in ("new", "brand", "brand-new") and not any(
        map(_ASKING.fullmatch, telling)
    )
    return says_new or set(telling) <= set(asked)


def multiple_rfps_notice(found: Scope) -> str:
    """Return the notice for a message that names several RFPs; empty for any other."""
    if found.origin is not ScopeSource.MESSAGE or not found.others:
        return ""
    others = " and ".join(found.others[:3]) + (" and others" if len(found.others) > 3 else "")
    return (
        f"You named several RFPs. This answer is about {found.rfp_id}. Please ask again for "
        f"{others}."
    )
