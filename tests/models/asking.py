"""Prompts for a conversation, and the messages that follow from their answers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from threadline.models.client import OpenAIModel
from threadline.models.model import Completion, Message, ModelReply, Prompt, Role, ToolCall
from threadline_devstack.models.script import ScriptTurn

Make = Callable[..., OpenAIModel]
Answering = Callable[..., Awaitable[str]]

KEY = "sk-proj-never-to-be-told-0123456789"
REQUEST = "Create three WBS items for P-12 and then update the quote totals."


def function(name: str, about: str, **properties: Any) -> Mapping[str, Any]:
    """A tool as the registry offers it."""
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "name": name,
        "description": about,
        "parameters": parameters,
        "strict": True,
    }


TOOLS = (
    function(
        "estimates_createWbsItems",
        "Add items.",
        project_id={"type": "string"},
        names={"type": "array"},
    ),
    function("estimates_updateQuoteTotals", "Add up a quote.", project_id={"type": "string"}),
)


async def work_out(turn: ScriptTurn) -> None:
    """The model's script for `REQUEST`."""
    if turn.tool_choice == "auto":
        await turn.call(
            "estimates_createWbsItems", project_id="P-12", names=["one", "two", "three"]
        )
        await turn.call("estimates_updateQuoteTotals", project_id="P-12")
    await turn.text_only("The quote is up to date.")


def asked(*more: Message, **changes: Any) -> Prompt:
    given: dict[str, Any] = {
        "instructions": "You help.",
        "tools": TOOLS,
        "messages": (user(REQUEST), *more),
    } | changes
    return Prompt(**given)


def user(text: str, author: str = "") -> Message:
    return Message(Role.USER, text, author=author)


def said(reply: ModelReply) -> Message:
    return Message(Role.ASSISTANT, reply.text, reply.calls, provider_data=reply.provider_data)


def returned(call: ToolCall, output: str = '{"project_id": "P-12"}') -> Message:
    return Message(Role.TOOL, output, call_id=call.id)


async def whole_turn(model: OpenAIModel) -> list[Completion]:
    """Ask and return results until the model ends with a sentence."""
    messages: list[Message] = []
    answers = []
    for _ in range(6):
        answers.append(await model.ask(asked(*messages)))
        messages += [said(answers[-1].reply), *map(returned, answers[-1].reply.calls)]
        if not answers[-1].reply.calls:
            return answers
    raise AssertionError("the model never ended")


BOTH = pytest.mark.parametrize("api", ["responses", "chat"])
