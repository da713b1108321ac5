"""OpenAI's Responses API as the sandbox speaks it: https://developers.openai.com/api/reference/resources/responses.

Its models reason when their names are those of OpenAI's reasoning models: what they thought is encrypted for the model
that thought it, and has to come back in front of what it led to.
"""

import base64
import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from threadline_devstack.models import openai_common as openai_wire
from threadline_devstack.models.openai_common import OpenAIRefusal
from threadline_devstack.models.request import ModelRequest
from threadline_devstack.models.script import ScriptAnswer, ScriptFailure, ScriptInterruption, ScriptReply

_REASONS = re.compile(r"(gpt-[5-9]|o\d)")
_ENCRYPTED = "reasoning.encrypted_content"


def read(body: Mapping[str, Any]) -> ModelRequest | ScriptFailure:
    """Read the body of `POST /v1/responses`; a Failure where it breaks a rule of the API.

    Raises:
        ValueError, KeyError, TypeError or AttributeError: the body is no such request.
    """
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    try:
        _check_storing(body)
        _check_reasoning(body, items)
        _check_calls(items)
        return openai_wire.conversation(
            body,
            api="responses",
            system=str(body.get("instructions") or ""),
            wire=items,
            messages=[message for item in items if (message := _message(item))],
            functions=list(body.get("tools") or ()),
            form=_form(body),
        )
    except OpenAIRefusal as refused:
        return refused.failure


def _form(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    asked = (body.get("text") or {}).get("format") or {}
    return asked if asked.get("type") == "json_schema" else None


def _message(item: Mapping[str, Any]) -> dict[str, Any] | None:
    match item.get("type", "message"):
        case "function_call":
            return openai_wire.used(item["call_id"], item["name"], item["arguments"])
        case "function_call_output":
            return openai_wire.returned(item["call_id"], openai_wire.text(item["output"]))
        case "reasoning":
            return None
        case "message":
            return openai_wire.said(item["role"], openai_wire.text(item["content"]))
        case other:
            raise OpenAIRefusal(f"Invalid value: {other!r}.", code="invalid_value", param="input")


def _check_storing(body: Mapping[str, Any]) -> None:
    if body.get("store") is not False:
        raise OpenAIRefusal("The sandbox keeps nothing: send store=false, and the whole dialogue.", param="store")


def _check_reasoning(body: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> None:
    if _ENCRYPTED in (body.get("include") or ()) and not _REASONS.match(str(body.get("model"))):
        raise OpenAIRefusal("Encrypted content is not supported with this model.", param="include")
    followers = [*items[1:], {"role": "user"}]
    for item, follower in zip(items, followers, strict=True):
        if item.get("type") != "reasoning":
            continue
        if item.get("encrypted_content") is None:
            raise OpenAIRefusal(f"Item with id {item['id']!r} not found: nothing is stored.", param="input")
        if item["encrypted_content"].partition(".")[0] != _seal(str(body.get("model"))):
            raise OpenAIRefusal("The encrypted content could not be verified.", code="invalid_encrypted_content")
        if follower.get("type") not in ("reasoning", "function_call") and follower.get("role") != "assistant":
            raise OpenAIRefusal(f"Item {item['id']!r} of type 'reasoning' came without its required following item.")


def _check_calls(items: Sequence[Mapping[str, Any]]) -> None:
    called: set[str] = set()
    answered: set[str] = set()
    for item in items:
        if item.get("type") == "function_call":
            called.add(item["call_id"])
        if item.get("type") == "function_call_output":
            if item["call_id"] not in called:
                raise OpenAIRefusal(f"No tool call found for function call output with call_id {item['call_id']}.")
            answered.add(item["call_id"])
    if missing := sorted(called - answered):
        raise OpenAIRefusal(f"No tool output found for function call {missing[0]}.", param="input")


def render(answer: ScriptAnswer, asked: ModelRequest) -> Response:
    match answer:
        case ScriptFailure():
            return openai_wire.error(answer)
        case ScriptInterruption():
            return openai_wire.broken_off(_response(openai_wire.BEGUN, asked))
        case ScriptReply():
            return JSONResponse(_response(answer, asked))


def _seal(model: str) -> str:
    return base64.urlsafe_b64encode(model.encode()).decode().rstrip("=")


def _response(reply: ScriptReply, asked: ModelRequest) -> dict[str, Any]:
    output = list(_output(reply, asked))
    outgoing = 1 + len(json.dumps(output)) // 4
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": asked.system,
        "model": asked.model,
        "output": output,
        "parallel_tool_calls": True,
        "store": False,
        "tool_choice": asked.tool_choice,
        "tools": [],
        "usage": {
            "input_tokens": asked.tokens,
            "input_tokens_details": {"cached_tokens": asked.cached, "cache_write_tokens": 0},
            "output_tokens": outgoing,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": asked.tokens + outgoing,
        },
    }


def _output(reply: ScriptReply, asked: ModelRequest) -> Iterator[dict[str, Any]]:
    reasons = bool(_REASONS.match(asked.model))
    if reasons:
        thought = f"{_seal(asked.model)}.{asked.fingerprint}"
        yield {"type": "reasoning", "id": f"rs_{uuid.uuid4().hex}", "summary": [], "encrypted_content": thought}
    if reply.text or not reply.calls:
        phase = {"phase": "commentary" if reply.calls else "final_answer"} if reasons else {}
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        head = {"type": "message", "id": f"msg_{uuid.uuid4().hex}", "role": "assistant", "status": "completed"}
        yield {**head, **phase, "content": [part]}
    for name, arguments in reply.calls:
        ids = {"id": f"fc_{uuid.uuid4().hex}", "call_id": f"call_{uuid.uuid4().hex}"}
        given = json.dumps(arguments)
        yield {"type": "function_call", **ids, "name": name, "arguments": given, "status": "completed"}
