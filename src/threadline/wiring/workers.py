"""The core worker, with the parts of each feature, and the agents' worker."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import Worker, WorkerDeploymentConfig

from threadline import telemetry
from threadline.cases.contract import AgentActivities, case_start
from threadline.handovers.model import HANDOVER
from threadline.jobs.activities import LiveJobActivities
from threadline.jobs.model import ChannelAdmission, JobRunner
from threadline.jobs.schedules import JobSchedules
from threadline.settings import (
    AgentSettings,
    LogSettings,
    RepositorySettings,
)
from threadline.slack.channels import ChannelAccess
from threadline.threads.activities import LiveThreadActivities
from threadline.threads.activity import ErrorInterceptor, repeating
from threadline.threads.activity_options import activities_of, options_by_name
from threadline.threads.model import AGENTS_QUEUE, CORE_QUEUE
from threadline.threads.recovery import REFRESH_INTERVAL
from threadline.threads.sweep import LiveSweepActivities, Sweep, WorkflowSweeps
from threadline.tools.context import Services
from threadline.tools.roles import RoleDirectory
from threadline.wiring import sweeps
from threadline.wiring.agent_worker import agent_activities, refuse_secrets
from threadline.wiring.cases import configured_cases
from threadline.wiring.conversations import open_conversations, with_access
from threadline.wiring.core import CoreDeps, connect_core
from threadline.wiring.core_settings import CoreSettings
from threadline.wiring.handovers import handover_activities
from threadline.wiring.probes import ActivitySlots, WorkerHealth, database_answers, polls
from threadline.wiring.retention import Prune, prune_periodically, prunes
from threadline.wiring.temporal import (
    CONTRACTS,
    WORKFLOWS,
    check_search_attributes,
    ensure_schedule,
    temporal_client,
    workflow_runner,
)
from threadline.wiring.threads import catch_up

GRACE = 30
"""Seconds for activities to finish after SIGTERM; a longer turn runs again on another worker, from
its start.
"""
HEARTBEATS_EVERY = timedelta(seconds=1)
"""Shortest interval between an activity's heartbeats in the SDK. By default it waits 80 % of the
heartbeat timeout, so that one slow call would cost an attempt, and a cancellation, which comes
with a heartbeat, would be late.
"""
WORKFLOW_TASKS = 20
"""Concurrent workflow tasks. The SDK fails a task that has no result after two seconds, and all
share one interpreter.
"""
_WORKFLOW = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
_ACTIVITY = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class CoreParts:
    """The parts of the core worker. `activities`: the objects that have them. `sweeps`: the sweeps
    of each feature, in their order. `prunes`: the retention of each kind of record.
    """

    activities: Sequence[object]
    sweeps: Sequence[Sweep[Any]]
    prunes: Sequence[Prune]


@asynccontextmanager
async def open_core(settings: CoreSettings, deps: CoreDeps) -> AsyncIterator[CoreParts]:
    """Build the parts of every feature.

    Raises:
        Permanent: a setting of a toolset's service is wrong.
    """
    access = ChannelAccess(deps.slack)
    runner = JobSchedules(deps.temporal, deps.database, deps.outbox)
    services = Services().with_service(ChannelAdmission, access).with_service(JobRunner, runner)
    services = with_access(services, settings.conversations.access, deps)
    handovers = handover_activities(settings.conversations.decision, deps)
    case_activities, case_sweeps = configured_cases(settings, deps)
    workflow_sweeps = WorkflowSweeps(deps.database, deps.workflows)
    idle_timeout = settings.conversations.conversation.conversation_idle_timeout
    all_sweeps: list[Sweep[Any]] = [
        *case_sweeps,
        sweeps.waiting_conversations(workflow_sweeps, idle_timeout),
        sweeps.open_handovers(workflow_sweeps),
        sweeps.open_approvals(workflow_sweeps),
        sweeps.open_jobs(runner),
        sweeps.untold_faults(deps.faults),
    ]
    all_sweeps.sort(key=lambda sweep: sweep.waits_for_slack)
    jobs = LiveJobActivities(
        deps.database, deps.outbox, access, deps.router, runner, services[RoleDirectory]
    )
    threads = LiveThreadActivities(
        deps.database,
        deps.slack,
        deps.case_channels.bot_user,
        deps.workflows,
        {"case": case_start},
        {HANDOVER: handovers.receive_message},
    )
    async with open_conversations(settings.conversations, deps, services) as (
        conversations,
        approvals,
    ):
        activities = (
            *case_activities,
            conversations,
            handovers,
            approvals,
            jobs,
            catch_up(settings.channels, deps),
            LiveSweepActivities(deps.database, deps.workflows, all_sweeps),
            threads,
        )
        yield CoreParts(activities, all_sweeps, prunes(settings.conversations.conversation))


# ---- The processes


async def run_worker(
    queue: str, stop: asyncio.Event, health_address: tuple[str, int] | None = None
) -> None:
    """Work until `stop`, then finish running tasks.

    Args:
        queue: `core`, `agents`, or `all` for both in one process, where no process boundary
            isolates the agents.
        health_address: host and port for `/healthz` and `/readyz`.

    Raises:
        Permanent: a setting or another requirement is missing or wrong.
    """
    level = LogSettings.load().log_level
    telemetry.configure_logging(level)
    health = WorkerHealth(stop=stop)
    runtime = telemetry.temporal_runtime(level)
    async with AsyncExitStack() as opened:
        opened.push_async_callback(telemetry.flush_callbacks)
        await opened.enter_async_context(health.serving(health_address))
        workers: list[Worker] = []
        # The agents' part first: it checks the environment, and removes the secrets that it has
        # read from it.
        if queue in ("agents", "all"):
            settings = AgentSettings.load()
            repository = RepositorySettings.load()
            if queue == "agents":
                refuse_secrets()
            agents_client = await temporal_client(stop=stop, runtime=runtime)
            investigating, agents_database = await opened.enter_async_context(
                agent_activities(settings, repository, alone=queue == "agents")
            )
            slots = ActivitySlots(settings.agent_slots)
            workers.append(_agent_worker(agents_client, activities_of(investigating), slots))
            health.probes["agents_database"] = database_answers(agents_database)
            health.probes["agents_polls"] = polls(agents_client, AGENTS_QUEUE, _ACTIVITY, slots)
        if queue in ("core", "all"):
            core = CoreSettings()
            client = await temporal_client(stop=stop, runtime=runtime)
            await check_search_attributes(client)
            deps = await opened.enter_async_context(connect_core(core, client))
            parts = await opened.enter_async_context(open_core(core, deps))
            await opened.enter_async_context(prune_periodically(deps.database, parts.prunes))
            await opened.enter_async_context(
                repeating(deps.outbox.recovery.refresh, REFRESH_INTERVAL)
            )
            workers.append(_core_worker(deps, parts, core))
            health.probes["database"] = database_answers(deps.database)
            health.probes["core_polls"] = polls(client, CORE_QUEUE, _WORKFLOW)
        for worker in workers:
            await opened.enter_async_context(worker)
        if queue in ("core", "all"):
            await ensure_schedule(
                client, core.worker.catch_up_interval, [each.name for each in parts.sweeps]
            )
        health.started = True
        _log.info("worker_ready", queue=queue)
        await stop.wait()
        _log.info("worker_stopping", queue=queue)


def _core_worker(deps: CoreDeps, parts: CoreParts, settings: CoreSettings) -> Worker:
    return Worker(
        deps.temporal,
        task_queue=CORE_QUEUE,
        workflows=WORKFLOWS,
        activities=activities_of(*parts.activities),
        interceptors=[
            ErrorInterceptor(options_by_name(*CONTRACTS), deps.alerts.record, deps.faults.report)
        ],
        workflow_runner=workflow_runner(),
        max_cached_workflows=settings.worker.cached_workflows,
        max_concurrent_workflow_tasks=WORKFLOW_TASKS,
        max_concurrent_activities=50,
        graceful_shutdown_timeout=timedelta(seconds=GRACE),
        max_heartbeat_throttle_interval=HEARTBEATS_EVERY,
        # Otherwise a workflow waits ten seconds for a worker that was killed.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
        deployment_config=deployment_config(settings.worker.deployment, settings.worker.build_id),
    )


def deployment_config(name: str, build_id: str) -> WorkerDeploymentConfig | None:
    """Return Temporal's worker versioning for a build, or None without a deployment's name.

    A case moves to the new build with its next task: it lives for weeks and can be reopened, so
    pinned to its build it would keep every old worker running for as long.
    https://docs.temporal.io/worker-versioning
    """
    if not name:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=name, build_id=build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
    )


def _agent_worker(
    client: Client, activities: list[Callable[..., Any]], slots: ActivitySlots
) -> Worker:
    return Worker(
        client,
        task_queue=AGENTS_QUEUE,
        activities=activities,
        interceptors=[slots, ErrorInterceptor(options_by_name(AgentActivities))],
        max_concurrent_activities=slots.total,
        graceful_shutdown_timeout=timedelta(seconds=GRACE),
        max_heartbeat_throttle_interval=HEARTBEATS_EVERY,
    )
