"""The core worker: what each feature brings to it, over Postgres, Slack, the code host and Temporal."""

import asyncio
import time
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import structlog
from temporalio.client import Client

from threadline.appointments.invitations import SlackInvitationSender
from threadline.appointments.model import InvitationSender
from threadline.approvals.activities import ApprovalDeps, LiveApprovalActivities, PostgresProposals
from threadline.approvals.blocks import fits_on_card
from threadline.approvals.contract import ApprovalActivities
from threadline.approvals.model import ApprovalRules, Proposals
from threadline.approvals.store import ApprovalStore
from threadline.approvals.sweep import OpenApprovals
from threadline.cases.activities import LiveCaseActivities
from threadline.cases.catch_up import CaseThreads
from threadline.cases.contract import CaseActivities, CasePostActivities, case_start
from threadline.cases.model import CaseLimits, CaseReaders, Service
from threadline.cases.posts import CaseChannels, LiveCasePostActivities
from threadline.cases.store.case import CaseStore
from threadline.cases.sweep import MissingAnswers, OpenCases, SlaClocks
from threadline.conversations.activities import LiveConversationActivities
from threadline.conversations.blocks import answer_of
from threadline.conversations.catch_up import ConversationThreads
from threadline.conversations.contract import ConversationActivities
from threadline.conversations.deps import ConversationDeps, DecisionDeps, DecisionRules
from threadline.conversations.model.conversation import ConversationLimits
from threadline.conversations.posting import find_answer_part
from threadline.conversations.prompt import ContextBudget
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.sweep import OpenConversations
from threadline.conversations.thread_tool import ThreadReader
from threadline.db import migrate
from threadline.db.engine import Database, Transaction
from threadline.db.rate_limits import Rate, RateLimits
from threadline.decisions.model import Thresholds
from threadline.decisions.variants import load_variants
from threadline.errors import Permanent
from threadline.forge import remotes
from threadline.forge.pull_requests import PullRequests
from threadline.gateway.router import EventRouter
from threadline.handovers.activities import HandoverSettings, LiveHandoverActivities
from threadline.handovers.catch_up import HandoverThreads
from threadline.handovers.contract import HandoverActivities
from threadline.handovers.sweep import OpenHandovers
from threadline.jobs.activities import LiveJobActivities
from threadline.jobs.contract import JobActivities
from threadline.jobs.model import JOB_TYPES, ChannelAdmission, JobRunner
from threadline.jobs.schedules import JobSchedules, MissingJobWorkflows
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
    ApprovalSettings,
    CaseSettings,
    ChannelSettings,
    ConversationSettings,
    DatabaseSettings,
    DecisionSettings,
    EmbeddingSettings,
    GitHubSettings,
    MailSettings,
    OpenAISettings,
    RepositorySettings,
    SlackSettings,
    WorkerSettings,
)
from threadline.slack.channels import ChannelAccess
from threadline.slack.client import BotIdentity, SlackClient, identify
from threadline.slack.history import History
from threadline.slack.model import User, name_with_id
from threadline.slack.store import UserStore
from threadline.slack.users import UserDirectory
from threadline.threads.activities import LiveThreadActivities, Relay
from threadline.threads.activity import repeating
from threadline.threads.alerts import FailureAlerts
from threadline.threads.authors import AuthorPolicy
from threadline.threads.catch_up import LiveCatchUpActivities
from threadline.threads.comparison import ThreadSource
from threadline.threads.contract import CatchUpActivities, SweepActivities, ThreadActivities
from threadline.threads.outbox import Outbox
from threadline.threads.store import Quarantine
from threadline.threads.sweep import LiveSweepActivities, Sweep
from threadline.threads.workflow_client import WorkflowClient
from threadline.tools.context import Services
from threadline.tools.registry import ToolRegistry
from threadline.tools.store import PostgresToolLedger, ToolExecutionStore
from threadline.wiring.gateway import DatabaseThreadLookup, case_channels, routing_config, slack_client
from threadline.wiring.toolsets import TOOLS, configured_embedder, open_integrations

PRUNE_INTERVAL = 3600.0
"""Seconds between two deletions of what is too old to be kept."""
_DAY = 24 * 3600.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class ConversationFeatureSettings:
    """Read before anything is connected to."""

    model: OpenAISettings = field(default_factory=OpenAISettings.load)
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings.load)
    conversation: ConversationSettings = field(default_factory=ConversationSettings.load)
    approval: ApprovalSettings = field(default_factory=ApprovalSettings.load)
    decision: DecisionSettings = field(default_factory=DecisionSettings.load)
    mail: MailSettings = field(default_factory=MailSettings.load)

    def __post_init__(self) -> None:
        decision_rules(self.decision)  # a wrong variant is told before anything is connected to


