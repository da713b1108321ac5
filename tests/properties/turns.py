"""Turns on the parts that run in production, from message to answer, with a scripted model and a tool that fails."""

import itertools
import json
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from tests.properties.internals import error_of
from tests.support.conversation_activities import ConversationActivityScene, Make
from tests.support.tool_fakes import LossyLedger
from threadline.conversations.contract import ACT, ActRequest, ConversationActivities, ThinkRequest
from threadline.conversations.model.conversation import Execution, lost_call
from threadline.conversations.store.turns import TurnStore
from threadline.conversations.workflow import ReactLoop, no_reply
from threadline.db.engine import Database
from threadline.db.rate_limits import Rate, RateLimits
from threadline.estimates.model import PROJECT_BINDING
from threadline.estimates.store import EstimateStore
from threadline.models.model import ChatModel, Completion, ModelReply, Prompt, ToolCall, ToolChoice, ToolKind
from threadline.slack.model import Thread
from threadline.threads.activity import ErrorInterceptor
from threadline.threads.activity_options import MAX_UNEXPECTED, options_by_name
from threadline.threads.calls import public_message
from threadline.threads.store import ThreadBindingStore
from threadline.tools.context import ToolContext
from threadline.tools.model import ErrorCode, error_result
from threadline.tools.registry import Cache, ToolRegistry, tool
from threadline.tools.store import ToolLedger
from threadline_devstack.slack.identity import GENERAL, REPORTER, TEAM

numbers = itertools.count(1)
"""Examples share a database, so each has a number of its own."""
TOOL_FAILURES = ("raises", "returns", "unknown", "not json", "invalid", "interrupted", "side effect")
REFUSALS = ("blocked", "throttled", "repeated", "changes uncounted")


class ScriptedModel(ChatModel):
    """Replies, or raises, in order; then it has no words."""

    def __init__(self, *replies: ModelReply | Exception) -> None:
        self._replies = list(replies)

    async def ask(self, prompt: Prompt, *, attempt: int = 1, **_: Any) -> Completion:
        reply = self._replies.pop(0) if self._replies else ModelReply()
        if isinstance(reply, Exception):
            raise reply
        return Completion(reply)


async def new_turn(
    make_talk: Make, model: ChatModel, registry: ToolRegistry, ledger: ToolLedger | None = None
) -> ConversationActivityScene:
    """A new thread in which a user has asked for something, minutes after the last request."""
    talk, number = make_talk(asks=model, registry=registry, ledger=ledger), next(numbers)
    talk.thread = Thread(TEAM, GENERAL, f"1{number:09}.000100")
    talk.at += number * 60
    await talk.said("Please use any thing that you have, and tell me how it went.")
    return talk


async def failing_turn(
    make_talk: Make, database: Database, raised: Any, condition: str, mutating: bool, after: Sequence[Exception]
) -> ConversationActivityScene:
    """The model makes a call that fails under this condition. Its next replies raise `after`."""
    error, internal = error_of(*raised), raised[2]

    async def broken(*_: object) -> str:
        raise error

    async def any_thing(context: ToolContext, *, n: int = 0) -> object:
        if condition == "returns":
            return error_result(ErrorCode.REFUSED, str(error), repr(error))
        if condition != "side effect":
            raise error
        return n

    effects = (broken,) if condition == "side effect" else ()
    cache = None if mutating else Cache(60)
    made = tool(
        "any.thing",
        "Fails.",
        kind=ToolKind.CHANGE if mutating else ToolKind.READ,
        cache=cache,
        side_effects=effects,
        remote=True,
    )(any_thing)
    text = {"not json": internal, "invalid": json.dumps({"n": internal, internal: 1})}.get(condition, "{}")
    call = ToolCall("1", internal if condition == "unknown" else "any_thing", text)
    model = ScriptedModel(ModelReply(calls=(call,) * (2 if condition == "repeated" else 1)), *after)
    ledger = LossyLedger(database, Rate(-1 if condition == "changes uncounted" else 1, 3600.0))  # -1: Postgres fails
    ledger.lost = RuntimeError(internal) if condition == "interrupted" else None
    talk = await new_turn(make_talk, model, ToolRegistry([made]), ledger)
    if condition == "throttled":
        async with database.begin() as tx:
            scope = f"{TEAM}:thread:{talk.thread.key}"
            assert await RateLimits(tx).allows_change(scope, "an earlier change", time.time(), Rate(1, 3600.0))
    if condition == "blocked":
        async with database.begin() as tx:
            project = await EstimateStore(tx).get_or_create_project(TEAM, "Locked", "EUR")
            await EstimateStore(tx).set_locked(TEAM, project.project_id, locked=True)
            await ThreadBindingStore(tx).bind(talk.thread, PROJECT_BINDING, project.project_id, REPORTER)
    return talk


async def play_turn(talk: ConversationActivityScene, *, stop: bool = False) -> str:
    """The stored answer of the turn; with `stop` a user stops it after the first tool."""
    step = 0
    done: list[Execution] = []

    async def think(choice: ToolChoice) -> ModelReply:
        nonlocal step
        step += 1
        request = ThinkRequest(talk.thread, 1, step, choice)
        try:
            reply: ModelReply = (await _attempt(talk, talk.activities.think, request, MAX_UNEXPECTED)).reply
        except ApplicationError as error:
            raise no_reply(error) from error
        return reply

    async def act(calls: list[ToolCall]) -> list[Execution]:
        new = [await _execute(talk, step, each) for each in calls]
        done.extend(new)
        return new

    await talk.settle(await ReactLoop(think, act, stop_requested=lambda: stop and bool(done)).run())
    async with talk.database.begin() as tx:
        settled = await TurnStore(tx).settled(talk.thread, 1)
    assert settled
    return settled.answer


async def _execute(talk: ConversationActivityScene, step: int, call: ToolCall) -> Execution:
    """The call, tried as often as Temporal would."""
    request = ActRequest(talk.thread, 1, step, (call.reference(),))
    for attempt in range(1, ACT.retry.maximum_attempts + 1):
        try:
            (done,) = await _attempt(talk, talk.activities.act, request, attempt)
        except ApplicationError as error:
            failed = error
            if error.non_retryable:
                break
        else:
            return cast("Execution", done)
    return lost_call(call, public_message(failed))


async def _attempt(
    talk: ConversationActivityScene, method: Callable[..., Coroutine[Any, Any, Any]], given: object, attempt: int
) -> Any:
    execute = ErrorInterceptor(options_by_name(ConversationActivities)).intercept_activity(_Activity()).execute_activity
    return await talk.run(execute, ExecuteActivityInput(method, (given,), None, {}), attempt=attempt)


class _Activity(ActivityInboundInterceptor):
    """The last in the chain."""

    def __init__(self) -> None:
        """There is none behind it."""

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - Temporal's name
        return await input.fn(*input.args)
