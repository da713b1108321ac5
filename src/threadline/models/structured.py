"""A model that converses as one that answers in a form, for the decision engine."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from threadline.errors import Transient
from threadline.models.chat_model import Ask, ChatModel, Form, Prompt
from threadline.models.model import Message, Role, ToolChoice, Usage

LONGEST_REPLY = 1_500
"""Tokens that the model may write, its thoughts included."""
LONGEST_WAIT = 75.0
"""Seconds for one answer: a few lines, for which somebody waits before anything else is done."""


def asking(model: ChatModel, paid: list[Usage], attempt: int = 1, wait: float = LONGEST_WAIT) -> Ask:
    """Ask this model.

    Args:
        paid: gets what each answer has used.
        attempt: how often the same was asked, from 1 on; see `ChatModel.ask`.
        wait: seconds for one answer.
    """

    async def ask(instructions: str, questions: Sequence[str], name: str, form: Mapping[str, Any]) -> str:
        roles = (Role.USER, Role.ASSISTANT)
        said = tuple(Message(roles[place % 2], each) for place, each in enumerate(questions))
        prompt = Prompt(instructions, said, tool_choice=ToolChoice.NONE, longest=LONGEST_REPLY, form=Form(name, form))
        limit = asyncio.timeout(wait)
        try:
            async with limit:
                answer = await model.ask(prompt, attempt=attempt)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise Transient(f"The model gave no {name} within {wait:g} seconds.") from error
        paid.append(answer.usage)
        return answer.reply.text

    return ask
