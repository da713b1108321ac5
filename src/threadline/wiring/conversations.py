"""What a conversation is made of in the core worker: its model, its tools and their services, its activities."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog

from threadline.appointments.invitations import SlackInvitationSender
from threadline.appointments.model import InvitationSender
from threadline.approvals.activities import ApprovalDeps
from threadline.approvals.blocks import fits_on_card
from threadline.approvals.model import ApprovalRules, Proposals
from threadline.approvals.proposals import PostgresProposals
from threadline.cases.model import CaseReaders
from threadline.conversations.act import Acting
from threadline.conversations.activities import LiveConversationActivities
from threadline.conversations.blocks import answer_of
from threadline.conversations.context_window import Budget
from threadline.conversations.contract import ACT
from threadline.conversations.finish import Finishing
from threadline.conversations.model.conversation import ConversationLimits
from threadline.conversations.operator_activities import LiveOperatorActivities
from threadline.conversations.posting import LiveSpeakingActivities, find_answer_part
from threadline.conversations.think import Mind, Thinking
from threadline.conversations.thread_reader import SlackThreads
from threadline.conversations.thread_tool import ThreadReader
from threadline.conversations.turn_memory import Remembering
from threadline.db.engine import Database, Transaction
from threadline.db.rate_limits import Rate
from threadline.jobs.model import JOB_TYPES, JobRunner
from threadline.models.client import OpenAIConfig, OpenAIModel
from threadline.models.embeddings import Embedder
from threadline.operator import enforcement as protocol
from threadline.operator.prompt import JobTypeInfo
from threadline.rfps.files import RfpFiles
from threadline.sales.email import EmailSettings
from threadline.sales.model import SlackContact
from threadline.sales.store import LeadStore
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
from threadline.slack.users import UserDirectory
from threadline.threads.alerts import FailureAlerts
from threadline.threads.authors import AuthorPolicy
from threadline.threads.outbox import Outbox
from threadline.threads.workflow_client import WorkflowClient
from threadline.tools.context import Services
from threadline.tools.registry import ToolRegistry
from threadline.tools.store import PostgresToolLedger
from threadline.wiring.decisions import deciding, decision_rules
from threadline.wiring.integrations import configured_embedder, open_integrations
from threadline.wiring.operator import operating
from threadline.wiring.toolset_list import TOOLS

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class TalkSettings:
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
class Conversing:
    """The activities of conversations, and what approvals need of them.

    `approval_deps` carry out an approved action.
    """

    thinking: LiveConversationActivities
    speaking: LiveSpeakingActivities
    operator: LiveOperatorActivities
    approval_deps: ApprovalDeps


@dataclass(frozen=True)
class Host:
    """What a house gives its conversations.

    Args:
        alerts: tells those who run the house of what keeps failing.
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
async def conversing(
    settings: TalkSettings,
    database: Database,
    slack: SlackClient,
    history: History,
    users: UserDirectory,
    outbox: Outbox,
    house: Host,
) -> AsyncIterator[Conversing]:
    """The activities, for as long as the block runs.

    Args:
        history: the one of the process, whose rate limiter keeps its calls within Slack's limit.

    Raises:
        Permanent: a setting of a toolset's service is wrong.
    """
    given = settings.conversation
    rate = Rate(given.mutations_per_minute, 60.0)
    authors = AuthorPolicy(users, house.open_to_all)
    async with (
        _model(settings.model) as model,
        configured_embedder(settings.embedding) as embedder,
        open_integrations(house.services) as services,
    ):
        services = services.with_service(Database, database).with_service(UserDirectory, users)
        services = services.with_service(CaseReaders, house.readers)
        if embedder:
            services = services.with_service(Embedder, embedder)
        services = services.with_service(ThreadReader, SlackThreads(history, authors))
        mail = settings.mail
        email = EmailSettings(fits_on_card, mail.smtp_from, mail.email_domains, mail.email_risk, rate)
        services = services.with_service(EmailSettings, email)
        uploads = Outbox(slack, database)
        invitations = SlackInvitationSender(database, users, uploads, find_contact, mail.smtp_from)
        services = services.with_service(InvitationSender, invitations)
        services = services.with_service(RfpFiles, RfpFiles(database, slack, history, authors, rate))
        approving = ApprovalRules(settings.approval.approvers, settings.approval.approval_expiry)
        if house.workflows:
            services = services.with_service(Proposals, PostgresProposals(database, approving, house.workflows))
        registry, ledger = ToolRegistry(TOOLS), PostgresToolLedger(database, rate)
        protocol.check_tool_declarations(registry)
        budget = Budget(tokens=given.conversation_context_tokens)
        types = (
            [JobTypeInfo(each.name, each.description) for each in JOB_TYPES.values()] if JobRunner in services else []
        )
        words = settings.decision.sensitive_words
        mind = Mind(model, registry, services, budget, bot_name=house.bot_name, job_types=types, sensitive_words=words)
        decisions = deciding(database, mind, users, settings.decision, embedder)
        thinking = Thinking(database, mind, users, house.alerts)
        remembering = Remembering(database, registry, mind.clock)
        yield Conversing(
            LiveConversationActivities(
                database,
                _limits(given),
                decisions,
                thinking,
                Acting(database, mind, ledger, house.alerts, ACT.retry.maximum_attempts),
                Finishing(database, outbox, slack, decisions, thinking, remembering),
                slack,
            ),
            LiveSpeakingActivities(database, slack, outbox),
            operating(database, mind, users, history, authors, given.operator_context_tokens),
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


async def find_contact(tx: Transaction, team: str, user_id: str) -> tuple[str, str]:
    """Name and address that are on record of a customer; empty where nothing is."""
    lead = await LeadStore(tx).find_by_contact(team, SlackContact(user_id))
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
