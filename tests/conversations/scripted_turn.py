"""A model and tools that follow a script, record their requests, and need no event loop."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tests.support.lone_turn import LoneTurn
from threadline.conversations.model.conversation import ConversationOutcome, Execution
from threadline.models.model import ModelReply, StepFailed, ToolCall, ToolChoice
from threadline.tools.model import ToolStatus


def done(call: ToolCall) -> Execution:
    return Execution(call.id, call.name, ToolStatus.OK, kind=call.kind)


class Script:
    """`replies` in order, then empty ones; `results` in order, then a success for every call."""

    def __init__(
        self,
        replies: Sequence[ModelReply | StepFailed],
        results: Sequence[Sequence[Execution]] = (),
    ) -> None:
        self._replies = list(replies)
        self._results = list(results)
        self.asked: list[ToolChoice] = []
        self.replied: list[ModelReply] = []
        self.ran: list[list[ToolCall]] = []
        self.ran_after: list[ModelReply] = []
        """For each item of `ran`, the newest reply at that time."""

    def think(self, choice: ToolChoice) -> ModelReply:
        self.asked.append(choice)
        reply = self._replies.pop(0) if self._replies else ModelReply()
        if isinstance(reply, StepFailed):
            raise reply
        self.replied.append(reply)
        return reply

    def act(self, calls: list[ToolCall]) -> list[Execution]:
        self.ran.append(calls)
        self.ran_after.append(self.replied[-1])
        results = self._results.pop(0) if self._results else [done(call) for call in calls]
        return list(results)

    def play(
        self,
        *,
        max_steps: int = 5,
        stop_requested: Callable[[], bool] = lambda: False,
        may_be_silent: bool = False,
    ) -> ConversationOutcome:
        """Run the turn over these steps to its end."""
        turn = _ScriptedTurn(
            max_steps=max_steps, stops=stop_requested, may_be_silent=may_be_silent
        )
        turn.script = self
        return finish(turn.react())


class _ScriptedTurn(LoneTurn):
    script: Script

    async def think(self, choice: ToolChoice) -> ModelReply:
        return self.script.think(choice)

    async def act(self, calls: list[ToolCall]) -> list[Execution]:
        ran = self.script.act(calls)
        self.executions += ran
        return ran


def finish(coroutine: Coroutine[Any, Any, ConversationOutcome]) -> ConversationOutcome:
    """The result of a coroutine that awaits only steps, none of which waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        outcome: ConversationOutcome = end.value
        return outcome
    coroutine.close()
    raise AssertionError("it waits for something beside its steps")
