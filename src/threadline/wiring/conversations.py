"""What a conversation is made of in the core worker: its model, its tools and their ports, its activities."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog

from threadline.appointments.invitation_port import INVITATIONS
from threadline.appointments.invitation_sender import SlackInvitations
from threadline.approvals.activities import Hands, LiveApprovalActivities
from threadline.approvals.proposing import Approving, PostgresProposals
from threadline.approvals.tools import PROPOSALS
from threadline.cases.model import CaseReaders
from threadline.cases.tools import CASES, READERS
from threadline.conversations.act import Acting
from threadline.conversations.activities import LiveConversationActivities
from threadline.conversations.context_window import Budget
from threadline.conversations.contract import ACT
from threadline.conversations.decision_activities import LiveDecisionActivities
from threadline.conversations.model.conversation import ConversationLimits
from threadline.conversations.operator_activities import LiveOperatorActivities
from threadline.conversations.posting import LiveSpeakingActivities
from threadline.conversations.think import Mind, Thinking
from threadline.conversations.thread_reader import SlackThreads
from threadline.conversations.thread_tool import THREADS
from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Rate
from threadline.db.unit_of_work import Work
from threadline.estimates.toolset_adapters import postgres_ports
from threadline.handovers.activities import LiveHandoverActivities, Reception
from threadline.handovers.card_data import Cards
from threadline.jobs import job_types
from threadline.jobs.job_port import JOBS
from threadline.models.client import OpenAIConfig, OpenAIModel
from threadline.models.open_embedder import embedding
from threadline.operator import enforcement as protocol
from threadline.operator.prompt import JobType
from threadline.rfps.file_tool import RFP_FILES
from threadline.rfps.files import SlackRfpFiles
from threadline.sales.crm import PostgresCrm
from threadline.sales.email_sending import PostgresOutbox, Sending
from threadline.sales.email_tools import OUTBOX
from threadline.sales.tools import CRM
from threadline.settings import (
    ApprovalSettings,
    ConversationSettings,
    DecisionSettings,
    EmbeddingSettings,
    MailSettings,
    OpenAISettings,
)
from threadline.slack.client import Slack
from threadline.slack.history import History
from threadline.slack.store import UserStore
from threadline.slack.users import UserDirectory
from threadline.threads.alerts import FailureAlerts
from threadline.threads.authors import AuthorPolicy
from threadline.threads.outbox import Outbox
from threadline.threads.store import Quarantine
from threadline.threads.workflow_client import WorkflowClient
from threadline.tools.context import Ports
from threadline.tools.postgres_ports import PostgresExecutionLog, PostgresMutationLimit, PostgresResultCache
from threadline.tools.registry import Registry
from threadline.tools.runner import Guards
from threadline.wiring.decisions import decision_activities
from threadline.wiring.integrations import remote_ports
from threadline.wiring.operator import operating
from threadline.wiring.toolset_list import TOOLS

SWEEP = 3600.0
"""Seconds between two looks for what is too old to be kept."""
_DAY = 24 * 3600.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class TalkSettings:
    """Read before anything is connected to."""

    model: OpenAISettings = field(default_factory=OpenAISettings.read)
    embedding: EmbeddingSettings = field(default_factory=EmbeddingSettings.read)
    conversation: ConversationSettings = field(default_factory=ConversationSettings.read)
    approval: ApprovalSettings = field(default_factory=ApprovalSettings.read)
    decision: DecisionSettings = field(default_factory=DecisionSettings.read)
    mail: MailSettings = field(default_factory=MailSettings.read)


@dataclass(frozen=True)
class Conversing:
    """The activities of conversations."""

    thinking: LiveConversationActivities
    speaking: LiveSpeakingActivities
    operator: LiveOperatorActivities
    deciding: LiveDecisionActivities
    handing: LiveHandoverActivities
    approving: LiveApprovalActivities


@dataclass(frozen=True)
class Host:
    """What a house gives its conversations.

    Args:
        alerts: tells those who run the house of what keeps failing.
        readers: who may be shown what of a case.
        bot_name: by which people mention the bot, without the `@`.
        open_to_all: channels in which people of other workspaces count like others.
        workflows: starts what a proposed action waits in; without it, nothing can be proposed.
        ports: of toolsets that need more than the database and Slack.
        reception: where people take threads over.
    """

    alerts: FailureAlerts
    readers: CaseReaders
    bot_name: str = "threadline"
    open_to_all: Collection[str] = ()
    workflows: WorkflowClient | None = None
    ports: Ports | None = None
    reception: Reception = field(default_factory=lambda: Reception(""))


@asynccontextmanager
async def conversing(
    settings: TalkSettings, database: Database, slack: Slack, users: UserDirectory, outbox: Outbox, house: Host
) -> AsyncIterator[Conversing]:
    """The activities, for as long as the block runs; what is too old is forgotten meanwhile.

    Raises:
        Permanent: a setting of a toolset's service is wrong.
    """
    given = settings.conversation
    rate = Rate(given.mutations_per_minute, 60.0)
    history, authors = History(slack), AuthorPolicy(users, house.open_to_all)
    async with (
        _model(settings.model) as model,
        embedding(settings.embedding) as embedder,
        remote_ports(postgres_ports(database, rate, house.ports, embedder)) as ports,
        _forgetting(database, given),
    ):
        ports = ports.having(CASES, database).having(READERS, house.readers)
        ports = ports.having(THREADS, SlackThreads(history, authors))
        ports = ports.having(CRM, PostgresCrm(database, users, rate))
        sending = Sending(settings.mail.sender, settings.mail.domains, settings.mail.free)
        ports = ports.having(OUTBOX, PostgresOutbox(database, users, sending, rate))
        uploads = Outbox(slack, database)
        ports = ports.having(INVITATIONS, SlackInvitations(database, users, uploads, settings.mail.sender))
        ports = ports.having(RFP_FILES, SlackRfpFiles(database, slack, history, authors, rate))
        approving = Approving(settings.approval.approvers, settings.approval.expiry)
        if house.workflows:
            ports = ports.having(PROPOSALS, PostgresProposals(database, approving, house.workflows))
        registry, guards = Registry(TOOLS), _guards(database, rate)
        protocol.demand(registry)
        budget = Budget(tokens=given.conversation_context_tokens)
        types = [JobType(each.name, each.says) for each in job_types.TYPES.values()] if JOBS in ports else []
        words = settings.decision.sensitive_words
        mind = Mind(model, registry, ports, budget, bot_name=house.bot_name, job_types=types, sensitive_words=words)
        yield Conversing(
            LiveConversationActivities(
                database,
                _limits(given),
                Thinking(database, mind, users, house.alerts),
                Acting(database, mind, guards, house.alerts, ACT.retry.maximum_attempts),
            ),
            LiveSpeakingActivities(database, slack, outbox),
            operating(database, mind, users, history, authors, given.operator_context_tokens),
            decision_activities(database, mind, users, settings.decision, embedder),
            LiveHandoverActivities(database, slack, outbox, Cards(database, house.readers), house.reception, authors),
            LiveApprovalActivities(database, slack, outbox, Hands(mind.registry, ports, guards), approving),
        )


@asynccontextmanager
async def _model(settings: OpenAISettings) -> AsyncIterator[OpenAIModel | None]:
    key = settings.api_key.get_secret_value().strip() if settings.api_key else ""
    if not key:
        _log.warning("model_not_configured", hint="Set OPENAI_API_KEY. Until then, the bot does not answer mentions.")
        yield None
        return
    config = OpenAIConfig(settings.model, key, settings.base_url, settings.api, settings.timeout, settings.prices)
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


def _guards(database: Database, rate: Rate) -> Guards:
    return Guards(
        log=PostgresExecutionLog(database),
        limit=PostgresMutationLimit(database, rate),
        cache=PostgresResultCache(database),
    )


@asynccontextmanager
async def _forgetting(database: Database, settings: ConversationSettings) -> AsyncIterator[None]:
    """Forget, at the start and every hour, what is older than the settings say; every worker may do it."""

    async def sweep() -> None:
        while True:
            try:
                await forget(database, settings, time.time())
            except Exception:  # noqa: BLE001 - whatever went wrong now, the next look is to come
                _log.exception("retention_sweep_failed")
            await asyncio.sleep(SWEEP)

    sweeping = asyncio.create_task(sweep())
    try:
        yield
    finally:
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)


async def forget(database: Database, settings: ConversationSettings, now: float) -> int:
    """One look, in small transactions; returns how many conversations were forgotten. `now`: seconds since 1970."""
    kept, logged = now - settings.conversation_retention_days * _DAY, now - settings.tool_log_days * _DAY
    forgotten = await _until_none(database, lambda work: work.conversations.prune(kept))
    remembered = now - settings.memory_days * _DAY
    await _until_none(database, lambda work: work.memories.prune(remembered))
    await _until_none(database, lambda work: UserStore(work.tx).prune(remembered))
    await _until_none(database, lambda work: work.tool_executions.prune(logged))
    await _until_none(database, lambda work: work.operations.prune(logged))
    await _until_none(database, lambda work: work.tool_results.prune(now))
    await _until_none(database, lambda work: work.agent_jobs.prune(kept))
    await _until_none(database, lambda work: work.proposed_actions.prune(kept))
    await _until_none(database, lambda work: work.letters.prune(kept))
    await _until_none(database, lambda work: Quarantine(work.tx).prune(kept))
    # Guards look back two minutes; a day leaves room for a message that comes late.
    await _until_none(database, lambda work: work.limits.prune(now - _DAY))
    if forgotten:
        _log.info("conversations_deleted", count=forgotten)
    return forgotten


async def _until_none(database: Database, prune: Callable[[Work], Awaitable[int]]) -> int:
    """Repeat until nothing is left, each time in a transaction of its own; returns how many there were."""
    count = 0
    while True:
        async with database.begin() as work:
            gone = await prune(work)
        if not gone:
            return count
        count += gone
