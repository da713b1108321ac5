"""Situation and `decide`: the decision on a question, made by a model that sees the whole
situation, never by keywords.

The model answers in a strict form. An invalid answer is returned to it once with its problems;
after a second one a person takes over. All words of people, records and documents reach the model
as JSON strings, out of which no text can break.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from threadline.decisions.model import MAX_SENTENCE, Decision, DecisionType, Sensitivity, validate
from threadline.knowledge.model import Source
from threadline.models.model import Ask
from threadline.slack.model import clean_text

ATTEMPTS = 2
"""Answers of the model to one query; an invalid one is returned to it with its problems."""
MAX_QUERY = 12_000
"""Characters of a query in the prompt: the head and the tail of a longer one."""
_MAX_LINE = 1_000
_MAX_SOURCE = 1_200
MAX_PAIRS = 4
"""Pairs of passages that are compared. Pairs of the best passages come first, and each pair costs
a model call.
"""
_MAX_COMPARED = 2_000
_MAX_TOOLS = 20
_MAX_PROBLEMS = 10
_UNDECIDED = "No valid decision could be made."
_IS_IT_SENSITIVE = (
    "The query has sensitive words ({}): sensitivity is asks or claims, by what is meant. It is "
    "asks where they mean something else, as in a name."
)
COMPARISON_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"contradiction": {"type": "boolean"}, "reasoning": {"type": "string"}},
    "required": ["contradiction", "reasoning"],
    "additionalProperties": False,
}
_FENCED = re.compile(r"[^{`]*```(?:json)?(.*)```", re.DOTALL)
"""A code block around the answer; fences within its sentences belong to them."""


@dataclass(frozen=True)
class Situation:
    """The inputs of a decision.

    `recent`: the last messages, oldest first, each prefixed with its author. `lead`: facts about
    the asker, in a few lines. `sources`: passages retrieved earlier; the text is empty where only
    the name is remembered. `sensitive`: the topics that the query names. `tools`: descriptions by
    tool name, as the model sees them. `types`: the types of the documents.
    """

    query: str
    recent: tuple[str, ...] = ()
    lead: str = ""
    sources: tuple[Source, ...] = ()
    tools: Mapping[str, str] = field(default_factory=dict)
    sensitive: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        """The situation's fingerprint, which differs for any other situation: 64 hexadecimal
        digits.
        """
        return sha256(
            json.dumps(asdict(self), sort_keys=True).encode("utf-8", "surrogatepass")
        ).hexdigest()

    def as_json(self) -> str:
        """Return the JSON document that the model reads."""
        query = self.query
        half = MAX_QUERY // 2
        if len(query) > MAX_QUERY:
            gap = f"\n[… {len(query) - 2 * half:,} characters are left out here …]\n"
            query = f"{query[:half]}{gap}{query[-half:]}"
        sources = [
            {"title": each.title, "section": each.section, "text": each.text[:_MAX_SOURCE]}
            for each in self.sources
        ]
        shown = {  # fields that all queries share come first, for the provider's cache
            "tools": self.tools,
            "document_types": self.types,
            "lead_context": self.lead,
            "sources_already_retrieved": sources,
            "recent_conversation": [line[:_MAX_LINE] for line in self.recent],
            "query": query,
            "sensitive_words_in_the_query": self.sensitive,
        }
        return json.dumps(shown, ensure_ascii=False, indent=1)


# -- Deciding


async def decide(
    situation: Situation, ask: Ask, instructions: str = ""
) -> tuple[Decision, tuple[str, ...]]:
    """Decide what to do with a query; a decision results even if the model gives no valid answer.

    Args:
        situation: the inputs of the decision.
        ask: calls the model.
        instructions: the prompt; empty for the product's own.

    Returns:
        The decision, and the problems of the model's last answer; none if the decision is the
        model's.

    Raises:
        Permanent, Transient: the model cannot be called.
    """
    instructions = instructions or prompt("decide")
    schema = decision_schema(situation.types)
    messages = [situation.as_json()]
    problems = list[str]()
    for _ in range(ATTEMPTS):
        text = await ask(instructions, messages, "decision", schema)
        found = parse_decision(text)
        if isinstance(found, Decision):
            problems = validate(found, situation.tools)
            if situation.sensitive and found.sensitivity is Sensitivity.NONE:
                problems.append(_IS_IT_SENSITIVE.format(", ".join(situation.sensitive)))
            if not problems:
                return found, ()
        else:
            problems = list(found)
        listed = "\n".join(f"- {each}" for each in problems)
        messages = [
            messages[0],
            text,
            f"This is not valid. Answer again in the same form:\n{listed}",
        ]
    return default_escalation(situation.sensitive), tuple(problems)


def default_escalation(sensitive: Sequence[str] = ()) -> Decision:
    """Return the decision that a person takes over, for want of a valid one; a sensitive word then
    counts as a claim.
    """
    return Decision(
        DecisionType.ESCALATE,
        _UNDECIDED,
        escalation_reason=_UNDECIDED,
        complexity=1.0,
        sensitivity=Sensitivity.CLAIMS if sensitive else Sensitivity.NONE,
        intent_clear=False,
    )


@cache
def prompt(name: str) -> str:
    """Return one of the product's own prompts."""
    return (files(__package__) / "prompts" / f"{name}.md").read_text(encoding="utf-8")


