"""The form in which the model decides, and how what it wrote is read: any bytes at all, and never an exception."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from threadline.decisions.model import LONGEST_REASONING, Action, Decided, Sensitivity
from threadline.slack.model import clean_text

NAME = "decision"
_FENCED = re.compile(r"[^{`]*```(?:json)?(.*)```", re.DOTALL)
"""A block of code around the answer; fences within its sentences belong to them."""
_MOST_TOOLS = 20
_MOST_FAULTS = 10


class _Answer(BaseModel):
    """Strict: what a word means is not guessed."""

    model_config = ConfigDict(strict=True, extra="ignore")

    decision: str
    reasoning: str
    tools_needed: list[str]
    retrieval_needed: bool
    retrieval_query: str
    document_types: list[str]
    clarifying_question: str
    escalation_reason: str
    query_complexity: float = Field(ge=0, le=1, allow_inf_nan=False)
    confidence: float = Field(ge=0, le=1, allow_inf_nan=False)
    sensitivity: str
    intent_clear: bool


@dataclass(frozen=True)
class Unreadable:
    """What is wrong, in sentences that the model can mend it by."""

    faults: tuple[str, ...]


def form(types: tuple[str, ...]) -> Mapping[str, Any]:
    """The JSON schema of a decision, as strict structured outputs take it; `types` are those of documents."""
    text, unit = {"type": "string"}, {"type": "number", "minimum": 0, "maximum": 1}
    properties: dict[str, Any] = {
        "decision": {"type": "string", "enum": [each.value for each in Action]},
        "reasoning": text,
        "tools_needed": {"type": "array", "items": text},
        "retrieval_needed": {"type": "boolean"},
        "retrieval_query": text,
        "document_types": {"type": "array", "items": {"type": "string", "enum": list(types)} if types else text},
        "clarifying_question": text,
        "escalation_reason": text,
        "query_complexity": unit,
        "confidence": unit,
        "sensitivity": {"type": "string", "enum": [each.value for each in Sensitivity]},
        "intent_clear": {"type": "boolean"},
    }
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def read(text: str) -> Decided | Unreadable:
    """What the model has decided, in whatever bytes it did; whether that makes sense is for `decisions/model.py`."""
    found = _FENCED.match(text)
    try:
        answer = _Answer.model_validate(json.loads(found[1] if found else text))
        action = Action(answer.decision.strip().upper())
        sensitivity = Sensitivity(answer.sensitivity.strip().lower())
    except ValidationError as error:
        return Unreadable(tuple(_told(each) for each in error.errors()[:_MOST_FAULTS]))
    except (ValueError, RecursionError) as error:
        return Unreadable((f"The answer is not the JSON that was asked for: {str(error)[:200]}",))
    return Decided(
        action,
        _line(answer.reasoning),
        tuple(_line(each) for each in answer.tools_needed[:_MOST_TOOLS]),
        _line(answer.retrieval_query) if answer.retrieval_needed or action is Action.RETRIEVE else "",
        _line(answer.clarifying_question),
        _line(answer.escalation_reason),
        answer.query_complexity,
        answer.confidence,
        sensitivity,
        answer.intent_clear,
        tuple(_line(each) for each in answer.document_types[:_MOST_TOOLS]),
    )


def _line(text: str) -> str:
    """Made storable: JSON can say what neither Postgres nor an API takes."""
    return " ".join(clean_text(text).split())[:LONGEST_REASONING]


def _told(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"]) or "the answer"
    return f"{where}: {error['msg']}"
