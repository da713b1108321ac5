"""The workers: the core's, with what each feature brings to it, and the agents'."""

import asyncio
import time
import tomllib
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

import structlog
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.client import Client
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import Worker, WorkerDeploymentConfig

from threadline import telemetry
from threadline.appointments.invitations import SlackInvitationSender
from threadline.appointments.model import InvitationSender
from threadline.approvals.activities import LiveApprovalActivities, PostgresProposals
from threadline.approvals.blocks import fits_on_card
from threadline.approvals.model import ApprovalRules
from threadline.approvals.store import ApprovalStore
from threadline.cases.activities import LiveCaseActivities
from threadline.cases.catch_up import CaseThreads
from threadline.cases.contract import AgentActivities, case_start
from threadline.cases.model import CaseLimits, CaseReaders, Service
from threadline.cases.posts import CaseChannels, LiveCasePostActivities
from threadline.cases.store.case import CaseStore
from threadline.conversations.activities import LiveConversationActivities
from threadline.conversations.blocks import answer_of
from threadline.conversations.catch_up import ConversationThreads
from threadline.conversations.deps import ConversationDeps, DecisionDeps
from threadline.conversations.model.conversation import ConversationLimits
from threadline.conversations.posting import find_answer_part
from threadline.conversations.prompt import ContextBudget
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.thread_tool import ThreadReader
from threadline.db import migrate
from threadline.db.engine import Database, Transaction
from threadline.db.rate_limits import Rate, RateLimits
from threadline.decisions.model import Thresholds
from threadline.decisions.variants import Variant, load_variants
from threadline.errors import Permanent
from threadline.forge import remotes
from threadline.forge.pull_requests import PullRequests
from threadline.gateway.router import EventRouter, ThreadLookup
from threadline.handovers.activities import HandoverSettings, HandoverThreads, LiveHandoverActivities
from threadline.handovers.model import HANDOVER
from threadline.jobs.activities import LiveJobActivities
from threadline.jobs.model import JOB_TYPES, ChannelAdmission, JobRunner
from threadline.jobs.schedules import JobSchedules
from threadline.jobs.store import JobStore
from threadline.knowledge.search import look_up
from threadline.models.client import OpenAIConfig, OpenAIModel
from threadline.models.embeddings import Embedder
from threadline.operator import enforcement as protocol
from threadline.operator.context import SlackContext
from threadline.operator.store import MemoryStore
from threadline.rfps.files import RfpFiles
from threadline.sales.email import EmailSettings
from threadline.sales.store import EmailDraftStore, LeadStore
from threadline.sales.tools import describe_customer
from threadline.settings import (
    AccessSettings,
    AgentSettings,
    ApprovalSettings,
    CaseSettings,
    ChannelSettings,
    ConversationSettings,
    DatabaseSettings,
    DecisionSettings,
    GitHubSettings,
    LogSettings,
    MailSettings,
    ModelSettings,
    QueueSettings,
    RepositorySettings,
    SlackSettings,
    WorkerSettings,
)
from threadline.slack.channels import ChannelAccess
from threadline.slack.client import BotIdentity, SlackClient, identify, open_web_client
from threadline.slack.history import History
from threadline.slack.model import BOT_NAME, User, name_with_id
from threadline.slack.store import UserStore
from threadline.slack.user_groups import UserGroups
from threadline.slack.users import UserDirectory
from threadline.threads.activities import LiveThreadActivities
from threadline.threads.activity import ErrorInterceptor, repeating
from threadline.threads.activity_options import activities_of, options_by_name
from threadline.threads.alerts import FailureAlerts
from threadline.threads.authors import AuthorPolicy
from threadline.threads.catch_up import LiveCatchUpActivities
from threadline.threads.comparison import ThreadSource
from threadline.threads.faults import InstallationFaults
from threadline.threads.installation_store import InstallationStore, RestoreWindow
from threadline.threads.lost_posts import LostPosts
from threadline.threads.model import AGENTS_QUEUE, CORE_QUEUE, format_utc
from threadline.threads.outbox import Outbox
from threadline.threads.queues import is_served
from threadline.threads.recovery import REFRESH_INTERVAL
from threadline.threads.removed_store import RemovedStore
from threadline.threads.restored_ends import RestoredEnds
from threadline.threads.store import Quarantine
from threadline.threads.sweep import LiveSweepActivities, Sweep, WorkflowSweeps
from threadline.threads.workflow_client import WorkflowClient
from threadline.tools.context import Services
from threadline.tools.policy import CallRules
from threadline.tools.proposals import Proposals
from threadline.tools.registry import ToolRegistry
from threadline.tools.roles import RoleDirectory
from threadline.tools.store import ToolExecutionStore, ToolLedger
from threadline.wiring import sweeps
from threadline.wiring.agent_worker import agent_activities, refuse_secrets
from threadline.wiring.gateway import routing_config
from threadline.wiring.probes import ActivitySlots, WorkerHealth, database_answers, polls
from threadline.wiring.temporal import (
    CONTRACTS,
    WORKFLOWS,
    check_search_attributes,
    ensure_schedule,
    namespace_id,
    temporal_client,
    workflow_runner,
)
from threadline.wiring.toolsets import TOOLS, configured_embedder, load_access, open_integrations

