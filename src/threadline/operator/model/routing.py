"""The way of a turn: which agent answers, about which RFP, and what is said by rule before any model is asked.

The rules may change and run in an activity; what they said is kept with the turn.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum

from threadline.conversations.model.conversation import OutcomeKind
from threadline.operator.model import scope
from threadline.operator.model import scope as questions
from threadline.operator.model.scope import Branch, ScopeRequirement, ScopeRule
from threadline.rfps.model import Scope, ScopeSource, contains_only_rfp_ids, find_rfp_ids, resolve_scope
from threadline.slack.text import plain_words

_SHORT = 6
"""Words of an answer that may have a request's phrase in it; a longer one tells of something else."""
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
    """How a turn goes.

    `requirement` is None where nobody spoke to the bot, or nothing was asked. `ends`: the turn is over before the loop,
    with `reply`. `notes` stand before the answer. `resumes`: the turn whose request goes on here; 0 for none.
    `missing`: what the question lacked.
    """

    agent: Agent
    branch: Branch
    scope: Scope = field(default_factory=Scope)
    requirement: ScopeRequirement | None = None
    ends: OutcomeKind | None = None
    reply: str = ""
    notes: tuple[str, ...] = ()
    resumes: int = 0
    missing: str = ""
    behind: int = 0
    """Steps that the conversational agent took before the operator went on."""
    remembers: bool = False
    """Somebody asks to have something remembered."""
    relays: bool = False
    """A person takes the thread over, or may: they are shown what was said."""
    overhears: bool = False
    """Nothing that it was begun with was addressed to the bot."""

    @property
    def about(self) -> str:
        """In a few words, for Temporal's UI."""
        where = f"{self.scope.rfp_id} (from the {self.scope.origin})" if self.scope.rfp_id else "no RFP"
        return f"branch {self.branch}, {self.agent}, {where}"


@dataclass(frozen=True)
class RouteRequest:
    """What a turn begins with: the words of people without what they said about the thread itself.

    `pending` is an earlier request of the same person, of the turn `resumes`, to which this is the answer. `bound`: the
    RFP of the thread, if there is one. `addressed`: the bot was spoken to.
    """

    text: str
    channel: str
    thread_ts: str
    pending: str = ""
    resumes: int = 0
    bound: str = ""
    addressed: bool = True


def choose_route(request: RouteRequest) -> TurnRoute:
    """The way of a request.

    Words that were only overheard are the conversational agent's, which may be silent about them. An answer to what the
    bot has asked goes on with the request that it is for, also where it names no RFP: who was asked once is not asked
    the same again.
    """
    if not request.addressed:
        return TurnRoute(Agent.COPILOT, Branch.A)
    asked = questions.validate_question(f"{request.pending}\n{request.text}", request.channel, request.thread_ts)
    if isinstance(asked, questions.MissingInput):
        return TurnRoute(Agent.COPILOT, Branch.A, missing=asked.value)
    found = resolve_scope(request.text)
    if not found.rfp_id:
        found = resolve_scope(request.pending, request.bound)
    requirement = scope.detect_scope_requirement(asked.text)
    branch = Branch.D if request.resumes else scope.choose_branch(found.rfp_id, requirement.required)
    agent = Agent.OPERATOR if branch in (Branch.C, Branch.D) else Agent.COPILOT
    return TurnRoute(agent, branch, found, requirement, resumes=request.resumes)


def is_new_request(text: str, asked: str = "") -> bool:
    """Whether a message asks for something by itself, and so is no answer to what the bot has asked.

    An id is an answer, with a question mark too. What wants to change an RFP and names none is one ("a journal entry"):
    who was asked about a request says more of it. So are a few words that only say that something is new, and a few of
    those that the question offers.

    Args:
        asked: the bot's question; empty where it is not known.
    """
    if contains_only_rfp_ids(text):
        return False
    if text.rstrip().endswith("?"):
        return True
    if _answers(_WORD.findall(plain_words(text)), _WORD.findall(plain_words(asked))):
        return False
    found = scope.detect_scope_requirement(text)
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
