"""A valid answer in the form of a decision, and a model that gives scripted answers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from threadline.knowledge.model import Source

RIGHT: Mapping[str, Any] = {
    "decision": "REASON_ONLY",
    "reasoning": "They say thanks.",
    "tools_needed": [],
    "retrieval_needed": False,
    "retrieval_query": "",
    "document_types": [],
    "clarifying_question": "",
    "escalation_reason": "",
    "query_complexity": 0.1,
    "confidence": 0.9,
    "sensitivity": "none",
    "intent_clear": True,
}


def passage(title: str, section: str = "", text: str = "") -> Source:
    return Source(title, section, "a document", "faq", text)


def answer(**changes: Any) -> str:
    return json.dumps({**RIGHT, **changes})


@dataclass
class Scripted:
    """Gives its answers in order, and records the questions."""

    answers: list[str]
    asked: list[tuple[str, ...]] = field(default_factory=list)
    forms: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    instructions: list[str] = field(default_factory=list)

    async def __call__(
        self, instructions: str, questions: Sequence[str], name: str, form: Mapping[str, Any]
    ) -> str:
        self.instructions.append(instructions)
        self.asked.append(tuple(questions))
        self.forms.append((name, form))
        return self.answers[len(self.asked) - 1]
