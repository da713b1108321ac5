"""Prompts and replies in the form of Chat Completions, which other providers' endpoints support,
too: see https://developers.openai.com/api/reference/resources/chat.
"""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from threadline.models.dialogue import in_turns
from threadline.models.error_bodies import raise_error
from threadline.models.errors import InvalidResponse
from threadline.models.model import (
    Completion,
    Ended,
    Message,
    ModelReply,
    Prompt,
    Role,
    ToolCall,
    Usage,
)
from threadline.models.raw_text import read_text
from threadline.models.written_calls import Tools

_LENGTH = frozenset(
    {"length", "max_tokens", "MAX_TOKENS", "model_length", "model_context_window_exceeded"}
)
_FILTERED = frozenset(
    {
        "content_filter",
        "SAFETY",
        "PROHIBITED_CONTENT",
        "BLOCKLIST",
        "RECITATION",
        "SPII",
        "sensitive",
        "guardrail",
    }
)
_BROKEN = frozenset(
    {
        "error",
        "failed",
        "abort",
        "network_error",
        "insufficient_system_resource",
        "tool_use_failed",
    }
)
_BROKEN |= {"MALFORMED_FUNCTION_CALL", "malformed_function_call", "UNEXPECTED_TOOL_CALL"}
"""Finish reasons of many vendors' endpoints."""


def request_body(prompt: Prompt, model: str) -> dict[str, Any]:
    """Return the arguments of `chat.completions.create`, without fields that only OpenAI's own
    endpoint supports.
    """
    dialogue = [_message(each) for each in in_turns(prompt.messages)]
    asked: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "system", "content": prompt.instructions}, *dialogue],
    }
    if prompt.tools:
        asked["tools"] = [
            {
                "type": "function",
                "function": {name: value for name, value in tool.items() if name != "type"},
            }
            for tool in prompt.tools
        ]
        asked["tool_choice"] = prompt.tool_choice.value
    if prompt.max_output_tokens:
        asked["max_tokens"] = prompt.max_output_tokens
    if form := prompt.form:
        schema = {"name": form.name, "schema": form.schema, "strict": True}
        asked["response_format"] = {"type": "json_schema", "json_schema": schema}
    return asked


def _message(message: Message) -> dict[str, Any]:
    if message.role is Role.TOOL:
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    if not message.calls:
        return {"role": message.role.value, "content": message.content}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": _readable(call.arguments)},
        }
        for call in message.calls
    ]
    return {"role": "assistant", "content": message.content or None, "tool_calls": calls}


def _readable(arguments: str) -> str:
    """Return arguments unchanged where they are a JSON object, else wrapped in one: some endpoints
    refuse a dialogue that holds others.
    """
    try:
        if isinstance(json.loads(arguments), dict):
            return arguments
    except (ValueError, RecursionError):
        pass
    return json.dumps({"unreadable": arguments})


def parse_response(completion: Any, model: str, tools: Tools = MappingProxyType({})) -> Completion:
    """Read the answer in a completion of any endpoint.

    Args:
        tools: the schemas of the tools on offer by name, which a model may call in its text.

    Raises:
        InvalidResponse: the completion reports a failure, or the answer broke off.
    """
    raise_error(completion, has_answer=bool(completion.choices))
    choice = completion.choices[0]
    raise_error(choice, has_answer=True)
    raise_error(choice.message, has_answer=True)
    finished = choice.finish_reason or ""
    if finished in _BROKEN:
        raise InvalidResponse(finished)
    written = _text(choice.message.content)
    text, in_text = read_text(written, tools)
    made = tuple(filter(None, map(_call, choice.message.tool_calls or ())))
    calls = made or in_text
    cut = finished in _LENGTH
    # Only the last call can have been cut off; complete calls still run.
    whole = (
        calls[:-1]
        if cut and calls and _readable(calls[-1].arguments) != calls[-1].arguments
        else calls
    )
    used = Usage.read(model, completion.usage, "prompt_tokens", "completion_tokens")
    refusal = _text(choice.message.refusal)
    ended = _ended(finished, refused=bool(refusal.strip()) and not text.strip())
    shown = text if text.strip() else refusal
    return Completion(ModelReply(shown if shown.strip() else "", whole), used, ended)


def _ended(finished: str, *, refused: bool) -> Ended:
    if finished in _LENGTH:
        return Ended.LENGTH
    if finished in _FILTERED:
        return Ended.FILTER
    return Ended.REFUSED if refused else Ended.WHOLE


def _text(content: Any) -> str:
    """Return the text of a content: a string, or a list of parts, without the model's
    reasoning.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    parts = (each if isinstance(each, Mapping) else {"text": each} for each in content)
    shown = (
        each.get("text")
        for each in parts
        if str(each.get("type", "text")) in ("text", "output_text")
    )
    return "".join(each for each in shown if isinstance(each, str))


def _call(call: Any) -> ToolCall | None:
    """Read a call; some endpoints give its arguments as an object, or omit them."""
    function = getattr(call, "function", None)
    name = getattr(function, "name", None)
    if not isinstance(name, str) or not name:
        return None
    given = getattr(function, "arguments", None)
    if given is None or given == "":
        given = {}
    arguments = given if isinstance(given, str) else json.dumps(given)
    return ToolCall(str(call.id or ""), name, arguments)
