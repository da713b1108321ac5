"""OpenAI's Chat Completions as the sandbox speaks it: https://developers.openai.com/api/reference/resources/chat."""

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from threadline_devstack.models import openai_common as openai_wire
from threadline_devstack.models.openai_common import OpenAIRefusal
from threadline_devstack.models.request import ModelRequest
from threadline_devstack.models.script import ScriptAnswer, ScriptFailure, ScriptInterruption, ScriptReply


def read(body: Mapping[str, Any]) -> ModelRequest | ScriptFailure:
    """Read the body of `POST /v1/chat/completions`; a Failure where it breaks a rule of the API.

    Raises:
        ValueError, KeyError, TypeError or AttributeError: the body is no such request.
    """
    given = list(body["messages"])
    first = given[0] if given and given[0]["role"] in ("system", "developer") else None
    try:
        _check_calls(given)
        _check_choice(body)
        return openai_wire.conversation(
            body,
            api="chat",
            system=openai_wire.text(first["content"]) if first else "",
            wire=given,
            messages=[each for message in given[1 if first else 0 :] for each in _messages(message)],
            functions=[tool["function"] for tool in body.get("tools") or ()],
            form=(body.get("response_format") or {}).get("json_schema"),
        )
    except OpenAIRefusal as refused:
        return refused.failure


def _messages(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if message["role"] == "tool":
        yield openai_wire.returned(message["tool_call_id"], openai_wire.text(message["content"]))
        return
    if text := openai_wire.text(message.get("content")):
        yield openai_wire.said(message["role"], text)
    for call in message.get("tool_calls") or ():
        yield openai_wire.used(call["id"], call["function"]["name"], call["function"]["arguments"])


def _check_choice(body: Mapping[str, Any]) -> None:
    if "tool_choice" in body and not body.get("tools"):
        raise OpenAIRefusal("'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice")


def _check_calls(messages: Sequence[Mapping[str, Any]]) -> None:
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                raise OpenAIRefusal("A message with role 'tool' must follow a message with its 'tool_calls'.")
            open_calls.discard(message["tool_call_id"])
            continue
        if open_calls:
            break
        open_calls = {call["id"] for call in message.get("tool_calls") or ()}
    if open_calls:
        missing = ", ".join(sorted(open_calls))
        raise OpenAIRefusal(f"Tool messages must follow 'tool_calls', one for each; these got none: {missing}.")


def render(answer: ScriptAnswer, asked: ModelRequest) -> Response:
    match answer:
        case ScriptFailure():
            return openai_wire.error(answer)
        case ScriptInterruption():
            return openai_wire.broken_off(_completion(openai_wire.BEGUN, asked))
        case ScriptReply():
            return JSONResponse(_completion(answer, asked))


def _calls(reply: ScriptReply) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{uuid.uuid4().hex}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for name, arguments in reply.calls
    ]


def _usage(reply: ScriptReply, asked: ModelRequest) -> dict[str, Any]:
    outgoing = 1 + (len(reply.text) + len(json.dumps([dict(given) for _, given in reply.calls]))) // 4
    return {
        "prompt_tokens": asked.tokens,
        "prompt_tokens_details": {"cached_tokens": asked.cached},
        "completion_tokens": outgoing,
        "completion_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked.tokens + outgoing,
    }


def _completion(reply: ScriptReply, asked: ModelRequest) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if calls := _calls(reply):
        message["tool_calls"] = calls
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": "tool_calls" if reply.calls else "stop",
    }
    head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": "chat.completion", "created": int(time.time())}
    return {**head, "model": asked.model, "choices": [choice], "usage": _usage(reply, asked)}
