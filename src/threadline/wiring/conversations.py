"""What a conversation is made of in the core worker: its model, its tools and their services, its activities."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import structlog

from threadline.appointments.invitations import SlackInvitationSender
from threadline.appointments.model import InvitationSender
from threadline.approvals.activities import ApprovalDeps, PostgresProposals
from threadline.approvals.blocks import fits_on_card
from threadline.approvals.model import ApprovalRules, Proposals
from threadline.cases.model import CaseReaders
from threadline.conversations.activities import LiveConversationActivities
from threadline.conversations.blocks import answer_of
from threadline.conversations.deps import ConversationDeps, DecisionDeps, DecisionRules
from threadline.conversations.model.conversation import ConversationLimits
from threadline.conversations.posting import find_answer_part
from threadline.conversations.prompt import ContextBudget
from threadline.conversations.thread_reader import SlackThreadReader
from threadline.conversations.thread_tool import ThreadReader
from threadline.db.engine import Database, Transaction
from threadline.db.rate_limits import Rate
from threadline.decisions.model import Thresholds
from threadline.decisions.variants import load_variants
from threadline.jobs.model import JOB_TYPES, JobRunner
from threadline.knowledge.search import look_up
from threadline.models.client import OpenAIConfig, OpenAIModel
from threadline.models.embeddings import Embedder
from threadline.operator import enforcement as protocol
from threadline.operator.context import SlackContext
from threadline.rfps.files import RfpFiles
from threadline.sales.email import EmailSettings
from threadline.sales.store import LeadStore
from threadline.sales.tools import describe_customer
from threadline.settings import (
    ApprovalSettings,
    ConversationSettings,
    DecisionSettings,
    EmbeddingSettings,
    MailSettings,
    OpenAISettings,
)
from threadline.slack.client import SlackClient
from threadline.slack.history import History
from threadline.slack.model import User, name_with_id
from threadline.slack.users import UserDirectory
from threadline.threads.alerts import FailureAlerts
from threadline.threads.authors import AuthorPolicy
from threadline.threads.outbox import Outbox
from threadline.threads.workflow_client import WorkflowClient
from threadline.tools.context import Services
from threadline.tools.registry import ToolRegistry
from threadline.tools.store import PostgresToolLedger
from threadline.wiring.integrations import configured_embedder, open_integrations
from threadline.wiring.toolset_list import TOOLS

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
class ConversationParts:
    """The activities of conversations, and what carries out an approved action."""

    activities: LiveConversationActivities
    approval_deps: ApprovalDeps


@dataclass(frozen=True)
class ConversationOptions:
    """What differs between the processes that run conversations.

    Args:
        alerts: tells those who run the product of what keeps failing.
        readers: who may be shown what of a case.
        bot_name: by which people mention the bot, without the `@`.
        open_to_all: channels in which people of other workspaces count like others.
        workflows: starts what a proposed action waits in; without it, nothing can be proposed.
        services: of toolsets that need more than the database and Slack.
    """

    alerts: FailureAlerts
    readers: CaseReaders
    bot_name: str = "threadline"
    open_to_all: Collection[str] = ()
    workflows: WorkflowClient | None = None
    services: Services | None = None


@asynccontextmanager
async def open_conversations(
    settings: ConversationFeatureSettings,
    database: Database,
    slack: SlackClient,
    history: History,
    users: UserDirectory,
    outbox: Outbox,
    options: ConversationOptions,
) -> AsyncIterator[ConversationParts]:
    """The activities, for as long as the block runs.

    Args:
        history: the one of the process, whose rate limiter keeps its calls within Slack's limit.

    Raises:
        Permanent: a setting of a toolset's service is wrong.
    """
    given = settings.conversation
    rate = Rate(given.mutations_per_minute, 60.0)
    authors = AuthorPolicy(users, options.open_to_all)
    async with (
        _model(settings.model) as model,
        configured_embedder(settings.embedding) as embedder,
        open_integrations(options.services) as services,
    ):
        services = services.with_service(Database, database).with_service(UserDirectory, users)
        services = services.with_service(CaseReaders, options.readers)
        if embedder:
            services = services.with_service(Embedder, embedder)
        services = services.with_service(ThreadReader, SlackThreadReader(history, authors))
        mail = settings.mail
        email = EmailSettings(fits_on_card, mail.smtp_from, mail.email_domains, mail.email_risk, rate)
        services = services.with_service(EmailSettings, email)
        uploads = Outbox(slack, database)
        invitations = SlackInvitationSender(database, users, uploads, find_contact, mail.smtp_from)
        services = services.with_service(InvitationSender, invitations)
        services = services.with_service(RfpFiles, RfpFiles(database, slack, history, authors, rate))
        approving = ApprovalRules(settings.approval.approvers, settings.approval.approval_expiry)
        if options.workflows:
            services = services.with_service(Proposals, PostgresProposals(database, approving, options.workflows))
        registry, ledger = ToolRegistry(TOOLS), PostgresToolLedger(database, rate)
        protocol.check_tool_declarations(registry)
        types = {each.name: each.description for each in JOB_TYPES.values()} if JobRunner in services else {}
        deps = ConversationDeps(
            database,
            slack,
            outbox,
            users,
            options.alerts,
            model,
            registry,
            services,
            ledger,
            DecisionDeps(model, lead_context, partial(look_up, database, embedder), decision_rules(settings.decision)),
            SlackContext(users, history, authors),
            given.operator_context_tokens,
            _limits(given),
            ContextBudget(tokens=given.conversation_context_tokens),
            bot_name=options.bot_name,
            job_types=types,
            sensitive_words=settings.decision.sensitive_words,
        )
        yield ConversationParts(
            LiveConversationActivities(deps),
            ApprovalDeps(
                database,
                slack,
                outbox,
                registry,
                services,
                ledger,
                protocol.approved_call_policies,
                find_answer_part,
                answer_of,
                approving,
            ),
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


def _limits(settings: ConversationSettings) -> ConversationLimits:
    return ConversationLimits(
        max_turns=settings.conversation_max_turns,
        quiet=settings.conversation_quiet,
        model_patience=settings.conversation_model_patience,
    )
