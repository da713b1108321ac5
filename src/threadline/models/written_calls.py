"""Reads tool calls in a model's text, without the marks around them: as JSON, as XML, as
Python.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from threadline.models.model import ToolCall

Tools = Mapping[str, Mapping[str, Any]]
Written = tuple[str, Any]
"""A name and its arguments."""
_FUNCTION = re.compile(r"<function=(?P<name>[\w.-]+)>(?P<body>.*?)(?:</function>|\Z)", re.DOTALL)
_INVOKE = re.compile(
    r"<(?:｜DSML｜)?invoke name=\"(?P<name>[\w.-]+)\">(?P<body>.*?)(?:</(?:｜DSML｜)?invoke>|\Z)",
    re.DOTALL,
)
_PARAMETER = re.compile(
    (
        r"<(?:｜DSML｜)?parameter(?:=| "
        r"name=)\"?(?P<key>[\w.-]+)\"?[^>]*>\n?(?P<value>.*?)\n?</(?:｜DSML｜)?parameter>"
    ),
    re.DOTALL,
)
_PAIR = re.compile(
    r"<arg_key>(?P<key>.*?)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>", re.DOTALL
)
_NAMED_PAIRS = re.compile(r"(?P<name>[\w.-]+)\s*(?=<arg_key>|\Z)")
_NAMED_JSON = re.compile(
    r"(?:<\|tool_call_begin\|>\s*)?(?:function<｜tool▁sep｜>)?(?:call:)?(?:functions\.)?"
    r"(?P<name>[A-Za-z_][\w.-]*)(?::\d+)?\s*"
    r"(?:\[CALL_ID\]\w+)?(?:\[ARGS\]|<\|tool_call_argument_begin\|>|<｜tool▁sep｜>)?\s*"
    r"(?:```json)?\s*(?=\{)"
)
_GEMMA_ARGUMENT = re.compile(
    r"(?P<key>\w+):(?:<escape>|<\|\"\|>)(?P<value>.*?)(?:<escape>|<\|\"\|>)", re.DOTALL
)
_FENCE = re.compile(
    r"\A```(?:json|python|tool_code|tool_call)?\s*\n(?P<body>.*?)\n?```\Z", re.DOTALL
)
_NO_TEXT = frozenset({"integer", "number", "boolean", "array", "object"})
_CALL_KEYS = frozenset(
    {"name", "arguments", "parameters", "type", "id", "function", "tool_name", "tool_call_id"}
)


def calls_in(written: str, tools: Tools) -> Iterator[ToolCall]:
    """Yield the calls in a block, except those that name no tool on offer, or that are
    unreadable.
    """
    for name, arguments in _read(written):
        if name in tools and isinstance(arguments, dict):
            yield ToolCall("", name, json.dumps(_typed(arguments, tools[name])))


def is_call(text: str) -> bool:
    """Whether a text consists of calls only, which some templates write without any mark."""
    found = list(_json_values(_unfenced(text)))
    return bool(found) and all(_looks_like_call(each) for each in found)


def whole_text_calls(text: str, tools: Tools) -> Iterator[ToolCall]:
    return calls_in(_unfenced(text), tools)


def _unfenced(text: str) -> str:
    fenced = _FENCE.match(text.strip())
    return (fenced["body"] if fenced else text).strip()


def _looks_like_call(value: Any) -> bool:
    if not isinstance(value, dict) or not value.keys() <= _CALL_KEYS:
        return False
    inner = value.get("function")
    named = inner if isinstance(inner, dict) else value
    has_arguments = "arguments" in named or "parameters" in named
    return isinstance(named.get("name") or named.get("tool_name"), str) and has_arguments


def _read(written: str) -> Iterable[Written]:
    if values := list(_json_values(written)):
        return map(_named, values)
    for form in (_FUNCTION, _INVOKE):
        if found := list(form.finditer(written)):
            return [(each["name"], _fields(each["body"])) for each in found]
    if "<arg_key>" in written and (named := _NAMED_PAIRS.match(written)):
        return [
            (
                named["name"],
                {pair["key"].strip(): pair["value"] for pair in _PAIR.finditer(written)},
            )
        ]
    if found := list(_NAMED_JSON.finditer(written)):
        return _after_names(written, found)
    return _python_calls(written)


def _after_names(written: str, names: Iterable[re.Match[str]]) -> Iterator[Written]:
    """Yield calls whose arguments follow their names as JSON; a name within an argument is no
    call.
    """
    done = 0
    for each in names:
        if each.start() < done:
            continue
        if pairs := _GEMMA_ARGUMENT.findall(written, each.end()):
            yield each["name"], dict(pairs)
            return
        value, done = _decode(written, each.end())
        yield each["name"], value


def _fields(body: str) -> Any:
    """Read arguments as XML, or as JSON in it."""
    if found := {each["key"]: each["value"] for each in _PARAMETER.finditer(body)}:
        return found
    value, _ = _decode(body.strip(), 0) if body.strip() else ({}, 0)
    return value


def _named(call: Any) -> Written:
    if not isinstance(call, dict):
        return "", None
    inner = call.get("function")
    call = inner if isinstance(inner, dict) else call
    arguments = call.get("arguments", call.get("parameters", {}))
    if isinstance(arguments, str):
        arguments, _ = _decode(arguments or "{}", 0)
    name = call.get("name") or call.get("tool_name")
    return str(name or ""), {} if arguments is None else arguments


def _json_values(written: str) -> Iterator[Any]:
    """Yield the objects of consecutive JSON texts, and those within lists; stops at other text."""
    at = 0
    while at < len(written) and written[at] in "[{":
        value, end = _decode(written, at)
        if end == at:
            return
        yield from value if isinstance(value, list) else [value]
        at = end + len(written[end:]) - len(written[end:].lstrip(" \n\t\r;,"))


def _decode(written: str, at: int) -> tuple[Any, int]:
    """Return the JSON value at a position and its end; the same position where there is none."""
    try:
        return json.JSONDecoder(strict=False).raw_decode(written, at)
    except (ValueError, RecursionError):
        return None, at


def _python_calls(written: str) -> Iterator[Written]:
    """Yield calls in Python's syntax, without running them."""
    try:
        body = ast.parse(_unfenced(written), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for each in body.elts if isinstance(body, ast.List) else [body]:
        call = each
        if _name_of(call) == "print" and isinstance(call, ast.Call) and len(call.args) == 1:
            call = call.args[0]
        if isinstance(call, ast.Call):
            yield _name_of(call).removesuffix(".call"), _keywords(call)


def _name_of(call: ast.AST) -> str:
    return ast.unparse(call.func) if isinstance(call, ast.Call) else ""


def _keywords(call: ast.Call) -> Any:
    try:
        given = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    return None if call.args or None in given else given


def _typed(arguments: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Convert arguments from text to the types of their schema."""
    properties = schema.get("properties", {})
    return {name: _value(given, properties.get(name, {})) for name, given in arguments.items()}


def _value(given: Any, schema: Mapping[str, Any]) -> Any:
    kinds = {str(each.get("type")) for each in schema.get("anyOf", [schema])}
    if not isinstance(given, str) or not kinds & _NO_TEXT or "string" in kinds:
        return given
    value, end = _decode(given.strip(), 0)
    return value if end == len(given.strip()) and end else given
