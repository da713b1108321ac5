"""The core worker's settings, read and checked before it opens a connection."""

from dataclasses import dataclass, field

from threadline.decisions.model import Thresholds
from threadline.decisions.variants import Variant, load_variants
from threadline.settings import (
    AccessSettings,
    ApprovalSettings,
    CaseSettings,
    ChannelSettings,
    ConversationSettings,
    DatabaseSettings,
    DecisionSettings,
    GitHubSettings,
    MailSettings,
    ModelSettings,
    QueueSettings,
    RepositorySettings,
    SlackSettings,
    WorkerSettings,
)
from threadline.wiring.toolsets import load_access


@dataclass(frozen=True)
class ConversationFeatureSettings:
    """Settings of conversations, read before any connection is opened."""

    model: ModelSettings = field(default_factory=ModelSettings.load)
    conversation: ConversationSettings = field(default_factory=ConversationSettings.load)
    approval: ApprovalSettings = field(default_factory=ApprovalSettings.load)
    decision: DecisionSettings = field(default_factory=DecisionSettings.load)
    mail: MailSettings = field(default_factory=MailSettings.load)
    access: AccessSettings = field(default_factory=AccessSettings.load)

    def __post_init__(self) -> None:
        # Faults in the files are reported before any connection is opened.
        decision_variants(self.decision)
        load_access(self.access)


@dataclass(frozen=True)
class CoreSettings:
    """Settings of the core worker, read before any connection is opened, so that a missing one is
    reported at once.
    """

    stored: DatabaseSettings = field(default_factory=DatabaseSettings.load)
    slack: SlackSettings = field(default_factory=SlackSettings.load)
    channels: ChannelSettings = field(default_factory=ChannelSettings.load)
    queues: QueueSettings = field(default_factory=QueueSettings.load)
    case: CaseSettings = field(default_factory=CaseSettings.load)
    repository: RepositorySettings = field(default_factory=RepositorySettings.load)
    forge: GitHubSettings = field(default_factory=GitHubSettings.load)
    worker: WorkerSettings = field(default_factory=WorkerSettings.load)
    conversations: ConversationFeatureSettings = field(default_factory=ConversationFeatureSettings)


def decision_variants(settings: DecisionSettings) -> tuple[Variant, ...]:
    """Return the variants of the settings.

    Raises:
        Permanent: one is wrong.
    """
    return load_variants(
        settings.decision_variants, Thresholds(settings.decision_high, settings.decision_low)
    )
