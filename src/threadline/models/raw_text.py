"""What models write into their text that is none: thoughts, and calls of tools in their template's own form."""

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from threadline.models.model import ToolCall

_NAMES = r"(?:think|thinking|thought|thoughts|reasoning|reflection|seed:think)"
_THOUGHTS = re.compile(rf"<{_NAMES}>.*?(?:</{_NAMES}>|\Z)", re.DOTALL | re.IGNORECASE)
_BEGUN_BEFORE = re.compile(rf"\A(?:(?!<{_NAMES}>).)*?</{_NAMES}>", re.DOTALL | re.IGNORECASE)
"""Some templates open the thoughts in the prompt, so that the answer has their end alone."""
_CHANNEL = re.compile(r"<\|channel\|>(?:analysis|commentary)<\|message\|>.*?(?=<\|channel\|>|<\|end\|>|\Z)", re.DOTALL)
_MARKS = re.compile(
    r"<\|(?:im_start|im_end|eot_id|end|start|return|channel|message|eom_id|python_tag|begin_of_text|end_of_text"
    r"|assistant|endoftext)\|>(?:assistant|final)?|</?s>|\[/?INST\]"
)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.DOTALL)

_WRAPPED = (
    re.compile(r"<tool_calls?>\s*(?P<json>.*?)\s*(?:</tool_calls?>|\Z)", re.DOTALL),
    re.compile(r"<function_calls?>\s*(?P<json>.*?)\s*(?:</function_calls?>|\Z)", re.DOTALL),
    re.compile(r"<function=(?P<name>[\w.-]+)>\s*(?P<json>.*?)\s*(?:</function>|\Z)", re.DOTALL),
    re.compile(r"\[TOOL_CALLS\]\s*(?P<json>.*)", re.DOTALL),
    re.compile(
        r"<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?(?P<name>[\w.-]+)(?:<｜tool▁sep｜>)?\s*(?:```json)?\s*"
        r"(?P<json>.*?)\s*(?:```)?\s*(?:<｜tool▁call▁end｜>|\Z)",
        re.DOTALL,
    ),
)
_LEFT = re.compile(r"<｜tool▁(?:calls?|outputs?)▁(?:begin|end)｜>")


def read_text(text: str, tools: Collection[str]) -> tuple[str, tuple[ToolCall, ...]]:
    """Part a model's raw text into words for people, and the calls that it wrote into them.

    Code stays as it is. A call that names no tool on offer, or is no JSON, is left out of the words all the same.

    Args:
        tools: names of the tools on offer.
    """
    words = _outside_code(text)
    calls = list[ToolCall]()
    for form in _WRAPPED:
        for found in form.finditer(words):
            calls += _calls(found["json"], found.groupdict().get("name") or "", tools)
        words = form.sub("", words)
    shown = _LEFT.sub("", words)
    return (text if shown == text else shown.strip()), tuple(calls)


def _outside_code(text: str) -> str:
    """The text without thoughts and marks of a template; those in code are code."""
    if "<" not in text and "[" not in text:
        return text
    begun = _BEGUN_BEFORE.sub("", text)
    plain = _CHANNEL.sub("", _THOUGHTS.sub("", begun))
    pieces = list[str]()
    done = 0
    for code in _CODE.finditer(plain):
        pieces += [_MARKS.sub("", plain[done : code.start()]), code[0]]
        done = code.end()
    return "".join([*pieces, _MARKS.sub("", plain[done:])])


def _calls(written: str, name: str, tools: Collection[str]) -> Iterator[ToolCall]:
    try:
        given = json.loads(written)
    except (ValueError, RecursionError):
        return
    for each in given if isinstance(given, list) else [given]:
        if not isinstance(each, dict):
            continue
        called, arguments = (name, each) if name else _named(each)
        if called in tools and isinstance(arguments, dict):
            yield ToolCall("", called, json.dumps(arguments))


def _named(call: dict[str, Any]) -> tuple[str, Any]:
    inner = call.get("function")
    call = inner if isinstance(inner, dict) else call
    arguments = call.get("arguments", call.get("parameters", {}))
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            arguments = None
    return str(call.get("name", "")), {} if arguments is None else arguments
