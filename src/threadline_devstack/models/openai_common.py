"""The common part of OpenAI's two APIs on the wire: the key, errors, tools, and messages in
Anthropic's form.

Shapes: https://developers.openai.com/api/reference and …/docs/guides/error-codes.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.requests import Request

from threadline_devstack.models.request import ModelRequest, read
from threadline_devstack.models.script import ScriptFailure
from threadline_devstack.models.wire import Json, RequestRefused

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PATTERN = "it must match ^[a-zA-Z0-9_-]{1,64}$."
_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_CODES = {429: "rate_limit_exceeded", 401: "invalid_api_key"}
_NOTES = ("system", "developer")


def key(request: Request) -> str:
    return request.headers.get("authorization", "").removeprefix("Bearer ")


def error(failure: ScriptFailure) -> Json:
    kind = _KINDS.get(
        failure.status, "server_error" if failure.status >= 500 else "invalid_request_error"
    )
    code = failure.code or _CODES.get(failure.status)
    return {
        "error": {
            "message": failure.message,
            "type": kind,
            "param": failure.param or None,
            "code": code,
        }
    }


def conversation(
    body: Mapping[str, Any],
    *,
    api: str,
    system: str,
    wire: Sequence[Mapping[str, Any]],
    messages: Sequence[Mapping[str, Any]],
    functions: Sequence[Mapping[str, Any]],
    form: Mapping[str, Any] | None = None,
) -> ModelRequest:
    """Return the conversation of a request.

    Args:
        body: the request.
        api: the wire that it came over.
        system: the constant instructions.
        wire: the messages as they came.
        messages: the same in Anthropic's form, which scripts read.
        functions: the tools on offer: name, description, parameters, strict.
        form: the format of the answer: name, schema, strict.

    Raises:
        RequestRefused: the tools break the rules of strict mode or of names.
    """
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise RequestRefused("You must provide a model parameter.", param="model")
    if body.get("stream"):
        raise RequestRefused("The sandbox does not stream over this API.", param="stream")
    for function in functions:
        if not _NAME.fullmatch(function["name"]):
            raise RequestRefused(
                f"Invalid tool name {function['name']!r}: {_PATTERN}", param="tools"
            )
        if function.get("strict"):
            _check_strict(function["name"], function.get("parameters") or {})
    if form and not _NAME.fullmatch(str(form.get("name"))):
        raise RequestRefused(
            f"Invalid name of a format {form.get('name')!r}: {_PATTERN}", param="text.format.name"
        )
    if form and form.get("strict"):
        _check_strict(form["name"], form.get("schema") or {})
    tools = [
        {"name": each["name"], "input_schema": each.get("parameters") or {}} for each in functions
    ]
    asked = read({"model": body["model"], "system": system, "tools": tools, "messages": messages})
    return replace(
        asked,
        messages=wire,
        api=api,
        tool_choice=str(body.get("tool_choice") or "auto"),
        notes=tuple(text(each.get("content")) for each in wire if each.get("role") in _NOTES),
        schema_name=str(form["name"]) if form else "",
        head=json.dumps([body["model"], body.get("instructions"), body.get("tools")]),
    )


def said(role: str, text: str) -> dict[str, Any]:
    """Return a message in Anthropic's form. The system's notes become reminders, which no script
    takes for a prompt.
    """
    if role in _NOTES:
        return {"role": "user", "content": f"<system-reminder>{text}</system-reminder>"}
    return {"role": role, "content": text}


def used(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    """Return a call in Anthropic's form.

    Raises:
        RequestRefused: the name is valid neither for a tool nor for a call in the dialogue.
    """
    if not _NAME.fullmatch(name):
        raise RequestRefused(
            f"Invalid name of a call {name!r}: {_PATTERN}", code="invalid_value", param="input"
        )
    try:
        given = json.loads(arguments)
    except ValueError:
        given = {"unreadable": arguments}
    return {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": call_id, "name": name, "input": given}],
    }


def returned(call_id: str, output: str) -> dict[str, Any]:
    """Return a call's result in Anthropic's form; a result that reports a failure is an error."""
    block = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": output,
        "is_error": _is_error(output),
    }
    return {"role": "user", "content": [block]}


def text(content: Any) -> str:
    """Return the text of a message's content: a string, parts, or None."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(str(part["text"]) for part in content if "text" in part)


def _is_error(output: str) -> bool:
    try:
        told = json.loads(output)
    except ValueError:
        return False
    return isinstance(told, dict) and (bool(told.get("error")) or told.get("success") is False)


def _check_strict(name: str, schema: Any) -> None:
    """Check strict mode's rules for objects, of tools and of structured outputs. Raises
    `RequestRefused`.

    https://developers.openai.com/api/docs/guides/function-calling and …/guides/structured-outputs.
    """
    if isinstance(schema, list):
        for each in schema:
            _check_strict(name, each)
    if not isinstance(schema, dict):
        return
    properties = schema.get("properties", {})
    if schema.get("type") == "object":
        open_to_more = schema.get("additionalProperties") is not False
        if open_to_more or set(schema.get("required", ())) != set(properties):
            raise RequestRefused(
                f"Invalid schema for function {name!r}: strict mode wants additionalProperties "
                "false, and every property required.",
                code="invalid_function_parameters",
                param="tools",
            )
    for each in properties.values():
        _check_strict(name, each)
    for word in ("items", "anyOf", "$defs"):
        inner = schema.get(word)
        _check_strict(name, list(inner.values()) if word == "$defs" and inner else inner)
