"""Temporal for workflow tests: a fresh server for each test, the worker as the product builds it."""

import asyncio
import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import temporalio.workflow
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from threadline.threads.activity_errors import FaultInterceptor
from threadline.threads.addressing import CORE_QUEUE
from threadline.threads.messages import IncomingMessage
from threadline.wiring.temporal import workflow_runner

GRACE = timedelta(seconds=2)
"""For what is under way when a worker stops, as in the product, where it is longer: a post that is broken off waits out
its claim."""
LEAVES = 20.0
"""Seconds for a worker to end."""


def binary(name: str) -> str:
    """A program that was installed beside the interpreter."""
    return str(Path(sys.executable).with_name(name))


@asynccontextmanager
async def skipping_time() -> AsyncIterator[WorkflowEnvironment]:
    """A server whose clock jumps while workflows wait; one for each test, since an open child stops it for good."""
    async with await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=binary("temporal-test-server"), data_converter=pydantic_data_converter
    ) as environment:
        yield environment


@asynccontextmanager
async def real_time() -> AsyncIterator[WorkflowEnvironment]:
    """Temporal's own server, for what the one above does otherwise: how a run ends whose work is still under way.

    When a run continues as new it leaves the children alone, and continues in one step. The one above ends the run
    first: a signal-with-start that comes in between begins a second run beside the one that goes on, and a query that
    does is never answered.
    """
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=binary("temporal"), data_converter=pydantic_data_converter
    ) as environment:
        yield environment


@asynccontextmanager
async def continuing_soon() -> AsyncIterator[WorkflowEnvironment]:
    """The same, and it suggests to continue as new after few events."""
    few = ["--dynamic-config-value", "limit.historyCount.suggestContinueAsNew=30"]
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=binary("temporal"),
        data_converter=pydantic_data_converter,
        dev_server_extra_args=few,
    ) as environment:
        yield environment


def activities_of(instance: object, *contracts: type) -> list[Callable[..., Any]]:
    """What a worker registers: the methods that the contracts name, as the instance has them."""
    return [
        getattr(instance, name)
        for contract in contracts
        for name in sorted(contract.__abstractmethods__)  # type: ignore[attr-defined]
    ]


class PreparedOnce(SandboxedWorkflowRunner):
    """Tries each workflow in the sandbox once a process, as a worker does at its start, and not for each worker."""

    _prepared: ClassVar[set[type]] = set()

    def prepare_workflow(self, defn: temporalio.workflow._Definition) -> None:
        if defn.cls not in self._prepared:
            super().prepare_workflow(defn)
            self._prepared.add(defn.cls)


@asynccontextmanager
async def worker(
    environment: WorkflowEnvironment,
    workflows: Sequence[type],
    activities: Sequence[Callable[..., Any]],
    queue: str = CORE_QUEUE,
) -> AsyncIterator[None]:
    made = Worker(
        environment.client,
        task_queue=queue,
        workflows=workflows,
        activities=activities,
        interceptors=[FaultInterceptor()],
        workflow_runner=PreparedOnce(restrictions=workflow_runner().restrictions),
        graceful_shutdown_timeout=GRACE,
    )
    async with running(made):
        yield


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[None]:
    """A worker for as long as the block lasts; left to itself when it does not come to its end.

    Stopped amid many activities, about once in a hundred times the SDK's core goes on waiting, with no activity and no
    workflow of ours left (temporalio 1.35): what a test is about has been seen by then.
    """
    await worker.__aenter__()
    try:
        yield
    finally:
        leaving = asyncio.create_task(worker.__aexit__(None, None, None))
        done, _ = await asyncio.wait({leaving}, timeout=LEAVES)
        if done:
            leaving.result()
        else:
            warnings.warn("a worker was left to itself: it did not end when it was stopped", stacklevel=2)
            leaving.cancel()
            await asyncio.wait({leaving}, timeout=LEAVES)


async def deliver(
    client: Client, workflow: str, state: object, workflow_id: str, signal: str, message: IncomingMessage
) -> None:
    """As the gateway does."""
    await client.start_workflow(
        workflow, state, id=workflow_id, task_queue=CORE_QUEUE, start_signal=signal, start_signal_args=[message]
    )


async def until(condition: Callable[[], Awaitable[bool]], what: str, seconds: float = 20) -> None:
    """Wait for a condition, in real time."""
    try:
        async with asyncio.timeout(seconds):
            while not await condition():  # noqa: ASYNC110 - the other side is other processes
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"it did not happen: {what}") from None
