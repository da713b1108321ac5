"""OpenAI's Responses API, as far as the sandbox implements it:
https://developers.openai.com/api/reference/resources/responses.

Models with the names of OpenAI's reasoning models reason here as well: their thoughts are
encrypted for the same model, and must come back in front of the item that followed them.
"""

import base64
import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from threadline_devstack.models import openai_common
from threadline_devstack.models.request import ModelRequest
from threadline_devstack.models.script import ScriptReply
from threadline_devstack.models.wire import Json, RequestRefused, Wire

_REASONS = re.compile(r"(gpt-[5-9]|o\d)")
_ENCRYPTED = "reasoning.encrypted_content"


def read(body: Json) -> ModelRequest:
    """Read the body of `POST /v1/responses`. Raises the errors of `Wire.read`."""
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    if body.get("store") is not False:
        raise RequestRefused(
            "The sandbox keeps nothing: send store=false, and the whole dialogue.", param="store"
        )
    _check_reasoning(body, items)
    _check_calls(items)
    form = (body.get("text") or {}).get("format") or {}
    return openai_common.conversation(
        body,
        api="responses",
        system=str(body.get("instructions") or ""),
        wire=items,
        messages=[message for item in items if (message := _message(item))],
        functions=list(body.get("tools") or ()),
        form=form if form.get("type") == "json_schema" else None,
    )


def _message(item: Mapping[str, Any]) -> Json | None:
    match item.get("type", "message"):
        case "function_call":
            return openai_common.used(item["call_id"], item["name"], item["arguments"])
        case "function_call_output":
            return openai_common.returned(item["call_id"], openai_common.text(item["output"]))
        case "reasoning":
            return None
        case "message":
            return openai_common.said(item["role"], openai_common.text(item["content"]))
        case other:
            raise RequestRefused(f"Invalid value: {other!r}.", code="invalid_value", param="input")


def _check_reasoning(body: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> None:
    if _ENCRYPTED in (body.get("include") or ()) and not _REASONS.match(str(body.get("model"))):
        raise RequestRefused(
            "Encrypted content is not supported with this model.", param="include"
        )
    followers = [*items[1:], {"role": "user"}]
    for item, follower in zip(items, followers, strict=True):
        if item.get("type") != "reasoning":
            continue
        if item.get("encrypted_content") is None:
            raise RequestRefused(
                f"Item with id {item['id']!r} not found: nothing is stored.", param="input"
            )
        if item["encrypted_content"].partition(".")[0] != _seal(str(body.get("model"))):
            raise RequestRefused(
                "The encrypted content could not be verified.", code="invalid_encrypted_content"
            )
        if (
            follower.get("type") not in ("reasoning", "function_call")
            and follower.get("role") != "assistant"
        ):
            raise RequestRefused(
                f"Item {item['id']!r} of type 'reasoning' came without its required "
                "following item."
            )


def _check_calls(items: Sequence[Mapping[str, Any]]) -> None:
    called: set[str] = set()
    answered: set[str] = set()
    for item in items:
        if item.get("type") == "function_call":
            called.add(item["call_id"])
        if item.get("type") == "function_call_output":
            if item["call_id"] not in called:
                raise RequestRefused(
                    f"No tool call found for function call output with call_id {item['call_id']}."
                )
            answered.add(item["call_id"])
    if missing := sorted(called - answered):
        raise RequestRefused(
            f"No tool output found for function call {missing[0]}.", param="input"
        )


def _seal(model: str) -> str:
    return base64.urlsafe_b64encode(model.encode()).decode().rstrip("=")


def _response(reply: ScriptReply, request: ModelRequest) -> Json:
    output = list(_output(reply, request))
    outgoing = 1 + len(json.dumps(output)) // 4
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": request.system,
        "model": request.model,
        "output": output,
        "parallel_tool_calls": True,
        "store": False,
        "tool_choice": request.tool_choice,
        "tools": [],
        "usage": {
            "input_tokens": request.tokens,
            "input_tokens_details": {"cached_tokens": request.cached, "cache_write_tokens": 0},
            "output_tokens": outgoing,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": request.tokens + outgoing,
        },
    }


def _output(reply: ScriptReply, request: ModelRequest) -> Iterator[Json]:
    reasons = bool(_REASONS.match(request.model))
    if reasons:
        thought = f"{_seal(request.model)}.{request.fingerprint}"
        yield {
            "type": "reasoning",
            "id": f"rs_{uuid.uuid4().hex}",
            "summary": [],
            "encrypted_content": thought,
        }
    if reply.text or not reply.calls:
        name = "commentary" if reply.calls else "final_answer"
        phase = {"phase": name} if reasons else {}
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        head = {
            "type": "message",
            "id": f"msg_{uuid.uuid4().hex}",
            "role": "assistant",
            "status": "completed",
        }
        yield {**head, **phase, "content": [part]}
    for name, arguments in reply.calls:
        ids = {"id": f"fc_{uuid.uuid4().hex}", "call_id": f"call_{uuid.uuid4().hex}"}
        given = json.dumps(arguments)
        yield {
            "type": "function_call",
            **ids,
            "name": name,
            "arguments": given,
            "status": "completed",
        }


WIRE = Wire(openai_common.key, read, _response, openai_common.error)
