"""The kinds of errors: `Permanent` ends an activity, Temporal retries after `Transient`, and
`Mendable` waits for the admin.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime


class Permanent(Exception):
    """A retry cannot help. The message tells a person what to do next."""


class InternalError(Permanent):
    """The program or its schema is wrong. The message is for the admin alone: users get a general
    sentence.
    """


class Mendable(Permanent):
    """Refused until the admin mends a part of the installation: a token, a channel, a disk, a key.

    Code that does not know it treats it as `Permanent`. Steps that must not be lost are retried
    until it is mended.

    Args:
        message: the problem and its remedy, for the admin.
        kind: a stable name of the fault, such as `slack_token`.
        subject: the part that it concerns, such as a channel; may be empty.
    """

    def __init__(self, message: str, *, kind: str, subject: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.subject = subject


INVESTIGATION = "investigation"
"""The kind of the faults that keep investigations from running; each subject is one cause."""


class Transient(Exception):
    """A retry may help. `retry_after` is the least number of seconds to wait, where the other side
    named one.
    """

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotDone(Transient):
    """The other side certainly did nothing, as when it limits the rate of calls."""


@contextmanager
def before_a_change() -> Iterator[None]:
    """Turn a `Transient` inside the block into `NotDone`, for reads before a change: nothing was
    changed yet.
    """
    try:
        yield
    except Transient as fault:
        raise NotDone(str(fault), retry_after=fault.retry_after) from fault


class IllegalTransition(Permanent):
    """The case's status does not allow this step; see `TRANSITIONS` in `cases/model.py`."""


class ClaimLost(Permanent):
    """Another attempt, or the closing of the case, has taken the turn over. The attempt that gets
    this error stops.
    """


class AppendOnly(Permanent):
    """Journals, events and decisions are never changed after they were written."""


def parse_retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that another server asks to wait, by `Retry-After` (seconds or a date,
    RFC 9110) or `retry-after-ms`; None when it names no time to wait.

    Args:
        headers: with case-insensitive names; a plain mapping must have them in lower case.
    """
    seconds = _number(headers.get("retry-after-ms", ""), 1000.0)
    if seconds is None:
        seconds = _number(headers.get("retry-after", ""))
    if seconds is None:
        try:
            seconds = (parsedate_to_datetime(headers.get("retry-after", "")) - now).total_seconds()
        except (TypeError, ValueError, OverflowError):
            return None
    return seconds if seconds > 0 else None


def _number(text: str, divisor: float = 1.0) -> float | None:
    try:
        value = float(text) / divisor
    except ValueError:
        return None
    return value if math.isfinite(value) else None
