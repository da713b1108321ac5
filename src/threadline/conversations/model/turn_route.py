"""The route of a turn: the RFP of its request, and the agent that answers it."""

from dataclasses import dataclass, field
from enum import StrEnum

from threadline.conversations.model.conversation import OutcomeKind
from threadline.operator.model.routing import (
    ScopeRequirement,
    detect_scope_requirement,
    is_only_mentions,
    normalise_question,
    truncate_question,
)
from threadline.rfps.model import Scope, resolve_scope


class Branch(StrEnum):
    """The branch of the routing table that a request takes."""

    A = "A"
    B = "B"
    C = "C"
    D = "D"

    @property
    def falls_through(self) -> bool:
        """When that agent fails, the operator continues without an RFP."""
        return self is Branch.B


def choose_branch(rfp_id: str, required: bool | None) -> Branch:
    """Return the branch of a request.

    Args:
        rfp_id: the RFP that its message names or its thread is bound to, or empty.
        required: from `detect_scope_requirement`.
    """
    if rfp_id:
        return Branch.D
    return {False: Branch.A, None: Branch.B, True: Branch.C}[required]


class Agent(StrEnum):
    ASSISTANT = "assistant"
    """The assistant: everything except changes of an RFP."""
    OPERATOR = "operator"
    """Has every tool and follows the protocol."""


@dataclass(frozen=True)
class TurnRoute:
    """The route of a turn.

    Args:
        requirement: None if the turn was not addressed to the bot or asked for nothing.
        ends: the turn ends before the loop, with `reply`.
        notes: texts that precede the answer.
        resumes_turn: the turn whose request continues here; 0 for none.
        missing: `missing_question` if the message contains only mentions.
        is_help: `reply` is a help in mrkdwn, with the requests of `examples` on its buttons.
    """

    agent: Agent
    branch: Branch
    scope: Scope = field(default_factory=Scope)
    requirement: ScopeRequirement | None = None
    ends: OutcomeKind | None = None
    reply: str = ""
    notes: tuple[str, ...] = ()
    resumes_turn: int = 0
    missing: str = ""
    is_help: bool = False
    examples: tuple[str, ...] = ()
    prior_steps: int = 0
    """Steps of the assistant before the operator took over."""
    has_fact_to_remember: bool = False
    """A person asked the bot to remember something."""
    relays_to_person: bool = False
    """A person takes over the thread, or may; they see the conversation."""
    not_addressed: bool = False
    """None of the turn's first messages was addressed to the bot."""

    @property
    def summary(self) -> str:
        """A few words for Temporal's UI."""
        where = (
            f"{self.scope.rfp_id} (from the {self.scope.origin})"
            if self.scope.rfp_id
            else "no RFP"
        )
        return f"branch {self.branch}, {self.agent}, {where}"


def choose_route(
    text: str, *, pending: str = "", resumes_turn: int = 0, bound: str = ""
) -> TurnRoute:
    """Return the route of a request to the bot.

    An answer to the bot's question continues the request that it belongs to, even if it names no
    RFP: the bot must not ask the same question twice.

    Args:
        text: the people's messages, without commands about the thread itself.
        pending: an earlier request of the same person, from the turn `resumes_turn`, to which
            `text` is the answer.
        bound: the RFP of the thread, or empty.
    """
    asked = normalise_question(f"{pending}\n{text}")
    if is_only_mentions(asked):
        return TurnRoute(Agent.ASSISTANT, Branch.A, missing="missing_question")
    found = resolve_scope(text)
    if not found.rfp_id:
        found = resolve_scope(pending, bound)
    requirement = detect_scope_requirement(truncate_question(asked))
    branch = Branch.D if resumes_turn else choose_branch(found.rfp_id, requirement.required)
    agent = Agent.OPERATOR if branch in (Branch.C, Branch.D) else Agent.ASSISTANT
    return TurnRoute(agent, branch, found, requirement, resumes_turn=resumes_turn)
