"""A gateway that comes back requests a pass of the catch-up: Slack could not deliver to it meanwhile."""

import asyncio
import math
import time
from collections.abc import Callable

import structlog
from temporalio.client import Client

from threadline.threads.contract import catch_up_start
from threadline.threads.workflow_client import WorkflowClient

_TRIES, _PAUSE = 30, 10.0
"""Temporal may come up after the gateway. What is given up then, the schedule does."""

_GAP = 60.0
"""Seconds without a connection after which edits may have been missed in any thread: Slack's second retry."""

_log = structlog.stdlib.get_logger(__name__)


class CatchUpRequests:
    """Asks in the background: nobody's event waits for it. `clock`: seconds, rising."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._workflows = WorkflowClient(client)
        self._clock = clock
        self._asking: set[asyncio.Task[None]] = set()
        self._lost_at = -math.inf
        self._refusing_since = math.inf

    def connected(self) -> None:
        """A connection stands: the first of this process, or a new one."""
        deep = self._clock() - self._lost_at > _GAP
        self.in_touch()
        self._request(deep=deep)

    def not_accepted(self) -> None:
        """An event could not be handed over, so Slack may give it up."""
        self._refusing_since = min(self._refusing_since, self._clock())

    def accepted(self) -> None:
        """An event was handed over. Slack's connection may have stood all the while that none could be."""
        if self._clock() - self._refusing_since > _GAP:
            self._request(deep=True)
        self._refusing_since = math.inf

    def _request(self, *, deep: bool) -> None:
        task = asyncio.create_task(self._ask(deep=deep))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    def in_touch(self) -> None:
        """Slack was heard of: a gap begins here at the earliest."""
        self._lost_at = self._clock()

    async def close(self) -> None:
        for task in tuple(self._asking):
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    async def _ask(self, *, deep: bool) -> None:
        for attempt in range(1, _TRIES + 1):
            try:
                await self._workflows.start(catch_up_start(deep=deep))
            except Exception as exc:  # noqa: BLE001 - whatever is wrong with Temporal, events come first
                if attempt == _TRIES:
                    _log.error(
                        "catch_up_request_failed", error=type(exc).__name__, next="The schedule starts the catch-up."
                    )
                    return
                await asyncio.sleep(_PAUSE)
            else:
                _log.info("catch_up_requested", deep=deep)
                return
