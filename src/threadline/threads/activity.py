"""What surrounds each activity of a worker: errors become Temporal's, and heartbeats are sent. Also work that goes on
beside other work, until the process is to stop, or to its end whatever happens."""

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
"""Gets the kind, the subject and the text of a fault of the installation. Never raises."""

LONG_WAIT = 60.0
"""Seconds."""
_log = structlog.get_logger(__name__)


async def log_fault(kind: str, subject: str, text: str) -> None:
    """A `ReportFault` where there is no admin's channel."""
    _log.error("installation_fault", kind=kind, subject=subject, reason=text)


class ErrorInterceptor(Interceptor):
    """Turns `Permanent` and `Transient` into `ApplicationError`s of the same type names, which workflows read. Sends
    the heartbeats of an activity that has a heartbeat timeout.

    `from None`: the SDK would send the causes along, and with them words that are meant for the log alone. `options`
    are by activity (`options_by_name`): a worker runs the live methods, which lack them. `record` is told of each
    activity whose unforeseen errors are at the end of its tries (`FailureAlerts.record`), and `report` of each
    `Mendable` error (`InstallationFaults.report`).
    """

    def __init__(
        self,
        options: Mapping[str, ActivityOptions],
        record: Callable[[str], Awaitable[None]] | None = None,
        report: ReportFault | None = None,
    ) -> None:
        self.options, self.record, self.report = options, record, report

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - Temporal's name
        return _ErrorTranslation(next, self)


class _ErrorTranslation(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, given: ErrorInterceptor) -> None:  # noqa: A002 - Temporal's name
        super().__init__(next)
        self._options, self._record, self._report = given.options, given.record, given.report

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - Temporal's name
        info = activity.info()
        with structlog.contextvars.bound_contextvars(
            activity=info.activity_type, workflow=info.workflow_id, attempt=info.attempt, **_correlation(input)
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
                except Exception as error:  # noqa: BLE001 - raised again as Temporal's, its cause told in the log alone
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
                non_retryable=wait > LONG_WAIT and options is not None and options.long_wait_in_workflow,
                next_retry_delay=timedelta(seconds=wait) if wait else None,
            )
        if isinstance(error, ClaimLost):
            return ApplicationError(said, type="ClaimLost", non_retryable=True)
        _log.error("activity_permanent_error", reason=str(error))
        return ApplicationError(said, type="Permanent", non_retryable=options is None or not options.never_gives_up)

    async def _mendable(self, error: Mendable, info: activity.Info) -> ApplicationError:
        """Tell the admin. The workflow waits, or Temporal tries the activity again after a while."""
        options = self._options.get(info.activity_type)
        _log.warning("activity_mendable_error", kind=error.kind, subject=error.subject, reason=str(error))
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
        """An error that nobody foresaw; called where it is handled, so that the log has its traceback."""
        options = self._options.get(info.activity_type)
        _log.exception("activity_unexpected_error")
        if self._record and should_alert(options, info.attempt):
            await self._record(info.activity_type)
        never_gives_up = options is not None and options.never_gives_up
        return ApplicationError(
            f"An internal error ({type(error).__name__}) occurred: the worker's log has the details.",
            type="Unexpected",
            non_retryable=not never_gives_up and info.attempt >= MAX_UNEXPECTED,
        )


def _correlation(input: ExecuteActivityInput) -> dict[str, str]:  # noqa: A002 - Temporal's name
    """What ties the log's lines about one turn together; nothing where an activity is about none."""
    request = input.args[0] if input.args else None
    thread, turn = getattr(request, "thread", None), getattr(request, "turn", None)
    if isinstance(thread, Thread) and isinstance(turn, int):
        return {"correlation_id": turn_id(thread, turn)}
    return {}


@asynccontextmanager
async def heartbeating(timeout: timedelta | None) -> AsyncIterator[None]:
    """Send heartbeats until the block ends, five in each timeout and the first after a fifth of it; none without one. A
    lost worker then costs seconds, and a cancellation reaches the block with a heartbeat."""
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
    """Do something at once and then at each interval (seconds), until the block ends. What it raises ends it."""

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
    """Await `work` to its end. A cancellation of the caller meanwhile is raised afterwards, in place of the result. A
    lost claim and Temporal may each cancel one attempt: a wait that survives a single cancellation would give up a
    lock, or leave a process, while the work still goes on."""
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
    """The work's result; None when `stop` was set first, and then the work is cancelled."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        stopped.cancel()
