"""The frame of every activity: translates errors into Temporal's and sends heartbeats. Also
helpers that run work concurrently, until the process stops, or to its end despite cancellation.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from threadline.errors import ClaimLost, Mendable, Permanent, Transient
from threadline.privacy.redaction import redact
from threadline.slack.model import Thread
from threadline.threads.activity_options import MAX_UNEXPECTED, ActivityOptions, should_alert
from threadline.threads.model import mending_delay, turn_id

Result = TypeVar("Result")

ReportFault = Callable[[str, str, str], Awaitable[None]]
"""Takes the kind, the subject and the text of a fault of the installation. Never raises."""

LONG_WAIT = 60.0
"""Seconds of `retry_after` above which the workflow may wait instead of the activity."""
_log = structlog.get_logger(__name__)


async def log_fault(kind: str, subject: str, text: str) -> None:
    """Log a fault: the `ReportFault` of a process without an admin channel."""
    _log.error("installation_fault", kind=kind, subject=subject, reason=text)


class ErrorInterceptor(Interceptor):
    """Translates `Permanent` and `Transient` into `ApplicationError`s of the same type names,
    which workflows read. Sends the heartbeats of activities that have a heartbeat timeout.

    The translation raises `from None`: the SDK would send the causes along, and with them texts
    that only the log may hold.

    Args:
        options: by activity name (`options_by_name`), because a worker runs the live methods,
            which carry no options.
        record: called with the name of an activity whose unexpected errors reach the last attempt
            (`FailureAlerts.record`).
        report: called with each `Mendable` error (`InstallationFaults.report`).
    """

    def __init__(
        self,
        options: Mapping[str, ActivityOptions],
        record: Callable[[str], Awaitable[None]] | None = None,
        report: ReportFault | None = None,
    ) -> None:
        self.options = options
        self.record = record
        self.report = report

    def intercept_activity(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - Temporal's name
    ) -> ActivityInboundInterceptor:
        return _ErrorTranslation(next, self)


class _ErrorTranslation(ActivityInboundInterceptor):
    def __init__(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - Temporal's name
        given: ErrorInterceptor,
    ) -> None:
        super().__init__(next)
        self._options = given.options
        self._record = given.record
        self._report = given.report

    async def execute_activity(
        self,
        input: ExecuteActivityInput,  # noqa: A002 - Temporal's name
    ) -> Any:
        info = activity.info()
        with structlog.contextvars.bound_contextvars(
            activity=info.activity_type,
            workflow=info.workflow_id,
            attempt=info.attempt,
            **_correlation(input),
        ):
            async with heartbeating(info.heartbeat_timeout):
                try:
                    return await super().execute_activity(input)
                except Mendable as error:
                    raise await self._mendable(error, info) from None
                except (Transient, ClaimLost, Permanent) as error:
                    raise self._translated(error, self._options.get(info.activity_type)) from None
                except ApplicationError:
                    raise
                except Exception as error:  # noqa: BLE001 - translated; the log has the cause
                    raise await self._unexpected(error, info) from None

    def _translated(self, error: Exception, options: ActivityOptions | None) -> ApplicationError:
        said = redact(str(error))
        if isinstance(error, Transient):
            wait = error.retry_after or 0.0
            _log.warning("activity_transient_error", reason=str(error))
            return ApplicationError(
                said,
                wait,
                type="Transient",
                non_retryable=wait > LONG_WAIT
                and options is not None
                and options.long_wait_in_workflow,
                next_retry_delay=timedelta(seconds=wait) if wait else None,
            )
        if isinstance(error, ClaimLost):
            return ApplicationError(said, type="ClaimLost", non_retryable=True)
        _log.error("activity_permanent_error", reason=str(error))
        return ApplicationError(
            said, type="Permanent", non_retryable=options is None or not options.never_gives_up
        )

    async def _mendable(self, error: Mendable, info: activity.Info) -> ApplicationError:
        """Report the fault to the admin. The workflow waits, or Temporal retries the activity
        after a delay.
        """
        options = self._options.get(info.activity_type)
        _log.warning(
            "activity_mendable_error", kind=error.kind, subject=error.subject, reason=str(error)
        )
        if self._report:
            await self._report(error.kind, error.subject, redact(str(error)))
        again = options is not None and (options.waits_until_mended or options.never_gives_up)
        delay = timedelta(seconds=mending_delay(info.attempt))
        return ApplicationError(
            redact(str(error)),
            error.kind,
            error.subject,
            type="Mendable",
            non_retryable=not again,
            next_retry_delay=delay if again else None,
        )

    async def _unexpected(self, error: Exception, info: activity.Info) -> ApplicationError:
        """Translate an unexpected error. Call it inside the `except` block, so that the log gets
        the traceback.
        """
        options = self._options.get(info.activity_type)
        _log.exception("activity_unexpected_error")
        if self._record and should_alert(options, info.attempt):
            await self._record(info.activity_type)
        never_gives_up = options is not None and options.never_gives_up
        return ApplicationError(
            (
                f"An internal error ({type(error).__name__}) occurred: the worker's log has the "
                "details."
            ),
            type="Unexpected",
            non_retryable=not never_gives_up and info.attempt >= MAX_UNEXPECTED,
        )


def _correlation(input: ExecuteActivityInput) -> dict[str, str]:  # noqa: A002 - Temporal's name
    """Return the log fields that tie together the lines of one turn; empty where the activity
    belongs to none.
    """
    request = input.args[0] if input.args else None
    thread = getattr(request, "thread", None)
    turn = getattr(request, "turn", None)
    if isinstance(thread, Thread) and isinstance(turn, int):
        return {"correlation_id": turn_id(thread, turn)}
    return {}


@asynccontextmanager
async def heartbeating(timeout: timedelta | None) -> AsyncIterator[None]:
    """Send heartbeats until the block ends: five in each timeout, the first after a fifth of it;
    none without a timeout. Losing a worker then costs seconds, and a cancellation reaches the
    block with a heartbeat.
    """
    if timeout is None:
        yield
        return

    async def send() -> None:
        await asyncio.sleep(timeout.total_seconds() / 5)
        activity.heartbeat()

    async with repeating(send, 0):
        yield


@asynccontextmanager
async def repeating(work: Callable[[], Awaitable[None]], interval: float) -> AsyncIterator[None]:
    """Run `work` at once and then every `interval` seconds, until the block ends. An error in
    `work` ends the repetition, not the block.
    """

    async def repeat() -> None:
        while True:
            await work()
            await asyncio.sleep(interval)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def run_to_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Await `work` to its end, even when the caller is cancelled; the cancellation is then raised
    in place of the result.

    A lost claim and Temporal may each cancel one attempt: a wait that survives only one
    cancellation would release a lock, or abandon a process, while the work still goes on.
    """
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as again:
            cancelled = again
    if cancelled:
        raise cancelled from task.exception()
    return task.result()


async def until_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, Result]) -> Result | None:
    """Return the work's result; None when `stop` was set first, and then the work is cancelled."""
    task = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        stopped.cancel()
