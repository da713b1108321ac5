"""Decisions as a model writes them in the form that the decision engine asks for."""

from typing import Any


def decision_form(decision: str = "REASON_ONLY", **more: Any) -> dict[str, Any]:
    """A valid decision; `more` replaces fields of it."""
    return {
        "decision": decision,
        "reasoning": "It is so.",
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
        **more,
    }
