"""Thoughts and calls that models write into their text do not reach people."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.models.raw_text import read_text

TOOLS = ("tickets_search",)
SEARCH = '{"name": "tickets_search", "arguments": {"words": "cart"}}'
CALL = [("tickets_search", {"words": "cart"})]

TEXTS: list[tuple[str, str, list[tuple[str, dict[str, str]]]]] = [
    ("It works.", "It works.", []),
    ("<think>Hm. 3 < 4.</think>\n\nIt works.", "It works.", []),
    ("<thinking>\nHm.\n</thinking>It works.", "It works.", []),
    ("Hm, the user wants…\n</think>\n\nIt works.", "It works.", []),
    ("<think>never ended", "", []),
    ("One.<think>Hm</think> Two.", "One. Two.", []),
    ("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>It works.", "It works.", []),
    ("It works.<|im_end|>", "It works.", []),
    ("It works.</s>", "It works.", []),
    (f"<tool_call>\n{SEARCH}\n</tool_call>", "", CALL),
    (f"I look.\n<tool_call>{SEARCH}</tool_call>", "I look.", CALL),
    (f"<tool_call>{SEARCH}", "", CALL),
    ('<tool_call>{"name": "gone", "arguments": {}}</tool_call>', "", []),
    ("<tool_call>not JSON</tool_call>", "", []),
    ('<function=tickets_search>{"words": "cart"}</function>', "", CALL),
    (f"[TOOL_CALLS] [{SEARCH}]", "", CALL),
    ('<tool_call>{"name": "tickets_search", "arguments": "{\\"words\\": \\"cart\\"}"}</tool_call>', "", CALL),
    ('<tool_call>{"name": "tickets_search", "parameters": {"words": "cart"}}</tool_call>', "", CALL),
    ("Write `</s>` at the end.", "Write `</s>` at the end.", []),
    ("a < b and [x] and <b>bold</b>", "a < b and [x] and <b>bold</b>", []),
    ("", "", []),
]


@pytest.mark.parametrize(("text", "words", "calls"), TEXTS)
def test_words_and_calls_are_parted(text: str, words: str, calls: list[tuple[str, dict[str, str]]]) -> None:
    shown, made = read_text(text, TOOLS)

    assert shown == words
    assert [(each.name, json.loads(each.arguments)) for each in made] == calls


@given(st.text(alphabet=st.characters(exclude_characters="<[")))
def test_text_without_marks_stays_as_it_is(text: str) -> None:
    assert read_text(text, TOOLS) == (text, ())


@pytest.mark.timeout(10)
@pytest.mark.parametrize("piece", ["<think>", "</think>", "<tool_call>", "[TOOL_CALLS]", "`", "<", "<function=a>"])
def test_40000_characters_are_read_in_time(piece: str) -> None:
    read_text(piece * (40_000 // len(piece)), TOOLS)
