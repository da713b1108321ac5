"""Prompts and replies in the form of OpenAI's Responses API:
https://developers.openai.com/api/docs/guides/text.

The provider keeps nothing (`store` is false), so a reasoning model's reasoning comes back
encrypted and is sent again with the next prompt:
https://developers.openai.com/api/docs/guides/reasoning. It is a message's `provider_data`, as
JSON: `model` wrote it, and no other model can read it; `items` holds, in the order of the reply,
each `reasoning` item unchanged, and a placeholder for each `message` and `function_call`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
    text_with_author,
)
from threadline.models.raw_text import read_text

ENCRYPTED_REASONING = "reasoning.encrypted_content"
_REASONING = ("type", "id", "summary", "content", "encrypted_content")
"""Fields of a reasoning item that the API accepts back; it refuses a `status`."""


def request_body(prompt: Prompt, model: str, *, reasoning: bool = True) -> dict[str, Any]:
    """Return the arguments of `responses.create`.

    Args:
        reasoning: False for models that refuse to encrypt their reasoning.
    """
    asked: dict[str, Any] = {
        "model": model,
        "instructions": prompt.instructions,
        "input": [
            item
            for message in prompt.messages
            for item in _items(message, model if reasoning else "")
        ],
        "store": False,
    }
    if reasoning:
        asked["include"] = [ENCRYPTED_REASONING]
    if prompt.tools:
        asked["tools"] = [dict(tool) for tool in prompt.tools]
        asked["tool_choice"] = prompt.tool_choice.value
    if prompt.cache_key:
        asked["prompt_cache_key"] = prompt.cache_key
    if prompt.max_output_tokens:
        asked["max_output_tokens"] = prompt.max_output_tokens
    if form := prompt.form:
        asked["text"] = {
            "format": {
                "type": "json_schema",
                "name": form.name,
                "schema": form.schema,
                "strict": True,
            }
        }
    return asked


def _items(message: Message, model: str) -> list[dict[str, Any]]:
    match message.role:
        case Role.ASSISTANT:
            return list(_own(message, model))
        case Role.TOOL:
            return [
                {
                    "type": "function_call_output",
                    "call_id": message.call_id,
                    "output": message.content,
                }
            ]
        case Role.SYSTEM:
            return [{"role": "developer", "content": message.content}]
        case Role.USER:
            return [{"role": "user", "content": text_with_author(message)}]


def _own(message: Message, model: str) -> Iterator[dict[str, Any]]:
    """Yield an assistant's message as items; for the model that wrote it, its reasoning included
    at its places.
    """
    text = message.content
    calls = {call.id: call for call in message.calls}
    thoughts: list[dict[str, Any]] = []
    for item in _kept(message.provider_data, model):
        if item["type"] == "reasoning":
            thoughts.append(dict(item))
            continue
        call = calls.pop(str(item.get("call_id", "")), None)
        own = None
        if call:
            own = _call(call)
        elif item["type"] == "message" and text:
            own = _said(text, item.get("phase"))
        if item["type"] == "message":
            text = ""
        if own:  # the API refuses reasoning without the item that followed it
            yield from [*thoughts, own]
        thoughts = []
    if text:
        yield _said(text, None)
    yield from (_call(call) for call in calls.values())


def _kept(provider_data: str, model: str) -> Sequence[Mapping[str, Any]]:
    try:
        kept = json.loads(provider_data or "{}")
    except ValueError:
        return ()
    return kept.get("items", ()) if isinstance(kept, dict) and kept.get("model") == model else ()


def _said(text: str, phase: str | None) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "content": text,
        **({"phase": phase} if phase else {}),
    }


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments,
    }


def parse_response(response: Any, model: str) -> Completion:
    """Read the answer in a finished response of `model`.

    Raises:
        InvalidResponse: the response reports a failure, or has another shape.
    """
    raise_error(response, has_answer=bool(response.output))
    if response.status in ("failed", "cancelled"):
        raise InvalidResponse()
    calls = []
    texts = []
    items = []
    for item in response.output:
        match item.type:
            # A call that was cut off has incomplete arguments.
            case "function_call" if item.status != "incomplete":
                calls.append(ToolCall(item.call_id, item.name, item.arguments))
                items.append({"type": "function_call", "call_id": item.call_id})
            case "message":
                said = [
                    part.text if part.type == "output_text" else part.refusal
                    for part in item.content
                ]
                texts.append(read_text("".join(map(str, said)), {})[0])
                items.append({"type": "message", **({"phase": item.phase} if item.phase else {})})
            case "reasoning":
                thought = item.model_dump(mode="json", warnings=False)
                items.append(
                    {name: thought[name] for name in _REASONING if thought.get(name) is not None}
                )
    goes_on = any(item["type"] == "reasoning" or "phase" in item for item in items)
    text = "\n\n".join(text for text in texts if text.strip())
    provider_data = json.dumps({"model": model, "items": items}) if goes_on else ""
    used = Usage.read(model, response.usage, "input_tokens", "output_tokens")
    return Completion(
        ModelReply(text, tuple(calls), provider_data=provider_data), used, _ended(response)
    )


def _ended(response: Any) -> Ended:
    if response.status == "incomplete":
        details = response.incomplete_details
        return Ended.FILTER if details and details.reason == "content_filter" else Ended.LENGTH
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    return (
        Ended.REFUSED if parts and all(part.type == "refusal" for part in parts) else Ended.WHOLE
    )