GRACE = 30
"""Seconds for activities to finish after SIGTERM; a turn that takes longer is run again elsewhere, from its start."""
HEARTBEATS_EVERY = timedelta(seconds=1)
"""The SDK sends the heartbeats of an activity no more often. By default it waits 80 % of the heartbeat timeout, so that
one slow call would cost an attempt, and a cancellation, which comes with a heartbeat, would be late."""
WORKFLOW_TASKS = 20
"""Workflow tasks at once. The SDK fails a task that has no result after two seconds, and all share one interpreter."""
PRUNE_INTERVAL = 3600.0
"""Seconds between two deletions of what is too old to be kept."""
_DAY = 24 * 3600.0
_WORKFLOW = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
_ACTIVITY = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ConversationFeatureSettings:
    """Read before anything is connected to."""

    model: ModelSettings = field(default_factory=ModelSettings.load)
    conversation: ConversationSettings = field(default_factory=ConversationSettings.load)
    approval: ApprovalSettings = field(default_factory=ApprovalSettings.load)
    decision: DecisionSettings = field(default_factory=DecisionSettings.load)
    mail: MailSettings = field(default_factory=MailSettings.load)
    access: AccessSettings = field(default_factory=AccessSettings.load)

    def __post_init__(self) -> None:
        # What is wrong is told before anything is connected to.
        decision_variants(self.decision)
        load_access(self.access)


@dataclass(frozen=True)
class CoreSettings:
    """Read before anything is connected to, so that what is missing is said at once."""

    stored: DatabaseSettings = field(default_factory=DatabaseSettings.load)
    slack: SlackSettings = field(default_factory=SlackSettings.load)
    channels: ChannelSettings = field(default_factory=ChannelSettings.load)
    queues: QueueSettings = field(default_factory=QueueSettings.load)
    case: CaseSettings = field(default_factory=CaseSettings.load)
    repository: RepositorySettings = field(default_factory=RepositorySettings.load)
    forge: GitHubSettings = field(default_factory=GitHubSettings.load)
    worker: WorkerSettings = field(default_factory=WorkerSettings.load)
    conversations: ConversationFeatureSettings = field(default_factory=ConversationFeatureSettings)


@dataclass(frozen=True)
class CoreDeps:
    """What the builders below may need."""

    database: Database
    temporal: Client
    slack: SlackClient
    history: History
    users: UserDirectory
    authors: AuthorPolicy
    outbox: Outbox
    router: EventRouter
    case_channels: CaseChannels
    identity: BotIdentity
    admin_channel: str

    @cached_property
    def workflows(self) -> WorkflowClient:
        return WorkflowClient(self.temporal)

    @property
    def readers(self) -> CaseReaders:
        """Who may be shown what of a case."""
        return CaseReaders({self.case_channels.summaries, self.case_channels.escalations}, self.identity.url)

    @cached_property
    def alerts(self) -> FailureAlerts:
        """Tells the admin of activities that keep failing."""
        return FailureAlerts(self.outbox, self.admin_channel)

    @cached_property
    def faults(self) -> InstallationFaults:
        """Tells the admin of faults of the installation."""
        return InstallationFaults(self.database, self.outbox, self.admin_channel)


class _Prunable(Protocol):
    """A store of records that are kept for a time."""

    async def prune(self, before: float) -> int:
        """Delete some of those from before a moment, in seconds since 1970; returns how many, 0 when none is left."""
        ...


