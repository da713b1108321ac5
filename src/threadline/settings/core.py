"""Settings of the processes and of bug cases: Slack, Temporal's workers, Postgres, the agents, the code."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from threadline.cases.model import DEFAULT_TARGETS
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
    """Logging."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO",
        validation_alias="THREADLINE_LOG_LEVEL",
        description="`DEBUG`, `INFO`, `WARNING` or `ERROR`. `DEBUG` also logs why an event was ignored.",
    )


class DeploymentSettings(Section):
    """Worker versioning.

    Names the build for Temporal's worker versioning: see deploying.md. Set both or neither.
    """

    model_config = SettingsConfigDict(env_prefix="THREADLINE_")

    deployment: str = Field("", description="Name of the deployment, without a dot.", examples=["threadline"])
    build_id: str = Field("", description="Id of this build, such as a commit.", examples=["b2"])

    @model_validator(mode="after")
    def _named_both_or_neither(self) -> Self:
        if "." in self.deployment:
            raise ValueError("THREADLINE_DEPLOYMENT must not contain a dot: Temporal puts one before the build id")
        if bool(self.deployment) != bool(self.build_id):
            raise ValueError("THREADLINE_DEPLOYMENT and THREADLINE_BUILD_ID must be set together")
        return self


class SlackSettings(Section):
    """Slack.

    The app is described by `deploy/slack/manifest.yaml`. The gateway needs the app-level token (Socket Mode) or the
    signing secret (HTTP).
    """

    model_config = SettingsConfigDict(env_prefix="SLACK_")

    bot_token: SecretStr = Field(description="Bot token of the app (`xoxb-…`). `threadline up` uses its sandbox.")
    app_token: SecretStr | None = Field(
        None, description="App-level token (`xapp-…`). When it is set, events arrive by Socket Mode."
    )
    signing_secret: SecretStr | None = Field(
        None, description="Verifies events that arrive by HTTP, when there is no app-level token."
    )
    api_url: str | None = Field(None, description="Base URL of Slack's Web API, when it is not Slack's own.")


class ChannelSettings(Section):
    """Channels.

    Each value is a channel id, such as `C0123456789`. Several ids are separated by commas.
    """

    model_config = SettingsConfigDict(env_prefix="THREADLINE_")

    reports_channel: Channel = Field(
        description="Channel in which bugs are reported. `threadline up` uses the sandbox's."
    )
    summaries_channel: Channel = Field(
        description="Channel in which developers get findings. `threadline up` uses the sandbox's."
    )
    escalation_channel: Channel | Literal[""] = Field(
        "", description="Channel in which people are called. Without it, the summaries channel."
    )
    external_people: Channels = Field(
        (),
        description="Channels in which messages of guests and of other companies' members are accepted. Elsewhere they "
        "are ignored.",
    )
    conversation_channels: Channels = Field(
        (),
        description="Channels that are searched for mentions that Slack failed to deliver. Direct messages and other "
        "channels are then left out. Without it, every channel of the bot and its direct messages are searched, 40 at "
        "each run, least recently searched first. Set it when the bot is in many busy channels: each listed channel is "
        "searched at every run, 30 days back once a day, within some 50 Slack calls a minute.",
    )

    @model_validator(mode="after")
    def _conversations_are_apart(self) -> Self:
        if set(self.conversation_channels) & {self.reports_channel, self.summaries_channel, self.escalation}:
            raise ValueError("a channel of cases cannot be in THREADLINE_CONVERSATION_CHANNELS: remove it there")
        return self

    @model_validator(mode="after")
    def _reports_are_apart(self) -> Self:
        if self.reports_channel in (self.summaries_channel, self.escalation):
            raise ValueError(
                "THREADLINE_REPORTS_CHANNEL must differ from the other case channels: its writers are reporters"
            )
        return self

    @property
    def escalation(self) -> str:
        return self.escalation_channel or self.summaries_channel


class CaseSettings(Section):
    """Bug cases.

    Limits of a case, and the people who are called when it is escalated: see cases.md.
    """

    model_config = SettingsConfigDict(env_prefix="THREADLINE_")

    reporter_timeout: Seconds = Field(2 * 3600, description="How long a question to the reporter waits for an answer.")
    developer_timeout: Seconds = Field(48 * 3600, description="How long findings wait for a developer.")
    turn_timeout: Seconds = Field(15 * 60, description="How long one turn of the agent may take.")
    turn_budget_usd: float = Field(2.0, gt=0, description="Cost limit of one attempt at a turn, in US dollars.")
    case_budget_usd: float = Field(10.0, gt=0, description="Cost limit of a case, in US dollars.")
    max_questions: int = Field(3, ge=0, description="Questions that the agent may ask in one case.")
    pull_request_poll: Seconds = Field(30 * 60, description="How often an open pull request is looked up.")
    oncall: Tiers = Field(
        (),
        description="User or group ids to mention in an escalation. Commas separate ids, semicolons separate tiers.",
        examples=["U1,S2;U3"],
    )
    sla: Targets = Field(
        DEFAULT_TARGETS, description="Time to acknowledge and time to resolve an escalation, by severity."
    )
    services: Path | None = Field(
        None,
        description="TOML file with `[[service]]` tables: name, owner, and optionally description, channel and "
        "repository.",
        examples=["services.toml"],
    )


class CatchUpSettings(Section):
    """Catch-up."""

    interval: Seconds = Field(
        600.0,
        validation_alias="THREADLINE_CATCH_UP_INTERVAL",
        description="How often Slack's history is compared with what is stored.",
    )


