"""The default script's decisions: the design's sentences as the design has them, and each of them valid."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.decisions import parsing as answer
from threadline.decisions.engine import Offered, Situation
from threadline.decisions.model import Decided, Sensitivity, faults
from threadline.decisions.sensitive_topics import words_in
from threadline_devstack.models.decision_script import decided

TOOLS = ("calendar_book", "crm_update", "email_draft")


def decision(query: str, tools: tuple[str, ...] = TOOLS) -> Decided:
    """What the script decides; it has to be as valid as a model's."""
    words = words_in(query)
    situation = Situation(query, tools=tuple(Offered(each, "A tool.") for each in tools), sensitive=words)
    read = answer.read(json.dumps(decided(json.loads(situation.shown()))))
    assert isinstance(read, Decided)
    assert not faults(read, tools)
    assert not words or read.sensitivity is not Sensitivity.NONE
    return read


@pytest.mark.parametrize(
    ("query", "action"),
    [
        ("What's your Starter plan pricing?", "RETRIEVE"),
        ("What's your refund policy?", "RETRIEVE"),
        ("How do I integrate with Slack?", "RETRIEVE"),
        ("Thanks!", "REASON_ONLY"),
        ("Sounds good.", "REASON_ONLY"),
        ("Book a meeting with me for next Tuesday.", "USE_TOOL"),
        ("Update my company name to Acme Corp.", "USE_TOOL"),
        ("Send me a follow-up email.", "USE_TOOL"),
        ("I need help with your product.", "CLARIFY"),
        ("How much does it cost?", "CLARIFY"),
        ("Can you integrate?", "CLARIFY"),
        ("I need a plan for my team.", "CLARIFY"),
        ("I want a refund for the entire year.", "ESCALATE"),
        ("Your agent gave me wrong information and I lost money.", "ESCALATE"),
        ("Can I get a custom contract with special terms?", "ESCALATE"),
        ("I demand a full refund and compensation for damages.", "ESCALATE"),
        ("", "REASON_ONLY"),
    ],
)
def test_the_designs_sentences_are_decided_as_it_has_them(query: str, action: str) -> None:
    assert decision(query).action == action


@pytest.mark.parametrize("query", ["How do refunds work?", "Is that legally fine?", "Were they suing?", "compensated"])
def test_a_sensitive_word_in_any_inflection_is_judged(query: str) -> None:
    assert decision(query).sensitivity is Sensitivity.ASKS


def test_a_tool_is_used_only_where_it_is_offered() -> None:
    assert decision("Book a meeting with me", tools=()).action == "REASON_ONLY"


@given(st.text(max_size=80))
def test_whatever_is_asked_the_decision_is_valid_and_the_same_again(query: str) -> None:
    assert decision(query) == decision(query)
