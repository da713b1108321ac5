"""The workers' processes: the core (workflows, Postgres, Slack, the code host), and the agents'."""

import asyncio
import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog
from slack_sdk.web.async_slack_response import AsyncSlackResponse
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import Worker, WorkerDeploymentConfig

from threadline import telemetry
from threadline.activities.alerts import Alerts
from threadline.activities.case_cards import Readers
from threadline.activities.cases import LiveCaseActivities
from threadline.activities.faults import FaultInterceptor
from threadline.activities.fixes import LiveFixActivities
from threadline.activities.intake import LiveIntakeActivities
from threadline.activities.proposals import starter
from threadline.activities.threads import LiveSlackActivities, Places
from threadline.bootstrap.agents import agent_activities, refuse_powers
from threadline.bootstrap.catch_up import ensure_schedule, live_catch_up, live_sweep, mark_installation
from threadline.bootstrap.conversations import Conversing, Host, TalkSettings, conversing
from threadline.bootstrap.gateway import CaseThreads, slack_client
from threadline.bootstrap.jobs import Jobs, live_jobs, mending
from threadline.bootstrap.temporal import WORKFLOWS, missing_search_attributes, temporal_client, workflow_runner
from threadline.contracts.agent_jobs import AgentJobActivities
from threadline.contracts.approval import ApprovalActivities
from threadline.contracts.bug import AgentActivities, CaseActivities, IntakeActivities, SlackActivities
from threadline.contracts.catch_up import CatchUpActivities, SweepActivities
from threadline.contracts.conversation import ConversationActivities, SpeakingActivities
from threadline.contracts.fixes import FixActivities
from threadline.contracts.operator import OperatorActivities
from threadline.db import migrate
from threadline.db.engine import Database
from threadline.db.post_ledger import PostLedger
from threadline.domain.addressing import AGENTS_QUEUE, CORE_QUEUE
from threadline.domain.bug import Limits
from threadline.domain.errors import Permanent
from threadline.domain.records import Service
from threadline.forge import remotes
from threadline.forge.pull_requests import PullRequests
from threadline.gateway.dispatch import Dispatcher
from threadline.gateway.doorkeeper import Doorkeeper
from threadline.settings import (
    AgentSettings,
    CaseSettings,
    CatchUpSettings,
    ChannelSettings,
    DatabaseSettings,
    DeploymentSettings,
    ForgeSettings,
    LogSettings,
    RepositorySettings,
    SlackSettings,
    WorkerSettings,
)
from threadline.slack.client import Slack
from threadline.slack.errors import calling
from threadline.slack.posts import Claim, Posts

_log = structlog.get_logger(__name__)

GRACE = 30
"""Seconds for activities to finish after SIGTERM; a turn that takes longer is run again elsewhere, from its start."""

CANCELLED_WITHIN = timedelta(seconds=5)
"""A cancellation reaches an activity with its heartbeat: by default most of a minute late."""


async def upgrade_database() -> None:
    """Bring the database at `DATABASE_URL` to the newest schema."""
    await asyncio.to_thread(migrate.upgrade, DatabaseSettings.read().url.get_secret_value())


async def run_worker(queue: str, stop: asyncio.Event) -> None:
    """Work until `stop`, then finish what is under way.

    Args:
        queue: `core`, `agents`, or `all` for both in one process, where the agents' process is no wall any more.

    Raises:
        Permanent: a setting is missing or wrong, or something it needs is not as it must be.
    """
    telemetry.set_up(LogSettings.read().level)
    async with AsyncExitStack() as opened:
        opened.push_async_callback(telemetry.settle)
        workers: list[Worker] = []
        # The agents' part first: it looks at the environment, and takes the secrets out of it that are read by then.
        if queue in ("agents", "all"):
            settings, repository = AgentSettings.read(), RepositorySettings.read()
            if queue == "agents":
                refuse_powers()
            agents_client = await temporal_client(stop=stop)
            activities = await opened.enter_async_context(
                agent_activities(settings, repository, alone=queue == "agents")
            )
            registered = _methods(activities, AgentActivities)
            workers.append(_agent_worker(agents_client, registered, settings.slots))
        if queue in ("core", "all"):
            core = _CoreSettings()
            client = await temporal_client(stop=stop)
            await _check_temporal(client)
            served, alerts = await opened.enter_async_context(_core_activities(core, client))
            workers.append(_core_worker(client, served, alerts, core))
        for worker in workers:
            await opened.enter_async_context(worker)
        if queue in ("core", "all"):
            await ensure_schedule(client, core.catch_up.interval)
        _log.info("worker_ready", queue=queue)
        await stop.wait()
        _log.info("worker_stopping", queue=queue)


def _core_worker(
    client: Client, activities: list[Callable[..., Any]], alerts: Alerts, settings: "_CoreSettings"
) -> Worker:
    return Worker(
        client,
        task_queue=CORE_QUEUE,
        workflows=WORKFLOWS,
        activities=activities,
        interceptors=[FaultInterceptor(alerts.failed)],
        workflow_runner=workflow_runner(),
        max_cached_workflows=settings.worker.cached_workflows,
        max_concurrent_workflow_tasks=20,
        max_concurrent_activities=50,
        graceful_shutdown_timeout=timedelta(seconds=GRACE),
        max_heartbeat_throttle_interval=CANCELLED_WITHIN,
        # Else a workflow waits ten seconds for a worker that was killed.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
        deployment_config=deployment_config(settings.deployment.deployment, settings.deployment.build_id),
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
        interceptors=[FaultInterceptor()],
        max_concurrent_activities=slots,
        graceful_shutdown_timeout=timedelta(seconds=GRACE),
        max_heartbeat_throttle_interval=CANCELLED_WITHIN,
    )