@dataclass(frozen=True)
class CoreSettings:
    """Read before anything is connected to, so that what is missing is said at once."""

    stored: DatabaseSettings = field(default_factory=DatabaseSettings.load)
    slack: SlackSettings = field(default_factory=SlackSettings.load)
    channels: ChannelSettings = field(default_factory=ChannelSettings.load)
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

    @cached_property
    def workflows(self) -> WorkflowClient:
        return WorkflowClient(self.temporal)

    @property
    def readers(self) -> CaseReaders:
        """Who may be shown what of a case."""
        return CaseReaders({self.case_channels.summaries, self.case_channels.escalations}, self.identity.url)

    @cached_property
    def alerts(self) -> FailureAlerts:
        """Tells people of activities that keep failing."""
        return FailureAlerts(self.outbox, self.case_channels.escalations)


@dataclass(frozen=True)
class Prune:
    """Deletes records of one kind once they are older than `keep`, in seconds.

    `delete` gets a moment, in seconds since 1970, and returns how many it has deleted; it is called until that is 0.
    """

    kind: str
    keep: float
    delete: Callable[[Transaction, float], Awaitable[int]]


@dataclass(frozen=True)
class Feature:
    """What one feature brings to the core worker.

    Args:
        activities: pairs of the object that has them, and their contract.
        sweeps: what must hold of its rows.
        prune: how long its records are kept.
    """

    activities: Sequence[tuple[object, type]] = ()
    sweeps: Sequence[Sweep[Any]] = ()
    prune: Sequence[Prune] = ()


@asynccontextmanager
async def connect_core(settings: CoreSettings, client: Client) -> AsyncIterator[CoreDeps]:
    """Connect to the database and to Slack.

    Raises:
        Permanent: the database has another schema, or Slack does not know us.
    """
    stored = settings.stored.url.get_secret_value()
    if not await asyncio.to_thread(migrate.is_current, stored):
        raise Permanent("The database schema does not match this code: run `threadline db upgrade`.")
    database = Database(stored, pool_size=20, application="threadline-core")
    try:
        await _store_services(database, settings.case.services)
        async with slack_client(settings.slack) as web:
            slack = SlackClient(web)
            identity = await identify(web)
            users = UserDirectory(slack.user)
            authors = AuthorPolicy(users, settings.channels.external_people)
            yield CoreDeps(
                database,
                client,
                slack,
                History(slack),
                users,
                authors,
                Outbox(slack, database),
                EventRouter(
                    routing_config(settings.channels, identity), client, DatabaseThreadLookup(database), authors
                ),
                CaseChannels(
                    team=identity.team_id,
                    bot_user=identity.user_id,
                    summaries=settings.channels.summaries_channel,
                    escalations=settings.channels.escalation,
                    tiers=settings.case.oncall,
                    targets=settings.case.sla,
                ),
                identity,
            )
    finally:
        await database.dispose()


@asynccontextmanager
async def core_features(settings: CoreSettings, deps: CoreDeps) -> AsyncIterator[list[Feature]]:
    """Every feature of the core worker, for as long as the block runs. Sweeps run in this order.

    Raises:
        Permanent: a setting of a toolset's service is wrong.
    """
    given, retention = settings.conversations, settings.conversations.conversation
    repositories = remotes.repositories_by_name(settings.repository.repo)
    pull_requests = PullRequests(repositories, settings.forge.token, settings.forge.api_url)
    channels, runner = ChannelAccess(deps.slack), JobSchedules(deps.temporal, deps.database, deps.outbox)
    services = Services().with_service(ChannelAdmission, channels).with_service(JobRunner, runner)
    handover_settings = HandoverSettings(
        deps.case_channels.escalations, deps.case_channels.bot_user, deps.readers, given.decision.handover_reminder
    )
    handover_activities = LiveHandoverActivities(
        deps.database, deps.slack, deps.outbox, deps.authors, deps.workflows, handover_settings
    )
    async with open_conversations(given, deps, services) as (conversation_activities, approval_activities):
        features = [
            cases(deps, _case_limits(settings.case), pull_requests),
            conversations(deps, conversation_activities, retention),
            Feature([(handover_activities, HandoverActivities)], [OpenHandovers(deps.database, deps.workflows)]),
            approvals(deps, approval_activities, retention),
            jobs(deps, channels, runner, retention),
        ]
        yield [*features, threads(deps, settings.channels, retention, features, handover_activities.relay_to_asker)]


