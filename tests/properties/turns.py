"""Turns on the parts that run in production, from message to answer, with a scripted model and a
tool that fails.
"""

import itertools
import json
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from tests.properties.internals import error_of
from tests.support.conversation_activities import ConversationActivityScene, Make
from tests.support.lone_turn import LoneTurn
from tests.support.tool_fakes import LossyLedger
from threadline.conversations.contract import (
    ACT,
    ActRequest,
    ConversationActivities,
    ThinkRequest,
    Thought,
)
from threadline.conversations.model.conversation import Execution, lost_call
from threadline.conversations.store.turns import TurnStore
from threadline.conversations.turn import no_reply
from threadline.db.engine import Database
from threadline.db.rate_limits import Rate, RateLimits
from threadline.estimates.model import PROJECT_BINDING
from threadline.estimates.store import EstimateStore
from threadline.models.model import (
    ChatModel,
    Completion,
    ModelReply,
    Prompt,
    ToolCall,
    ToolChoice,
    ToolKind,
)
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
TOOL_FAILURES = (
    "raises",
    "returns",
    "unknown",
    "not json",
    "invalid",
    "interrupted",
    "side effect",
)
REFUSALS = ("blocked", "throttled", "repeated", "changes uncounted")


class ScriptedModel(ChatModel):
    """Replies, or raises, in order; afterwards its replies are empty."""

    def __init__(self, *replies: ModelReply | Exception) -> None:
        self._replies = list(replies)

    async def ask(self, prompt: Prompt, *, attempt: int = 1, **_: Any) -> Completion:
        reply = self._replies.pop(0) if self._replies else ModelReply()
        if isinstance(reply, Exception):
            raise reply
        return Completion(reply)


REQUEST = "Please use any thing that you have, and tell me how it went."


async def new_turn(
    make_talk: Make,
    model: ChatModel,
    registry: ToolRegistry,
    ledger: ToolLedger | None = None,
    *,
    said: str = REQUEST,
) -> ConversationActivityScene:
    """Create a thread in which a user addresses the bot, minutes after the last request."""
    talk = make_talk(asks=model, registry=registry, ledger=ledger)
    number = next(numbers)
    talk.thread = Thread(TEAM, GENERAL, f"1{number:09}.000100")
    talk.at += number * 60
    await talk.said(said)
    return talk


async def failing_turn(
    make_talk: Make,
    database: Database,
    raised: Any,
    condition: str,
    mutating: bool,
    after: Sequence[Exception],
) -> ConversationActivityScene:
    """Play a turn whose model makes a call that fails under this condition. Its next replies raise
    `after`.
    """
    error = error_of(*raised)
    internal = raised[2]

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
    text = {"not json": internal, "invalid": json.dumps({"n": internal, internal: 1})}.get(
        condition, "{}"
    )
    call = ToolCall("1", internal if condition == "unknown" else "any_thing", text)
    model = ScriptedModel(
        ModelReply(calls=(call,) * (2 if condition == "repeated" else 1)), *after
    )
    ledger = LossyLedger(
        database, Rate(-1 if condition == "changes uncounted" else 1, 3600.0)
    )  # -1: Postgres fails
    ledger.lost = RuntimeError(internal) if condition == "interrupted" else None
    talk = await new_turn(make_talk, model, ToolRegistry([made]), ledger)
    if condition == "throttled":
        async with database.begin() as tx:
            scope = f"{TEAM}:thread:{talk.thread.key}"
            assert await RateLimits(tx).allows_change(
                scope, "an earlier change", time.time(), Rate(1, 3600.0)
            )
    if condition == "blocked":
        async with database.begin() as tx:
            project = await EstimateStore(tx).get_or_create_project(TEAM, "Locked", "EUR")
            await EstimateStore(tx).set_locked(TEAM, project.project_id, locked=True)
            await ThreadBindingStore(tx).bind(
                talk.thread, PROJECT_BINDING, project.project_id, REPORTER
            )
    return talk


async def play_turn(talk: ConversationActivityScene, *, stop: bool = False) -> str:
    """Return the stored answer of the turn; with `stop` a user stops it after the first tool."""
    turn = _TalkTurn(talk.thread, stops=lambda: stop and bool(turn.executions))
    turn.talk = talk
    await talk.settle(await turn.react())
    return await stored_answer(talk)


async def stored_answer(talk: ConversationActivityScene) -> str:
    """Return the answer of the first turn of the thread."""
    async with talk.database.begin() as tx:
        settled = await TurnStore(tx).settled(talk.thread, 1)
    assert settled
    return settled.answer


class _TalkTurn(LoneTurn):
    """Runs the activities as its steps, with Temporal's number of attempts."""

    talk: ConversationActivityScene

    async def think(self, choice: ToolChoice) -> ModelReply:
        self.step += 1
        request = ThinkRequest(self.talk.thread, 1, self.step, choice)
        try:
            thought: Thought = await _attempt(
                self.talk, self.talk.activities.think, request, MAX_UNEXPECTED
            )
        except ApplicationError as error:
            raise no_reply(error) from error
        return thought.reply

    async def act(self, calls: list[ToolCall]) -> list[Execution]:
        new = [await _execute(self.talk, self.step, each) for each in calls]
        self.executions += new
        return new


async def _execute(talk: ConversationActivityScene, step: int, call: ToolCall) -> Execution:
    """Execute the call, with Temporal's number of attempts."""
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
    talk: ConversationActivityScene,
    method: Callable[..., Coroutine[Any, Any, Any]],
    given: object,
    attempt: int,
) -> Any:
    execute = (
        ErrorInterceptor(options_by_name(ConversationActivities))
        .intercept_activity(_Activity())
        .execute_activity
    )
    return await talk.run(
        execute, ExecuteActivityInput(method, (given,), None, {}), attempt=attempt
    )


class _Activity(ActivityInboundInterceptor):
    """The last in the chain."""

    def __init__(self) -> None:
        """This one has no next."""

    async def execute_activity(
        self,
        input: ExecuteActivityInput,  # noqa: A002 - Temporal's name
    ) -> Any:
        return await input.fn(*input.args)
