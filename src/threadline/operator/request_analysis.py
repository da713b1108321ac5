"""The metaprompt: one call of the model that says what a request is about, before the agent begins."""

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from threadline.models.chat_model import ChatModel, Prompt
from threadline.models.model import Message, Role, ToolChoice, Usage
from threadline.operator import prompt as prompts
from threadline.operator import prompt_fences as fences
from threadline.tools.registry import Tool

PATIENCE = 8.0
"""Seconds; an analysis that takes longer is not waited for."""
LONGEST_REPLY = 1_500
"""Tokens that the model may write, its thoughts included."""
SENTENCES = 4
_CONTEXT, _LONGEST = 12_000, 1_200
"""Bytes of the context that it reads, and of what is kept."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"“‘'`(\d])")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Analysis:
    """`text` is empty where there is none. `usage` is None when no model has answered; `milliseconds` that it took."""

    text: str = ""
    usage: Usage | None = None
    milliseconds: int = 0


async def generate_metaprompt(
    model: ChatModel | None,
    question: str,
    context: str = "",
    tools: Sequence[Tool] = (),
    *,
    patience: float = PATIENCE,
) -> Analysis:
    """Have a request analysed in 2 to 4 sentences. Never raises: a turn goes on without.

    Args:
        context: all layers in their fences, of which the beginning is read.
        patience: seconds.
    """
    if model is None:
        return Analysis()
    begun = time.monotonic()
    try:
        async with asyncio.timeout(patience):
            answer = await model.ask(_prompt(question, context, tools))
    except Exception as error:  # noqa: BLE001 - whatever goes wrong with a help, the work goes on
        _log.warning("analysis_failed", error=type(error).__name__, milliseconds=_since(begun))
        return Analysis(milliseconds=_since(begun))
    text = told(answer.reply.text)
    if not text:
        _log.warning("analysis_empty", truncated=answer.cut)
    return Analysis(text, answer.usage, _since(begun))


def told(reply: str) -> str:
    """What is kept of a reply: at most four sentences in one line, which close no fence."""
    sentences = _SENTENCE.split(fences.line(reply, _LONGEST))
    return " ".join(sentences[:SENTENCES])


def _prompt(question: str, context: str, tools: Sequence[Tool]) -> Prompt:
    names = ", ".join(sorted(each.wire_name for each in tools)) or "none"
    known = fences.beginning(context, _CONTEXT) or "nothing"
    request = fences.fenced("request", fences.neutral(question))
    asked = f"Tools: {names}\n\nWhat is known:\n{known}\n\nThe request:\n{request}"
    messages = (Message(Role.USER, asked),)
    return Prompt(prompts.analyse(), messages, tool_choice=ToolChoice.NONE, longest=LONGEST_REPLY)


def _since(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)
