"""The route of a turn: what a request is about, whether its words need an RFP, and which agent answers it.

The rules may change and run in an activity; what they said is kept with the turn. docs/operator.md shows them and is
written from this file.
"""

import re
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cache

from threadline.conversations.model.conversation import OutcomeKind
from threadline.rfps.model import Scope, ScopeSource, contains_only_rfp_ids, find_rfp_ids, parse_rfp_id, resolve_scope
from threadline.slack.text import mentions_in, plain_words

MAX_QUESTION = 5_000
"""Characters of a question; a longer one is cut at a word, and its writer is told."""

_UNSEEN = re.compile(r"[\u200b\u2060\ufeff]")
"""Marks without a width that come along when text is copied, amid words and ids; not those that join an emoji."""
_MENTION = re.compile(r"<@[^<>]*>")
_MARKUP = 300  # characters of a link or a mention that a cut spares; a `<` further back is somebody's own sign
_BIND = (
    r"(?:(?:hey|hi|hello|ok|okay|so|and|now|then|please|pls|kindly|just|can|could|would|will|you|let's|let|us|we"
    r"|i|want|need|would|like|to)[\s,]+)*"
    r"(?:link|bind)(?:\s+(?:it|us|this|here|(?:this|the|our)\s+(?:thread|conversation)))?(?:\s+(?:up\s+)?(?:to|with))?"
    r"\s+"
)
"""The words of the command, as people say it; its object is nothing but the thread."""
_THANKS = r"(?:[\s.,!?]+(?:please|pls|thanks|thank\s+you|now|instead|then|here))*"
_LINK = re.compile(rf"{_BIND}_*(rfp_\S{{0,200}}?){_THANKS}[ .,!?]*")
_LINK_BY_ADDRESS = re.compile(rf"\W*{_BIND}<https?:[^<>\s]*>{_THANKS}\W*", re.IGNORECASE)
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
    """Words that count where they stand as whole words, one after the other, whatever marks are around them. Between
    words, `…` is up to 160 characters of the same sentence; `rfp_…` is an id."""

    text: str
    step: ScopeRule
    forms: tuple[str, ...] = ()
    """Others that count as the same: the plural, an id in place of the word."""

    def stands_in(self, words: str) -> bool:
        """Whether it is in words of `plain_words`."""
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

QUERIES = tuple(Phrase(each, ScopeRule.RELATED) for each in ("what is", "tell me about", "show me", "list", "search"))
"""With one of these, what has to do with RFPs is a general question."""


@dataclass(frozen=True)
class ScopeRequirement:
    """Whether a request needs an RFP (None: unclear), and which phrase has decided that; none at `ScopeRule.DEFAULT`.
    `exception` turned the step's usual answer: the id in a request about jobs, the phrase of a general question."""

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


class Branch(StrEnum):
    """Which way a request takes."""

    A = "A"
    B = "B"
    C = "C"
    D = "D"

    @property
    def falls_through(self) -> bool:
        """When that agent fails, the operator goes on without an RFP."""
        return self is Branch.B


def choose_branch(rfp_id: str, required: bool | None) -> Branch:
    """The way of a request. `rfp_id`: what it is about by its message or its thread's binding, or empty. `required`: of
    `detect_scope_requirement`."""
    if rfp_id:
        return Branch.D
    return {False: Branch.A, None: Branch.B, True: Branch.C}[required]


def ask_for_rfp_id(bot_name: str) -> str:
    """What a person is asked in branch C. `bot_name`: by which people mention the bot, without the `@`."""
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


def parse_thread_command(text: str) -> ThreadCommand | None:
    """What a message says about its thread; None when it says anything else. `text` is normalised, and without the
    mention of the bot; with a mention of anybody else, it is for them."""
    if mentions_in(text) or "<!" in text:
        return None
    words = plain_words(text).lstrip("_ ")
    if _WHERE.fullmatch(words.rstrip("_ ")):
        return WhereCommand()
    if found := _LINK.fullmatch(words):
        return LinkCommand(parse_rfp_id(found[1].rstrip(_EDGES)))
    named = find_rfp_ids(text) if _LINK_BY_ADDRESS.fullmatch(text) else ()
    return LinkCommand(named[0]) if len(named) == 1 else None


