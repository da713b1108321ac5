"""What the decision engine says of a question, and what follows from it. Rules that may change: run in activities."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from threadline.decisions.confidence import ESCALATED, Factors, Level, Thresholds, composite, level
from threadline.knowledge.model import citation

RECENT = 5
"""Messages of the conversation that a decision is made with."""
LONGEST_REASONING = 500
"""Characters that are kept of each sentence of the model's."""
FALLBACK = "I'm experiencing technical difficulties. A team member will assist you."
"""Said where no answer could be made; the design's sentence."""


class Action(StrEnum):
    """What to do with a question; the values are the design's."""

    RETRIEVE = "RETRIEVE"
    REASON_ONLY = "REASON_ONLY"
    USE_TOOL = "USE_TOOL"
    CLARIFY = "CLARIFY"
    ESCALATE = "ESCALATE"


class Reason(StrEnum):
    """Why a person takes over; the names are the design's, the last one stands for the engine's own words."""

    LOW_CONFIDENCE = "confidence_below_threshold"
    SENSITIVE_TOPIC = "sensitive_topic"
    RETRIEVAL_FAILURE = "retrieval_failure"
    TOOL_FAILURE = "tool_failure"
    RESPONSE_ERROR = "response_generation_error"
    DECIDED = "engine_decision"


class Sensitivity(StrEnum):
    """What a person does with a sensitive topic, as the model has it."""

    NONE = "none"
    ASKS = "asks"
    """As in "what's your refund policy?"."""
    CLAIMS = "claims"
    """They claim, complain or threaten: a person takes over."""


class Course(StrEnum):
    """What becomes of the turn."""

    PROCEED = "proceed"
    CLARIFY = "clarify"
    RETRIEVE_MORE = "retrieve_more"
    ESCALATE = "escalate"


@dataclass(frozen=True)
class Decided:
    """The model's answer, read and valid. `complexity` and `own_confidence` in [0, 1].

    `tools` are names as the model is shown them. `query` is what to look up, `question` what to ask the person.
    """

    action: Action
    reasoning: str
    tools: tuple[str, ...] = ()
    query: str = ""
    question: str = ""
    escalation_reason: str = ""
    complexity: float = 0.0
    own_confidence: float = 0.0
    sensitivity: Sensitivity = Sensitivity.NONE
    intent_clear: bool = True
    document_types: tuple[str, ...] = ()
    """In which the answer would stand."""


@dataclass(frozen=True)
class Spent:
    """What a turn and its conversation have used up: more is retrieved once a turn, and `questions` are asked so often
    in a row."""

    retrieved_more: bool = False
    questions: int = 0
    questions_allowed: int = 2


@dataclass(frozen=True)
class Verdict:
    """What follows from a decision: `confidence` is as it is stored, `reason` is there where `course` is ESCALATE."""

    course: Course
    confidence: float
    reason: Reason | None = None


class Result(StrEnum):
    """What came of a decision, once its turn is settled, or a person has taken over."""

    ANSWERED = "answered"
    CLARIFIED = "clarified"
    ESCALATED = "escalated"
    TAKEN_OVER = "taken_over"
    FAILED = "failed"


@dataclass(frozen=True)
class Source:
    """A passage that was found for a question; `text` is empty once the turn is settled.

    `score` is higher for what fits better; only the order means something.
    """

    title: str
    section: str
    source: str
    type: str
    text: str = ""
    score: float = 0.0

    @property
    def cited(self) -> str:
        """As an answer names it."""
        return citation(self.title, self.section)


@dataclass(frozen=True)
class Retrieval:
    """What looking up came to. `quality` in [0, 1]; `failed`: the knowledge could not be asked.

    `critical`: a question of this kind may not be answered without it. `suspicious`: passages that may contradict each
    other, as pairs of their places among the sources.
    """

    quality: float = 0.0
    failed: bool = False
    critical: bool = False
    suspicious: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Deliberation:
    """One round of a turn's decision, as it is kept; it counts from 1.

    `retrieval` is None where nothing was looked up, `factors` and `verdict` until the evidence is weighed.
    """

    round: int
    decided: Decided
    thresholds: Thresholds
    inputs_hash: str
    prompt_version: str
    variant: str = ""
    sources: tuple[Source, ...] = ()
    retrieval: Retrieval | None = None
    factors: Factors | None = None
    verdict: Verdict | None = None