@dataclass(frozen=True)
class Prune:
    """Deletes records of one kind once they are older than `keep`, in seconds."""

    kind: str
    keep: float
    store: Callable[[Transaction], _Prunable]


@dataclass(frozen=True)
class CoreParts:
    """What the core worker runs. `activities`: the objects that have them. `sweeps`: what must hold of each feature's
    rows, in the order in which they run. `prunes`: how long each kind of record is kept."""

    activities: Sequence[object]
    sweeps: Sequence[Sweep[Any]]
    prunes: Sequence[Prune]


@asynccontextmanager
async def connect_core(settings: CoreSettings, client: Client) -> AsyncIterator[CoreDeps]:
    """Raises `Permanent` when the database has another schema, or Slack does not know us."""
    stored = settings.stored.url.get_secret_value()
    if not await asyncio.to_thread(migrate.is_current, stored):
        raise Permanent("The database schema does not match this code: run `threadline db upgrade`.")
    async with Database(stored, pool_size=20, application="threadline-core") as database:
        await _store_services(database, settings.case.services)
        window = await _restore_window(database, await namespace_id(client))
        async with open_web_client(settings.slack.bot_token.get_secret_value(), settings.slack.api_url) as web:
            slack = SlackClient(web)
            identity = await identify(web)
            users = UserDirectory(slack.user)
            channels = settings.channels
            authors = AuthorPolicy(users, channels.external_people, channels.allowed_apps, identity.enterprise_id)
            yield CoreDeps(
                database,
                client,
                slack,
                History(slack),
                users,
                authors,
                Outbox(slack, database, lost=LostPosts(slack, window)),
                EventRouter(routing_config(settings.channels, identity), client, ThreadLookup(database), authors),
                CaseChannels(
                    team=identity.team_id,
                    bot_user=identity.user_id,
                    summaries=settings.channels.summaries_channel,
                    escalations=settings.channels.escalation,
                    tiers=settings.case.oncall,
                    targets=settings.case.sla,
                ),
                identity,
                settings.channels.admin,
            )


@asynccontextmanager
async def open_core(settings: CoreSettings, deps: CoreDeps) -> AsyncIterator[CoreParts]:
    """The parts of every feature. Raises `Permanent` when a setting of a toolset's service is wrong."""
    given, channels = settings.conversations, settings.channels
    database, workflows, bot_user = deps.database, deps.workflows, deps.case_channels.bot_user
    repositories = remotes.repositories_by_name(settings.repository.repo)
    pull_requests = PullRequests(repositories, settings.forge.token, settings.forge.api_url)
    access, runner = ChannelAccess(deps.slack), JobSchedules(deps.temporal, database, deps.outbox)
    services = Services().with_service(ChannelAdmission, access).with_service(JobRunner, runner)
    services = with_access(services, given.access, deps)
    reminder = given.decision.handover_reminder
    on_call = deps.case_channels.on_call(0)
    handover_settings = HandoverSettings(deps.case_channels.escalations, deps.readers, reminder, on_call=on_call)
    handovers = LiveHandoverActivities(database, deps.slack, deps.outbox, deps.authors, workflows, handover_settings)
    catch_up = LiveCatchUpActivities(
        database,
        deps.history,
        deps.router.handle,
        thread_sources(bot_user, channels.allowed_apps, deps.identity.name or BOT_NAME),
        channels.of_cases,
        team=deps.case_channels.team,
        bot_user_id=bot_user,
        faults=deps.faults,
        conversation_channels=channels.conversation_channels or None,
        allowed_apps=frozenset(channels.allowed_apps),
        restored=RestoredEnds(database, deps.outbox.lost, workflows, bot_user),
    )
    relays = {HANDOVER: handovers.receive_message}
    case_activities, case_sweeps = cases(deps, _case_limits(settings.case, settings.queues), pull_requests)
    workflow_sweeps = WorkflowSweeps(database, workflows)
    all_sweeps: list[Sweep[Any]] = [
        *case_sweeps,
        sweeps.waiting_conversations(workflow_sweeps, given.conversation.conversation_idle_timeout),
        sweeps.open_handovers(workflow_sweeps),
        sweeps.open_approvals(workflow_sweeps),
        sweeps.open_jobs(runner),
        sweeps.untold_faults(deps.faults),
    ]
    all_sweeps.sort(key=lambda sweep: sweep.waits_for_slack)
    async with open_conversations(given, deps, services) as (conversations, approvals):
        activities = (
            *case_activities,
            conversations,
            handovers,
            approvals,
            LiveJobActivities(database, deps.outbox, access, deps.router, runner, services[RoleDirectory]),
            catch_up,
            LiveSweepActivities(database, workflows, all_sweeps),
            LiveThreadActivities(database, deps.slack, bot_user, workflows, {"case": case_start}, relays),
        )
        yield CoreParts(activities, all_sweeps, prunes(given.conversation))


