"""OpenAI's Chat Completions, as far as the sandbox implements them:
https://developers.openai.com/api/reference/resources/chat.
"""

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from threadline_devstack.models import openai_common
from threadline_devstack.models.request import ModelRequest
from threadline_devstack.models.script import ScriptReply
from threadline_devstack.models.wire import Json, RequestRefused, Wire


def read(body: Json) -> ModelRequest:
    """Read the body of `POST /v1/chat/completions`. Raises the errors of `Wire.read`."""
    given = list(body["messages"])
    first = given[0] if given and given[0]["role"] in ("system", "developer") else None
    _check_calls(given)
    if "tool_choice" in body and not body.get("tools"):
        raise RequestRefused(
            "'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice"
        )
    return openai_common.conversation(
        body,
        api="chat",
        system=openai_common.text(first["content"]) if first else "",
        wire=given,
        messages=[each for message in given[1 if first else 0 :] for each in _messages(message)],
        functions=[tool["function"] for tool in body.get("tools") or ()],
        form=(body.get("response_format") or {}).get("json_schema"),
    )


def _messages(message: Mapping[str, Any]) -> Iterator[Json]:
    if message["role"] == "tool":
        yield openai_common.returned(
            message["tool_call_id"], openai_common.text(message["content"])
        )
        return
    if text := openai_common.text(message.get("content")):
        yield openai_common.said(message["role"], text)
    for call in message.get("tool_calls") or ():
        yield openai_common.used(
            call["id"], call["function"]["name"], call["function"]["arguments"]
        )


def _check_calls(messages: Sequence[Mapping[str, Any]]) -> None:
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                raise RequestRefused(
                    "A message with role 'tool' must follow a message with its 'tool_calls'."
                )
            open_calls.discard(message["tool_call_id"])
            continue
        if open_calls:
            break
        open_calls = {call["id"] for call in message.get("tool_calls") or ()}
    if open_calls:
        missing = ", ".join(sorted(open_calls))
        raise RequestRefused(
            f"Tool messages must follow 'tool_calls', one for each; these got none: {missing}."
        )


def _completion(reply: ScriptReply, request: ModelRequest) -> Json:
    message: Json = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{uuid.uuid4().hex}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for name, arguments in reply.calls
        ]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": "tool_calls" if reply.calls else "stop",
    }
    outgoing = 1 + len(json.dumps(message)) // 4
    usage = {
        "prompt_tokens": request.tokens,
        "prompt_tokens_details": {"cached_tokens": request.cached},
        "completion_tokens": outgoing,
        "completion_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": request.tokens + outgoing,
    }
    head = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
    }
    return {**head, "model": request.model, "choices": [choice], "usage": usage}


WIRE = Wire(openai_common.key, read, _completion, openai_common.error)