@dataclass(frozen=True)
class _CoreSettings:
    """Read before anything is connected to, so that what is missing is said at once."""

    stored: DatabaseSettings = field(default_factory=DatabaseSettings.read)
    slack: SlackSettings = field(default_factory=SlackSettings.read)
    channels: ChannelSettings = field(default_factory=ChannelSettings.read)
    case: CaseSettings = field(default_factory=CaseSettings.read)
    catch_up: CatchUpSettings = field(default_factory=CatchUpSettings.read)
    repository: RepositorySettings = field(default_factory=RepositorySettings.read)
    forge: ForgeSettings = field(default_factory=ForgeSettings.read)
    worker: WorkerSettings = field(default_factory=WorkerSettings.read)
    deployment: DeploymentSettings = field(default_factory=DeploymentSettings.read)
    talk: TalkSettings = field(default_factory=TalkSettings)


_Served = tuple[list[Callable[..., Any]], Alerts]
"""Activities, and who tells the operators of what keeps failing among them."""


@asynccontextmanager
async def _core_activities(settings: _CoreSettings, client: Client) -> AsyncIterator[_Served]:
    stored, case, forge = settings.stored.url.get_secret_value(), settings.case, settings.forge
    if not await asyncio.to_thread(migrate.is_current, stored):
        raise Permanent("The database has another schema than this code: run `threadline db upgrade`.")
    context = settings.talk.conversation.context_bytes
    database = Database(stored, pool_size=20, application="threadline-core", context_bytes=context)
    try:
        await _store_services(database, case.services)
        async with slack_client(settings.slack) as web:
            slack = Slack(web)
            posts = Posts(slack, PostLedger(database, Claim))
            async with calling("auth.test"):
                identity = await web.auth_test()
            places = _places(identity, settings.channels, case)
            await mark_installation(database, settings.channels)
            dispatcher = Dispatcher(client, CaseThreads(database), Doorkeeper(slack, settings.channels.external_people))

            catch_up = live_catch_up(database, slack, dispatcher, settings.channels, identity)
            sweep = live_sweep(database, client, dispatcher, case, settings.talk.conversation.conversation_quiet)
            intake = LiveIntakeActivities(database, slack, places.bot_user, dispatcher.forward)
            speaking = LiveSlackActivities(database, slack, posts, places)
            pull_requests = PullRequests(remotes.by_name(settings.repository.repo), forge.token, forge.api_url)
            readers = Readers({places.summaries, places.escalations}, str(identity.get("url", "")))
            alerts = Alerts(posts, places.escalations)
            jobs = live_jobs(client, database, slack, posts, dispatcher, settings.talk.approval.approvers)
            house = Host(
                alerts,
                readers,
                str(identity.get("user") or "threadline"),
                settings.channels.external_people,
                starter(client),
                jobs.ports,
            )
            async with mending(jobs.desk), conversing(settings.talk, database, slack, posts, house) as talk:
                served = [
                    *_methods(LiveCaseActivities(database, _limits(case), speaking.present), CaseActivities),
                    *_methods(intake, IntakeActivities),
                    *_methods(speaking, SlackActivities),
                    *_methods(LiveFixActivities(database, pull_requests, posts), FixActivities),
                    *_methods(catch_up, CatchUpActivities),
                    *_methods(sweep, SweepActivities),
                    *_of_talk(talk, jobs),
                ]
                yield served, alerts
    finally:
        await database.dispose()


def _of_talk(talk: Conversing, jobs: Jobs) -> list[Callable[..., Any]]:
    return [
        *_methods(talk.thinking, ConversationActivities),
        *_methods(talk.speaking, SpeakingActivities),
        *_methods(talk.operator, OperatorActivities),
        *_methods(talk.approving, ApprovalActivities),
        *_methods(jobs.activities, AgentJobActivities),
    ]


def _places(identity: AsyncSlackResponse, channels: ChannelSettings, case: CaseSettings) -> Places:
    return Places(
        team=str(identity["team_id"]),
        bot_user=str(identity["user_id"]),
        summaries=channels.summaries_channel,
        escalations=channels.escalation,
        tiers=case.oncall,
        targets=case.sla,
    )


async def _check_temporal(client: Client) -> None:
    if missing := await missing_search_attributes(client):
        create = " ".join(f"--name {name} --type Keyword" for name in missing)
        raise Permanent(
            f"Temporal's namespace {client.namespace!r} lacks the search attributes {', '.join(missing)}: "
            f"run `temporal operator search-attribute create {create}`."
        )


async def _store_services(database: Database, directory: Path | None) -> None:
    """Make the directory of services what the file says; without a file it stays as it is."""
    if directory is None:
        return
    try:
        listed = tomllib.loads(directory.read_text(encoding="utf-8"))["service"]
        services = [Service(**{"description": "", "channel": "", "repository": "", **each}) for each in listed]
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise Permanent(
            f"THREADLINE_SERVICES is {str(directory)!r}, which cannot be read: {error}. "
            "It holds [[service]] tables with name, owner, and perhaps description, channel and repository."
        ) from error
    async with database.begin() as work:
        await work.services.replace(services)


def _limits(case: CaseSettings) -> Limits:
    return Limits(
        reporter_timeout=case.reporter_timeout,
        developer_timeout=case.developer_timeout,
        turn_timeout=case.turn_timeout,
        max_questions=case.max_questions,
        turn_budget_usd=case.turn_budget_usd,
        case_budget_usd=case.case_budget_usd,
        pull_request_poll=case.pull_request_poll,
    )


def _methods(live: object, contract: type) -> list[Callable[..., Any]]:
    """What the contract names, as the live object has it."""
    names: frozenset[str] = contract.__abstractmethods__  # type: ignore[attr-defined]
    return [getattr(live, name) for name in sorted(names)]
