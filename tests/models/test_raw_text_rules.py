"""Thoughts and calls that models write into their text do not reach people."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.models.raw_text import read_text

TOOLS = {
    "tickets_search": {
        "type": "object",
        "properties": {
            "words": {"type": "string"},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "tags": {"type": "array"},
        },
    }
}
SEARCH = '{"name": "tickets_search", "arguments": {"words": "cart"}}'
CALL = [("tickets_search", {"words": "cart"})]

TEXTS: list[tuple[str, str, list[tuple[str, dict[str, Any]]]]] = [
    ("It works.", "It works.", []),
    ("<think>Hm. 3 < 4.</think>\n\nIt works.", "It works.", []),
    ("<thinking>\nHm.\n</thinking>It works.", "It works.", []),
    ("Hm, the user wants…\n</think>\n\nIt works.", "It works.", []),
    ("<think>never ended", "", []),
    ("One.<think>Hm</think> Two.", "One. Two.", []),
    (
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>"
            "final<|message|>It works."
        ),
        "It works.",
        [],
    ),
    ("It works.<|im_end|>", "It works.", []),
    ("It works.</s>", "It works.", []),
    (f"<tool_call>\n{SEARCH}\n</tool_call>", "", CALL),
    (f"I look.\n<tool_call>{SEARCH}</tool_call>", "I look.", CALL),
    (f"<tool_call>{SEARCH}", "", CALL),
    ('<tool_call>{"name": "gone", "arguments": {}}</tool_call>', "", []),
    ("<tool_call>not JSON</tool_call>", "", []),
    ('<function=tickets_search>{"words": "cart"}</function>', "", CALL),
    (f"[TOOL_CALLS] [{SEARCH}]", "", CALL),
    (
        (
            '<tool_call>{"name": "tickets_search", "arguments": "{\\"words\\": '
            '\\"cart\\"}"}</tool_call>'
        ),
        "",
        CALL,
    ),
    (
        '<tool_call>{"name": "tickets_search", "parameters": {"words": "cart"}}</tool_call>',
        "",
        CALL,
    ),
    # thoughts
    ("[THINK]Hm.[/THINK]It works.", "It works.", []),
    ("Hm.[/THINK]It works.", "It works.", []),
    ("[THINK]never ended", "", []),
    ("◁think▷Hm.◁/think▷It works.", "It works.", []),
    ("<|begin_of_thought|>Hm.<|end_of_thought|>It works.", "It works.", []),
    (
        "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>It works.<|END_RESPONSE|>",
        "It works.",
        [],
    ),
    ("<|channel>thought\nHm.<channel|>It works.", "It works.", []),
    ("<unused94>thought\nHm.<unused95>It works.", "It works.", []),
    ("<|channel|>analysis<|message|>never ended", "", []),
    ("<|channel|>analysis never ended", "", []),
    ("analysisThe user wants a word.assistantfinalIt works.", "It works.", []),
    ("analysis of the cart: it works", "analysis of the cart: it works", []),
    ("<think>I call it.</think><tool_call>" + SEARCH + "</tool_call>", "", CALL),
    ("Write `<think>` first.", "Write `<think>` first.", []),
    # Hermes, Qwen, Nemotron, Hunyuan
    (f"<tool_calls>[{SEARCH}]</tool_calls>", "", CALL),
    (f"<TOOLCALL>[{SEARCH}]</TOOLCALL>", "", CALL),
    (f"<tool_call>{SEARCH}\n\nI have looked.", "", CALL),
    (f"<tool_call>{SEARCH}</tool_call>\n<tool_call>{SEARCH}</tool_call>", "", CALL * 2),
    (f"<tool_call>\n{SEARCH}\n{SEARCH}\n</tool_call>", "", CALL * 2),
    # Qwen coder, Seed
    (
        "<tool_call>\n<function=tickets_search>\n<parameter=words>\ncart\n</parameter>\n"
        "<parameter=limit>\n3\n"
        '</parameter>\n<parameter=tags>["a"]</parameter>\n</function>\n</tool_call>',
        "",
        [("tickets_search", {"words": "cart", "limit": 3, "tags": ["a"]})],
    ),
    (
        "<function=tickets_search>\n<parameter=words>12</parameter>",
        "",
        [("tickets_search", {"words": "12"})],
    ),
    (
        (
            "<seed:tool_call><function=tickets_search><parameter=words>cart</parameter>"
            "</function></seed:tool_call>"
        ),
        "",
        CALL,
    ),
    # Llama
    (f"<|python_tag|>{SEARCH}<|eom_id|>", "", CALL),
    (f"<|python_tag|>{SEARCH}; {SEARCH}", "", CALL * 2),
    ('<|python_tag|>tickets_search.call(words="cart")<|eom_id|>', "", CALL),
    ('<|python_start|>[tickets_search(words="cart")]<|python_end|>', "", CALL),
    ('{"type": "function", "name": "tickets_search", "parameters": {"words": "cart"}}', "", CALL),
    ('```json\n{"name": "tickets_search", "arguments": {"words": "cart"}}\n```', "", CALL),
    ('{"name": "gone", "parameters": {}}', "", []),
    ('{"name": "Ann", "age": 3}', '{"name": "Ann", "age": 3}', []),
    # Mistral
    ('[TOOL_CALLS]tickets_search[ARGS]{"words": "cart"}', "", CALL),
    ('[TOOL_CALLS]tickets_search{"words": "a {b}"}', "", [("tickets_search", {"words": "a {b}"})]),
    ('[TOOL_CALLS]tickets_search[CALL_ID]a1b2[ARGS]{"words": "cart"}</s>', "", CALL),
    (
        (
            '[TOOL_CALLS]tickets_search[ARGS]{"words": '
            '"cart"}[TOOL_CALLS]tickets_search[ARGS]{"words": "cart"}'
        ),
        "",
        CALL * 2,
    ),
    # Phi, Granite, LFM
    (f"<|tool_call|>[{SEARCH}]<|/tool_call|>", "", CALL),
    (f"<|tool_call|>[{SEARCH}]", "", CALL),
    (f"functools[{SEARCH}]", "", CALL),
    (
        '<|tool_call_start|>[tickets_search(words="cart", limit=3)]<|tool_call_end|>',
        "",
        [("tickets_search", {"words": "cart", "limit": 3})],
    ),
    # GLM, MiniMax, DeepSeek, Kimi, Cohere, InternLM, Gemma
    (
        "<tool_call>tickets_search\n<arg_key>words</arg_key>\n<arg_value>cart</arg_value>\n"
        "<arg_key>limit</arg_key>\n"
        "<arg_value>3</arg_value>\n</tool_call>",
        "",
        [("tickets_search", {"words": "cart", "limit": 3})],
    ),
    (
        '<minimax:tool_call><invoke name="tickets_search"><parameter '
        'name="words">cart</parameter></invoke>'
        "</minimax:tool_call>",
        "",
        CALL,
    ),
    (
        '<function_calls><invoke name="tickets_search"><parameter '
        'name="words">cart</parameter></invoke>'
        "</function_calls>",
        "",
        CALL,
    ),
    (
        '<｜DSML｜function_calls><｜DSML｜invoke name="tickets_search"><｜DSML｜parameter name="words" '
        'string="true">'
        "cart</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>",
        "",
        CALL,
    ),
    (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>tickets_search\n```json\n"
        '{"words": "cart"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>',
        "",
        CALL,
    ),
    (
        '<｜tool▁call▁begin｜>tickets_search<｜tool▁sep｜>{"words": "cart"}<｜tool▁call▁end｜>',
        "",
        CALL,
    ),
    (
        "<|tool_calls_section_begin|><|tool_call_begin|>"
        "functions.tickets_search:0<|tool_call_argument_begin|>"
        '{"words": "cart"}<|tool_call_end|><|tool_calls_section_end|>',
        "",
        CALL,
    ),
    (
        '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "tickets_search", "parameters": '
        '{"words": "cart"}}]'
        "<|END_ACTION|>",
        "",
        CALL,
    ),
    (f"<|action_start|><|plugin|>{SEARCH}<|action_end|>", "", CALL),
    (
        "<start_function_call>call:tickets_search{words:<escape>cart<escape>}<end_function_call>",
        "",
        CALL,
    ),
    ('<|tool_call>call:tickets_search{words:<|"|>cart<|"|>}<tool_call|>', "", CALL),
    ('```tool_code\nprint(tickets_search(words="cart"))\n```', "", CALL),
    # gpt-oss
    (
        (
            "<|channel|>commentary to=functions.tickets_search "
            '<|constrain|>json<|message|>{"words": "cart"}<|call|>'
        ),
        "",
        CALL,
    ),
    (
        (
            "<|start|>assistant to=functions.tickets_search<|channel|>commentary "
            'json<|message|>{"words": "cart"}<|call|>'
        ),
        "",
        CALL,
    ),
    (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary "
        "to=functions.gone "
        '<|message|>{"a"',
        "",
        [],
    ),
    # arguments that cannot be read, and code that nothing runs
    ("<tool_call>tickets_search(words=__import__('os').name)</tool_call>", "", []),
    ('<tool_call>{"name": "tickets_search", "arguments": {"words": "ca', "", []),
    ("<tool_call>" + "[" * 5_000, "", []),
    ("Write `<tool_call>` first.", "Write `<tool_call>` first.", []),
    ("Write `</s>` at the end.", "Write `</s>` at the end.", []),
    ("a < b and [x] and <b>bold</b>", "a < b and [x] and <b>bold</b>", []),
    ("", "", []),
]


@pytest.mark.parametrize(("text", "words", "calls"), TEXTS)
def test_words_and_calls_are_parted(
    text: str, words: str, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    shown, made = read_text(text, TOOLS)

    assert shown == words
    assert [(each.name, json.loads(each.arguments)) for each in made] == calls


@given(st.text(alphabet=st.characters(exclude_characters="<[")))
def test_text_without_marks_stays_as_it_is(text: str) -> None:
    assert read_text(text, TOOLS) == (text, ())


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "piece",
    [
        *(
            "<think>",
            "</think>",
            "<tool_call>",
            "[TOOL_CALLS]",
            "`",
            "<",
            "<function=a>",
            "<|channel|>analysis",
            "{",
            "[",
        ),
        *(
            "<|python_tag|>a(",
            '<invoke name="a">',
            "[THINK]",
            "[/THINK]",
            "<arg_key>",
            "functools[{",
            "a{",
            "<|start|>assistant",
        ),
    ],
)
def test_40000_characters_are_read_in_time(piece: str) -> None:
    read_text(piece * (40_000 // len(piece)), TOOLS)


def test_forms_are_left_out_of_the_words_without_tools() -> None:
    for text, words, calls in TEXTS:
        if calls and not text.startswith(("{", "```json")):
            assert read_text(text, {}) == (words, ())
