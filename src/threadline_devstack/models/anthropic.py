"""Anthropic's Messages API on the wire: an answer as JSON, as a stream of events, as an error, or broken off.

Shapes: https://docs.anthropic.com/en/api/messages, …/messages-streaming and …/errors.
"""

import json
import uuid
from collections.abc import Iterator
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from threadline_devstack.models.request import ModelRequest
from threadline_devstack.models.script import ScriptAnswer, ScriptFailure, ScriptInterruption, ScriptReply

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
CHUNK = 64
"""Characters of text or of a tool's input in one event of a stream."""

_BEGUN = ScriptReply("I am looking into this, and the first thing that I see is")


def render(answer: ScriptAnswer, conversation: ModelRequest) -> Response:
    match answer:
        case ScriptReply():
            if not conversation.stream:
                return JSONResponse(_message(answer, conversation))
            return _event_stream("".join(_events(answer, conversation)))
        case ScriptFailure():
            return error(answer)
        case ScriptInterruption():
            return _interrupted(answer, conversation)


def error(failure: ScriptFailure) -> Response:
    headers = {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}
    return JSONResponse(_error_body(failure), failure.status, headers)


class BrokenOff(Response):
    """A response that stops after its first bytes; the server then closes the connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = (b"content-type", str(self.media_type).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [kind]})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})


def _interrupted(answer: ScriptInterruption, conversation: ModelRequest) -> Response:
    events = list(_events(_BEGUN, conversation))
    if not answer.event:
        return BrokenOff("".join(events[:3]), media_type="text/event-stream")
    failure = ScriptFailure(500, "The stream broke.")
    if not conversation.stream:
        return error(failure)
    return _event_stream("".join(events[:3]) + _event("error", _error_body(failure)))


def _event_stream(text: str) -> Response:
    return Response(text, media_type="text/event-stream", headers={"cache-control": "no-cache"})


def _message(reply: ScriptReply, conversation: ModelRequest) -> dict[str, Any]:
    """The whole message. Its id is new each time: the CLI merges replies that carry the same one."""
    content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text or not reply.calls else []
    content += [
        {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex}", "name": name, "input": arguments}
        for name, arguments in reply.calls
    ]
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": conversation.model,
        "content": content,
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": conversation.tokens,
            "output_tokens": 1 + len(json.dumps(content)) // 4,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }


def _events(reply: ScriptReply, conversation: ModelRequest) -> Iterator[str]:
    message = _message(reply, conversation)
    content, usage = message["content"], message["usage"]
    begun = message | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
    yield _event("message_start", {"message": begun})
    for index, block in enumerate(content):
        if block["type"] == "text":
            empty, kind, field, whole = block | {"text": ""}, "text_delta", "text", block["text"]
        else:
            empty, kind, field = block | {"input": {}}, "input_json_delta", "partial_json"
            whole = json.dumps(block["input"])
        yield _event("content_block_start", {"index": index, "content_block": empty})
        for at in range(0, len(whole), CHUNK):
            delta = {"type": kind, field: whole[at : at + CHUNK]}
            yield _event("content_block_delta", {"index": index, "delta": delta})
        yield _event("content_block_stop", {"index": index})
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", {"delta": ending, "usage": {"output_tokens": usage["output_tokens"]}})
    yield _event("message_stop", {})


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n"


def _error_body(failure: ScriptFailure) -> dict[str, Any]:
    return {
        "type": "error",
        "error": {"type": ERROR_TYPES.get(failure.status, "api_error"), "message": failure.message},
        "request_id": f"req_{uuid.uuid4().hex}",
    }
