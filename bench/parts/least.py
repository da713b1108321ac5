"""The floors' workflows: minimal substitutes for the product's, on separate queues."""

from collections import deque
from datetime import timedelta
from typing import Any

from temporalio import workflow

QUEUE = "least"
TURNS_QUEUE = "least-turns"
"""A separate queue, as for the agents' turns."""

_LIMIT = timedelta(seconds=30)


@workflow.defn
class EmptyActivities:
    """Runs activities that do nothing, one after the other, for each message."""

    def __init__(self) -> None:
        self._due = 0

    @workflow.signal
    def message(self, _: Any) -> None:
        self._due += 1

    @workflow.run
    async def run(self, times: int) -> None:
        while True:
            await workflow.wait_condition(lambda: self._due > 0)
            self._due -= 1
            for _ in range(times):
                await workflow.execute_activity(
                    "nothing", task_queue=TURNS_QUEUE, start_to_close_timeout=_LIMIT
                )


@workflow.defn
class EmptyQueue:
    """Takes messages and drops them."""

    def __init__(self) -> None:
        self._pending: deque[Any] = deque()

    @workflow.signal
    def message(self, said: Any) -> None:
        self._pending.append(said)

    @workflow.run
    async def run(self) -> None:
        while True:
            await workflow.wait_condition(lambda: bool(self._pending))
            self._pending.clear()


@workflow.defn
class EmptyLoop:
    """Calls the activity that does nothing a number of times."""

    @workflow.run
    async def run(self, times: int) -> None:
        for _ in range(times):
            await workflow.execute_activity(
                "nothing", task_queue=TURNS_QUEUE, start_to_close_timeout=_LIMIT
            )


WORKFLOWS = (EmptyActivities, EmptyQueue, EmptyLoop)
