"""Whether a task queue has a worker, as Temporal knows it."""

import time

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError

from threadline.errors import Transient

POLLER_TIMEOUT = 90.0
"""Seconds after which a worker that has not polled is taken for gone: a poll lasts a minute."""


async def is_served(client: Client, queue: str) -> bool:
    """Whether a worker polled the queue for activities lately. Raises `Transient` when Temporal does not answer."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
    )
    try:
        found = await client.workflow_service.describe_task_queue(request)
    except RPCError as error:
        raise Transient(f"Temporal did not say who serves the queue {queue!r}.") from error
    alive = time.time() - POLLER_TIMEOUT
    return any(poller.last_access_time.seconds > alive for poller in found.pollers)
