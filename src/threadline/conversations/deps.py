"""ConversationDeps: the dependencies of a conversation's steps."""

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from threadline.conversations.help import CaseChannelIds
from threadline.conversations.model.conversation import ConversationLimits
from threadline.conversations.model.draft_share import DraftShare
from threadline.conversations.model.listening import DEFAULT_LISTENING, Listening
from threadline.conversations.model.turn_route import Agent
from threadline.conversations.prompt import ContextBudget, TurnNote
from threadline.db.engine import Database, Transaction
from threadline.decisions.variants import Variant
from threadline.knowledge.model import Retrieval, Source
from threadline.models.model import ChatModel
from threadline.operator.context import TOKENS, SlackContext
from threadline.operator.prompt import BOT_NAME, OperatorProfile
from threadline.slack.client import SlackClient
from threadline.slack.model import User
from threadline.slack.users import UserDirectory
from threadline.threads.activity import ReportFault, log_fault
from threadline.threads.alerts import FailureAlerts
from threadline.threads.outbox import Outbox
from threadline.tools.context import Services
from threadline.tools.registry import AllowedTools, ToolRegistry, allowed_tools
from threadline.tools.roles import RecordKind, RoleDirectory
from threadline.tools.store import ToolLedger

SearchDocuments = Callable[
    [str, str, Sequence[str]], Awaitable[tuple[Sequence[Source], Retrieval]]
]
"""Search in a team's documents by query, with documents of the given types first. Raises the
errors of the knowledge base.
"""
DescribeAsker = Callable[[Transaction, str, str, User | None], Awaitable[str]]
"""Description of an asker (team, Slack id, user) in a few lines, from records and Slack; empty if
nothing is known.
"""


@dataclass(frozen=True)
class DecisionDeps:
    """The dependencies of decisions.

    - `model`: None if no key is configured, and then no turn is decided;
    - `questions`: questions in a row that the engine may ask before a person takes over;
    - `draft_share`: whether to draft the answer while a turn is decided; None for never.
    """

    model: ChatModel | None
    describe_asker: DescribeAsker
    search_documents: SearchDocuments
    variants: tuple[Variant, ...] = (Variant(),)
    questions: int = 2
    draft_share: DraftShare | None = None


@dataclass(frozen=True)
class ConversationDeps:
    """The dependencies of a conversation's steps.

    - `model`: None if no key is configured, and then every turn that needs a model says so;
    - `operator_slack`: source of the operator's context in Slack, bounded by `operator_tokens`;
    - `clock`: the time in seconds since 1970;
    - `slow_after`: seconds without an answer of the model before the thread gets a notice;
    - `sensitive_words`: words in addition to those of `decisions.model.sensitive_topics`;
    - `report_fault`: reports to the admin (`InstallationFaults.report`);
    - `case_channels`: the channels in which the help is about bug reports;
    - `listening`: the settings of silence.
    """

    database: Database
    slack: SlackClient
    outbox: Outbox
    users: UserDirectory
    alerts: FailureAlerts
    model: ChatModel | None
    registry: ToolRegistry
    services: Services
    ledger: ToolLedger
    decision: DecisionDeps
    operator_slack: SlackContext
    operator_tokens: int = TOKENS
    limits: ConversationLimits = field(default_factory=ConversationLimits)
    budget: ContextBudget = field(default_factory=ContextBudget)
    clock: Callable[[], float] = time.time
    slow_after: float = 30.0
    bot_name: str = BOT_NAME
    job_types: Mapping[str, str] = field(default_factory=dict)
    sensitive_words: Sequence[str] = ()
    report_fault: ReportFault = log_fault
    case_channels: CaseChannelIds = field(default_factory=CaseChannelIds)
    listening: Listening = DEFAULT_LISTENING

    @cached_property
    def operator_profile(self) -> OperatorProfile:
        """The operator's description of the product, with the operator's tools."""
        names = allowed_tools(self.registry, self.services, operator=True, read_only=False).names
        tools = [each for each in self.registry.all() if each.name in names]
        return OperatorProfile(tools, self.job_types, self.bot_name)

    async def hidden_from(self, users: Collection[str], channel: str) -> frozenset[RecordKind]:
        """Return the kinds of record that these users may not see: all if no roles are known.
        Never raises.
        """
        directory = self.services.get(RoleDirectory)
        return await directory.hidden_from(users, channel) if directory else frozenset(RecordKind)

    @property
    def hides_records(self) -> bool:
        """Whether a kind of record is restricted."""
        directory = self.services.get(RoleDirectory)
        return directory is None or bool(directory.roles.see)

    def hides(self, kind: RecordKind) -> bool:
        """Whether a kind of record is restricted."""
        directory = self.services.get(RoleDirectory)
        return directory is None or bool(
            directory.roles.refusal([kind], frozenset(), to_change=False)
        )

    @property
    def knows_roles(self) -> bool:
        """Whether `hidden_from` answers without asking Slack."""
        directory = self.services.get(RoleDirectory)
        return directory is None or directory.is_known(
            directory.roles.needed(RecordKind, to_change=False)
        )

    def allowed_tools(self, note: TurnNote, agent: Agent = Agent.ASSISTANT) -> AllowedTools:
        """Return the tools of a turn, the same at each of its steps."""
        operator = agent is Agent.OPERATOR
        why = note.read_only_reason
        given = (self.registry, self.services)
        return allowed_tools(
            *given, operator=operator, read_only=bool(why), reason=why or "nothing may be changed"
        )
