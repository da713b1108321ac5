"""FailureAlerts: posts an alert when the same internal error keeps occurring, at most once in each
window.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable

import structlog

from threadline.slack import formatting
from threadline.threads.outbox import Outbox, Post

WINDOW = 600.0
"""Seconds in which `REPEATED` failures raise an alert."""
REPEATED = 3

_log = structlog.get_logger(__name__)


class FailureAlerts:
    """Counts internal errors in this process, and posts alerts to `channel`. Each worker counts
    its own; all share the one post of a window.

    Args:
        clock: gives seconds since 1970.
    """

    def __init__(
        self, outbox: Outbox, channel: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._outbox = outbox
        self._channel = channel
        self._clock = clock
        self._failures: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=REPEATED))
        self._raised: dict[str, str] = {}

    async def record(self, what: str) -> None:
        """Count an internal error of `what` ("model", a tool, an activity); the third within
        `WINDOW` posts an alert. Never raises: the caller has something more important to do.
        """
        now = self._clock()
        times = self._failures[what]
        times.append(now)
        key = f"alert:{what}:{int(now // WINDOW)}"
        if len(times) < REPEATED or now - times[0] > WINDOW or self._raised.get(what) == key:
            return
        text = (
            f"`{what}` has failed {REPEATED} times within {WINDOW / 60:.0f} minutes because of "
            "an internal error. People in the affected threads got an error message, or "
            "are still waiting. See the core worker's log for the cause."
        )
        rendered = formatting.notice(text, headline="Repeated internal errors")
        try:
            await self._outbox.publish(Post(key, self._channel, None, rendered))
            self._raised[what] = key
            _log.error("alert_raised", what=what)
        except Exception as error:  # noqa: BLE001 - an alert must not fail its caller
            _log.error("alert_not_posted", what=what, reason=str(error))
