"""The house and its cases: Slack, Temporal's workers, Postgres, the agents, the code."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from threadline.cases.sla import DEFAULT_TARGETS
from threadline.settings.base import (
    Channel,
    Channels,
    HttpAddress,
    Keys,
    Names,
    PostgresUrl,
    Seconds,
    Section,
    Sources,
    Targets,
    Tiers,
)


class LogSettings(Section):
    """At `DEBUG` the reason for which each event was passed over is told, too."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", validation_alias="THREADLINE_LOG_LEVEL")


class DeploymentSettings(Section):
    """Temporal's worker versioning: which build of this code the core worker is. Without a name there is none."""

    model_config = SettingsConfigDict(env_prefix="THREADLINE_")

    deployment: str = ""
    build_id: str = ""

    @model_validator(mode="after")
    def _named_both_or_neither(self) -> Self:
        if "." in self.deployment:
            raise ValueError("THREADLINE_DEPLOYMENT may hold no dot: Temporal puts one before the build's id")
        if bool(self.deployment) != bool(self.build_id):
            raise ValueError("THREADLINE_DEPLOYMENT and THREADLINE_BUILD_ID are set together, or neither")
        return self


class SlackSettings(Section):
    """How the gateway and the core worker reach Slack."""

    model_config = SettingsConfigDict(env_prefix="SLACK_")

    bot_token: SecretStr
    app_token: SecretStr | None = None
    signing_secret: SecretStr | None = None
    api_url: str | None = None


class ChannelSettings(Section):
    """Channel ids, such as `C0123456789`; escalations go to the summaries channel when they have none.

    In the channels of `external_people`, guests and people of other companies count like others. Mentions that Slack
    gave up delivering are looked for in those of `conversation_channels`, or wherever the bot is if there are none.
    """

    model_config = SettingsConfigDict(env_prefix="THREADLINE_")

    reports_channel: Channel
    summaries_channel: Channel
    escalation_channel: Channel | Literal[""] = ""
    external_people: Channels = ()
    conversation_channels: Channels = ()

    @model_validator(mode="after")
    def _conversations_are_apart(self) -> Self:
        if set(self.conversation_channels) & {self.reports_channel, self.summaries_channel, self.escalation}:
            raise ValueError("a channel of cases is no channel of conversations: leave it out of the latter")
        return self

    @model_validator(mode="after")
    def _reports_are_apart(self) -> Self:
        if self.reports_channel in (self.summaries_channel, self.escalation):
            raise ValueError("reports need a channel of their own: who writes there is a reporter, and no developer")
        return self

    @property
    def escalation(self) -> str:
        return self.escalation_channel or self.summaries_channel


class CaseSettings(Section):
    """What bounds a case, and who is called when it is escalated."""

    model_config = SettingsConfigDict(env_prefix="THREADLINE_")

    reporter_timeout: Seconds = 2 * 3600
    developer_timeout: Seconds = 48 * 3600
    turn_timeout: Seconds = 15 * 60
    turn_budget_usd: float = Field(2.0, gt=0)
    case_budget_usd: float = Field(10.0, gt=0)
    max_questions: int = Field(3, ge=0)
    pull_request_poll: Seconds = 30 * 60
    oncall: Tiers = ()
    sla: Targets = DEFAULT_TARGETS
    services: Path | None = None


class CatchUpSettings(Section):
    """How often Slack's history is compared with what is stored, also when no gateway was away."""

    interval: Seconds = Field(600.0, validation_alias="THREADLINE_CATCH_UP_INTERVAL")


class WorkerSettings(Section):
    """How much a core worker holds: a workflow beyond it is replayed from its start at its next message."""

    cached_workflows: int = Field(1000, ge=1, validation_alias="THREADLINE_CACHED_WORKFLOWS")


class DatabaseSettings(Section):
    """Postgres as its owner: for the core worker, the gateway's one read, migrations and the CLI."""

    url: PostgresUrl = Field(validation_alias="DATABASE_URL")


class AgentSettings(Section):
    """What the agent worker may have: no Slack token, no push credential, no owner of the database."""

    database_url: PostgresUrl = Field(validation_alias="THREADLINE_AGENT_DATABASE_URL")
    api_key: SecretStr = Field(validation_alias="ANTHROPIC_API_KEY")
    base_url: str | None = Field(None, validation_alias="ANTHROPIC_BASE_URL")
    model: str = Field("claude-sonnet-5", validation_alias="THREADLINE_INVESTIGATOR_MODEL")
    slots: int = Field(4, ge=1, validation_alias="THREADLINE_AGENT_SLOTS")
    query_databases: Sources = Field(default_factory=dict, validation_alias="THREADLINE_QUERY_DATABASES")
    query_views: Names = Field((), validation_alias="THREADLINE_QUERY_VIEWS")
    loki_url: str | None = Field(None, validation_alias="THREADLINE_LOKI_URL")
    loki_selector: str = Field('{job=~".+"}', validation_alias="THREADLINE_LOKI_SELECTOR")


class RepositorySettings(Section):
    """Where the code is that cases are investigated in, and where copies of it may lie."""

    model_config = SettingsConfigDict(env_prefix="THREADLINE_")

    repo: Names
    home: Path = Path(".threadline")
    workspaces: Path | None = None

    @property
    def workspace_root(self) -> Path:
        return (self.workspaces or self.home / "workspaces").absolute()


class ForgeSettings(Section):
    """The code host that fixes are pushed to."""

    model_config = SettingsConfigDict(env_prefix="GITHUB_")

    token: SecretStr | None = None
    api_url: str | None = None


class PayloadSettings(Section):
    """Under which keys Temporal's payloads are encrypted; without any they are not."""

    keys: Keys | None = Field(None, validation_alias="THREADLINE_PAYLOAD_KEYS")


class TemporalUiSettings(Section):
    """Where people open Temporal's UI; nothing asks it."""

    url: HttpAddress = Field("http://localhost:8233", validation_alias="THREADLINE_TEMPORAL_UI")


class CodecSettings(Section):
    """Who may have payloads shown in clear: who knows the token, on pages of these origins."""

    token: SecretStr | None = Field(None, min_length=16, validation_alias="THREADLINE_CODEC_TOKEN")
    origins: Names = Field(
        ("http://localhost:8233", "http://127.0.0.1:8233"), validation_alias="THREADLINE_CODEC_ORIGINS"
    )
