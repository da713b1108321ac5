"""Task queues without a worker, as Temporal knows them.

The core worker can detect that the agents' queue has none. Only a running gateway can detect that
of the core queue: it is the one process besides the core worker that may write to Slack.
"""

import time
from collections.abc import Awaitable, Callable

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from threadline.errors import Transient
from threadline.threads.faults import InstallationFaults

NO_WORKER = "no_worker"
"""The kind of the faults of queues without a worker; each subject is a queue."""
LOOK_EVERY = 30.0
"""Seconds between two checks of a queue."""

POLLER_TIMEOUT = 90.0
"""Seconds without a poll after which a worker counts as gone: a poll lasts a minute."""


async def is_served(client: Client, queue: str) -> bool:
    """Return whether a worker polled the queue for activities recently. A worker whose slots are
    all in use does not poll.

    Raises:
        Transient: Temporal does not answer.
    """
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
    )
    try:
        found = await client.workflow_service.describe_task_queue(request)
    except RPCError as error:
        raise Transient(f"Temporal did not list the workers of the queue {queue!r}.") from error
    alive = time.time() - POLLER_TIMEOUT
    return any(poller.last_access_time.seconds > alive for poller in found.pollers)


class QueueWatch:
    """Reports a fault once a queue has had no worker for a while, and resolves it when the queue
    has one.

    Args:
        has_worker: returns whether a queue has a worker; raises `Transient` when Temporal does not
            answer.
        patience: seconds for which the queue may have none.
        text: the problem and its remedy, for the admin.
        clock: gives rising seconds.
    """

    def __init__(
        self,
        queue: str,
        has_worker: Callable[[str], Awaitable[bool]],
        faults: InstallationFaults,
        patience: float,
        text: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queue = queue
        self._has_worker = has_worker
        self._faults = faults
        self._patience = patience
        self._text = text
        self._clock = clock
        self._absent_since: float | None = None
        self._may_be_open = True
        """The fault may be on record: this process reported it, or an earlier one did."""

    async def look(self) -> None:
        """Check the queue once. Never raises: the next check comes soon."""
        try:
            served = await self._has_worker(self._queue)
        except Transient:
            return
        if served:
            self._absent_since = None
            if self._may_be_open:
                await self._faults.resolve(NO_WORKER, self._queue)
            self._may_be_open = False
            return
        now = self._clock()
        if self._absent_since is None:
            self._absent_since = now
        if now - self._absent_since >= self._patience:
            self._may_be_open = True
            await self._faults.report(NO_WORKER, self._queue, self._text)
