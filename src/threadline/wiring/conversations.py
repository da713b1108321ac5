"""Conversations: their settings, activities and tools' services."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import structlog

from threadline.appointments.invitations import SlackInvitationSender
from threadline.appointments.model import InvitationSender
from threadline.approvals.activities import LiveApprovalActivities, PostgresProposals
from threadline.approvals.blocks import fits_on_card
from threadline.approvals.model import ApprovalRules
from threadline.cases.model import CaseReaders
from threadline.conversations.activities import LiveConversationActivities
from threadline.conversations.blocks import answer_of
from threadline.conversations.deps import ConversationDeps, DecisionDeps
from threadline.conversations.help import CaseChannelIds
from threadline.conversations.model.conversation import ConversationLimits
from threadline.conversations.model.draft_share import DraftShare
from threadline.conversations.posting import find_answer_part
from threadline.conversations.prompt import ContextBudget
from threadline.conversations.thread_tool import ThreadReader
from threadline.db.engine import Database, Transaction
from threadline.db.rate_limits import Rate
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
    AccessSettings,
    ConversationSettings,
    DecisionSettings,
    MailSettings,
    ModelSettings,
)
from threadline.slack.model import User, name_with_id
from threadline.slack.user_groups import UserGroups
from threadline.slack.users import UserDirectory
from threadline.tools.context import Services
from threadline.tools.policy import CallRules
from threadline.tools.proposals import Proposals
from threadline.tools.registry import ToolRegistry
from threadline.tools.roles import RoleDirectory
from threadline.tools.store import ToolLedger
from threadline.wiring.core import CoreDeps
from threadline.wiring.core_settings import ConversationFeatureSettings, decision_variants
from threadline.wiring.toolsets import TOOLS, configured_embedder, load_access, open_integrations

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def open_conversations(
    settings: ConversationFeatureSettings, deps: CoreDeps, services: Services
) -> AsyncIterator[tuple[LiveConversationActivities, LiveApprovalActivities]]:
    """Open the model and the tools' services, and build the activities of conversations and of
    approved actions.

    Args:
        services: those of toolsets that need more than the database and Slack.

    Raises:
        Permanent: a setting of a toolset's service is wrong.
    """
    rate = Rate(settings.conversation.mutations_per_minute, 60.0)
    approving = ApprovalRules(settings.approval.approvers, settings.approval.approval_expiry)
    registry = ToolRegistry(TOOLS)
    protocol.check_tool_declarations(registry)
    ledger = ToolLedger(deps.database, rate)
    async with (
        _model(settings.model) as model,
        configured_embedder(settings.model) as embedder,
        open_integrations(services) as services,
    ):
        if embedder:
            services = services.with_service(Embedder, embedder)
        services = _with_records(services, deps, approving, settings.mail, rate)
        conversation_deps = ConversationDeps(
            deps.database,
            deps.slack,
            deps.outbox,
            deps.users,
            deps.alerts,
            model,
            registry,
            services,
            ledger,
            _decision_deps(settings.decision, deps, model, embedder),
            SlackContext(deps.users, deps.history, deps.authors),
            settings.conversation.operator_context_tokens,
            _conversation_limits(settings.conversation),
            ContextBudget(tokens=settings.conversation.conversation_context_tokens),
            bot_name=deps.identity.name or "threadline",
            job_types=_job_types(services),
            sensitive_words=settings.decision.sensitive_words,
            report_fault=deps.faults.report,
            case_channels=_case_channel_ids(deps),
            listening=deps.listening,
        )
        approvals = LiveApprovalActivities(
            deps.database,
            deps.slack,
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


def _case_channel_ids(deps: CoreDeps) -> CaseChannelIds:
    developers = frozenset({deps.case_channels.summaries, deps.case_channels.escalations})
    return CaseChannelIds(deps.reports_channel, developers)


def _decision_deps(
    settings: DecisionSettings,
    deps: CoreDeps,
    model: OpenAIModel | None,
    embedder: Embedder | None,
) -> DecisionDeps:
    return DecisionDeps(
        model,
        lead_context,
        partial(look_up, deps.database, embedder),
        decision_variants(settings),
        settings.decision_questions,
        DraftShare() if settings.decision_draft else None,
    )


def _with_records(
    services: Services, deps: CoreDeps, approving: ApprovalRules, mail: MailSettings, rate: Rate
) -> Services:
    """Add the services that read and write records, proposals, Slack's threads and mail."""
    invitations = SlackInvitationSender(
        deps.database, deps.users, deps.outbox, find_contact, mail.smtp_from
    )
    email = EmailSettings(fits_on_card, mail.smtp_from, mail.email_domains, rate)
    rfp_files = RfpFiles(deps.database, deps.slack, deps.history, deps.authors, rate)
    return (
        services.with_service(Proposals, PostgresProposals(approving))
        .with_service(Database, deps.database)
        .with_service(UserDirectory, deps.users)
        .with_service(CaseReaders, deps.readers)
        .with_service(ThreadReader, ThreadReader(deps.history, deps.authors))
        .with_service(EmailSettings, email)
        .with_service(InvitationSender, invitations)
        .with_service(RfpFiles, rfp_files)
    )


def _job_types(services: Services) -> dict[str, str]:
    """Return each type of job with its description; none where no scheduler runs."""
    if JobRunner not in services:
        return {}
    return {each.name: each.description for each in JOB_TYPES.values()}


def with_access(services: Services, settings: AccessSettings, deps: CoreDeps) -> Services:
    """Return the services, with the rules of calls and the roles that the settings name.

    Raises:
        Permanent: a file is wrong.
    """
    rules, roles = load_access(settings)
    directory = RoleDirectory(roles, UserGroups(deps.slack.user_group, faults=deps.faults))
    return services.with_service(CallRules, rules).with_service(RoleDirectory, directory)


async def lead_context(tx: Transaction, team: str, user_id: str, user: User | None) -> str:
    """Return facts about the user for a decision: the customer's record or, without one, Slack's
    profile.
    """
    if on_record := await describe_customer(tx, team, user_id, user):
        return on_record
    if user is None or not (user.name or user.email):
        return ""
    return "\n".join(filter(None, (name_with_id(user.name, user_id), user.email)))


async def find_contact(tx: Transaction, team: str, user_id: str) -> tuple[str, str]:
    """Return a customer's recorded name and address; empty without a record."""
    lead = await LeadStore(tx).find_by_contact(team, user_id)
    return (lead.name, lead.email) if lead else ("", "")


@asynccontextmanager
async def _model(settings: ModelSettings) -> AsyncIterator[OpenAIModel | None]:
    if not settings.key:
        _log.warning(
            "model_not_configured",
            hint="Set OPENAI_API_KEY. Until then, the bot does not answer mentions.",
        )
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
