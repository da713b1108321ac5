"""What becomes of an error at the edge of an activity."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from threadline.conversations.contract import TalkTurn, ThinkRequest
from threadline.errors import Permanent, Transient
from threadline.models.model import ToolChoice
from threadline.threads.activity_errors import FaultInterceptor
from threadline.threads.addressing import Thread

THREAD = Thread("T1", "C1", "1.5")


class Raising(ActivityInboundInterceptor):
    def __init__(self, error: Exception) -> None:
        self._error = error

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - Temporal's name
        raise self._error


class Logging(ActivityInboundInterceptor):
    """An activity that keeps what each of its lines in the log would have."""

    def __init__(self) -> None:
        self.bound: dict[str, Any] = {}

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - Temporal's name
        self.bound = structlog.contextvars.get_contextvars()


@pytest.mark.parametrize(
    ("asked", "correlation"),
    [
        (TalkTurn(THREAD, 3), "T1:C1:1.5:3"),
        (ThinkRequest(THREAD, 4, 2, ToolChoice.AUTO), "T1:C1:1.5:4"),
        (THREAD, None),
    ],
)
async def test_each_line_about_a_turn_has_its_correlation_id_in_the_log(asked: object, correlation: str | None) -> None:
    activity = Logging()
    given: Any = SimpleNamespace(args=[asked])
    await ActivityEnvironment().run(FaultInterceptor().intercept_activity(activity).execute_activity, given)
    assert activity.bound.get("correlation_id") == correlation


async def fault_of(
    activity: str, error: Exception, attempt: int = 1, faults: FaultInterceptor | None = None
) -> ApplicationError:
    """As the workflow gets it."""
    env = ActivityEnvironment()
    env.info = replace(env.info, activity_type=activity, attempt=attempt)
    given: Any = SimpleNamespace(args=[None])
    with pytest.raises(ApplicationError) as raised:
        await env.run((faults or FaultInterceptor()).intercept_activity(Raising(error)).execute_activity, given)
    return raised.value


@pytest.mark.parametrize(
    ("activity", "wait", "at_once"),
    [("think", 60.0, False), ("think", 3600.0, True), ("summarise", 3600.0, True), ("post_answer", 3600.0, False)],
)
async def test_a_long_wait_for_the_model_is_the_workflows_and_said_to_people(
    activity: str, wait: float, at_once: bool
) -> None:
    fault = await fault_of(activity, Transient("It is busy.", retry_after=wait))
    assert (fault.type, fault.details, fault.non_retryable) == ("Transient", (wait,), at_once)
    assert fault.next_retry_delay == timedelta(seconds=wait)


@pytest.mark.parametrize(
    ("activity", "counted"),
    [
        ("store_messages", [3, 4, 5, 6, 7, 8, 9, 10, 11]),
        ("settle_turn", [3, 4, 5, 6, 7, 8, 9, 10, 11]),
        ("think", [4, 5, 6, 7, 8, 9, 10, 11]),
        ("show_status", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
        ("post_answer", [10, 11]),
    ],
)
async def test_what_nobody_foresaw_is_counted_when_it_is_given_up_or_never_would_be(
    activity: str, counted: list[int]
) -> None:
    told: list[str] = []

    async def failed(what: str) -> None:
        told.append(what)

    faults = FaultInterceptor(failed)
    for attempt in range(1, 12):
        await fault_of(activity, KeyError("a fault in the code"), attempt, faults)
        assert told == [activity] * sum(each <= attempt for each in counted)
    await fault_of(activity, Transient("It is busy."), 11, faults)
    await fault_of(activity, Permanent("It is refused."), 11, faults)
    assert len(told) == len(counted), "what has its own words is nobody's fault"