def with_access(services: Services, settings: AccessSettings, deps: CoreDeps) -> Services:
    """The services, with the rules of calls and the roles that the settings name. Raises `Permanent`: a file is
    wrong."""
    rules, roles = load_access(settings)
    directory = RoleDirectory(roles, UserGroups(deps.slack.user_group, faults=deps.faults))
    return services.with_service(CallRules, rules).with_service(RoleDirectory, directory)


@asynccontextmanager
async def open_conversations(
    settings: ConversationFeatureSettings, deps: CoreDeps, services: Services
) -> AsyncIterator[tuple[LiveConversationActivities, LiveApprovalActivities]]:
    """The activities of conversations and of what an approved action needs. `services`: of toolsets that need more than
    the database and Slack. Raises `Permanent` when a setting of a toolset's service is wrong."""
    given, mail = settings.conversation, settings.mail
    database, slack, users, history = deps.database, deps.slack, deps.users, deps.history
    rate = Rate(given.mutations_per_minute, 60.0)
    async with (
        _model(settings.model) as model,
        configured_embedder(settings.model) as embedder,
        open_integrations(services) as services,
    ):
        services = services.with_service(Database, database).with_service(UserDirectory, users)
        services = services.with_service(CaseReaders, deps.readers)
        if embedder:
            services = services.with_service(Embedder, embedder)
        services = services.with_service(ThreadReader, ThreadReader(history, deps.authors))
        email = EmailSettings(fits_on_card, mail.smtp_from, mail.email_domains, rate)
        services = services.with_service(EmailSettings, email)
        invitations = SlackInvitationSender(database, users, deps.outbox, find_contact, mail.smtp_from)
        services = services.with_service(InvitationSender, invitations)
        services = services.with_service(RfpFiles, RfpFiles(database, slack, history, deps.authors, rate))
        approving = ApprovalRules(settings.approval.approvers, settings.approval.approval_expiry)
        services = services.with_service(Proposals, PostgresProposals(approving))
        registry, ledger = ToolRegistry(TOOLS), ToolLedger(database, rate)
        protocol.check_tool_declarations(registry)
        types = {each.name: each.description for each in JOB_TYPES.values()} if JobRunner in services else {}
        conversation_deps = ConversationDeps(
            database,
            slack,
            deps.outbox,
            users,
            deps.alerts,
            model,
            registry,
            services,
            ledger,
            DecisionDeps(
                model,
                lead_context,
                partial(look_up, database, embedder),
                decision_variants(settings.decision),
                settings.decision.decision_questions,
            ),
            SlackContext(users, history, deps.authors),
            given.operator_context_tokens,
            _conversation_limits(given),
            ContextBudget(tokens=given.conversation_context_tokens),
            bot_name=deps.identity.name or "threadline",
            job_types=types,
            sensitive_words=settings.decision.sensitive_words,
            report_fault=deps.faults.report,
        )
        approvals = LiveApprovalActivities(
            database,
            slack,
            deps.outbox,
            registry,
            services,
            ledger,
            protocol.approved_call_policy,
            find_answer_part,
            answer_of,
            approving,
        )
        yield LiveConversationActivities(conversation_deps), approvals


def cases(
    deps: CoreDeps, limits: CaseLimits, pull_requests: PullRequests
) -> tuple[Sequence[object], Sequence[Sweep[Any]]]:
    """The activities of bug cases, and their sweeps."""
    database, channels = deps.database, deps.case_channels
    workflow_sweeps = WorkflowSweeps(database, deps.workflows)
    posts = LiveCasePostActivities(database, deps.outbox, channels)
    live = LiveCaseActivities(
        database,
        deps.slack,
        posts,
        pull_requests,
        limits=limits,
        bot_user=channels.bot_user,
        authors=deps.authors,
        report_fault=deps.faults.report,
        has_worker=partial(is_served, deps.temporal),
    )
    return (live, posts), (
        sweeps.open_cases(workflow_sweeps),
        sweeps.sla_clocks(workflow_sweeps, channels),
        sweeps.missing_answers(posts),
    )


