"""Prompts and replies in the form of Chat Completions, which other providers' endpoints speak, too: see
https://developers.openai.com/api/reference/resources/chat."""

import json
from typing import Any

from threadline.models.model import Completion, Message, ModelReply, Prompt, Role, ToolCall, Usage, text_with_author


def request_body(prompt: Prompt, model: str) -> dict[str, Any]:
    """The arguments of `chat.completions.create`: nothing that only OpenAI's own endpoint knows."""
    asked: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "system", "content": prompt.instructions}, *(_message(each) for each in prompt.messages)],
    }
    if prompt.tools:
        asked["tools"] = [
            {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}
            for tool in prompt.tools
        ]
        asked["tool_choice"] = prompt.tool_choice.value
    if form := prompt.form:
        schema = {"name": form.name, "schema": form.schema, "strict": True}
        asked["response_format"] = {"type": "json_schema", "json_schema": schema}
    return asked


def _message(message: Message) -> dict[str, Any]:
    if message.role is Role.TOOL:
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    if not message.calls:
        return {"role": message.role.value, "content": text_with_author(message)}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _readable(call.arguments)}}
        for call in message.calls
    ]
    return {"role": "assistant", "content": message.content or None, "tool_calls": calls}


def _readable(arguments: str) -> str:
    """Arguments as they are when they are a JSON object: some endpoints refuse a dialogue that holds others."""
    try:
        if isinstance(json.loads(arguments), dict):
            return arguments
    except (ValueError, RecursionError):
        pass
    return json.dumps({"unreadable": arguments})


def parse_response(completion: Any, model: str) -> Completion:
    choice = completion.choices[0]
    text = choice.message.content or choice.message.refusal or ""
    asked = choice.message.tool_calls or ()
    calls = tuple(ToolCall(call.id, call.function.name, call.function.arguments) for call in asked)
    cut = choice.finish_reason == "length"
    # Only the last call can have been cut off; the tools that came whole were asked for all the same.
    whole = calls[:-1] if cut and calls and _readable(calls[-1].arguments) != calls[-1].arguments else calls
    used = Usage.read(model, completion.usage, "prompt_tokens", "completion_tokens")
    return Completion(ModelReply(text if text.strip() else "", whole), used, cut)
