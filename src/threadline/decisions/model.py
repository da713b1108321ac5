"""Decision, the confidence in it, and the next step that follows. Pure.

The confidence is one number, computed from evidence and never taken from the model's own feeling.
The formula and the thresholds are the source design's (docs/designs.md). Its printed results for
the three example flows do not follow from its formula: they are 0.905, 0.71 and 0.57.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from math import isnan

from threadline.knowledge.model import Retrieval, Source

RECENT_MESSAGES = 5
"""Messages of the conversation that a decision takes into account."""
MAX_SENTENCE = 500
"""Characters that are kept of each sentence by the model."""

SOURCE_WEIGHT = 0.3
SIMPLICITY_WEIGHT = 0.2
CONTEXT_WEIGHT = 0.3
TOOLS_WEIGHT = 0.2
"""The four weights sum to 1."""
CONFLICT_FACTOR = 0.5
NO_RETRIEVAL_FACTOR = 0.7
"""Applies where a retrieval that is not critical has failed and the turn continues without it."""
ESCALATION_CAP = 0.35
"""The highest confidence that is stored for an escalation."""

SENSITIVE_TOPICS = {
    "refund": r"refund(?:s|ed|ing|able)?",
    "legal": r"legal(?:ly|ity|ities)?",
    "complaint": r"complain(?:t|ts|s|ed|ing)?",
    "sue": r"su(?:e|es|ed|ing)",
    "compensation": r"compensat(?:e|es|ed|ing|ion|ions)",
}
"""The design's list, with inflections."""
_MAX_SEARCHED = 50_000
"""Characters of a text that are searched for sensitive topics."""


# -- A decision


class DecisionType(StrEnum):
    """The possible actions on a question; the values are the design's."""

    RETRIEVE = "RETRIEVE"
    REASON_ONLY = "REASON_ONLY"
    USE_TOOL = "USE_TOOL"
    CLARIFY = "CLARIFY"
    ESCALATE = "ESCALATE"


class EscalationReason(StrEnum):
    """The reasons why a person takes over; the names are the design's, except for the engine's own
    decision.
    """

    LOW_CONFIDENCE = "confidence_below_threshold"
    SENSITIVE_TOPIC = "sensitive_topic"
    RETRIEVAL_FAILURE = "retrieval_failure"
    TOOL_FAILURE = "tool_failure"
    RESPONSE_ERROR = "response_generation_error"
    DECIDED = "engine_decision"


class Sensitivity(StrEnum):
    """The model's view of how a person uses a sensitive topic."""

    NONE = "none"
    ASKS = "asks"
    """As in "what's your refund policy?"."""
    CLAIMS = "claims"
    """As in a claim, a complaint or a threat: a person takes over."""


class NextStep(StrEnum):
    """The turn's next step."""

    PROCEED = "proceed"
    CLARIFY = "clarify"
    RETRIEVE_MORE = "retrieve_more"
    ESCALATE = "escalate"
    OPERATOR = "operator"
    """The operator answers: the request may be about an RFP, for which it has more tools."""


class DecisionOutcome(StrEnum):
    """The outcome of a decision, once its turn is settled, or a person has taken over."""

    ANSWERED = "answered"
    CLARIFIED = "clarified"
    ESCALATED = "escalated"
    TAKEN_OVER = "taken_over"
    FAILED = "failed"


@dataclass(frozen=True)
class Decision:
    """The model's answer, valid in its form. `complexity` and `model_confidence` are in [0, 1].

    `tools`: names, as the model sees them. `query`: the query for the documents. `question`: the
    question to the person. `document_types`: the types that may contain the answer.
    """

    type: DecisionType
    reasoning: str
    tools: tuple[str, ...] = ()
    query: str = ""
    question: str = ""
    escalation_reason: str = ""
    complexity: float = 0.0
    model_confidence: float = 0.0
    sensitivity: Sensitivity = Sensitivity.NONE
    intent_clear: bool = True
    document_types: tuple[str, ...] = ()

    @property
    def retrieves(self) -> bool:
        """Whether documents are searched before the evidence is judged; also for the arguments of
        a tool.
        """
        if self.type is DecisionType.RETRIEVE:
            return True
        return self.type is DecisionType.USE_TOOL and bool(self.query)


@dataclass(frozen=True)
class Factors:
    """The evidence; each number is in [0, 1].

    `source_quality`: None where the decision needs no source, or the source did not answer.
    `retrieval_critical`: a question of this kind may not be answered without its source.
    """

    source_quality: float | None
    query_complexity: float
    context_completeness: float
    tool_success_rate: float = 1.0
    conflict: bool = False
    retrieval_failed: bool = False
    retrieval_critical: bool = False


