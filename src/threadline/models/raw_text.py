"""Removes from a model's text the parts that are not for people: reasoning, and tool calls in the
form of a chat template.

`tests/models/test_raw_text_rules.py` lists the known forms of templates. A part without an end
reaches to the end of the text.
"""

import json
import re
from collections.abc import Callable

from threadline.models.model import ToolCall
from threadline.models.written_calls import Tools, calls_in, is_call, whole_text_calls

_NAMES = r"(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|seed:think)"
_THOUGHTS = (
    re.compile(rf"(?<!`)<{_NAMES}>.*?(?:</{_NAMES}>|\Z)", re.DOTALL | re.IGNORECASE),
    re.compile(r"\[THINK\].*?(?:\[/THINK\]|\Z)", re.DOTALL),
    re.compile(r"◁think▷.*?(?:◁/think▷|\Z)", re.DOTALL),
    re.compile(
        r"<\|(?:begin_of_thought|START_THINKING)\|>.*?"
        r"(?:<\|(?:end_of_thought|END_THINKING)\|>|\Z)",
        re.DOTALL,
    ),
    re.compile(
        r"<\|channel>thought\b.*?(?:<channel\|>|\Z)|<unused94>thought\b.*?(?:<unused95>|\Z)",
        re.DOTALL,
    ),
    re.compile(r"\A(?:analysis|commentary)(?=\S).*?assistantfinal(?=\S)", re.DOTALL),
)
"""The last one: a server removed the marks of the channels, and left their names."""
_BEGUN_BEFORE = (
    re.compile(rf"\A(?:(?!<{_NAMES}>).)*?</{_NAMES}>", re.DOTALL | re.IGNORECASE),
    re.compile(r"\A(?:(?!\[THINK\]).)*?\[/THINK\]", re.DOTALL),
    re.compile(r"\A(?:(?!◁think▷).)*?◁/think▷", re.DOTALL),
)
"""Some templates open the reasoning in the prompt, so that the answer only has its end."""
_CHANNEL = re.compile(
    r"(?:<\|start\|>assistant(?P<before>[^<]*))?<\|channel\|>(?:analysis|commentary)\b"
    r"(?P<head>[^<]*(?:<\|constrain\|>[^<]*)?)(?:<\|message\|>)?(?P<body>.*?)"
    r"(?=<\|(?:channel|end|call|start|return)\|>|\Z)",
    re.DOTALL,
)
_RECIPIENT = re.compile(r"to=(?:functions\.)?(?P<name>[\w.-]+)")
_MARKS = re.compile(
    r"<\|(?:im_start|im_end|eot_id|end|start|return|call|channel|message|constrain|eom_id"
    r"|begin_of_text|end_of_text"
    r"|start_header_id|end_header_id|assistant|endoftext|(?:START|END)_(?:RESPONSE|TEXT))\|>"
    r"(?:assistant|final)?"
    r"|<start_of_turn>(?:model)?|<end_of_turn>|<｜end▁of▁sentence｜>|</?s>|\[/?INST\]"
    r"|\[(?:BEGIN|END) FINAL RESPONSE\]"
)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)

_BLOCKS = (
    re.compile(
        r"(?<!`)<(?P<tag>(?i:(?:\w+:)?(?:tool|function)_?calls?))>(?P<body>.*?)(?:</(?P=tag)>|\Z)",
        re.DOTALL,
    ),
    re.compile(r"<｜DSML｜\w+>(?P<body>.*?)(?:</｜DSML｜\w*calls>|\Z)", re.DOTALL),
    re.compile(r"(?P<body><function=[\w.-]+>.*?(?:</function>|\Z))", re.DOTALL),
    re.compile(r"(?P<body><invoke name=\"[\w.-]+\">.*?(?:</invoke>|\Z))", re.DOTALL),
    re.compile(r"<\|tool_call\|?>(?P<body>.*?)(?:<\|?/?tool_call\|>|\Z)", re.DOTALL),
    re.compile(r"<\|tool_call_start\|>(?P<body>.*?)(?:<\|tool_call_end\|>|\Z)", re.DOTALL),
    re.compile(
        r"<\|tool_calls_section_begin\|>(?P<body>.*?)(?:<\|tool_calls_section_end\|>|\Z)",
        re.DOTALL,
    ),
    re.compile(
        r"<\|action_start\|>(?:<\|plugin\|>)?(?P<body>.*?)(?:<\|action_end\|>|\Z)", re.DOTALL
    ),
    re.compile(r"<\|START_ACTION\|>(?P<body>.*?)(?:<\|END_ACTION\|>|\Z)", re.DOTALL),
    re.compile(
        r"<\|python_(?:tag|start)\|>(?P<body>.*?)(?:<\|(?:python_end|eom_id|eot_id)\|>|\Z)",
        re.DOTALL,
    ),
    re.compile(r"<start_function_call>(?P<body>.*?)(?:<end_function_call>|\Z)", re.DOTALL),
    re.compile(r"\[TOOL_CALLS\](?P<body>.*?)(?=\[TOOL_CALLS\]|</s>|\Z)", re.DOTALL),
    re.compile(r"\bfunctools(?P<body>\[\s*\{.*)", re.DOTALL),
    re.compile(r"```tool_(?:code|call)s?\n(?P<body>.*?)(?:```|\Z)", re.DOTALL),
    re.compile(r"<｜tool▁call▁begin｜>(?P<body>.*?)(?:<｜tool▁call▁end｜>|\Z)", re.DOTALL),
)
_LEFT = re.compile(r"<｜tool▁(?:calls?|outputs?)▁(?:begin|end)｜>")


def read_text(text: str, tools: Tools) -> tuple[str, tuple[ToolCall, ...]]:
    """Split a model's raw text into the text for people, and the calls in it.

    Code stays unchanged. A call that names no tool on offer, or that is unreadable, is still
    removed from the text.

    Args:
        text: the raw text.
        tools: the schemas of the parameters of the tools on offer, by name.
    """
    calls = list[ToolCall]()
    words = _without_thoughts(text, tools, calls)
    for form in _BLOCKS:
        words = form.sub(_collect(calls, tools), words)
    words = _LEFT.sub("", _without_marks(words))
    if not calls and tools and is_call(words):
        calls += whole_text_calls(words, tools)
        words = ""
    return (text if words == text else words.strip()), tuple(calls)


def _collect(calls: list[ToolCall], tools: Tools) -> Callable[[re.Match[str]], str]:
    def collect(found: re.Match[str]) -> str:
        calls.extend(calls_in(found["body"].strip(), tools))
        return ""

    return collect


def _without_thoughts(text: str, tools: Tools, calls: list[ToolCall]) -> str:
    """Return the text without reasoning and channels; a channel that is addressed to a tool is a
    call.
    """

    def channel(found: re.Match[str]) -> str:
        if to := _RECIPIENT.search(f"{found['before']} {found['head']}"):
            calls.extend(
                calls_in(
                    json.dumps({"name": to["name"], "arguments": found["body"].strip()}), tools
                )
            )
        return ""

    for form in _BEGUN_BEFORE:
        text = form.sub("", text)
    for form in _THOUGHTS:
        text = form.sub("", text)
    return _CHANNEL.sub(channel, text)


def _without_marks(text: str) -> str:
    """Return the text without a template's marks; marks in code stay."""
    pieces = list[str]()
    done = 0
    for code in _CODE.finditer(text):
        pieces += [_MARKS.sub("", text[done : code.start()]), code[0]]
        done = code.end()
    return "".join([*pieces, _MARKS.sub("", text[done:])])
