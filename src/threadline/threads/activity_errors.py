"""One place where an error becomes Temporal's: what may be tried again is, what may not says so at once."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from threadline.errors import ClaimLost, Permanent, Transient
from threadline.privacy.redaction import redact
from threadline.slack.model import Thread
from threadline.threads import addressing
from threadline.threads.activity_options import NEVER_GIVE_UP, UNEXPECTED, keeps_failing

_WAITED_FOR = frozenset({"think", "summarise"})
"""Asked of a model: when it may be asked again only much later, the workflow waits, and says so to the people."""
_LONG = 60.0
"""Seconds."""
_log = structlog.get_logger(__name__)


class FaultInterceptor(Interceptor):
    """Turns `Permanent` and `Transient` into `ApplicationError`s of the same type names, which workflows read.

    `from None`: the SDK would send the causes along, and with them words that are meant for the log alone.

    Args:
        failed: is told of each activity whose errors nobody foresaw are at the end of its tries; see `Alerts.failed`.
    """

    def __init__(self, failed: Callable[[str], Awaitable[None]] | None = None) -> None:
        self._failed = failed

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - Temporal's name
        return _Faults(next, self._failed)


def _turn_of(asked: ExecuteActivityInput) -> dict[str, str]:
    """What ties the log's lines about one turn together; nothing where an activity is about none."""
    request = asked.args[0] if asked.args else None
    thread, turn = getattr(request, "thread", None), getattr(request, "turn", None)
    if isinstance(thread, Thread) and isinstance(turn, int):
        return {"correlation_id": addressing.turn_id(thread, turn)}
    return {}


class _Faults(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, failed: Callable[[str], Awaitable[None]] | None) -> None:  # noqa: A002 - Temporal's name
        super().__init__(next)
        self._failed = failed

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - Temporal's name
        info = activity.info()
        with structlog.contextvars.bound_contextvars(
            activity=info.activity_type, workflow=info.workflow_id, attempt=info.attempt, **_turn_of(input)
        ):
            try:
                return await super().execute_activity(input)
            except Transient as error:
                wait = error.retry_after or 0.0
                _log.warning("activity_failed_transiently", reason=str(error))
                raise ApplicationError(
                    redact(str(error)),
                    wait,
                    type="Transient",
                    non_retryable=wait > _LONG and info.activity_type in _WAITED_FOR,
                    next_retry_delay=timedelta(seconds=wait) if wait else None,
                ) from None
            except ClaimLost as error:
                raise ApplicationError(redact(str(error)), type="ClaimLost", non_retryable=True) from None
            except Permanent as error:
                _log.error("activity_failed_permanently", reason=str(error))
                last = info.activity_type not in NEVER_GIVE_UP
                raise ApplicationError(redact(str(error)), type="Permanent", non_retryable=last) from None
            except ApplicationError:
                raise
            except Exception as error:  # noqa: BLE001 - raised again as Temporal's, its cause told in the log alone
                _log.exception("activity_failed_unexpectedly")
                if self._failed and keeps_failing(info.activity_type, info.attempt):
                    await self._failed(info.activity_type)
                last = info.activity_type not in NEVER_GIVE_UP and info.attempt >= UNEXPECTED
                raise ApplicationError(
                    f"An internal error ({type(error).__name__}) occurred: the worker's log has the details.",
                    type="Unexpected",
                    non_retryable=last,
                ) from None