@dataclass(frozen=True)
class Thresholds:
    """The limits of a decision's confidence: from `high` on it proceeds, below `low` it escalates.

    Raises `ValueError` unless 0 < low <= high <= 1.
    """

    high: float = 0.75
    low: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high <= 1:
            raise ValueError(
                f"the thresholds must be 0 < low <= high <= 1, and they are {self.low} and "
                f"{self.high}"
            )


@dataclass(frozen=True)
class Judgement:
    """The consequence of a decision. `confidence` is the stored value; `reason` is set where
    `next_step` is ESCALATE.
    """

    next_step: NextStep
    confidence: float
    reason: EscalationReason | None = None


@dataclass(frozen=True)
class DecisionRound:
    """One round of a turn's decision, as it is stored; rounds count from 1.

    `retrieval` is None without a look-up; `factors` and `judgement` are None until the evidence is
    judged.
    """

    round: int
    decision: Decision
    thresholds: Thresholds
    inputs_hash: str
    prompt_version: str
    variant: str = ""
    sources: tuple[Source, ...] = ()
    retrieval: Retrieval | None = None
    factors: Factors | None = None
    judgement: Judgement | None = None


def last_round(rounds: Sequence[DecisionRound]) -> DecisionRound | None:
    """Return a turn's last round, with the sources of the latest look-up; None without any
    round.
    """
    if not rounds:
        return None
    last = rounds[-1]
    found = next((each for each in reversed(rounds) if each.retrieval), None)
    return replace(last, sources=found.sources, retrieval=found.retrieval) if found else last


# -- Confidence


