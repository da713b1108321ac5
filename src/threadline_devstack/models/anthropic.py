"""Anthropic's Messages API on the wire: replies as JSON and as a stream of events, and errors.

Shapes: https://docs.anthropic.com/en/api/messages, …/messages-streaming and …/errors.
"""

import json
import uuid
from collections.abc import Iterator

from threadline_devstack.models.request import ModelRequest, read
from threadline_devstack.models.script import ScriptFailure, ScriptReply
from threadline_devstack.models.wire import Json, Wire, event

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


def _message(reply: ScriptReply, request: ModelRequest) -> Json:
    """Return the whole message. Its id is new each time: the CLI merges replies with the same
    id.
    """
    content: list[Json] = (
        [{"type": "text", "text": reply.text}] if reply.text or not reply.calls else []
    )
    content += [
        {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex}", "name": name, "input": arguments}
        for name, arguments in reply.calls
    ]
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
        "stop_reason": "tool_use" if reply.calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": request.tokens,
            "output_tokens": 1 + len(json.dumps(content)) // 4,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }


def _events(message: Json) -> Iterator[str]:
    content = message["content"]
    usage = message["usage"]
    begun = message | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
    yield event("message_start", {"message": begun})
    for index, block in enumerate(content):
        if block["type"] == "text":
            empty = block | {"text": ""}
            kind = "text_delta"
            field = "text"
            whole = block["text"]
        else:
            empty = block | {"input": {}}
            kind = "input_json_delta"
            field = "partial_json"
            whole = json.dumps(block["input"])
        yield event("content_block_start", {"index": index, "content_block": empty})
        for at in range(0, len(whole), CHUNK):
            delta = {"type": kind, field: whole[at : at + CHUNK]}
            yield event("content_block_delta", {"index": index, "delta": delta})
        yield event("content_block_stop", {"index": index})
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield event(
        "message_delta", {"delta": ending, "usage": {"output_tokens": usage["output_tokens"]}}
    )
    yield event("message_stop", {})


def _error(failure: ScriptFailure) -> Json:
    return {
        "type": "error",
        "error": {
            "type": ERROR_TYPES.get(failure.status, "api_error"),
            "message": failure.message,
        },
        "request_id": f"req_{uuid.uuid4().hex}",
    }


WIRE = Wire(lambda request: request.headers.get("x-api-key", ""), read, _message, _error, _events)
