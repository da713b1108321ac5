"""What becomes of an error at the edge of an activity."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from threadline.activities.faults import FaultInterceptor
from threadline.domain.errors import Transient


class Raising(ActivityInboundInterceptor):
    def __init__(self, error: Exception) -> None:
        self._error = error

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - Temporal's name
        raise self._error


async def fault_of(activity: str, error: Exception) -> ApplicationError:
    """As the workflow gets it."""
    env = ActivityEnvironment()
    env.info = replace(env.info, activity_type=activity)
    given: Any = None
    with pytest.raises(ApplicationError) as raised:
        await env.run(FaultInterceptor().intercept_activity(Raising(error)).execute_activity, given)
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
