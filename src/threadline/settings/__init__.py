"""The environment, read once: one frozen class a section, under the names that the README lists."""

from threadline.settings.conversations import (
    ApprovalSettings,
    CiSettings,
    ConversationSettings,
    JiraSettings,
    OpenAISettings,
)
from threadline.settings.house import (
    AgentSettings,
    CaseSettings,
    CatchUpSettings,
    ChannelSettings,
    CodecSettings,
    DatabaseSettings,
    DeploymentSettings,
    ForgeSettings,
    LogSettings,
    PayloadSettings,
    RepositorySettings,
    SlackSettings,
    TemporalUiSettings,
    WorkerSettings,
)
from threadline.settings.section import Section

__all__ = [
    "AgentSettings",
    "ApprovalSettings",
    "CaseSettings",
    "CatchUpSettings",
    "ChannelSettings",
    "CiSettings",
    "CodecSettings",
    "ConversationSettings",
    "DatabaseSettings",
    "DeploymentSettings",
    "ForgeSettings",
    "JiraSettings",
    "LogSettings",
    "OpenAISettings",
    "PayloadSettings",
    "RepositorySettings",
    "Section",
    "SlackSettings",
    "TemporalUiSettings",
    "WorkerSettings",
]
