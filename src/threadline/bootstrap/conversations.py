"""What a conversation is made of in the core worker: its model, its tools and their ports, its activities."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog

from threadline.activities.acting import Acting
from threadline.activities.alerts import Alerts
from threadline.activities.approval import Hands, LiveApprovalActivities
from threadline.activities.case_cards import Readers
from threadline.activities.conversation import LiveConversationActivities
from threadline.activities.customers import PostgresCrm
from threadline.activities.decision import LiveDecisionActivities
from threadline.activities.handover import LiveHandoverActivities, Reception
from threadline.activities.handover_cards import Cards
from threadline.activities.having_a_say import HavingASay
from threadline.activities.inviting import SlackInvitations
from threadline.activities.names import Names
from threadline.activities.operator import LiveOperatorActivities
from threadline.activities.outbox import PostgresOutbox, Sending
from threadline.activities.people import KnownPeople
from threadline.activities.proposals import Approving, PostgresProposals, Start
from threadline.activities.rfp_files import SlackRfpFiles
from threadline.activities.said_before import SaidBefore
from threadline.activities.speaking import LiveSpeakingActivities
from threadline.activities.thinking import Mind, Thinking
from threadline.activities.thread_reading import SlackThreads
from threadline.activities.tool_ports import PostgresExecutionLog, PostgresMutationLimit, PostgresResultCache
from threadline.activities.toolsets import postgres_ports
from threadline.agents.copilot.context import Budget
from threadline.agents.models.live import OpenAIConfig, OpenAIModel
from threadline.agents.operator.prompts import JobType
from threadline.bootstrap.deciding import decision_activities
from threadline.bootstrap.embeddings import embedding
from threadline.bootstrap.operator import operating
from threadline.bootstrap.toolsets import remote_ports
from threadline.contracts import options
from threadline.db.engine import Database
from threadline.db.post_ledger import PostLedger
from threadline.db.work import Work
from threadline.domain import job_types
from threadline.domain.conversation import ConversationLimits
from threadline.domain.limits import Rate
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
from threadline.slack.posts import Claim, Posts
from threadline.slack.uploads import Uploads
from threadline.tools import protocol
from threadline.tools.builtin import TOOLS
from threadline.tools.builtin.crm import CRM
from threadline.tools.builtin.email import OUTBOX
from threadline.tools.builtin.files import RFP_FILES
from threadline.tools.builtin.invitations import INVITATIONS
from threadline.tools.builtin.job_desk import JOBS
from threadline.tools.builtin.proposals import PROPOSALS
from threadline.tools.builtin.slack_thread import THREADS
from threadline.tools.context import Ports
from threadline.tools.execution import Guards
from threadline.tools.registry import Registry

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
        start_approval: has a proposed action waited for; without it, nothing can be proposed.
        ports: of toolsets that need more than the database and Slack.
        reception: where people take threads over.
    """

    alerts: Alerts
    readers: Readers
    bot_name: str = "threadline"
    open_to_all: Collection[str] = ()
    start_approval: Start | None = None
    ports: Ports | None = None
    reception: Reception = field(default_factory=lambda: Reception(""))


@asynccontextmanager
async def conversing(
    settings: TalkSettings, database: Database, slack: Slack, posts: Posts, house: Host
) -> AsyncIterator[Conversing]:
    """The activities, for as long as the block runs; what is too old is forgotten meanwhile.

    Raises:
        Permanent: a setting of a toolset's service is wrong.
    """
    given = settings.conversation
    rate, people, history = Rate(given.mutations_per_minute, 60.0), KnownPeople(slack), History(slack)
    names, say = Names(people), HavingASay(people, house.open_to_all)
    async with (
        _model(settings.model) as model,
        embedding(settings.embedding) as embedder,
        remote_ports(postgres_ports(database, house.readers, rate, house.ports, embedder)) as ports,
        _forgetting(database, given),
    ):
        ports = ports.having(THREADS, SlackThreads(history, names, say))
        ports = ports.having(CRM, PostgresCrm(database, people, rate))
        sending = Sending(settings.mail.sender, settings.mail.domains, settings.mail.free)
        ports = ports.having(OUTBOX, PostgresOutbox(database, people, sending, rate))
        uploads = Uploads(slack, PostLedger(database, Claim))
        ports = ports.having(INVITATIONS, SlackInvitations(database, people, uploads, settings.mail.sender))
        ports = ports.having(RFP_FILES, SlackRfpFiles(database, slack, history, say, rate))
        approving = Approving(settings.approval.approvers, settings.approval.expiry)
        if house.start_approval:
            ports = ports.having(PROPOSALS, PostgresProposals(database, approving, house.start_approval))
        registry, guards = Registry(TOOLS), _guards(database, rate)
        protocol.demand(registry)
        budget = Budget(tokens=given.conversation_context_tokens)
        types = [JobType(each.name, each.says) for each in job_types.TYPES.values()] if JOBS in ports else []
        words = settings.decision.sensitive_words
        mind = Mind(model, registry, ports, budget, bot_name=house.bot_name, job_types=types, sensitive_words=words)
        said = SaidBefore(history, say)
        yield Conversing(
            LiveConversationActivities(
                database,
                _limits(given),
                Thinking(database, mind, names, house.alerts),
                Acting(database, mind, guards, house.alerts, options.ACT.retry.maximum_attempts),
            ),
            LiveSpeakingActivities(database, slack, posts),
            operating(database, mind, people, said, given.operator_context_tokens),
            decision_activities(database, mind, people, settings.decision, embedder),
            LiveHandoverActivities(database, slack, posts, Cards(database, house.readers), house.reception, say),
            LiveApprovalActivities(database, slack, posts, Hands(mind.registry, ports, guards), approving),
        )


@asynccontextmanager
async def _model(settings: OpenAISettings) -> AsyncIterator[OpenAIModel | None]:
    key = settings.api_key.get_secret_value().strip() if settings.api_key else ""
    if not key:
        _log.warning("conversations_without_model", advice="set OPENAI_API_KEY: until then mentions are not answered")
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
                _log.exception("nothing_forgotten")
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
    await _until_none(database, lambda work: work.actors.prune(remembered))
    await _until_none(database, lambda work: work.tool_executions.prune(logged))
    await _until_none(database, lambda work: work.operations.prune(logged))
    await _until_none(database, lambda work: work.tool_results.prune(now))
    await _until_none(database, lambda work: work.agent_jobs.prune(kept))
    await _until_none(database, lambda work: work.proposed_actions.prune(kept))
    await _until_none(database, lambda work: work.letters.prune(kept))
    # Guards look back two minutes; a day leaves room for a message that comes late.
    await _until_none(database, lambda work: work.limits.prune(now - _DAY))
    if forgotten:
        _log.info("conversations_forgotten", count=forgotten)
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
