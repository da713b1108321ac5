"""CatchUpRequester: requests a catch-up after each new connection, since Slack could not deliver
events without one.
"""

import asyncio
import math
import time
from collections.abc import Callable, Collection

import structlog
from temporalio.client import Client

from threadline.threads.contract import catch_up_start
from threadline.threads.workflow_client import WorkflowClient

_ATTEMPTS = 30
_RETRY_SECONDS = 10.0
"""Temporal may start after the gateway. After the last attempt, the schedule starts the
catch-up.
"""
_GAP = 60.0
"""Seconds without a connection after which edits may have been missed in any thread: the time of
Slack's second retry.
"""

_log = structlog.stdlib.get_logger(__name__)


class CatchUpRequester:
    """Requests catch-ups in the background; no event waits for them.

    Args:
        channels: the channels that the gateway follows. A catch-up covers their messages from now
            on, also if the core worker starts later.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        client: Client,
        channels: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._channels = channels
        self._began = time.time()
        self._workflows = WorkflowClient(client)
        self._clock = clock
        self._requests: set[asyncio.Task[None]] = set()
        self._lost_at = -math.inf
        self._rejecting_since = math.inf

    def on_connected(self) -> None:
        """Request a catch-up for a connection, the first of this process or a new one."""
        deep = self._clock() - self._lost_at > _GAP
        self.on_heartbeat()
        self._request(deep=deep)

    def on_heartbeat(self) -> None:
        """Record that the connection is up: a gap is measured from here."""
        self._lost_at = self._clock()

    def on_rejected(self) -> None:
        """Record that Temporal did not accept an event, so Slack may drop it."""
        self._rejecting_since = min(self._rejecting_since, self._clock())

    def on_accepted(self) -> None:
        """Record that Temporal accepted an event; request a deep catch-up if it had refused events
        for long. Slack's connection may have been up all that time.
        """
        if self._clock() - self._rejecting_since > _GAP:
            self._request(deep=True)
        self._rejecting_since = math.inf

    async def close(self) -> None:
        for task in tuple(self._requests):
            task.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)

    def _request(self, *, deep: bool) -> None:
        task = asyncio.create_task(self._start(deep=deep))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _start(self, *, deep: bool) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                await self._workflows.start(
                    catch_up_start(deep=deep, channels=self._channels, at=self._began)
                )
            except Exception as exc:  # noqa: BLE001 - no Temporal error may stop the events
                if attempt == _ATTEMPTS:
                    _log.error(
                        "catch_up_request_failed",
                        error=type(exc).__name__,
                        next="The schedule starts the catch-up.",
                    )
                    return
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                _log.info("catch_up_requested", deep=deep)
                return