@asynccontextmanager
async def open_conversations(
    settings: ConversationFeatureSettings, deps: CoreDeps, services: Services
) -> AsyncIterator[tuple[LiveConversationActivities, LiveApprovalActivities]]:
    """The activities of conversations and of what an approved action needs, for as long as the block runs.

    Args:
        services: of toolsets that need more than the database and Slack.

    Raises:
        Permanent: a setting of a toolset's service is wrong.
    """
    given, mail = settings.conversation, settings.mail
    database, slack, users, history = deps.database, deps.slack, deps.users, deps.history
    rate = Rate(given.mutations_per_minute, 60.0)
    async with (
        _model(settings.model) as model,
        configured_embedder(settings.embedding) as embedder,
        open_integrations(services) as services,
    ):
        services = services.with_service(Database, database).with_service(UserDirectory, users)
        services = services.with_service(CaseReaders, deps.readers)
        if embedder:
            services = services.with_service(Embedder, embedder)
        services = services.with_service(ThreadReader, ThreadReader(history, deps.authors))
        email = EmailSettings(fits_on_card, mail.smtp_from, mail.email_domains, mail.email_risk, rate)
        services = services.with_service(EmailSettings, email)
        invitations = SlackInvitationSender(database, users, deps.outbox, find_contact, mail.smtp_from)
        services = services.with_service(InvitationSender, invitations)
        services = services.with_service(RfpFiles, RfpFiles(database, slack, history, deps.authors, rate))
        approving = ApprovalRules(settings.approval.approvers, settings.approval.approval_expiry)
        services = services.with_service(Proposals, PostgresProposals(database, approving, deps.workflows))
        registry, ledger = ToolRegistry(TOOLS), PostgresToolLedger(database, rate)
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
            DecisionDeps(model, lead_context, partial(look_up, database, embedder), decision_rules(settings.decision)),
            SlackContext(users, history, deps.authors),
            given.operator_context_tokens,
            _conversation_limits(given),
            ContextBudget(tokens=given.conversation_context_tokens),
            bot_name=deps.identity.name or "threadline",
            job_types=types,
            sensitive_words=settings.decision.sensitive_words,
        )
        approval_deps = ApprovalDeps(
            database,
            slack,
            deps.outbox,
            registry,
            services,
            ledger,
            protocol.approved_call_policies,
            find_answer_part,
            answer_of,
            approving,
        )
        yield LiveConversationActivities(conversation_deps), LiveApprovalActivities(approval_deps)


def cases(deps: CoreDeps, limits: CaseLimits, pull_requests: PullRequests) -> Feature:
    database, workflows, channels = deps.database, deps.workflows, deps.case_channels
    posts = LiveCasePostActivities(database, deps.slack, deps.outbox, channels)
    live = LiveCaseActivities(database, deps.slack, posts, pull_requests, limits=limits, bot_user=channels.bot_user)
    return Feature(
        [(live, CaseActivities), (posts, CasePostActivities)],
        [
            OpenCases(database, workflows),
            SlaClocks(database, workflows, channels.targets, len(channels.tiers)),
            MissingAnswers(posts),
        ],
    )


def conversations(deps: CoreDeps, live: LiveConversationActivities, settings: ConversationSettings) -> Feature:
    """With the operator, decisions, and what tools have recorded."""
    kept, logged = settings.conversation_retention_days * _DAY, settings.tool_log_days * _DAY
    return Feature(
        [(live, ConversationActivities)],
        [OpenConversations(deps.database, deps.workflows, settings.conversation_quiet)],
        [
            Prune("conversations", kept, lambda tx, before: ConversationStore(tx).prune(before)),
            Prune("memories", settings.memory_days * _DAY, lambda tx, before: MemoryStore(tx).prune(before)),
            Prune("tool executions", logged, lambda tx, before: ToolExecutionStore(tx).delete_older_than(before)),
            Prune("email drafts", kept, lambda tx, before: EmailDraftStore(tx).delete_older_than(before)),
        ],
    )


def approvals(deps: CoreDeps, live: LiveApprovalActivities, settings: ConversationSettings) -> Feature:
    kept = settings.conversation_retention_days * _DAY
    return Feature(
        [(live, ApprovalActivities)],
        sweeps=[OpenApprovals(deps.database, deps.workflows)],
        prune=[Prune("proposed actions", kept, lambda tx, before: ApprovalStore(tx).prune(before))],
    )


def jobs(deps: CoreDeps, channels: ChannelAccess, runner: JobRunner, settings: ConversationSettings) -> Feature:
    kept = settings.conversation_retention_days * _DAY
    live = LiveJobActivities(deps.database, deps.outbox, channels, deps.router, runner)
    return Feature(
        [(live, JobActivities)],
        sweeps=[MissingJobWorkflows(runner)],
        prune=[Prune("jobs", kept, lambda tx, before: JobStore(tx).delete_older_than(before))],
    )