class WorkerSettings(Section):
    """Core worker."""

    cached_workflows: int = Field(
        1000,
        ge=1,
        validation_alias="THREADLINE_CACHED_WORKFLOWS",
        description="Threads that one core worker keeps in memory. Set it above the number of threads that are active "
        "at once: a thread outside the cache is replayed from its start at its next message.",
    )


class DatabaseSettings(Section):
    """Database."""

    url: PostgresUrl = Field(
        validation_alias="DATABASE_URL",
        description="Postgres, with the role that owns the schema. Migrations and commands use it too. `threadline up` "
        "starts its own.",
        examples=["postgresql://threadline:…@localhost:5432/threadline"],
    )


class AgentSettings(Section):
    """Investigating agent.

    The agents' worker has no Slack token, no push credential, and a database role of its own.
    """

    database_url: PostgresUrl = Field(
        validation_alias="THREADLINE_AGENT_DATABASE_URL",
        description="The same database with the role `threadline_agent`. `threadline up` starts its own.",
        examples=["postgresql://threadline_agent:…@localhost:5432/threadline"],
    )
    api_key: SecretStr = Field(
        validation_alias="ANTHROPIC_API_KEY",
        description="API key of the model. `threadline up` uses its stand-in without it.",
    )
    base_url: str | None = Field(
        None, validation_alias="ANTHROPIC_BASE_URL", description="URL of the model's API, when it is not Anthropic's."
    )
    model: str = Field(
        "claude-sonnet-5", validation_alias="THREADLINE_INVESTIGATOR_MODEL", description="Full name of the model."
    )
    slots: int = Field(
        4, ge=1, validation_alias="THREADLINE_AGENT_SLOTS", description="Turns that one agents' worker runs at once."
    )
    query_databases: Sources = Field(
        default_factory=dict,
        validation_alias="THREADLINE_QUERY_DATABASES",
        description="Other databases that the agent may query, as `name=postgresql://…`, separated by commas. Their "
        "role must only be able to read the views below.",
        examples=["shop=postgresql://reader:…@…/shop"],
    )
    query_views: Names = Field(
        (),
        validation_alias="THREADLINE_QUERY_VIEWS",
        description="Views that the agent may read there, separated by commas.",
        examples=["orders_seen"],
    )
    loki_url: str | None = Field(
        None, validation_alias="THREADLINE_LOKI_URL", description="URL of Loki, in which the agent searches logs."
    )
    loki_selector: str = Field(
        '{job=~".+"}',
        validation_alias="THREADLINE_LOKI_SELECTOR",
        description="Log streams that the agent may search.",
        examples=['{namespace="shop"}'],
    )


class RepositorySettings(Section):
    """Code and files."""

    model_config = SettingsConfigDict(env_prefix="THREADLINE_")

    repo: Names = Field(
        description="Git URLs or paths of the code, separated by commas. A login may stand in the URL; the one for the "
        "agents' worker must only be able to read. `threadline up` makes a sample repository."
    )
    home: Path = Field(Path(".threadline"), description="Folder for the files of the devstack and of the workers.")
    workspaces: Path | None = Field(
        None,
        description="Folder for the agent's copies of the code. Without it, `workspaces` in `THREADLINE_HOME`.",
        examples=[".threadline/workspaces"],
    )

    @property
    def workspace_root(self) -> Path:
        return (self.workspaces or self.home / "workspaces").absolute()


class ForgeSettings(Section):
    """Pull requests.

    Without a token a fix is a pushed branch. The agents' worker never gets this token.
    """

    model_config = SettingsConfigDict(env_prefix="GITHUB_")

    token: SecretStr | None = Field(None, description="GitHub token that opens draft pull requests.")
    api_url: str | None = Field(None, description="API URL of a GitHub Enterprise server.")


class PayloadSettings(Section):
    """Encryption.

    Encrypts what Temporal stores: see security.md. Every process that talks to Temporal needs the same value.
    """

    keys: Keys | None = Field(
        None,
        validation_alias="THREADLINE_PAYLOAD_KEYS",
        description="Keys as `id:key`, separated by commas. The first key encrypts, all keys decrypt. With `plain` in "
        "front, nothing is encrypted yet. Without it, nothing is encrypted. `openssl rand -base64 32` makes a key.",
        examples=["2026-11:…"],
    )


class TemporalUiSettings(Section):
    """Temporal's UI.

    `threadline explain` reads it, which runs where the core worker runs.
    """

    url: HttpAddress = Field(
        "http://localhost:8233",
        validation_alias="THREADLINE_TEMPORAL_UI",
        description="Address of Temporal's UI, for links. `threadline up` uses its own.",
        examples=["http://localhost:8080"],
    )


class CodecSettings(Section):
    """Codec server.

    `threadline codec` decrypts payloads for Temporal's UI and command line: see security.md.
    """

    token: SecretStr | None = Field(
        None,
        min_length=16,
        validation_alias="THREADLINE_CODEC_TOKEN",
        description="Token that clients must present, at least 16 characters. Required when it serves beyond this "
        "machine.",
    )
    origins: Names = Field(
        ("http://localhost:8233", "http://127.0.0.1:8233"),
        validation_alias="THREADLINE_CODEC_ORIGINS",
        description="Origins of the pages that may ask: the addresses of Temporal's UI, separated by commas.",
        examples=["http://localhost:8080,http://127.0.0.1:8080"],
    )
