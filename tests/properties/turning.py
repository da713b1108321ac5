"""A turn on the parts that production runs, from the message to the answer; model and tools do as they are told.

Beside Temporal, whose tries are made here; what an activity that failed for good is to the turn, its own code says.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from tests.support.conversation_activities import Talking
from threadline.conversations.contract import ActRequest, ThinkRequest
from threadline.conversations.react_loop import react
from threadline.conversations.step_failures import broken_off, no_reply
from threadline.models.chat_model import Answer, ChatModel, Prompt
from threadline.models.model import Execution, ModelReply, ToolCall, ToolChoice
from threadline.threads.activity_errors import FaultInterceptor
from threadline.threads.activity_options import ACT, UNEXPECTED


class Model(ChatModel):
    """Replies, or raises, in order; then it has no words."""

    def __init__(self, *replies: ModelReply | Exception) -> None:
        self._replies = list(replies)

    async def ask(self, prompt: Prompt, *, attempt: int = 1, **_: Any) -> Answer:
        reply = self._replies.pop(0) if self._replies else ModelReply()
        if isinstance(reply, Exception):
            raise reply
        return Answer(reply)


async def answer(talk: Talking, *, stop: bool = False) -> str:
    """What is kept as the answer to all that was said; `stop`: somebody stops it once a tool was used."""
    step = 0
    done: list[Execution] = []

    async def think(choice: ToolChoice) -> ModelReply:
        nonlocal step
        step += 1
        request = ThinkRequest(talk.thread, 1, step, choice)
        try:
            reply: ModelReply = (await _attempt(talk, talk.thinking.think, request, UNEXPECTED)).reply
        except ApplicationError as error:
            raise no_reply(error) from error
        return reply

    async def act(calls: list[ToolCall]) -> list[Execution]:
        new = [await _execution(talk, step, each) for each in calls]
        done.extend(new)
        return new

    await talk.settle(await react(think, act, stopping=lambda: stop and bool(done)))
    async with talk.database.begin() as work:
        settled = await work.conversations.settled(talk.thread, 1)
    assert settled
    return settled.answer


async def _execution(talk: Talking, step: int, call: ToolCall) -> Execution:
    """What becomes of a call, which is tried as often as Temporal would."""
    request = ActRequest(talk.thread, 1, step, call.reference())
    for attempt in range(1, ACT.retry.maximum_attempts + 1):
        try:
            done: Execution = await _attempt(talk, talk.thinking.act, request, attempt)
        except ApplicationError as error:
            failed = error
            if error.non_retryable:
                break
        else:
            return done
    return broken_off(call, failed)


async def _attempt(talk: Talking, method: Callable[..., Coroutine[Any, Any, Any]], given: object, attempt: int) -> Any:
    inbound = FaultInterceptor().intercept_activity(_Activity())

    async def run() -> Any:
        return await inbound.execute_activity(ExecuteActivityInput(method, (given,), None, {}))

    return await talk.run(run, attempt=attempt)


class _Activity(ActivityInboundInterceptor):
    """The last in the chain."""

    def __init__(self) -> None:
        """There is none behind it."""

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - Temporal's name
        return await input.fn(*input.args)
