"""Timeouts and retries of activities, declared beside each signature in a contract, so that no
workflow names a number.

    class CaseActivities(ABC):
        @activity_options(STORE)
        @abstractmethod
        async def flush_messages(self, request: FlushRequest) -> StoredCase: ...

A live class subclasses the contract. Options that only one feature uses are in its contract.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar, cast

from temporalio import activity
from temporalio.common import RetryPolicy

from threadline.threads.model import CORE_QUEUE

MAX_UNEXPECTED = 10
"""Attempts at an activity whose error is unexpected: a fault in the code does not mend itself."""
_ALERT_AFTER = 3
"""Attempts with an unexpected error before an alert, for an activity that never gives up."""
_ATTRIBUTE = "__activity_options__"

Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True)
class ActivityOptions:
    """The timeouts, retries and queue of an activity. All times are in seconds.

    - `heartbeat`: a worker that sends no heartbeat for this long is lost, and the next attempt
      begins;
    - `never_gives_up`: retries even an error that looks permanent. For steps that store: an
      accepted message has nowhere else to go, and the step continues once a person has mended the
      database;
    - `long_wait_in_workflow`: a `retry_after` over a minute ends the activity, so that the
      workflow waits and tells people;
    - `waits_until_mended`: retries a `Mendable` error, which otherwise ends the activity.
    """

    start_to_close: float
    retry: RetryPolicy
    task_queue: str = CORE_QUEUE
    schedule_to_close: float | None = None
    heartbeat: float | None = None
    never_gives_up: bool = False
    long_wait_in_workflow: bool = False
    waits_until_mended: bool = False

    def as_kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments of `workflow.execute_activity_method`."""
        return {
            "task_queue": self.task_queue,
            "start_to_close_timeout": timedelta(seconds=self.start_to_close),
            "schedule_to_close_timeout": _timedelta(self.schedule_to_close),
            "heartbeat_timeout": _timedelta(self.heartbeat),
            "retry_policy": self.retry,
        }


def _timedelta(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def retry_policy(first: float, longest: float, attempts: int = 0) -> RetryPolicy:
    """Return a policy whose waits double from `first` to `longest` seconds; 0 attempts means no
    limit.
    """
    return RetryPolicy(
        initial_interval=timedelta(seconds=first),
        backoff_coefficient=2.0,
        maximum_interval=timedelta(seconds=longest),
        maximum_attempts=attempts,
    )


HEARTBEAT = 5.0
"""Seconds, for activities that post, since people wait for them. A shorter timeout would take a
busy worker for lost.
"""
STORE = ActivityOptions(start_to_close=30, retry=retry_policy(0.2, 30), never_gives_up=True)
POST = ActivityOptions(start_to_close=30, heartbeat=HEARTBEAT, retry=retry_policy(1, 60))
"""Longer than one HTTP call to Slack (10 s), shorter than the wait before another attempt sends
(45 s).
"""
READ_SLACK = ActivityOptions(start_to_close=30, retry=retry_policy(1, 30), schedule_to_close=600)
POST_UNTIL_MENDED = replace(POST, waits_until_mended=True)
"""For posts that nothing else waits for: retries a refused token or an archived channel without
end.
"""
SCAN = ActivityOptions(start_to_close=600, heartbeat=30, retry=retry_policy(1, 60))
"""For reading many pages at Slack's pace. Progress is stored, so a lost worker costs only the
heartbeat timeout.
"""


def activity_options(options: ActivityOptions) -> Callable[[Method], Method]:
    """Declare a contract's method as an activity with these options."""

    def declare(method: Method) -> Method:
        setattr(method, _ATTRIBUTE, options)
        _define(method)
        return method

    return declare


def activities_of(*live: object) -> list[Callable[..., Any]]:
    """Return the activities that a worker registers: the methods of these objects that their
    contracts declare.

    Raises:
        TypeError: an object has no contract.
    """
    for each in live:
        if not any(map(_names, type(each).__mro__)):
            raise TypeError(f"{type(each).__name__} has no activity contract")
    methods = [
        getattr(each, name)
        for each in live
        for contract in type(each).__mro__
        for name in _names(contract)
    ]
    for method in methods:
        _define(method.__func__)
    return methods


def options_of(method: Callable[..., Any]) -> ActivityOptions:
    """Return the options of a contract's method. Overrides in a live class or a fake carry
    none.
    """
    return cast("ActivityOptions", getattr(method, _ATTRIBUTE))


def options_by_name(*contracts: type) -> dict[str, ActivityOptions]:
    """Return the options of all activities of these contracts, by the activity's name."""
    return {
        name: options_of(getattr(contract, name))
        for contract in contracts
        for name in _names(contract)
    }


def _define(method: Callable[..., Any]) -> None:
    """Make a function an activity, unless it is one already: for another worker, or before its
    options were changed.
    """
    if not hasattr(method, "__temporal_activity_definition"):
        activity.defn(method)


def _names(contract: type) -> list[str]:
    return sorted(name for name, method in vars(contract).items() if hasattr(method, _ATTRIBUTE))


def should_alert(options: ActivityOptions | None, attempt: int) -> bool:
    """Return whether an unexpected error reached the last attempt, or the third where there is no
    last attempt.
    """
    if options is None:
        return attempt >= MAX_UNEXPECTED
    if options.never_gives_up:
        return attempt >= _ALERT_AFTER
    return attempt >= min(MAX_UNEXPECTED, options.retry.maximum_attempts or MAX_UNEXPECTED)