def threads(
    deps: CoreDeps,
    channels: ChannelSettings,
    settings: ConversationSettings,
    features: Sequence[Feature],
    relay: Relay,
) -> Feature:
    """The catch-up over the sources of all features, the sweep over their sweeps, and replies to the bot's posts.

    Args:
        relay: gets a reply first; see `LiveThreadActivities`.
    """
    database, slack, bot_user = deps.database, deps.slack, deps.case_channels.bot_user
    catch_up = LiveCatchUpActivities(
        database,
        deps.history,
        deps.router.handle,
        thread_sources(bot_user),
        case_channels(channels),
        team=deps.case_channels.team,
        bot_user_id=bot_user,
        conversation_channels=channels.conversation_channels or None,
    )
    threads = LiveThreadActivities(database, slack, bot_user, deps.workflows, {"case": case_start}, relay)
    kept, users = settings.conversation_retention_days * _DAY, settings.memory_days * _DAY
    return Feature(
        [
            (catch_up, CatchUpActivities),
            (LiveSweepActivities(database, all_sweeps(features)), SweepActivities),
            (threads, ThreadActivities),
        ],
        prune=[
            Prune("users", users, lambda tx, before: UserStore(tx).prune(before)),
            Prune("quarantine", kept, lambda tx, before: Quarantine(tx).prune(before)),
            # Guards look back two minutes; a day leaves room for a message that comes late.
            Prune("rate limits", _DAY, lambda tx, before: RateLimits(tx).prune(before)),
        ],
    )


def all_sweeps(features: Sequence[Feature]) -> list[Sweep[Any]]:
    """Every sweep, in the order in which they run."""
    found = [sweep for each in features for sweep in each.sweeps]
    return sorted(found, key=lambda sweep: sweep.waits_for_slack)


@asynccontextmanager
async def prune_periodically(database: Database, features: Sequence[Feature]) -> AsyncIterator[None]:
    """Delete, at the start and every hour, what is older than the settings say; every worker may do it."""

    async def prune() -> None:
        try:
            await prune_all(database, features, time.time())
        except Exception:  # noqa: BLE001 - whatever went wrong now, the next hour is to come
            _log.exception("retention_sweep_failed")

    async with repeating(prune, PRUNE_INTERVAL):
        yield


async def prune_all(database: Database, features: Sequence[Feature], now: float) -> dict[str, int]:
    """Delete in small transactions; returns how many there were of each kind. `now`: seconds since 1970."""
    counts = dict[str, int]()
    for prune in (each for feature in features for each in feature.prune):
        counts[prune.kind], deleted = 0, 1
        while deleted:
            async with database.begin() as tx:
                deleted = await prune.delete(tx, now - prune.keep)
            counts[prune.kind] += deleted
    if count := counts.get("conversations"):
        _log.info("conversations_deleted", count=count)
    return counts


def thread_sources(bot_user_id: str) -> tuple[ThreadSource, ...]:
    """Every kind of thread that the catch-up compares.

    The first of a scope has the threads that nobody owns yet.
    """
    return CaseThreads(), ConversationThreads(bot_user_id), HandoverThreads()


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


def _case_limits(case: CaseSettings) -> CaseLimits:
    return CaseLimits(
        reporter_timeout=case.reporter_timeout,
        developer_timeout=case.developer_timeout,
        turn_timeout=case.turn_timeout,
        max_questions=case.max_questions,
        turn_budget_usd=case.turn_budget_usd,
        case_budget_usd=case.case_budget_usd,
        pull_request_poll=case.pull_request_poll,
    )


def decision_rules(settings: DecisionSettings) -> DecisionRules:
    """Raises `Permanent` where a variant is wrong."""
    thresholds = Thresholds(settings.decision_high, settings.decision_low)
    return DecisionRules(load_variants(settings.decision_variants, thresholds), settings.decision_questions)


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
async def _model(settings: OpenAISettings) -> AsyncIterator[OpenAIModel | None]:
    key = settings.api_key.get_secret_value().strip() if settings.api_key else ""
    if not key:
        _log.warning("model_not_configured", hint="Set OPENAI_API_KEY. Until then, the bot does not answer mentions.")
        yield None
        return
    config = OpenAIConfig(
        settings.openai_model,
        key,
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
        max_turns=settings.conversation_max_turns,
        quiet=settings.conversation_quiet,
        model_patience=settings.conversation_model_patience,
    )