def prompt_version(instructions: str) -> str:
    """Return the name of the instructions in a stored decision: 12 hexadecimal digits."""
    return sha256(instructions.encode()).hexdigest()[:12]


# -- The form of a decision


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)


_Share = Annotated[
    float, AfterValidator(_share), Field(description="From 0 to 1.", allow_inf_nan=False)
]


class _DecisionAnswer(BaseModel):
    """The model's answer in its strict form: a wrong word is never guessed at.

    A number out of its range is clamped, since many endpoints do not enforce ranges.
    """

    model_config = ConfigDict(strict=True, extra="ignore")

    decision: str
    reasoning: str
    tools_needed: list[str]
    retrieval_needed: bool
    retrieval_query: str
    document_types: list[str]
    clarifying_question: str
    escalation_reason: str
    query_complexity: _Share
    confidence: _Share
    sensitivity: str
    intent_clear: bool


def decision_schema(types: Sequence[str]) -> Mapping[str, Any]:
    """Return the JSON schema of a decision, as strict structured outputs accept it.

    `types`: the types of the documents.
    """
    properties = _DecisionAnswer.model_json_schema()["properties"]
    for each in properties.values():
        del each["title"]
    properties["decision"]["enum"] = [each.value for each in DecisionType]
    properties["sensitivity"]["enum"] = [each.value for each in Sensitivity]
    if types:
        properties["document_types"]["items"]["enum"] = list(types)
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def parse_decision(text: str) -> Decision | tuple[str, ...]:
    """Parse the model's answer; it never raises. `validate` checks whether the decision makes
    sense.

    Returns:
        The decision, or its problems, in sentences by which the model can correct them.
    """
    try:
        answer = _DecisionAnswer.model_validate(_read_object(text))
        type_ = DecisionType(answer.decision.strip().upper())
        sensitivity = Sensitivity(answer.sensitivity.strip().lower())
    except ValidationError as error:
        wrong = [
            (".".join(map(str, each["loc"])), each["msg"])
            for each in error.errors()[:_MAX_PROBLEMS]
        ]
        return tuple(f"{where or 'the answer'}: {message}" for where, message in wrong)
    except (ValueError, RecursionError) as error:
        return (f"The answer is not the JSON that was asked for: {str(error)[:200]}",)
    return Decision(
        type_,
        _line(answer.reasoning),
        tuple(_line(each) for each in answer.tools_needed[:_MAX_TOOLS]),
        _line(answer.retrieval_query)
        if answer.retrieval_needed or type_ is DecisionType.RETRIEVE
        else "",
        _line(answer.clarifying_question),
        _line(answer.escalation_reason),
        answer.query_complexity,
        answer.confidence,
        sensitivity,
        answer.intent_clear,
        tuple(_line(each) for each in answer.document_types[:_MAX_TOOLS]),
    )


def _read_object(text: str) -> Any:
    """Return the JSON of an answer: alone, in a code block, or amid text. Raises `ValueError`
    where there is none.
    """
    found = _FENCED.match(text)
    whole = found[1] if found else text
    try:
        return json.loads(whole)
    except ValueError:
        begin = whole.find("{")
        if begin < 0:
            raise
        return json.JSONDecoder().raw_decode(whole, begin)[0]


def _line(text: str) -> str:
    """Return text that can be stored: JSON can contain characters that neither Postgres nor an API
    accepts.
    """
    return " ".join(clean_text(text).split())[:MAX_SENTENCE]


# -- Comparing passages


async def find_conflict(pairs: Sequence[tuple[Source, Source]], ask: Ask) -> bool:
    """Ask the model whether one of the pairs, which a cheap check has found suspicious, contains a
    contradiction.

    An unreadable answer counts as one: asking a person once too often is the lesser evil. Raises
    the errors of `ask`.
    """
    for pair in pairs[:MAX_PAIRS]:
        shown = [
            {"document": each.title, "section": each.section, "text": each.text[:_MAX_COMPARED]}
            for each in pair
        ]
        question = json.dumps(shown, ensure_ascii=False, indent=1)
        text = await ask(prompt("compare"), [question], "comparison", COMPARISON_SCHEMA)
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            return True
        if not (isinstance(answer, dict) and answer.get("contradiction") is False):
            return True
    return False
