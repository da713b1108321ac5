"""How a workflow calls an activity: by its signature, with the options that the contract declares for it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from threadline.threads.activity_options import ActivityOptions, options_of
    from threadline.threads.retrying import Fault, FaultKind

from temporalio import exceptions
from temporalio.exceptions import ActivityError, ApplicationError, FailureError, is_cancelled_exception

Argument = TypeVar("Argument")
Result = TypeVar("Result")


async def call(
    method: Callable[[Any, Argument], Awaitable[Result]],
    argument: Argument,
    *,
    summary: str = "",
    options: ActivityOptions | None = None,
) -> Result:
    """Run an activity to its result.

    Args:
        summary: the line that Temporal's UI shows for it.
        options: other ones than its contract declares.
    """
    given = (options or options_of(method)).as_kwargs()
    result: Result = await workflow.execute_activity_method(method, argument, summary=summary or None, **given)
    return result


async def attempt(
    method: Callable[[Any, Argument], Awaitable[Result]],
    argument: Argument,
    *,
    summary: str,
    options: ActivityOptions | None = None,
    taken: Callable[[Result], None] | None = None,
) -> str:
    """Run an activity that people can live without; returns why it failed for good, or nothing.

    Args:
        taken: gets its result.

    Raises:
        FailureError: when the workflow was cancelled meanwhile.
    """
    try:
        result = await call(method, argument, summary=summary, options=options)
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        words = fault_of(error).words
        workflow.logger.warning("activity_failed", extra={"activity": method.__name__, "reason": words})
        return words
    if taken:
        taken(result)
    return ""


async def surely(method: Callable[..., Awaitable[Any]], argument: Any, summary: str) -> Any:
    """Run an activity that never gives up, also where somebody cancels the run meanwhile: a click is not dropped."""
    while True:
        try:
            return await call(method, argument, summary=summary)
        except (asyncio.CancelledError, FailureError) as error:
            if not is_cancelled_exception(error):
                raise RuntimeError("an activity with unlimited retries failed") from error


async def regardless(
    method: Callable[[Any, Argument], Awaitable[Result]],
    argument: Argument,
    summary: str,
    taken: Callable[[Result], None] | None = None,
) -> str:
    """`attempt`, and once more where somebody cancels the run meanwhile: what waits behind it is not dropped."""
    while True:
        try:
            return await attempt(method, argument, summary=summary, taken=taken)
        except (asyncio.CancelledError, FailureError) as error:
            if not is_cancelled_exception(error):
                raise


async def break_off(task: asyncio.Task[Any]) -> None:
    """Cancel what runs, and wait until it has ended, however it does."""
    task.cancel()
    with suppress(FailureError, asyncio.CancelledError):
        await task


class Asides:
    """What was started and nobody waits for."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []

    def start(
        self,
        method: Callable[[Any, Argument], Awaitable[None]],
        argument: Argument,
        summary: str,
        options: ActivityOptions | None = None,
    ) -> None:
        self._tasks = [task for task in self._tasks if not task.done()]
        self.add(asyncio.create_task(attempt(method, argument, summary=summary, options=options)))

    def add(self, task: asyncio.Task[Any]) -> None:
        """Count something as an aside that was started elsewhere."""
        self._tasks.append(task)

    @property
    def idle(self) -> bool:
        return all(task.done() for task in self._tasks)


async def pause(seconds: float, until: Callable[[], bool], summary: str) -> None:
    """Wait, but no longer than until something is true."""
    try:
        await workflow.wait_condition(until, timeout=seconds, timeout_summary=summary)
    except TimeoutError:
        return


def fault_of(error: FailureError) -> Fault:
    """The class of what ended an attempt at a turn."""
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, exceptions.TimeoutError):
        return Fault(FaultKind.LOST, "The worker that ran this step was lost.")
    if isinstance(cause, ApplicationError):
        if cause.type == "ClaimLost":
            return Fault(FaultKind.LOST, "This step lost its claim to the turn.")
        if cause.type == "WorkerShutdown":
            return Fault(FaultKind.LOST, "The worker that ran this step was restarted.")
        if cause.type == "Transient":
            retry_after = cause.details[0] if cause.details and isinstance(cause.details[0], int | float) else 0.0
            return Fault(FaultKind.TRANSIENT, cause.message, float(retry_after))
        if isinstance(cause.cause, ApplicationError) and cause.cause.type == "Undecipherable":
            # Its worker lacks the key of what it was asked: whoever runs the house mends that, and nobody else can.
            return Fault(FaultKind.TRANSIENT, cause.cause.message)
        return Fault(FaultKind.PERMANENT, cause.message)
    return Fault(FaultKind.LOST, "This step was cancelled.")


def sentence_of(error: FailureError) -> str:
    """What ended an activity, where it was said for people; empty where the words are for whoever runs the house."""
    cause = error.cause if isinstance(error, ActivityError) else error
    return cause.message if isinstance(cause, ApplicationError) and cause.type == "Permanent" else ""
