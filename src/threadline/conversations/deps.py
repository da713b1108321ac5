"""ConversationDeps: what the steps of a conversation work with."""

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from threadline.conversations.model.conversation import ConversationLimits
from threadline.conversations.prompt import ContextBudget, TurnNote
from threadline.db.engine import Database, Transaction
from threadline.decisions.model import Retrieval, Source
from threadline.decisions.variants import Variant
from threadline.models.model import ChatModel
from threadline.operator.context import TOKENS, SlackContext
from threadline.operator.model.routing import Agent
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

SearchDocuments = Callable[[str, str, Sequence[str]], Awaitable[tuple[Sequence[Source], Retrieval]]]
"""What the documents of a team say of a query, those of these types first. Raises what the knowledge raises."""
DescribeAsker = Callable[[Transaction, str, str, User | None], Awaitable[str]]
"""What is known of who asks (team, Slack id, user), on record or in Slack, in a few lines; empty for nothing."""


@dataclass(frozen=True)
class DecisionDeps:
    """`model` is None where there is no key for one: then nothing is decided. `questions`: how often in a row the
    engine may ask back before a person takes over."""

    model: ChatModel | None
    describe_asker: DescribeAsker
    search_documents: SearchDocuments
    variants: tuple[Variant, ...] = (Variant(),)
    questions: int = 2


@dataclass(frozen=True)
class ConversationDeps:
    """Without a `model`, every turn that needs one says so. `operator_slack`: where the operator's context in Slack
    comes from, bounded by `operator_tokens`. `clock`: seconds since 1970. `sensitive_words`: beside those of
    `decisions.model.sensitive_topics`. `report_fault` tells the admin (`InstallationFaults.report`)."""

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
    bot_name: str = BOT_NAME
    job_types: Mapping[str, str] = field(default_factory=dict)
    sensitive_words: Sequence[str] = ()
    report_fault: ReportFault = log_fault

    @cached_property
    def operator_profile(self) -> OperatorProfile:
        """What the operator is told of the product, with the tools that are its own."""
        names = allowed_tools(self.registry, self.services, operator=True, read_only=False).names
        tools = [each for each in self.registry.all() if each.name in names]
        return OperatorProfile(tools, self.job_types, self.bot_name)

    async def hidden_from(self, users: Collection[str], channel: str) -> frozenset[RecordKind]:
        """The kinds of record that these people may not see: all where no roles are known. Never raises."""
        directory = self.services.get(RoleDirectory)
        return await directory.hidden_from(users, channel) if directory else frozenset(RecordKind)

    @property
    def hides_records(self) -> bool:
        """Whether some kind of record is not for everybody."""
        directory = self.services.get(RoleDirectory)
        return directory is None or bool(directory.roles.see)

    def hides(self, kind: RecordKind) -> bool:
        """Whether a kind of record is not for everybody."""
        directory = self.services.get(RoleDirectory)
        return directory is None or bool(directory.roles.refusal([kind], frozenset(), to_change=False))

    @property
    def knows_roles(self) -> bool:
        """Whether `hidden_from` answers without asking Slack."""
        directory = self.services.get(RoleDirectory)
        return directory is None or directory.is_known(directory.roles.needed(RecordKind, to_change=False))

    def allowed_tools(self, note: TurnNote, agent: Agent = Agent.COPILOT) -> AllowedTools:
        """The tools of a turn, the same at each of its steps."""
        operator, why = agent is Agent.OPERATOR, note.read_only_reason
        given = (self.registry, self.services)
        return allowed_tools(*given, operator=operator, read_only=bool(why), reason=why or "nothing may be changed")
