"""Calls of activities from workflows: by the method's signature, with the options that its
contract declares.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from temporalio import exceptions, workflow
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    FailureError,
    is_cancelled_exception,
)

from threadline.threads.activity_options import ActivityOptions, options_of
from threadline.threads.model import Fault, FaultKind

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class Interrupted(Exception):
    """The step was stopped before its work was done."""


async def call(
    method: Callable[[Any, Argument], Awaitable[Result]],
    argument: Argument,
    *,
    summary: str = "",
    options: ActivityOptions | None = None,
) -> Result:
    """Run an activity and return its result.

    Args:
        summary: the line that Temporal's UI shows for it.
        options: replace those that its contract declares.
    """
    given = (options or options_of(method)).as_kwargs()
    result: Result = await workflow.execute_activity_method(
        method, argument, summary=summary or None, **given
    )
    return result


async def run_unless(
    stop: Callable[[], bool], work: Awaitable[Result], *, grace: Callable[[], float] = lambda: 0.0
) -> Result:
    """Run `work` as long as `stop` is false; the workflow checks `stop` after each of its changes.

    Once `stop` is true the work is cancelled, without waiting for a cancelled activity.

    Args:
        grace: returns the seconds that remain for the work from then on; 0 ends the wait at once.
            Checked after each change as well.

    Raises:
        Interrupted: `stop` was true before the work was done, and the work returned nothing.
    """
    task = asyncio.ensure_future(work)
    try:
        await _wait(lambda: task.done() or stop())
        if not task.done() and (seconds := grace()):
            await pause(seconds, lambda: task.done() or not grace(), "wait for the last result")
    except asyncio.CancelledError:
        task.cancel()
        raise
    if task.done():
        return task.result()
    task.cancel()
    with suppress(FailureError, asyncio.CancelledError):
        return await task
    raise Interrupted


async def attempt(
    method: Callable[[Any, Argument], Awaitable[Result]],
    argument: Argument,
    *,
    summary: str = "",
    options: ActivityOptions | None = None,
    on_result: Callable[[Result], None] | None = None,
) -> str:
    """Run an activity whose failure the workflow can ignore.

    Returns:
        The reason why it failed for good, or "".

    Raises:
        FailureError: the workflow was cancelled meanwhile.
    """
    try:
        result = await call(method, argument, summary=summary, options=options)
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        message = fault_of(error).message
        workflow.logger.warning(
            "activity_failed", extra={"activity": method.__name__, "reason": message}
        )
        return message
    if on_result:
        on_result(result)
    return ""


class NotMended(Exception):
    """An activity was refused until the admin mends something; the message is for the admin."""


async def attempt_unless_mendable(
    method: Callable[[Any, Argument], Awaitable[Result]],
    argument: Argument,
    *,
    summary: str = "",
    on_result: Callable[[Result], None] | None = None,
) -> str:
    """Run an activity as `attempt` does, but raise `NotMended` when it can succeed only after the
    admin mends something.
    """
    try:
        result = await call(method, argument, summary=summary)
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        fault = fault_of(error)
        workflow.logger.warning(
            "activity_failed", extra={"activity": method.__name__, "reason": fault.message}
        )
        if fault.kind is FaultKind.MENDABLE:
            raise NotMended(fault.message) from error
        return fault.message
    if on_result:
        on_result(result)
    return ""


async def call_until_done(
    method: Callable[[Any, Argument], Awaitable[Result]], argument: Argument, *, summary: str = ""
) -> Result:
    """Run an activity that never gives up, and run it again when the workflow is cancelled
    meanwhile, so that a click is not dropped.
    """
    while True:
        try:
            return await call(method, argument, summary=summary)
        except (asyncio.CancelledError, FailureError) as error:
            if not is_cancelled_exception(error):
                raise RuntimeError("an activity with unlimited retries failed") from error


async def attempt_despite_cancel(
    method: Callable[[Any, Argument], Awaitable[Result]],
    argument: Argument,
    *,
    summary: str = "",
    on_result: Callable[[Result], None] | None = None,
) -> str:
    """Run `attempt_unless_mendable`, and run it again when the workflow is cancelled meanwhile, so
    that its result is not dropped.
    """
    while True:
        try:
            return await attempt_unless_mendable(
                method, argument, summary=summary, on_result=on_result
            )
        except (asyncio.CancelledError, FailureError) as error:
            if not is_cancelled_exception(error):
                raise


class BackgroundTasks:
    """Activities that run concurrently, and that no step waits for."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []

    def start(
        self,
        method: Callable[[Any, Argument], Awaitable[None]],
        argument: Argument,
        *,
        summary: str = "",
        options: ActivityOptions | None = None,
    ) -> None:
        self.add(asyncio.create_task(attempt(method, argument, summary=summary, options=options)))

    def add(self, task: asyncio.Task[Any]) -> None:
        """Count a task that the caller has started."""
        self._tasks = [each for each in self._tasks if not each.done()]
        self._tasks.append(task)

    @property
    def idle(self) -> bool:
        return all(task.done() for task in self._tasks)


async def pause(seconds: float, until: Callable[[], bool], summary: str) -> None:
    """Wait until `until` returns true, at most `seconds`."""
    with suppress(TimeoutError):
        await _wait(until, timeout=seconds, timeout_summary=summary)


async def _wait(until: Callable[[], bool], **limits: Any) -> None:
    """Wait until `until` returns true.

    `wait_condition` may raise `CancelledError` in every coroutine when the run is cancelled, not
    only in the main one (the SDK's logic flag PROCESS_WORKFLOW_ACTIVATION_JOBS_AS_SINGLE_BATCH). A
    step continues: it sees the Cancel in the activity that it awaits.
    """
    while not until():
        try:
            await workflow.wait_condition(until, **limits)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise


def fault_of(error: FailureError) -> Fault:
    """Return the fault that ended an attempt at a turn."""
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, exceptions.TimeoutError):
        return Fault(FaultKind.LOST, "The worker that ran this step was lost.")
    if isinstance(cause, ApplicationError):
        if cause.type == "ClaimLost":
            return Fault(FaultKind.LOST, "This step lost its claim to the turn.")
        if cause.type == "WorkerShutdown":
            return Fault(FaultKind.LOST, "The worker that ran this step was restarted.")
        if cause.type == "Transient":
            retry_after = (
                cause.details[0]
                if cause.details and isinstance(cause.details[0], int | float)
                else 0.0
            )
            return Fault(FaultKind.TRANSIENT, cause.message, float(retry_after))
        if cause.type == "Mendable":
            kind, subject = (*map(str, cause.details), "", "")[:2]
            return Fault(FaultKind.MENDABLE, cause.message, cause=kind, subject=subject)
        if isinstance(cause.cause, ApplicationError) and cause.cause.type == "DecryptionFailed":
            # The worker lacks the key of its input: only the admin can give it one.
            return Fault(FaultKind.TRANSIENT, cause.cause.message)
        return Fault(FaultKind.PERMANENT, cause.message)
    return Fault(FaultKind.LOST, "This step was cancelled.")


def public_message(error: FailureError) -> str:
    """Return an activity's error message for people; "" where the message is for the admin."""
    cause = error.cause if isinstance(error, ActivityError) else error
    return (
        cause.message if isinstance(cause, ApplicationError) and cause.type == "Permanent" else ""
    )
