"""The environment, read once: one frozen class a section, under the names that the README lists."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from threadline.agents.models.prices import Price, parse_prices
from threadline.domain.bug import Severity
from threadline.domain.errors import Permanent
from threadline.domain.sla import DEFAULT_TARGETS, Target, parse_duration, parse_targets
from threadline.payloads.keys import KeyRing, parse_keys


def _seconds(value: Any) -> Any:
    return parse_duration(value) if isinstance(value, str) else value


def _names(value: Any) -> Any:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _tiers(value: Any) -> Any:
    return tuple(_names(tier) for tier in value.split(";") if tier.strip()) if isinstance(value, str) else value


def _targets(value: Any) -> Any:
    return parse_targets(value) if isinstance(value, str) else value


def _keys(value: Any) -> Any:
    return parse_keys(value) if isinstance(value, str) else value


def _prices(value: Any) -> Any:
    return parse_prices(value) if isinstance(value, str) else value


def _sources(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    pairs = [part.partition("=") for part in value.split(",") if part.strip()]
    if any(not dsn or not name.strip().isidentifier() for name, _, dsn in pairs):
        raise ValueError("write it as name=postgresql://…, several separated by commas")
    return {name.strip(): SecretStr(dsn.strip()) for name, _, dsn in pairs}


Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0)]


def _postgres(value: Any) -> Any:
    if isinstance(value, str) and not value.startswith(("postgresql://", "postgres://")):
        raise ValueError("write it as postgresql://user:password@host:port/name")
    return value


def _http(value: Any) -> Any:
    if isinstance(value, str) and not value.startswith(("https://", "http://")):
        raise ValueError("write it as https://host, with the path if it has one")
    return value


def _slug(value: Any) -> Any:
    if isinstance(value, str) and not re.fullmatch(r"[\w.-]+/[\w.-]+", value):
        raise ValueError("write it as owner/name")
    return value


HttpAddress = Annotated[str, BeforeValidator(_http)]
Slug = Annotated[str, BeforeValidator(_slug)]
PostgresUrl = Annotated[SecretStr, BeforeValidator(_postgres)]
Channel = Annotated[str, Field(pattern=r"^[CG][A-Z0-9]{6,}$")]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Channels = Annotated[tuple[Channel, ...], BeforeValidator(_names)]
Tiers = Annotated[tuple[tuple[str, ...], ...], BeforeValidator(_tiers)]
Targets = Annotated[dict[Severity, Target], BeforeValidator(_targets)]
Keys = Annotated[KeyRing, BeforeValidator(_keys)]
Prices = Annotated[dict[str, Price], BeforeValidator(_prices)]
Sources = Annotated[dict[str, SecretStr], BeforeValidator(_sources)]


class _Section(BaseSettings):
    model_config = SettingsConfigDict(
        frozen=True, env_ignore_empty=True, extra="ignore", enable_decoding=False, populate_by_name=True
    )

    @classmethod
    def read(cls) -> Self:
        """Read the section from the environment.

        Raises:
            Permanent: with one sentence for each variable that is wrong.
        """
        try:
            return cls()
        except ValidationError as error:
            raise Permanent("; ".join(_sentence(cls, detail) for detail in error.errors())) from error


def _sentence(section: type[BaseSettings], detail: Any) -> str:
    if not detail["loc"]:
        return f"{section.model_config.get('env_prefix', '')}*: {detail['msg'].removeprefix('Value error, ')}"
    if detail["type"] == "string_pattern_mismatch":
        return f"{section.model_config.get('env_prefix', '')}{detail['loc'][0]}".upper() + (
            f" is {detail['input']!r}: give the channel's id, such as C0123456789, as its details in Slack show it"
        )
    name = str(detail["loc"][0])
    fields = {field.validation_alias or key: key for key, field in section.model_fields.items()}
    prefix = section.model_config.get("env_prefix", "")
    variable = name if name in fields and name.isupper() else f"{prefix}{name}".upper()
    if detail["type"] == "missing":
        return f"{variable} is not set: see the README's table of settings"
    hidden = any(word in variable for word in ("TOKEN", "URL", "KEY", "SECRET", "DATABASE"))
    found = "a secret that is not shown" if hidden else repr(detail["input"])
    return f"{variable} is {found}: {detail['msg'].removeprefix('Value error, ')}"


class LogSettings(_Section):
    """At `DEBUG` the reason for which each event was passed over is told, too."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", validation_alias="THREADLINE_LOG_LEVEL")


class DeploymentSettings(_Section):
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


class SlackSettings(_Section):
    """How the gateway and the core worker reach Slack."""

    model_config = SettingsConfigDict(env_prefix="SLACK_")

    bot_token: SecretStr
    app_token: SecretStr | None = None
    signing_secret: SecretStr | None = None
    api_url: str | None = None


