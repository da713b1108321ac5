"""A model and tools that do as they were told, note what they were asked, and need no event loop."""

from collections.abc import Coroutine, Sequence
from typing import Any

from threadline.conversations.model.conversation import ConversationOutcome, Execution, ExecutionStatus
from threadline.conversations.workflow import ReactLoop
from threadline.models.model import ModelReply, StepFailed, ToolCall, ToolChoice


def done(call: ToolCall) -> Execution:
    return Execution(call.id, call.name, ExecutionStatus.OK, kind=call.kind)


class Script:
    """`replies` in order, then empty ones; `results` in order, then a success of every call."""

    def __init__(self, replies: Sequence[ModelReply | StepFailed], results: Sequence[Sequence[Execution]] = ()) -> None:
        self._replies = list(replies)
        self._results = list(results)
        self.asked: list[ToolChoice] = []
        self.replied: list[ModelReply] = []
        self.ran: list[list[ToolCall]] = []
        self.ran_after: list[ModelReply] = []
        """For each of `ran`, the reply that was the newest."""

    async def think(self, choice: ToolChoice) -> ModelReply:
        self.asked.append(choice)
        reply = self._replies.pop(0) if self._replies else ModelReply()
        if isinstance(reply, StepFailed):
            raise reply
        self.replied.append(reply)
        return reply

    async def act(self, calls: list[ToolCall]) -> list[Execution]:
        self.ran.append(calls)
        self.ran_after.append(self.replied[-1])
        results = self._results.pop(0) if self._results else [done(call) for call in calls]
        return list(results)

    def play(self, **options: Any) -> ConversationOutcome:
        """The loop over these steps to its end."""
        return finish(ReactLoop(self.think, self.act, **options).run())


def finish(coroutine: Coroutine[Any, Any, ConversationOutcome]) -> ConversationOutcome:
    """The result of what waits for nothing but steps that wait for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        outcome: ConversationOutcome = end.value
        return outcome
    coroutine.close()
    raise AssertionError("it waits for something beside its steps")
