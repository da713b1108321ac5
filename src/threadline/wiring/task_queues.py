"""Whether somebody serves the task queues: one that nobody serves is silent, messages are kept and nothing happens."""

import time
from collections.abc import Sequence

from temporalio.api.enums.v1 import TaskQueueType, WorkerVersioningMode
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeTaskQueueResponse
from temporalio.client import Client
from temporalio.service import RPCError

from threadline.errors import Permanent
from threadline.threads.model import AGENTS_QUEUE, CORE_QUEUE
from threadline.wiring.temporal import WORKFLOWS, temporal_client

_SILENT = 90.0
"""Seconds after which a poller is gone: one that lives asks again each minute, and the server lists it for five."""
_NAMED = 5
"""Workflows that are told by id."""
_VERSIONED = WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED
_WORKFLOW, _ACTIVITY = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
_NEEDED = (
    (CORE_QUEUE, "core", _WORKFLOW),
    (CORE_QUEUE, "core", _ACTIVITY),
    (AGENTS_QUEUE, "agents", _ACTIVITY),
)


async def served() -> str:
    """Raises `Permanent` for a queue that nobody serves, or that is served by builds which get nothing to do."""
    client = await temporal_client(tries=1)
    for queue, name, kind in _NEEDED:
        found = await _describe(client, queue, kind)
        pollers = [poller for poller in found.pollers if _is_alive(poller)]
        if not pollers:
            raise Permanent(f"No worker serves the queue {queue!r}: start `threadline worker --queue {name}`.")
        _have_work(queue, found, pollers)
    return "both queues are served"


async def nobody_forgotten() -> str:
    """Raises `Permanent` for open workflows of ours on a queue that is none of ours, where they wait for ever."""
    client = await temporal_client(tries=1)
    types = ", ".join(f"'{each.__name__}'" for each in WORKFLOWS)
    query = f"ExecutionStatus = 'Running' AND WorkflowType IN ({types})"
    elsewhere = f"{query} AND TaskQueue != '{CORE_QUEUE}'"
    try:
        lost = (await client.count_workflows(elsewhere)).count
        if not lost:
            return f"{(await client.count_workflows(query)).count}, each on a queue of ours"
        named = [
            f"{found.id} on {found.task_queue!r}" async for found in client.list_workflows(elsewhere, limit=_NAMED)
        ]
    except RPCError as error:
        raise Permanent(f"Temporal did not list the open workflows: {error.message}") from error
    more = f", and {lost - len(named)} more" if lost > len(named) else ""
    raise Permanent(
        f"No worker serves these workflows: {', '.join(named)}{more}. Their messages are kept and not answered: "
        f"reset or restart them on the queue {CORE_QUEUE!r}, or run a worker on their queue."
    )


async def _describe(client: Client, queue: str, kind: "TaskQueueType.ValueType") -> DescribeTaskQueueResponse:
    place = TaskQueue(name=queue)
    request = DescribeTaskQueueRequest(namespace=client.namespace, task_queue=place, task_queue_type=kind)
    return await client.workflow_service.describe_task_queue(request)


def _is_alive(poller: PollerInfo) -> bool:
    return time.time() - poller.last_access_time.seconds < _SILENT


def _have_work(queue: str, found: DescribeTaskQueueResponse, pollers: Sequence[PollerInfo]) -> None:
    """With worker versioning, Temporal gives work to the current build alone."""
    options = [poller.deployment_options for poller in pollers]
    versioned = [each for each in options if each.worker_versioning_mode == _VERSIONED]
    running = {(each.deployment_name, each.build_id) for each in versioned}
    current = found.versioning_info.current_deployment_version
    if current.build_id and (current.deployment_name, current.build_id) not in running:
        raise Permanent(
            f"Temporal sends the work of {queue!r} to build {current.build_id!r} of {current.deployment_name!r}, "
            "which no worker runs: start it, or set a running build as the current one (docs/deploying.md)."
        )
    if running and not current.build_id and len(versioned) == len(options):
        name, build = min(running)
        raise Permanent(
            f"Build {build!r} serves {queue!r} but gets no work, because no build is the current one: run "
            f"`temporal worker deployment set-current-version --deployment-name {name} --build-id {build}`."
        )
