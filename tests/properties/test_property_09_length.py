"""Property 9: an answer for which nobody asked in detail has at most 2,000 characters; in detail nothing is lost."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conversations.scripted_turn import Script
from threadline.conversations.model import answers
from threadline.models.model import ModelReply, ToolCall

WORDS = st.text(st.characters(categories=["L", "N", "S"], exclude_characters="`~"), min_size=1, max_size=30)
GAPS = st.sampled_from([" ", " ", "\n", "\n\n", "\t"])
TIMES = st.integers(1, 300)
LONG = st.tuples(st.lists(st.tuples(WORDS, GAPS), min_size=1, max_size=20), TIMES).map(
    lambda drawn: "".join(map("".join, drawn[0])) * drawn[1]
)
WILD = st.tuples(st.text(max_size=60), TIMES).map(lambda drawn: drawn[0] * drawn[1])
CODE = LONG.map(lambda text: f"Look:\n\n```python\n{text}\n```\n")
NOBODY_ASKED = st.sampled_from(["what is open for checkout?", "create three WBS items", "no details, please"])


@settings(max_examples=200)
@given(NOBODY_ASKED, LONG | WILD | CODE)
def test_property_9_an_answer_has_at_most_2000_characters_unless_detail_was_asked_for(asked: str, text: str) -> None:
    parts = answers.parts(text, detail=answers.wants_detail(asked))
    assert sum(map(len, parts)) <= 2_000
    assert len(parts) == (0 if answers.is_blank(text) else 1)
    assert not any(map(answers.is_blank, parts))


@settings(max_examples=200)
@given(LONG, st.integers(200, 12_000))
def test_property_9_in_detail_every_word_is_said_and_none_is_cut(text: str, limit: int) -> None:
    parts = answers.parts(text, detail=True, limit=limit)
    assert " ".join(parts).split() == text.split()
    assert all(len(part) <= limit for part in parts)


@settings(max_examples=200)
@given(st.lists(WILD, min_size=1, max_size=5), st.booleans())
def test_property_9_holds_for_every_end_of_a_turn(names: list[str], stopping: bool) -> None:
    calls = tuple(ToolCall(str(number), name) for number, name in enumerate(names))
    script = Script([ModelReply(names[0], calls)])
    outcome = script.play(stopping=lambda: stopping and bool(script.ran))
    assert sum(map(len, answers.parts(outcome.text))) <= 2_000
