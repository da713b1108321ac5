"""The model of conversation scenes: it gives the replies of a script, and keeps its requests."""

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from tests.support.decision_forms import decision_form
from threadline.conversations.contract import ThinkRequest
from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.prompt import SUMMARY_INSTRUCTIONS
from threadline.models.model import NO_REPLY, ChatModel, Completion, ModelReply, Prompt, ToolCall
from threadline.operator.prompt import MAX_ANALYSIS_TOKENS

Reply = ModelReply | Exception | Callable[[ThinkRequest], Awaitable[ModelReply]]

AWAY = ApplicationError("The model is overloaded.", 0.0, type="Transient", non_retryable=True)
"""The error of the last attempt at a model that does not answer."""
SILENT = ModelReply(NO_REPLY)
REQUEST: ContextVar[Any] = ContextVar("request")
"""The request of the activity that runs."""


def calls(*ids: str, says: str = "", **arguments: str) -> ModelReply:
    """Return a reply that asks for tools. A call's id is its tool's name, or the name with a colon
    and more: `create:1`.
    """
    given = json.dumps(arguments)
    return ModelReply(says, tuple(ToolCall(each, each.partition(":")[0], given) for each in ids))


@dataclass
class ScriptedModel(ChatModel):
    """Gives one reply after the other to the thoughts of a conversation, and then answers that it
    is done.

    Decisions, summaries and analyses have scripts of their own, and are not counted in `asked`.
    """

    replies: list[Reply]
    asked: list[ThinkRequest] = field(default_factory=list)
    decisions: dict[
        tuple[int, int], dict[str, Any] | Exception | Callable[[], Awaitable[None]]
    ] = field(default_factory=dict)
    """By turn and round: the fields of the decision's form that differ from those of an easy
    question, a fault, or a hook that runs before an easy question is decided.
    """
    rounds: Counter[int] = field(default_factory=Counter)
    """By turn: the number of its decisions."""
    summaries: list[Exception | Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Hooks that run instead of a summary, once each."""
    summarised: int = 0
    analyses: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Hooks that run before a request of the operator is analysed, once each."""
    analysed: int = 0

    async def ask(self, prompt: Prompt, *, attempt: int = 1) -> Completion:
        if prompt.instructions == SUMMARY_INSTRUCTIONS:
            return Completion(await self._summarise())
        if prompt.max_output_tokens == MAX_ANALYSIS_TOKENS and prompt.form is None:
            return Completion(await self._analyse())
        if activity.info().activity_type in ("begin_turn", "decide"):
            return Completion(await self._decide(REQUEST.get()))
        return Completion(await self._think(REQUEST.get()))

    async def _think(self, request: ThinkRequest) -> ModelReply:
        self.asked.append(request)
        reply = self.replies.pop(0) if self.replies else ModelReply("Done.")
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, ModelReply) else await reply(request)

    async def _decide(self, asked: ConversationTurn) -> ModelReply:
        decision = self.decisions.get((asked.turn, self.rounds[asked.turn] + 1), {})
        if isinstance(decision, Exception):
            raise decision
        if callable(decision):
            await decision()
            decision = {}
        self.rounds[asked.turn] += 1
        return ModelReply(json.dumps(decision_form() | decision))

    async def _summarise(self) -> ModelReply:
        self.summarised += 1
        trouble = self.summaries.pop(0) if self.summaries else None
        if isinstance(trouble, Exception):
            raise trouble
        if trouble:
            await trouble()
        return ModelReply("People have talked about this and that.")

    async def _analyse(self) -> ModelReply:
        self.analysed += 1
        if self.analyses:
            await self.analyses.pop(0)()
        return ModelReply("Somebody asks for something.")
