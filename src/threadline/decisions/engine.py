"""Situation and `decide`: what to do with a question, by a model that sees the whole situation, never by keywords.

The model answers in a strict form. An invalid answer is shown to it once more with its problems; after that a person
takes over. Everything that people, records and documents say reaches it as JSON strings, out of which no text can
break.
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

from threadline.decisions.model import MAX_SENTENCE, Decision, DecisionType, Sensitivity, Source, validate
from threadline.models.model import Ask
from threadline.slack.model import clean_text

ATTEMPTS = 2
"""Answers of the model to one query; an invalid one is returned to it with its problems."""
MAX_QUERY = 12_000
"""Characters of a query that the model is shown: the head and the tail of a longer one."""
_MAX_LINE, _MAX_SOURCE = 1_000, 1_200
MAX_PAIRS = 4
"""Pairs of passages that are compared. They come with the best passages first, and each is a call of the model."""
_MAX_COMPARED = 2_000
_MAX_TOOLS, _MAX_PROBLEMS = 20, 10
_UNDECIDED = "No valid decision could be made."
_IS_IT_SENSITIVE = (
    "The query has sensitive words ({}): sensitivity is asks or claims, by what is meant. It is asks where they mean "
    "something else, as in a name."
)
COMPARISON_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"contradiction": {"type": "boolean"}, "reasoning": {"type": "string"}},
    "required": ["contradiction", "reasoning"],
    "additionalProperties": False,
}
_FENCED = re.compile(r"[^{`]*```(?:json)?(.*)```", re.DOTALL)
"""A block of code around the answer; fences within its sentences belong to them."""


@dataclass(frozen=True)
class Situation:
    """What a decision is made with. `recent`: the last messages, oldest first, each with its author in front. `lead`:
    who asks, in a few lines. `sources`: what was retrieved before; a text is empty where only the name is remembered.
    `sensitive`: the topics that the query names. `tools`: their descriptions by their names, as the model is shown
    them. `types`: the types of documents that there are."""

    query: str
    recent: tuple[str, ...] = ()
    lead: str = ""
    sources: tuple[Source, ...] = ()
    tools: Mapping[str, str] = field(default_factory=dict)
    sensitive: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        """The same for the same situation alone: 64 hexadecimal digits."""
        return sha256(json.dumps(asdict(self), sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()

    def as_json(self) -> str:
        """As the model reads it: one JSON document."""
        query, half = self.query, MAX_QUERY // 2
        if len(query) > MAX_QUERY:
            gap = f"\n[… {len(query) - 2 * half:,} characters are left out here …]\n"
            query = f"{query[:half]}{gap}{query[-half:]}"
        sources = [
            {"title": each.title, "section": each.section, "text": each.text[:_MAX_SOURCE]} for each in self.sources
        ]
        shown = {  # the same for all queries comes first, for the provider's cache
            "tools": self.tools,
            "document_types": self.types,
            "lead_context": self.lead,
            "sources_already_retrieved": sources,
            "recent_conversation": [line[:_MAX_LINE] for line in self.recent],
            "query": query,
            "sensitive_words_in_the_query": self.sensitive,
        }
        return json.dumps(shown, ensure_ascii=False, indent=1)


# -- Deciding ------------------------------------------------------------------------------------------------------


async def decide(situation: Situation, ask: Ask, instructions: str = "") -> tuple[Decision, tuple[str, ...]]:
    """Decide what to do with a query; whatever the model writes, there is a decision. `instructions`: others than the
    product's own. Returns also what was wrong with the model's last answer: nothing where the decision is its own.
    Raises Permanent or Transient where the model cannot be asked."""
    instructions, schema = instructions or prompt("decide"), decision_schema(situation.types)
    messages, problems = [situation.as_json()], list[str]()
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
        messages = [messages[0], text, f"This is not valid. Answer again in the same form:\n{listed}"]
    return default_escalation(situation.sensitive), tuple(problems)


def default_escalation(sensitive: Sequence[str] = ()) -> Decision:
    """A person decides, since nothing valid was decided; a sensitive word is then taken at its worst."""
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
    """One of the product's own prompts."""
    return (files(__package__) / "prompts" / f"{name}.md").read_text(encoding="utf-8")


def prompt_version(instructions: str) -> str:
    """Names the instructions in a stored decision: 12 hexadecimal digits."""
    return sha256(instructions.encode()).hexdigest()[:12]


# -- The form of a decision ----------------------------------------------------------------------------------------


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)


_Share = Annotated[float, AfterValidator(_share), Field(description="From 0 to 1.", allow_inf_nan=False)]


class _DecisionAnswer(BaseModel):
    """Strict: what a word means is not guessed. A number out of its range is the nearest in it, since many endpoints
    hold a model to no range."""

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
    """The JSON schema of a decision, as strict structured outputs take it; `types` are those of documents."""
    properties = _DecisionAnswer.model_json_schema()["properties"]
    for each in properties.values():
        del each["title"]
    properties["decision"]["enum"] = [each.value for each in DecisionType]
    properties["sensitivity"]["enum"] = [each.value for each in Sensitivity]
    if types:
        properties["document_types"]["items"]["enum"] = list(types)
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def parse_decision(text: str) -> Decision | tuple[str, ...]:
    """The decision in the model's answer, or what is wrong, in sentences by which the model can correct it; never an
    exception. Whether the decision makes sense: `validate`."""
    try:
        answer = _DecisionAnswer.model_validate(_read_object(text))
        type_ = DecisionType(answer.decision.strip().upper())
        sensitivity = Sensitivity(answer.sensitivity.strip().lower())
    except ValidationError as error:
        wrong = [(".".join(map(str, each["loc"])), each["msg"]) for each in error.errors()[:_MAX_PROBLEMS]]
        return tuple(f"{where or 'the answer'}: {message}" for where, message in wrong)
    except (ValueError, RecursionError) as error:
        return (f"The answer is not the JSON that was asked for: {str(error)[:200]}",)
    return Decision(
        type_,
        _line(answer.reasoning),
        tuple(_line(each) for each in answer.tools_needed[:_MAX_TOOLS]),
        _line(answer.retrieval_query) if answer.retrieval_needed or type_ is DecisionType.RETRIEVE else "",
        _line(answer.clarifying_question),
        _line(answer.escalation_reason),
        answer.query_complexity,
        answer.confidence,
        sensitivity,
        answer.intent_clear,
        tuple(_line(each) for each in answer.document_types[:_MAX_TOOLS]),
    )


def _read_object(text: str) -> Any:
    """The JSON of an answer: alone, in a block of code, or amid words. Raises `ValueError` where there is none."""
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
    """Made storable: JSON can say what neither Postgres nor an API takes."""
    return " ".join(clean_text(text).split())[:MAX_SENTENCE]


# -- Comparing passages --------------------------------------------------------------------------------------------


async def find_conflict(pairs: Sequence[tuple[Source, Source]], ask: Ask) -> bool:
    """Ask the model whether one of the pairs, which a cheap check has found suspicious, holds a contradiction. An
    answer that cannot be read counts as one: a person is better asked once too often. Raises what `ask` raises."""
    for pair in pairs[:MAX_PAIRS]:
        shown = [{"document": each.title, "section": each.section, "text": each.text[:_MAX_COMPARED]} for each in pair]
        question = json.dumps(shown, ensure_ascii=False, indent=1)
        text = await ask(prompt("compare"), [question], "comparison", COMPARISON_SCHEMA)
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError):
            return True
        if not (isinstance(answer, dict) and answer.get("contradiction") is False):
            return True
    return False