class ChannelSettings(_Section):
    """Channel ids, such as `C0123456789`; escalations go to the summaries channel when they have none.

    In the channels of `external_people`, guests and people of other companies count like others.
    """

    model_config = SettingsConfigDict(env_prefix="THREADLINE_")

    reports_channel: Channel
    summaries_channel: Channel
    escalation_channel: Channel | Literal[""] = ""
    external_people: Channels = ()

    @model_validator(mode="after")
    def _reports_are_apart(self) -> Self:
        if self.reports_channel in (self.summaries_channel, self.escalation):
            raise ValueError("reports need a channel of their own: who writes there is a reporter, and no developer")
        return self

    @property
    def escalation(self) -> str:
        return self.escalation_channel or self.summaries_channel


class CaseSettings(_Section):
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


class CatchUpSettings(_Section):
    """How often Slack's history is compared with what is stored, also when no gateway was away."""

    interval: Seconds = Field(600.0, validation_alias="THREADLINE_CATCH_UP_INTERVAL")


class WorkerSettings(_Section):
    """How much a core worker holds: a workflow beyond it is replayed from its start at its next message."""

    cached_workflows: int = Field(1000, ge=1, validation_alias="THREADLINE_CACHED_WORKFLOWS")


class DatabaseSettings(_Section):
    """Postgres as its owner: for the core worker, the gateway's one read, migrations and the CLI."""

    url: PostgresUrl = Field(validation_alias="DATABASE_URL")


class AgentSettings(_Section):
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


class OpenAISettings(_Section):
    """The model that answers mentions, at any endpoint that speaks one of OpenAI's two APIs; no key, no answers."""

    api_key: SecretStr | None = Field(None, validation_alias="OPENAI_API_KEY")
    base_url: HttpAddress = Field("https://api.openai.com/v1", validation_alias="OPENAI_BASE_URL")
    model: str = Field("gpt-5.4-mini", validation_alias="THREADLINE_OPENAI_MODEL")
    api: Literal["auto", "responses", "chat"] = Field("auto", validation_alias="THREADLINE_OPENAI_API")
    timeout: Seconds = Field(120.0, validation_alias="THREADLINE_OPENAI_TIMEOUT")
    prices: Prices = Field(default_factory=dict, validation_alias="THREADLINE_OPENAI_PRICES")


class ConversationSettings(_Section):
    """What bounds a conversation in a thread, and for how long it is kept."""

    model_config = SettingsConfigDict(env_prefix="THREADLINE_")

    conversation_max_turns: int = Field(5, ge=1, le=20)
    conversation_quiet: Seconds = 24 * 3600
    conversation_model_patience: Seconds = 3600
    conversation_context_tokens: int = Field(12_000, ge=2_000)
    conversation_retention_days: float = Field(90, gt=0)
    tool_log_days: float = Field(365, gt=0)
    mutations_per_minute: int = Field(30, ge=1)


class RepositorySettings(_Section):
    """Where the code is that cases are investigated in, and where copies of it may lie."""

    model_config = SettingsConfigDict(env_prefix="THREADLINE_")

    repo: Names
    home: Path = Path(".threadline")
    workspaces: Path | None = None

    @property
    def workspace_root(self) -> Path:
        return (self.workspaces or self.home / "workspaces").absolute()


class ForgeSettings(_Section):
    """The code host that fixes are pushed to."""

    model_config = SettingsConfigDict(env_prefix="GITHUB_")

    token: SecretStr | None = None
    api_url: str | None = None


class JiraSettings(_Section):
    """The Jira Cloud site whose tickets people may ask for, and the account that does it; without them, no tickets."""

    model_config = SettingsConfigDict(env_prefix="THREADLINE_JIRA_")

    url: HttpAddress | None = None
    email: str = ""
    token: SecretStr | None = None

    @model_validator(mode="after")
    def _all_or_none(self) -> Self:
        if len({bool(self.url), bool(self.email), self.token is not None}) > 1:
            raise ValueError("THREADLINE_JIRA_URL, THREADLINE_JIRA_EMAIL and THREADLINE_JIRA_TOKEN are set together")
        return self


class CiSettings(_Section):
    """The repository whose workflow runs people may ask for; what is not set here is as in `ForgeSettings`."""

    model_config = SettingsConfigDict(env_prefix="THREADLINE_GITHUB_")

    repository: Slug | None = None
    token: SecretStr | None = None
    api_url: HttpAddress | None = None


class PayloadSettings(_Section):
    """Under which keys Temporal's payloads are encrypted; without any they are not."""

    keys: Keys | None = Field(None, validation_alias="THREADLINE_PAYLOAD_KEYS")


class CodecSettings(_Section):
    """Who may have payloads shown in clear: who knows the token, on pages of these origins."""

    token: SecretStr | None = Field(None, min_length=16, validation_alias="THREADLINE_CODEC_TOKEN")
    origins: Names = Field(
        ("http://localhost:8233", "http://127.0.0.1:8233"), validation_alias="THREADLINE_CODEC_ORIGINS"
    )
