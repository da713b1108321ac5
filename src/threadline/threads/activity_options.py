"""Timeouts and retries of activities, declared beside each signature in a contract: no workflow names a number.

    class CaseActivities(ABC):
        @activity_options(STORE)
        @abstractmethod
        async def flush_messages(self, request: FlushRequest) -> StoredCase: ...

A live class subclasses the contract. Options that one feature uses alone stand in its contract.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar, cast

from temporalio import activity
from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

from threadline.threads.model import CORE_QUEUE

MAX_UNEXPECTED = 10
"""Attempts at an activity whose error nobody foresaw: a fault in the code does not mend itself."""
_ALERT_AFTER = 3
"""The same where there is no last attempt: then people are told."""
_ATTRIBUTE = "__activity_options__"

Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True)
class ActivityOptions:
    """Seconds throughout. `heartbeat`: a worker that sends none for so long is lost, and the next attempt begins.
    `never_gives_up`: tried again even after an error that looks permanent, for steps that store: an accepted message
    has nowhere else to go, and they go on once a person has mended the database. `long_wait_in_workflow`: a
    `retry_after` over a minute ends the attempt, so that the workflow waits, and says so.
    `waits_until_mended`: tried again after a `Mendable` error, else that ends the activity. `ends_itself`: once it is
    cancelled, the workflow waits for what the activity has done until it heard of that, with its next heartbeat."""

    start_to_close: float
    retry: RetryPolicy
    task_queue: str = CORE_QUEUE
    schedule_to_close: float | None = None
    heartbeat: float | None = None
    never_gives_up: bool = False
    long_wait_in_workflow: bool = False
    waits_until_mended: bool = False
    ends_itself: bool = False

    def as_kwargs(self) -> dict[str, Any]:
        """As `workflow.execute_activity_method` takes them."""
        cancelled = ActivityCancellationType
        return {
            "task_queue": self.task_queue,
            "start_to_close_timeout": timedelta(seconds=self.start_to_close),
            "schedule_to_close_timeout": _timedelta(self.schedule_to_close),
            "heartbeat_timeout": _timedelta(self.heartbeat),
            "retry_policy": self.retry,
            "cancellation_type": cancelled.WAIT_CANCELLATION_COMPLETED if self.ends_itself else cancelled.TRY_CANCEL,
        }


def _timedelta(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def retry_policy(first: float, longest: float, attempts: int = 0) -> RetryPolicy:
    """Waits in seconds, each twice the one before; 0 attempts: without end."""
    return RetryPolicy(
        initial_interval=timedelta(seconds=first),
        backoff_coefficient=2.0,
        maximum_interval=timedelta(seconds=longest),
        maximum_attempts=attempts,
    )


HEARTBEAT = 5.0
"""Of what posts: people wait for it. A shorter one would take a worker for lost that is merely busy."""
STORE = ActivityOptions(start_to_close=30, retry=retry_policy(0.2, 30), never_gives_up=True)
POST = ActivityOptions(start_to_close=30, heartbeat=HEARTBEAT, retry=retry_policy(1, 60))
"""Longer than one HTTP call to Slack (10 s), shorter than the wait before anybody sends again (45 s)."""
READ_SLACK = ActivityOptions(start_to_close=30, retry=retry_policy(1, 30), schedule_to_close=600)
POST_UNTIL_MENDED = replace(POST, waits_until_mended=True)
"""For posts that nothing else waits for: a refused token or an archived channel is waited for without end."""
COSMETIC = ActivityOptions(start_to_close=20, retry=retry_policy(5, 20, attempts=2), schedule_to_close=60)
SCAN = ActivityOptions(start_to_close=600, heartbeat=30, retry=retry_policy(1, 60))
"""Reads many pages at Slack's pace. What was done is kept, so a lost worker costs no more than the heartbeat."""


def activity_options(options: ActivityOptions) -> Callable[[Method], Method]:
    """Declare a contract's method as an activity with these options."""

    def declare(method: Method) -> Method:
        setattr(method, _ATTRIBUTE, options)
        _define(method)
        return method

    return declare


def activities_of(*live: object) -> list[Callable[..., Any]]:
    """What a worker registers: the activities that the contracts of these objects declare, as the objects have them.
    Raises `TypeError` when one has no contract."""
    for each in live:
        if not any(map(_names, type(each).__mro__)):
            raise TypeError(f"{type(each).__name__} has no contract of activities")
    methods = [getattr(each, name) for each in live for contract in type(each).__mro__ for name in _names(contract)]
    for method in methods:
        _define(method.__func__)
    return methods


def options_of(method: Callable[..., Any]) -> ActivityOptions:
    """The options of a contract's method. A live class or a fake overrides the method without them."""
    return cast("ActivityOptions", getattr(method, _ATTRIBUTE))


def options_by_name(*contracts: type) -> dict[str, ActivityOptions]:
    """The options of all activities of these contracts, by the activity's name."""
    return {name: options_of(getattr(contract, name)) for contract in contracts for name in _names(contract)}


def _define(method: Callable[..., Any]) -> None:
    """Make a function an activity, unless it is one: for another worker, or before its options were changed."""
    if not hasattr(method, "__temporal_activity_definition"):
        activity.defn(method)


def _names(contract: type) -> list[str]:
    return sorted(name for name, method in vars(contract).items() if hasattr(method, _ATTRIBUTE))


def should_alert(options: ActivityOptions | None, attempt: int) -> bool:
    """Whether an error that nobody foresaw came as often as is tried, or three times where there is no last attempt."""
    if options is None:
        return attempt >= MAX_UNEXPECTED
    if options.never_gives_up:
        return attempt >= _ALERT_AFTER
    return attempt >= min(MAX_UNEXPECTED, options.retry.maximum_attempts or MAX_UNEXPECTED)
