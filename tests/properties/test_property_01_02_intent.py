"""Property 1: any text has a valid intent or an unknown one. Property 2: an unknown one is answered with help."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.conversations.dialogues import REGISTRY
from threadline.conversations import intent
from threadline.conversations.intent import Intent, IntentType
from threadline.conversations.model.answers import LIMIT, is_blank
from threadline.tools.context import ToolContext
from threadline.tools.registry import Tool, tool

ANYTHING = st.text(st.characters())
WORDS = st.text(st.characters(categories=["L", "N"]), min_size=1)
SIGNS = st.text(st.characters(categories=["P", "S", "Z"], exclude_characters="_"))
EMOJI = st.lists(st.sampled_from([":tada:", ":+1:", "🎉", "👍🏽", "<@U123>", " ", "!"])).map("".join)


@settings(max_examples=300)
@given(ANYTHING | st.text(min_size=1).map(lambda text: text * 500))
@example("<@" * 20_000)
@example(":" * 40_000)
def test_property_1_any_text_has_a_valid_intent_or_an_unknown_one(text: str) -> None:
    found = intent.extract(text)
    if found is not None:
        assert isinstance(found, Intent)
        assert found.type in set(IntentType)
        assert 0 <= found.confidence <= 1


@settings(max_examples=200)
@given(SIGNS | EMOJI)
def test_property_1_without_words_it_is_unknown(text: str) -> None:
    assert intent.extract(text) is None


@settings(max_examples=100)
@given(ANYTHING, WORDS)
def test_property_1_whoever_says_a_word_wants_something(before: str, word: str) -> None:
    assert intent.extract(f"{before[:100]} {word}") is not None


@pytest.mark.parametrize("text", ["help", "Help!", "hi, help me please", "<@U1> what can you do?", "usage"])
def test_property_1_a_cry_for_help_is_one(text: str) -> None:
    assert intent.extract(text) == Intent(IntentType.HELP, 1.0)


@pytest.mark.parametrize("text", ["help me close these tickets", "how are you?", "helpless"])
def test_property_1_anything_else_is_a_request(text: str) -> None:
    assert intent.extract(text) == Intent(IntentType.REQUEST, 0.5)


async def _nothing(context: ToolContext) -> None:
    return None


NAMES = st.from_regex(r"[a-z]{1,12}(\.[a-zA-Z]{1,20})?", fullmatch=True)
DESCRIPTIONS = st.text(st.characters(codec="utf-8")).filter(lambda text: bool(text.strip()) and not is_blank(text))
TOOLS = st.dictionaries(NAMES, DESCRIPTIONS, max_size=30)


@settings(max_examples=200)
@given(SIGNS | EMOJI, TOOLS)
def test_property_2_an_unknown_intent_is_answered_with_at_least_one_capability(
    text: str, given_: dict[str, str]
) -> None:
    tools: list[Tool] = [tool(name, about)(_nothing) for name, about in given_.items()]
    assert intent.extract(text) is None
    told = intent.help_text(tools)
    assert "answer questions about what was said in this thread" in told
    assert len(told) <= LIMIT
    if tools:
        assert any(f"**{each.toolset}**" in told for each in tools) or "more groups of tools" in told


def test_property_2_the_help_says_what_the_tools_are_for() -> None:
    told = intent.help_text(REGISTRY.all())
    assert "- **rooms**: Book a room\n" in told
    assert "- **tickets**: Close a ticket; Search the tickets\n" in told