def prunes(settings: ConversationSettings) -> list[Prune]:
    kept, memories = settings.conversation_retention_days * _DAY, settings.memory_days * _DAY
    return [
        Prune("conversations", kept, ConversationStore),
        Prune("memories", memories, MemoryStore),
        Prune("tool executions", settings.tool_log_days * _DAY, ToolExecutionStore),
        Prune("email drafts", kept, EmailDraftStore),
        Prune("proposed actions", kept, ApprovalStore),
        Prune("jobs", kept, JobStore),
        Prune("users", memories, UserStore),
        Prune("quarantine", kept, Quarantine),
        Prune("removed messages", settings.restore_days * _DAY, RemovedStore),
        # Guards look back two minutes; a day leaves room for a message that comes late.
        Prune("rate limits", _DAY, RateLimits),
    ]


@asynccontextmanager
async def prune_periodically(database: Database, prunes: Sequence[Prune]) -> AsyncIterator[None]:
    """Delete, at the start and every hour, what is older than the settings say; every worker may do it."""

    async def prune() -> None:
        try:
            await prune_all(database, prunes, time.time())
        except Exception:  # noqa: BLE001 - whatever went wrong now, the next hour is to come
            _log.exception("retention_sweep_failed")

    async with repeating(prune, PRUNE_INTERVAL):
        yield


async def prune_all(database: Database, prunes: Sequence[Prune], now: float) -> dict[str, int]:
    """Delete in small transactions; returns how many there were of each kind. `now`: seconds since 1970."""
    counts = dict[str, int]()
    for prune in prunes:
        counts[prune.kind], deleted = 0, 1
        while deleted:
            async with database.begin() as tx:
                deleted = await prune.store(tx).prune(now - prune.keep)
            counts[prune.kind] += deleted
    if count := counts.get("conversations"):
        _log.info("conversations_deleted", count=count)
    return counts


def thread_sources(
    bot_user_id: str, allowed_apps: Collection[str] = (), bot_name: str = BOT_NAME
) -> tuple[ThreadSource, ...]:
    """Every kind of thread that the catch-up compares. The first of a scope has the threads that nobody owns yet.
    `allowed_apps`: ids of bots and apps whose messages count."""
    return CaseThreads(), ConversationThreads(bot_user_id, allowed_apps, bot_name), HandoverThreads()


async def _restore_window(database: Database, temporal_id: str) -> RestoreWindow | None:
    """Notice a restore from a backup. Returns the time that was lost to one; None without one."""
    now = time.time()
    async with database.begin() as tx:
        store = InstallationStore(tx)
        if await store.notice(temporal_id, now):
            await CaseStore(tx).skip_numbers()
        window = await store.restore_window(now)
    if window:
        _log.warning("restore_noticed", lost_since=format_utc(window.lost_since), at=format_utc(window.noticed_at))
    return window


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
            "It must contain [[service]] tables with name, owner, and optionally description, channel and repository."
        ) from error
    async with database.begin() as tx:
        await CaseStore(tx).replace_services(services)


def _case_limits(case: CaseSettings, queues: QueueSettings) -> CaseLimits:
    return CaseLimits(
        reporter_timeout=case.reporter_timeout,
        developer_timeout=case.developer_timeout,
        turn_timeout=case.turn_timeout,
        max_questions=case.max_questions,
        turn_budget_usd=case.turn_budget_usd,
        case_budget_usd=case.case_budget_usd,
        pull_request_poll=case.pull_request_poll,
        worker_patience=queues.worker_patience,
    )


def decision_variants(settings: DecisionSettings) -> tuple[Variant, ...]:
    """Raises `Permanent` where one is wrong."""
    return load_variants(settings.decision_variants, Thresholds(settings.decision_high, settings.decision_low))


async def lead_context(tx: Transaction, team: str, user_id: str, user: User | None) -> str:
    """Who asks: what is on record of them as a customer or, where nothing is, what Slack says."""
    if on_record := await describe_customer(tx, team, user_id, user):
        return on_record
    if user is None or not (user.name or user.email):
        return ""
    return "\n".join(filter(None, (name_with_id(user.name, user_id), user.email)))


