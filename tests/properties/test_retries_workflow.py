"""Property 11 and the retries of a tool on a real server, with the options and the times of the
product.

The model's client calls an API over HTTP that answers with rate limits.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.exceptions import FailureError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from tests.devstack.model_reset import reset
from tests.properties.turns import numbers
from tests.support.conversation_activities import (
    REGISTRY as LAMPS,
)
from tests.support.conversation_activities import (
    ConversationActivityScene,
    Make,
    answer_about_lamps,
    make_talk,
)
from tests.support.examples import examples
from tests.support.temporal import skipping_time, worker
from threadline.conversations.contract import ActRequest, ConversationActivities, ThinkRequest
from threadline.errors import Transient
from threadline.models.model import ToolChoice
from threadline.slack.model import Thread
from threadline.threads.activity_options import activities_of
from threadline.threads.calls import call, fault_of
from threadline.threads.model import CORE_QUEUE, Fault, FaultKind
from threadline.tools.context import ToolContext
from threadline.tools.model import ToolStatus
from threadline.tools.registry import ToolRegistry, tool
from threadline_devstack.models.script import ScriptTurn

__all__ = ["make_talk"]


@workflow.defn(sandboxed=False)
class OneThought:
    """Calls the model once, as a conversation does."""

    @workflow.run
    async def run(self, request: ThinkRequest) -> Fault | None:
        try:
            await call(ConversationActivities.think, request)
        except FailureError as error:
            return fault_of(error)
        return None


@workflow.defn(sandboxed=False)
class OneAct:
    """Calls a tool once, as a conversation does."""

    @workflow.run
    async def run(self, request: ActRequest) -> str:
        (done,) = await call(ConversationActivities.act, request)
        return done.status


@tool("lamps.reach", "Reach the lamps.", remote=True)
async def reach_lamps(context: ToolContext) -> None:
    raise Transient("The lamps did not answer.")


class Attempts(Interceptor):
    """Notes the start of each attempt, by the server's clock."""

    def __init__(self) -> None:
        self.started: list[float] = []

    def intercept_activity(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - Temporal's name
    ) -> ActivityInboundInterceptor:
        return _Attempt(next, self.started)


class _Attempt(ActivityInboundInterceptor):
    def __init__(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - Temporal's name
        started: list[float],
    ) -> None:
        super().__init__(next)
        self._started = started

    async def execute_activity(
        self,
        input: ExecuteActivityInput,  # noqa: A002 - Temporal's name
    ) -> Any:
        self._started.append(activity.info().started_time.timestamp())
        return await super().execute_activity(input)


@dataclass
class Scene:
    talk: ConversationActivityScene
    client: Client
    attempts: Attempts = field(default_factory=Attempts)

    @property
    def waited(self) -> list[float]:
        """Return the seconds from each attempt to the next."""
        return [later - earlier for earlier, later in pairwise(self.attempts.started)]

    async def think(self, limits: int, retry_after: float | None) -> Fault | None:
        """Call a model whose next answers are so many rate limits."""
        number = next(numbers)
        self.attempts.started.clear()
        reset(self.talk.model).script(answer_about_lamps)
        if limits:
            self.talk.model.fail_next(limits, status=429, retry_after=retry_after)
        self.talk.thread = Thread(
            self.talk.thread.team, self.talk.thread.channel, f"1{number:09}.000100"
        )
        await self.talk.said(f"What is number {number}?")
        request = ThinkRequest(self.talk.thread, 1, 1, ToolChoice.AUTO)
        return await self.client.execute_workflow(
            OneThought.run, request, id=f"thought-{number}", task_queue=CORE_QUEUE
        )


@pytest.fixture
async def scene(make_talk: Make) -> AsyncIterator[Scene]:
    talk = make_talk(registry=ToolRegistry([*LAMPS.all(), reach_lamps]))
    async with skipping_time() as environment:
        made = Scene(talk, environment.client)
        async with worker(
            environment,
            [OneThought, OneAct],
            activities_of(talk.activities),
            interceptors=[made.attempts],
        ):
            yield made


SHORT = st.none() | st.integers(0, 60) | st.floats(0, 60).map(lambda seconds: round(seconds, 2))
LONG = st.integers(61, 100_000)


@examples()
@given(st.integers(0, 5), SHORT | LONG)
@example(4, None)
@example(1, 61)
async def test_property_11_rate_limited_call_waits_2_to_the_attempt_and_is_retried_3_times(
    scene: Scene, limits: int, retry_after: float | None
) -> None:
    """Waits as long as the server asks if that is longer. Above a minute, and after the third
    retry, the workflow waits instead.
    """
    with capture_logs():
        fault = await scene.think(limits, retry_after)
    asked = retry_after or 0
    retries = 3 if asked <= 60 else 0
    waited = scene.waited
    assert len(waited) == min(limits, retries)
    assert all(
        seconds >= max(2**attempt, asked) for attempt, seconds in enumerate(waited, start=1)
    )
    assert (fault is not None) == (limits > retries)
    if fault:
        assert (fault.kind, fault.retry_after) == (
            FaultKind.TRANSIENT,
            max(2 ** (retries + 1), asked),
        )


async def test_tool_that_does_not_answer_is_tried_3_times_after_1_and_2_seconds(
    scene: Scene,
) -> None:
    async def script(turn: ScriptTurn) -> None:
        await turn.call("lamps_reach")

    talk = scene.talk
    talk.model.script(script)
    await talk.said("reach the lamps")
    [asked] = (await talk.think()).reply.calls
    request = ActRequest(talk.thread, 1, 1, (asked,))
    with capture_logs():
        status = await scene.client.execute_workflow(
            OneAct.run, request, id="act", task_queue=CORE_QUEUE
        )
    assert status == ToolStatus.ERROR
    first, second = scene.waited
    assert first >= 1
    assert second >= 2
