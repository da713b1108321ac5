"""The workers' processes: the core's, which runs the workflows, and the agents'."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import structlog
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import Worker, WorkerDeploymentConfig

from threadline import telemetry
from threadline.cases.contract import AgentActivities
from threadline.settings import AgentSettings, LogSettings, RepositorySettings
from threadline.threads.activity import ErrorInterceptor
from threadline.threads.activity_options import options_by_name
from threadline.threads.model import AGENTS_QUEUE, CORE_QUEUE
from threadline.wiring.agent_worker import agent_activities, refuse_secrets
from threadline.wiring.core_worker import (
    CoreDeps,
    CoreParts,
    CoreSettings,
    connect_core,
    open_core,
    prune_periodically,
)
from threadline.wiring.temporal import (
    CONTRACTS,
    WORKFLOWS,
    activities_of,
    check_search_attributes,
    ensure_schedule,
    temporal_client,
    workflow_runner,
)

_log = structlog.get_logger(__name__)

GRACE = 30
"""Seconds for activities to finish after SIGTERM; a turn that takes longer is run again elsewhere, from its start."""

CANCELLED_WITHIN = timedelta(seconds=5)
"""A cancellation reaches an activity with its heartbeat: by default most of a minute late."""

WORKFLOW_TASKS = 20
"""Workflow tasks at once. The SDK fails a task that has no result after two seconds, and all share one interpreter."""


async def run_worker(queue: str, stop: asyncio.Event) -> None:
    """Work until `stop`, then finish what is under way.

    Args:
        queue: `core`, `agents`, or `all` for both in one process, where the agents' process is no wall any more.

    Raises:
        Permanent: a setting is missing or wrong, or something it needs is not as it must be.
    """
    telemetry.configure_logging(LogSettings.load().log_level)
    async with AsyncExitStack() as opened:
        opened.push_async_callback(telemetry.flush_callbacks)
        workers: list[Worker] = []
        # The agents' part first: it looks at the environment, and takes the secrets out of it that are read by then.
        if queue in ("agents", "all"):
            settings, repository = AgentSettings.load(), RepositorySettings.load()
            if queue == "agents":
                refuse_secrets()
            agents_client = await temporal_client(stop=stop)
            investigating = await opened.enter_async_context(
                agent_activities(settings, repository, alone=queue == "agents")
            )
            served = activities_of(investigating)
            workers.append(_agent_worker(agents_client, served, settings.agent_slots))
        if queue in ("core", "all"):
            core = CoreSettings()
            client = await temporal_client(stop=stop)
            await check_search_attributes(client)
            deps = await opened.enter_async_context(connect_core(core, client))
            parts = await opened.enter_async_context(open_core(core, deps))
            await opened.enter_async_context(prune_periodically(deps.database, parts.prunes))
            workers.append(_core_worker(deps, parts, core))
        for worker in workers:
            await opened.enter_async_context(worker)
        if queue in ("core", "all"):
            await ensure_schedule(client, core.worker.catch_up_interval, [each.name for each in parts.sweeps])
        _log.info("worker_ready", queue=queue)
        await stop.wait()
        _log.info("worker_stopping", queue=queue)


def _core_worker(deps: CoreDeps, parts: CoreParts, settings: CoreSettings) -> Worker:
    return Worker(
        deps.temporal,
        task_queue=CORE_QUEUE,
        workflows=WORKFLOWS,
        activities=activities_of(*parts.activities),
        interceptors=[ErrorInterceptor(options_by_name(*CONTRACTS), deps.alerts.record)],
        workflow_runner=workflow_runner(),
        max_cached_workflows=settings.worker.cached_workflows,
        max_concurrent_workflow_tasks=WORKFLOW_TASKS,
        max_concurrent_activities=50,
        graceful_shutdown_timeout=timedelta(seconds=GRACE),
        max_heartbeat_throttle_interval=CANCELLED_WITHIN,
        # Else a workflow waits ten seconds for a worker that was killed.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
        deployment_config=deployment_config(settings.worker.deployment, settings.worker.build_id),
    )


def deployment_config(name: str, build_id: str) -> WorkerDeploymentConfig | None:
    """Temporal's worker versioning for a build, or none where it has no name.

    A case moves on with its next task: it lives for weeks and can be reopened, so pinned to its build it would keep
    every old worker running for as long.
    https://docs.temporal.io/worker-versioning
    """
    if not name:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=name, build_id=build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
    )


def _agent_worker(client: Client, activities: list[Callable[..., Any]], slots: int) -> Worker:
    return Worker(
        client,
        task_queue=AGENTS_QUEUE,
        activities=activities,
        interceptors=[ErrorInterceptor(options_by_name(AgentActivities))],
        max_concurrent_activities=slots,
        graceful_shutdown_timeout=timedelta(seconds=GRACE),
        max_heartbeat_throttle_interval=CANCELLED_WITHIN,
    )