def concluded(rounds: Sequence[Deliberation]) -> Deliberation | None:
    """A turn's last round, with what was found for it: a round that looked nothing up rests on what one before it did.

    None where nothing was decided.
    """
    if not rounds:
        return None
    last, found = rounds[-1], next((each for each in reversed(rounds) if each.retrieval), None)
    return replace(last, sources=found.sources, retrieval=found.retrieval) if found else last


def faults(decided: Decided, tools: Collection[str]) -> list[str]:
    """What is wrong with a decision, in sentences that the model can mend it by.

    Args:
        tools: the names that exist and are allowed.
    """
    found = [*_lacking(decided), *_unknown(decided, tools)]
    for name, value in (("query_complexity", decided.complexity), ("confidence", decided.own_confidence)):
        if not 0 <= value <= 1:
            found.append(f"{name} is {value}: it must be a number from 0 to 1.")
    return found


def verdict(decided: Decided, factors: Factors, thresholds: Thresholds, spent: Spent) -> Verdict:
    """What becomes of a turn by its decision and the evidence for it.

    RETRIEVE is judged after its retrieval. A clarification never escalates on its score alone until the questions that
    are allowed are used up; more is retrieved or asked at most once a turn.
    """
    sure = composite(factors)
    if reason := _for_a_person(decided, factors):
        return handed_over(sure, reason)
    may_ask = spent.questions < spent.questions_allowed
    if decided.action is Action.CLARIFY:
        return Verdict(Course.CLARIFY, sure) if may_ask else handed_over(sure, Reason.LOW_CONFIDENCE)
    match level(sure, thresholds):
        case Level.HIGH:
            return Verdict(Course.PROCEED, sure)
        case Level.LOW:
            return handed_over(sure, Reason.LOW_CONFIDENCE)
    if factors.retrieval_failed:
        return Verdict(Course.PROCEED, sure)  # as the design has it: less sure, and without
    if decided.action is Action.RETRIEVE and not spent.retrieved_more:
        return Verdict(Course.RETRIEVE_MORE, sure)
    return Verdict(Course.CLARIFY, sure) if may_ask else handed_over(sure, Reason.LOW_CONFIDENCE)


def handed_over(confidence: float, reason: Reason) -> Verdict:
    """An escalation, whose confidence is capped."""
    return Verdict(Course.ESCALATE, min(confidence, ESCALATED), reason)


def _for_a_person(decided: Decided, factors: Factors) -> Reason | None:
    """Why a person takes over, however sure the decision is; None where its confidence decides."""
    if decided.sensitivity is Sensitivity.CLAIMS:
        return Reason.SENSITIVE_TOPIC
    if decided.action is Action.ESCALATE:
        return Reason.DECIDED
    return Reason.RETRIEVAL_FAILURE if factors.retrieval_failed and factors.retrieval_critical else None


def _lacking(decided: Decided) -> list[str]:
    """What the action needs, and the decision has not."""
    needs = {
        Action.USE_TOOL: ("".join(decided.tools), "USE_TOOL needs tools_needed: name at least one tool of the list."),
        Action.RETRIEVE: (decided.query, "RETRIEVE needs retrieval_query: say what to look up."),
        Action.CLARIFY: (decided.question, "CLARIFY needs clarifying_question: say what to ask the person."),
        Action.ESCALATE: (decided.escalation_reason, "ESCALATE needs escalation_reason: say why a person takes over."),
    }
    given, fault = needs.get(decided.action, ("-", ""))
    return [] if given.strip() else [fault]


def _unknown(decided: Decided, tools: Collection[str]) -> list[str]:
    unknown = [each for each in decided.tools if each not in tools] if decided.action is Action.USE_TOOL else []
    return [f"There is no tool {', '.join(unknown)}: use names of the list alone."] if unknown else []
