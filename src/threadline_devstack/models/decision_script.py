"""The default script for answers in a form: what the decision engine asks, decided by a few words of the query.

It stands in for a model's judgement about the sentences of the demo, the docs and the design; anything else is for the
agent to answer by itself.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from threadline_devstack.models.script import Turn

_QUOTED = 400
"""Characters of a passage."""
_THANKS = re.compile(r"(?i)\W*(?:thanks|thank you|thx)\b")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)?")
_TOOLS = {
    r"book (?:me )?(?:a |an )?(?:meeting|call|demo)": "calendar_book",
    r"update my (?:company|name|title)|my company name": "crm_update",
    r"follow-?up e-?mail|e-?mail me": "email_draft",
}
_CLAIMS = re.compile(
    r"(?i)\b(?:i (?:want|demand|need)\b.*\b(?:refund|compensation|money back)|"
    r"lost money|custom contract|i will sue|lawyer)"
)
_VAGUE = re.compile(
    r"(?i)^\s*(?:i need help with your product|how much does it cost|can you integrate|i need a plan)\b"
)
_FACTS = re.compile(
    r"(?i)\b(?:pricing|prices?|plan cost|policy|warranty|uptime|data retention|"
    r"how do i (?:integrate|connect|cancel|export))\b"
)


async def fill_in(turn: Turn) -> None:
    """Answer in the form that is asked for: a decision, or whether two passages contradict each other."""
    try:
        asked = json.loads(turn.prompt)
    except ValueError:
        asked = {}
    if isinstance(asked, list):
        await turn.text_only(json.dumps(_compared(asked)))
        return
    await turn.text_only(json.dumps(decided(asked if isinstance(asked, dict) else {})))


def decided(asked: Mapping[str, Any]) -> dict[str, Any]:
    """A decision about a situation as the engine shows it."""
    query, tools = str(asked.get("query", "")), asked.get("tools", {})
    wanted = [name for pattern, name in _TOOLS.items() if re.search(pattern, query, re.IGNORECASE) and name in tools]
    if _CLAIMS.search(query):
        return _answer("ESCALATE", sensitivity="claims", escalation_reason="Somebody makes a claim.", complexity=0.8)
    sensitivity = "asks" if asked.get("sensitive_words_in_the_query") else "none"
    if wanted:
        return _answer("USE_TOOL", tools_needed=wanted, sensitivity=sensitivity)
    if _VAGUE.search(query):
        question = "Which plan or product do you mean, and for how many people?"
        return _answer("CLARIFY", clarifying_question=question, intent_clear=False, sensitivity=sensitivity)
    if _FACTS.search(query):
        return _answer("RETRIEVE", retrieval_needed=True, retrieval_query=query, sensitivity=sensitivity)
    return _answer("REASON_ONLY", sensitivity=sensitivity)


def thanked(turn: Turn) -> str:
    return "You are welcome." if _THANKS.match(turn.prompt) else ""


def looked_up(turn: Turn) -> str:
    """What the documents say that the turn was given; empty where it was given none."""
    for note in reversed(turn.notes):
        _, found, passages = note.partition("\n")
        if note.startswith("[Decision]") and found:
            return f"{' '.join(str(json.loads(passages)[0]['text']).split())[:_QUOTED]} [1]"
    return ""


def _answer(decision: str, *, complexity: float = 0.1, **more: Any) -> dict[str, Any]:
    return {
        "decision": decision,
        "reasoning": "The script decides by a few words.",
        "tools_needed": [],
        "retrieval_needed": False,
        "retrieval_query": "",
        "document_types": [],
        "clarifying_question": "",
        "escalation_reason": "",
        "query_complexity": complexity,
        "confidence": 0.9,
        "sensitivity": "none",
        "intent_clear": True,
        **more,
    }


def _compared(passages: list[Any]) -> dict[str, Any]:
    numbers = [set(_NUMBER.findall(str(each.get("text", "")))) for each in passages if isinstance(each, dict)]
    differ = len(numbers) == 2 and all(numbers) and numbers[0] != numbers[1]
    return {"contradiction": differ, "reasoning": "The numbers differ." if differ else "The numbers are the same."}