_SHORT = 6  # words of an answer that may have a request's phrase in it; a longer one tells of something else
_WORD = re.compile(r"[\w'-]+")
_LITTLE = re.compile(
    r"a|an|the|it|it's|its|is|that|that's|this|these|for|of|about|on|in|to|with|and|or|no|not|yes|yeah|yep|ok|okay"
    r"|i|we|our|my|mean|meant|please|thanks|ones?"
)
_ASKING = re.compile(
    r"create|make|add|upload|open|start|register|schedule|cancel|find|search|show|list|tell|give|post|send|do|run"
    r"|set|update|change|delete|remove|write"
)


class Agent(StrEnum):
    COPILOT = "copilot"
    """The conversational agent: everything but changes of an RFP."""
    OPERATOR = "operator"
    """Holds every tool, and is held to the protocol."""


@dataclass(frozen=True)
class TurnRoute:
    """How a turn goes. `requirement` is None where nobody spoke to the bot, or nothing was asked. `ends`: the turn is
    over before the loop, with `reply`. `notes` stand before the answer. `resumes_turn`: the turn whose request goes on
    here; 0 for none. `missing`: `missing_question` where nothing was said besides mentions."""

    agent: Agent
    branch: Branch
    scope: Scope = field(default_factory=Scope)
    requirement: ScopeRequirement | None = None
    ends: OutcomeKind | None = None
    reply: str = ""
    notes: tuple[str, ...] = ()
    resumes_turn: int = 0
    missing: str = ""
    prior_steps: int = 0
    """Steps that the conversational agent took before the operator went on."""
    has_fact_to_remember: bool = False
    """Somebody asks to have something remembered."""
    relays_to_person: bool = False
    """A person takes the thread over, or may: they are shown what was said."""
    not_addressed: bool = False
    """Nothing that it was begun with was addressed to the bot."""

    @property
    def summary(self) -> str:
        """In a few words, for Temporal's UI."""
        where = f"{self.scope.rfp_id} (from the {self.scope.origin})" if self.scope.rfp_id else "no RFP"
        return f"branch {self.branch}, {self.agent}, {where}"


def choose_route(text: str, *, pending: str = "", resumes_turn: int = 0, bound: str = "") -> TurnRoute:
    """The way of a request to the bot.

    An answer to what the bot has asked goes on with the request that it is for, also where it names no RFP: who was
    asked once is not asked the same again.

    Args:
        text: of people, without what they said about the thread itself.
        pending: an earlier request of the same person, of the turn `resumes_turn`, to which this is the answer.
        bound: the RFP of the thread, or empty.
    """
    asked = normalise_question(f"{pending}\n{text}")
    if not _MENTION.sub("", asked).strip():
        return TurnRoute(Agent.COPILOT, Branch.A, missing="missing_question")
    found = resolve_scope(text)
    if not found.rfp_id:
        found = resolve_scope(pending, bound)
    requirement = detect_scope_requirement(truncate_question(asked))
    branch = Branch.D if resumes_turn else choose_branch(found.rfp_id, requirement.required)
    agent = Agent.OPERATOR if branch in (Branch.C, Branch.D) else Agent.COPILOT
    return TurnRoute(agent, branch, found, requirement, resumes_turn=resumes_turn)


def is_new_request(text: str, asked: str = "") -> bool:
    """Whether a message asks for something by itself, and so is no answer to what the bot has asked.

    `asked`: the bot's question; empty where it is not known. An id is an answer, with a question mark too. What wants
    to change an RFP and names none is one ("a journal entry"): who was asked about a request says more of it. So are a
    few words that only say that something is new, and a few of those that the question offers.
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
    return found.step in (ScopeRule.FREE, ScopeRule.JOB) or (found.step is ScopeRule.RELATED and bool(found.exception))


def _answers(words: list[str], asked: list[str]) -> bool:
    """Whether a few words are what a question wants to hear, by themselves and whatever phrase is in them."""
    telling = [each for each in words if not _LITTLE.fullmatch(each)]
    if not telling or len(words) > _SHORT:
        return False
    says_new = telling[0] in ("new", "brand", "brand-new") and not any(map(_ASKING.fullmatch, telling))
    return says_new or set(telling) <= set(asked)


def multiple_rfps_notice(found: Scope) -> str:
    """Told to who has named several RFPs; empty for anybody else."""
    if found.origin is not ScopeSource.MESSAGE or not found.others:
        return ""
    others = " and ".join(found.others[:3]) + (" and others" if len(found.others) > 3 else "")
    return f"You named several RFPs. This answer is about {found.rfp_id}. Please ask again for {others}."