class ConfidenceLevel(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


def confidence(factors: Factors) -> float:
    """Return the confidence in [0, 1]; without a source its weight is spread over the other
    factors.
    """
    parts = [
        (SIMPLICITY_WEIGHT, 1 - _unit(factors.query_complexity)),
        (CONTEXT_WEIGHT, _unit(factors.context_completeness)),
        (TOOLS_WEIGHT, _unit(factors.tool_success_rate)),
    ]
    if factors.source_quality is not None:
        parts.append((SOURCE_WEIGHT, _unit(factors.source_quality)))
    mean = sum(weight * value for weight, value in parts) / sum(weight for weight, _ in parts)
    mean *= CONFLICT_FACTOR if factors.conflict else 1.0
    mean *= NO_RETRIEVAL_FACTOR if factors.retrieval_failed else 1.0
    return _unit(round(mean, 6))


def confidence_level(value: float, thresholds: Thresholds) -> ConfidenceLevel:
    """Return the level of a confidence under these thresholds."""
    if value >= thresholds.high:
        return ConfidenceLevel.HIGH
    return ConfidenceLevel.MEDIUM if value >= thresholds.low else ConfidenceLevel.LOW


def context_completeness(*, lead: bool, history: bool, intent: bool) -> float:
    """Return a third each for a known asker (on record or in Slack), a history of the thread, and
    a clear intent.
    """
    return round((lead + history + intent) / 3, 6)


def tool_success_rate(succeeded: int, failed: int) -> float:
    """Return the success rate of this thread's executions; 1 where none ran."""
    return 1.0 if succeeded + failed == 0 else succeeded / (succeeded + failed)


def _unit(value: float) -> float:
    return 0.0 if isnan(value) else min(1.0, max(0.0, value))


# -- Rules


_NEEDED = {
    DecisionType.USE_TOOL: (
        "tools",
        "USE_TOOL needs tools_needed: name at least one tool of the list.",
    ),
    DecisionType.RETRIEVE: ("query", "RETRIEVE needs retrieval_query: say what to look up."),
    DecisionType.CLARIFY: (
        "question",
        "CLARIFY needs clarifying_question: say what to ask the person.",
    ),
    DecisionType.ESCALATE: (
        "escalation_reason",
        "ESCALATE needs escalation_reason: say why a person takes over.",
    ),
}
"""The field that a decision of a type requires, and the model's error message without it."""


def validate(decision: Decision, tools: Collection[str]) -> list[str]:
    """Return the problems of a decision, in sentences by which the model can correct them.

    `tools`: the allowed ones.
    """
    needed, problem = _NEEDED.get(decision.type, ("type", ""))
    problems = [] if "".join(getattr(decision, needed)).strip() else [problem]
    unknown = [each for each in decision.tools if each not in tools]
    if unknown and decision.type is DecisionType.USE_TOOL:
        problems.append(f"There is no tool {', '.join(unknown)}: use names of the list alone.")
    for name, value in (
        ("query_complexity", decision.complexity),
        ("confidence", decision.model_confidence),
    ):
        if not 0 <= value <= 1:
            problems.append(f"{name} is {value}: it must be a number from 0 to 1.")
    return problems


def judge(
    decision: Decision,
    factors: Factors,
    thresholds: Thresholds,
    *,
    retrieved_more: bool = False,
    questions: int = 0,
    questions_allowed: int = 2,
) -> Judgement:
    """Return the turn's next step by its decision and the evidence for it.

    RETRIEVE is judged after its retrieval. A clarification never escalates because of its score
    while questions are left.

    Args:
        decision: the model's decision.
        factors: the evidence.
        thresholds: the limits that apply to the thread.
        retrieved_more: the turn has retrieved a second time, which it does at most once.
        questions: the number of consecutive turns in which the bot has only asked back.
        questions_allowed: the maximum of `questions`.
    """
    value = confidence(factors)
    if reason := _person_needed(decision, factors):
        return escalation(value, reason)
    may_ask = questions < questions_allowed
    if decision.type is DecisionType.CLARIFY:
        return (
            Judgement(NextStep.CLARIFY, value)
            if may_ask
            else escalation(value, EscalationReason.LOW_CONFIDENCE)
        )
    match confidence_level(value, thresholds):
        case ConfidenceLevel.HIGH:
            return Judgement(NextStep.PROCEED, value)
        case ConfidenceLevel.LOW:
            return escalation(value, EscalationReason.LOW_CONFIDENCE)
    if factors.retrieval_failed:
        # As in the design: the turn continues without sources, at a lower confidence.
        return Judgement(NextStep.PROCEED, value)
    if decision.retrieves and not retrieved_more:
        return Judgement(NextStep.RETRIEVE_MORE, value)
    return (
        Judgement(NextStep.CLARIFY, value)
        if may_ask
        else escalation(value, EscalationReason.LOW_CONFIDENCE)
    )


def may_pass_on(decision: Decision, factors: Factors, judgement: Judgement) -> bool:
    """Return whether the operator may answer a turn that would end with a question or with a
    person.

    Sensitive topics, and documents that contradict each other or cannot be searched, stay with a
    person.
    """
    if factors.conflict:
        return False
    if judgement.next_step is NextStep.CLARIFY:
        return True
    if (
        judgement.next_step is not NextStep.ESCALATE
        or decision.sensitivity is not Sensitivity.NONE
    ):
        return False
    return judgement.reason in (EscalationReason.DECIDED, EscalationReason.LOW_CONFIDENCE)


def escalation(value: float, reason: EscalationReason) -> Judgement:
    """Return an escalation, with its confidence capped."""
    return Judgement(NextStep.ESCALATE, min(value, ESCALATION_CAP), reason)


def sensitive_topics(text: str, more: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the topics that a text names, in any case and inflection, as separate words: "issue"
    does not name "sue".

    They are evidence for the model, which judges their meaning.

    `more`: further words, each with the endings of English verbs and nouns.
    """
    searched = text[:_MAX_SEARCHED]
    return tuple(
        name for name, pattern in _topic_patterns(tuple(more)).items() if pattern.search(searched)
    )


def _person_needed(decision: Decision, factors: Factors) -> EscalationReason | None:
    """Return the reason why a person takes over at any confidence; None where the confidence
    decides.
    """
    if decision.sensitivity is Sensitivity.CLAIMS:
        return EscalationReason.SENSITIVE_TOPIC
    if decision.type is DecisionType.ESCALATE:
        return EscalationReason.DECIDED
    return (
        EscalationReason.RETRIEVAL_FAILURE
        if factors.retrieval_failed and factors.retrieval_critical
        else None
    )


@lru_cache(maxsize=8)
def _topic_patterns(more: tuple[str, ...]) -> dict[str, re.Pattern[str]]:
    """Return one pattern for each topic, since topics overlap: "legal action" names "legal",
    too.
    """
    added = {
        each: _inflected(each) for each in more if each.strip() and each not in SENSITIVE_TOPICS
    }
    # An underscore is Slack's markup for italics, not part of a word; a hyphen joins words.
    return {
        name: re.compile(rf"(?<![^\W_])(?:{word})(?![^\W_])", re.IGNORECASE)
        for name, word in (SENSITIVE_TOPICS | added).items()
    }


def _inflected(words: str) -> str:
    """Return a pattern of the words with their last word's regular endings: disputed, policies,
    cancelling.
    """
    spaced = r"\s+".join(re.escape(each) for each in words.split())
    if ending := re.search(r"(?<=\w)e$", spaced, re.IGNORECASE):
        return rf"{spaced[: ending.start()]}(?:e|es|e's|ed|e?ing)"
    if ending := re.search(r"(?<=[^\Waeiou])y$", spaced, re.IGNORECASE):
        return rf"{spaced[: ending.start()]}(?:y|y's|ies|ied|ying)"
    if ending := re.search(r"(?<=[aeiou])[bdfgklmnprtvz]$", spaced, re.IGNORECASE):
        return rf"{spaced}(?:s|es|'s|{ending[0]}?(?:ed|ing))?"
    return rf"{spaced}(?:s|es|'s|ed|ing)?"