async def find_contact(tx: Transaction, team: str, user_id: str) -> tuple[str, str]:
    """Name and address that are on record of a customer; empty where nothing is."""
    lead = await LeadStore(tx).find_by_contact(team, user_id)
    return (lead.name, lead.email) if lead else ("", "")


@asynccontextmanager
async def _model(settings: ModelSettings) -> AsyncIterator[OpenAIModel | None]:
    if not settings.key:
        _log.warning("model_not_configured", hint="Set OPENAI_API_KEY. Until then, the bot does not answer mentions.")
        yield None
        return
    config = OpenAIConfig(
        settings.openai_model,
        settings.key,
        settings.base_url,
        settings.openai_api,
        settings.openai_timeout,
        settings.openai_prices,
    )
    model = OpenAIModel(config)
    try:
        yield model
    finally:
        await model.close()


def _conversation_limits(settings: ConversationSettings) -> ConversationLimits:
    return ConversationLimits(
        max_steps=settings.conversation_max_steps,
        idle_timeout=settings.conversation_idle_timeout,
        model_patience=settings.conversation_model_patience,
    )


# ---- The processes ---------------------------------------------------------------------------------------------------


async def run_worker(queue: str, stop: asyncio.Event, health_address: tuple[str, int] | None = None) -> None:
    """Work until `stop`, then finish what is under way. `queue`: `core`, `agents`, or `all` for both in one process,
    where the agents' process is no wall any more. `health_address`: host and port for `/healthz` and `/readyz`. Raises
    `Permanent` when a setting or something else is missing or wrong."""
    level = LogSettings.load().log_level
    telemetry.configure_logging(level)
    health, runtime = WorkerHealth(stop=stop), telemetry.temporal_runtime(level)
    async with AsyncExitStack() as opened:
        opened.push_async_callback(telemetry.flush_callbacks)
        await opened.enter_async_context(health.serving(health_address))
        workers: list[Worker] = []
        # The agents' part first: it looks at the environment, and takes the secrets out of it that are read by then.
        if queue in ("agents", "all"):
            settings, repository = AgentSettings.load(), RepositorySettings.load()
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
            await opened.enter_async_context(repeating(deps.outbox.recovery.refresh, REFRESH_INTERVAL))
            workers.append(_core_worker(deps, parts, core))
            health.probes["database"] = database_answers(deps.database)
            health.probes["core_polls"] = polls(client, CORE_QUEUE, _WORKFLOW)
        for worker in workers:
            await opened.enter_async_context(worker)
        if queue in ("core", "all"):
            await ensure_schedule(client, core.worker.catch_up_interval, [each.name for each in parts.sweeps])
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
        interceptors=[ErrorInterceptor(options_by_name(*CONTRACTS), deps.alerts.record, deps.faults.report)],
        workflow_runner=workflow_runner(),
        max_cached_workflows=settings.worker.cached_workflows,
        max_concurrent_workflow_tasks=WORKFLOW_TASKS,
        max_concurrent_activities=50,
        graceful_shutdown_timeout=timedelta(seconds=GRACE),
        max_heartbeat_throttle_interval=HEARTBEATS_EVERY,
        # Else a workflow waits ten seconds for a worker that was killed.
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
        deployment_config=deployment_config(settings.worker.deployment, settings.worker.build_id),
    )


def deployment_config(name: str, build_id: str) -> WorkerDeploymentConfig | None:
    """Temporal's worker versioning for a build, or none where it has no name. A case moves on with its next task: it
    lives for weeks and can be reopened, so pinned to its build it would keep every old worker running for as long.
    https://docs.temporal.io/worker-versioning"""
    if not name:
        return None
    return WorkerDeploymentConfig(
        version=WorkerDeploymentVersion(deployment_name=name, build_id=build_id),
        use_worker_versioning=True,
        default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE,
    )


def _agent_worker(client: Client, activities: list[Callable[..., Any]], slots: ActivitySlots) -> Worker:
    return Worker(
        client,
        task_queue=AGENTS_QUEUE,
        activities=activities,
        interceptors=[slots, ErrorInterceptor(options_by_name(AgentActivities))],
        max_concurrent_activities=slots.total,
        graceful_shutdown_timeout=timedelta(seconds=GRACE),
        max_heartbeat_throttle_interval=HEARTBEATS_EVERY,
    )
