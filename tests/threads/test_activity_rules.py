"""The translation of an error at the edge of an activity."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from threadline.conversations.contract import ThinkRequest
from threadline.errors import Mendable, Permanent, Transient
from threadline.models.model import ToolChoice
from threadline.slack.model import Thread
from threadline.threads.activity import ErrorInterceptor
from threadline.threads.activity_options import options_by_name
from threadline.wiring.temporal import CONTRACTS

OPTIONS = options_by_name(*CONTRACTS)
THREAD = Thread("T1", "C1", "1.5")


class Activity(ActivityInboundInterceptor):
    """Keeps the context of each of its log lines, and raises its error if it has one."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.bound: dict[str, Any] = {}

    async def execute_activity(
        self,
        input: ExecuteActivityInput,  # noqa: A002 - Temporal's name
    ) -> Any:
        self.bound = structlog.contextvars.get_contextvars()
        if self._error:
            raise self._error


@pytest.mark.parametrize(
    ("argument", "correlation"),
    [(ThinkRequest(THREAD, 4, 2, ToolChoice.AUTO), "T1:C1:1.5:4"), (THREAD, None)],
)
async def test_log_lines_about_a_turn_have_its_correlation_id(
    argument: object, correlation: str | None
) -> None:
    activity = Activity()
    given: Any = SimpleNamespace(args=[argument])
    await ActivityEnvironment().run(
        ErrorInterceptor(OPTIONS).intercept_activity(activity).execute_activity, given
    )
    assert activity.bound.get("correlation_id") == correlation


async def fault_of(
    activity: str, error: Exception, attempt: int = 1, interceptor: ErrorInterceptor | None = None
) -> ApplicationError:
    """Return the error as the workflow gets it."""
    env = ActivityEnvironment()
    env.info = replace(env.info, activity_type=activity, attempt=attempt)
    intercepted = (interceptor or ErrorInterceptor(OPTIONS)).intercept_activity(Activity(error))
    given: Any = SimpleNamespace(args=[None])
    with pytest.raises(ApplicationError) as raised:
        await env.run(intercepted.execute_activity, given)
    return raised.value


@pytest.mark.parametrize(
    ("activity", "wait", "at_once"),
    [
        ("think", 60.0, False),
        ("think", 3600.0, True),
        ("decide", 3600.0, True),
        ("post_answer", 3600.0, False),
    ],
)
async def test_long_wait_for_the_model_ends_the_activity_at_once(
    activity: str, wait: float, at_once: bool
) -> None:
    fault = await fault_of(activity, Transient("It is busy.", retry_after=wait))
    assert (fault.type, fault.details, fault.non_retryable) == ("Transient", (wait,), at_once)
    assert fault.next_retry_delay == timedelta(seconds=wait)


@pytest.mark.parametrize(
    ("activity", "counted_from"),
    [("store_messages", 3), ("think", 4), ("act", 3), ("post_answer", 10)],
)
async def test_unexpected_error_is_counted_when_it_is_given_up_or_never_would_be(
    activity: str, counted_from: int
) -> None:
    told: list[str] = []

    async def record(what: str) -> None:
        told.append(what)

    interceptor = ErrorInterceptor(OPTIONS, record)
    for attempt in range(1, 12):
        await fault_of(activity, KeyError("a fault in the code"), attempt, interceptor)
        assert told == [activity] * max(0, attempt - counted_from + 1)
    await fault_of(activity, Transient("It is busy."), 11, interceptor)
    await fault_of(activity, Permanent("It is refused."), 11, interceptor)
    assert len(told) == 12 - counted_from, (
        "an error with a text of its own is not a fault of the product"
    )


@pytest.mark.parametrize(
    ("activity", "again"),
    [("report_sla_event", True), ("post_answer", False), ("post_notice", False)],
)
async def test_fault_that_the_admin_can_mend_is_reported_and_waited_for(
    activity: str, again: bool
) -> None:
    told: list[tuple[str, str, str]] = []

    async def report(*fault: str) -> None:
        told.append((fault[0], fault[1], fault[2]))

    interceptor = ErrorInterceptor(OPTIONS, report=report)
    error = Mendable("Unarchive it.", kind="slack_channel", subject="C1")
    for attempt, delay in ((1, 10.0), (2, 20.0), (9, 300.0), (10_000, 300.0)):
        fault = await fault_of(activity, error, attempt, interceptor)
        assert (fault.type, fault.details, fault.non_retryable) == (
            "Mendable",
            ("slack_channel", "C1"),
            not again,
        )
        assert fault.next_retry_delay == (timedelta(seconds=delay) if again else None)
    assert told == [("slack_channel", "C1", "Unarchive it.")] * 4
