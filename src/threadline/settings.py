"""Settings from the environment, in one frozen class per group, so that no process needs another's
variables.

docs/settings.md and .env.example are generated from the docstrings: a setting's docstring is its
description, and the first sentence of a group's docstring is its heading.
"""

import os
import re
from collections.abc import Callable
from email.utils import parseaddr
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo

from threadline.cases.model import DEFAULT_TARGETS, Severity, SlaTarget
from threadline.conversations.model.listening import DEFAULT_QUIET, Listen
from threadline.errors import Permanent
from threadline.knowledge.languages import STEMMED, UNSTEMMED, configuration
from threadline.models.prices import Price, parse_prices
from threadline.privacy.keys import KeyRing, parse_keys
from threadline.sales.model import MailAccount, is_address, parse_mail_account

_AMOUNT = re.compile(r"(\d+\.?\d*|\.\d+)([smhd])")


def parse_duration(text: str) -> float:
    """Return the seconds of `15m`, `4h`, `5d`, `30s` or `1h30m`.

    Raises:
        ValueError: with a sentence that quotes the text and names the expected form.
    """
    plain = text.strip().lower()
    units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    if not re.fullmatch(rf"(?:{_AMOUNT.pattern})+", plain):
        raise ValueError(f"{text!r} is not a duration: write it as 30s, 15m, 2h, 5d or 1h30m")
    return sum(float(each[1]) * units[each[2]] for each in _AMOUNT.finditer(plain))


def parse_targets(text: str) -> dict[Severity, SlaTarget]:
    """Return targets by severity from `S1=15m/4h,S2=1h/24h`; a severity that is not named keeps
    its default.

    Raises:
        ValueError: with a sentence that quotes the unreadable part.
    """
    targets = dict(DEFAULT_TARGETS)
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, _, times = part.partition("=")
        acknowledge, slash, resolve = times.partition("/")
        if name.strip().upper() not in Severity.__members__ or not slash:
            raise ValueError(
                f"{part!r} is not a target: write severity=acknowledge/resolve, such as S1=15m/4h"
            )
        targets[Severity(name.strip().upper())] = SlaTarget(
            parse_duration(acknowledge), parse_duration(resolve)
        )
    return targets


def from_text(parse: Callable[[str], Any]) -> BeforeValidator:
    """Parse a text from the environment; a default passes unchanged."""
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def _split_commas(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _parse_tiers(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(_split_commas(tier) for tier in text.split(";") if tier.strip())


def _parse_sources(text: str) -> dict[str, SecretStr]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if any(not dsn or not name.strip().isidentifier() for name, _, dsn in pairs):
        raise ValueError("write it as name=postgresql://…, several separated by commas")
    return {name.strip(): SecretStr(dsn.strip()) for name, _, dsn in pairs}


def _parse_listens(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    modes = [each.value for each in Listen]
    if any(mode.strip() not in modes for _, _, mode in pairs):
        raise ValueError(
            "write channel=mode, such as C0123456789=every, several separated by commas; the "
            f"modes are {', '.join(modes)}"
        )
    return {channel.strip(): mode.strip() for channel, _, mode in pairs}


def _stemmed(code: str) -> str:
    if configuration(code) == UNSTEMMED:
        raise ValueError(f"{code!r} has no stemmer: write one of {', '.join(STEMMED)}")
    return code


def _matching(pattern: str, hint: str) -> BeforeValidator:
    """Require a text to match from its beginning to its end; `hint` describes the form."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text, re.DOTALL):
            raise ValueError(hint)
        return text

    return from_text(check)


def _mail_address(value: str) -> str:
    if value and (not value.isprintable() or not is_address(parseaddr(value)[1].lower())):
        raise ValueError("write it as sales@example.com, or as Sales <sales@example.com>")
    return value


def _domain(text: str) -> str:
    domain = text.lower().removeprefix("@")
    if not is_address(f"somebody@{domain}"):
        raise ValueError("give domains such as example.com, several separated by commas")
    return domain


DURATION = from_text(parse_duration)
_NAMES = from_text(_split_commas)
_UNIQUE = AfterValidator(lambda values: tuple(dict.fromkeys(values)))
Seconds = Annotated[float, DURATION, Field(gt=0)]
HttpAddress = Annotated[
    str, _matching(r"https?://.*", "write it as https://host, with the path if it has one")
]
Slug = Annotated[str, _matching(r"[\w.-]+/[\w.-]+", "write it as owner/name")]
PostgresUrl = Annotated[
    SecretStr,
    _matching(r"postgres(?:ql)?://.*", "write it as postgresql://user:password@host:port/name"),
]
Channel = Annotated[
    str,
    _matching(
        r"[CG][A-Z0-9]{6,}",
        "give the channel's id, such as C0123456789, as its details in Slack show it",
    ),
]
Names = Annotated[tuple[str, ...], _NAMES]
Channels = Annotated[tuple[Channel, ...], _NAMES]
UserId = Annotated[
    str,
    _matching(
        r"[UW][A-Z0-9]{2,20}",
        "give the ids of users, such as U0123456789, several separated by commas",
    ),
]
Apps = Annotated[
    tuple[
        Annotated[
            str,
            _matching(
                r"[AB][A-Z0-9]{2,20}",
                (
                    "give the ids of bots or apps, such as B0123456789 or A0123456789, several "
                    "separated by commas"
                ),
            ),
        ],
        ...,
    ],
    _NAMES,
    _UNIQUE,
]
People = Annotated[tuple[UserId, ...], _NAMES, _UNIQUE]
MailServer = Annotated[MailAccount, from_text(parse_mail_account)]
MailAddress = Annotated[str, AfterValidator(_mail_address)]
Domains = Annotated[tuple[Annotated[str, from_text(_domain)], ...], _NAMES, _UNIQUE]
Tiers = Annotated[tuple[tuple[str, ...], ...], from_text(_parse_tiers)]
Listens = Annotated[dict[Channel, Listen], from_text(_parse_listens)]
Targets = Annotated[dict[Severity, SlaTarget], from_text(parse_targets)]
Keys = Annotated[KeyRing, from_text(parse_keys)]
Prices = Annotated[dict[str, Price], from_text(parse_prices)]
Sources = Annotated[dict[str, SecretStr], from_text(_parse_sources)]


class SettingsGroup(BaseModel, frozen=True, populate_by_name=True, defer_build=True):
    """Variables of one process or feature. A field without an alias is read from `prefix` and its
    name in capitals. An empty variable counts as not set.
    """

    prefix: ClassVar[str] = "THREADLINE_"
    set_together: ClassVar[tuple[str, ...]] = ()
    """Fields that must be set all or not at all."""

    @model_validator(mode="after")
    def _all_or_none(self) -> Self:
        if len({bool(getattr(self, name)) for name in self.set_together}) > 1:
            *others, last = map(self.variable, self.set_together)
            raise ValueError(f"{', '.join(others)} and {last} must be set together")
        return self

    @classmethod
    def load(cls) -> Self:
        """Read the group from the environment.

        Raises:
            Permanent: with one sentence for each invalid variable.
        """
        given = {name: os.environ.get(cls.variable(name)) for name in cls.model_fields}
        try:
            return cls.model_validate({name: value for name, value in given.items() if value})
        except ValidationError as error:
            raise Permanent(
                "; ".join(_explain(cls, detail) for detail in error.errors())
            ) from error

    @classmethod
    def variables(cls) -> dict[str, FieldInfo]:
        """Return the group's fields by their environment variables."""
        return {cls.variable(name): field for name, field in cls.model_fields.items()}

    @classmethod
    def variable(cls, name: str) -> str:
        """Return the environment variable of a field."""
        return str(cls.model_fields[name].validation_alias or f"{cls.prefix}{name}".upper())


def _explain(group: type[SettingsGroup], detail: Any) -> str:
    if not detail["loc"]:
        return f"{group.prefix}*: {detail['msg'].removeprefix('Value error, ')}"
    name = str(detail["loc"][0])
    variable = group.variable(name) if name in group.model_fields else name
    if detail["type"] == "missing":
        return f"{variable} is not set: see docs/settings.md"
    hidden = any(word in variable for word in ("TOKEN", "URL", "KEY", "SECRET", "DATABASE"))
    found = "a secret that is not shown" if hidden else repr(detail["input"])
    return f"{variable} is {found}: {detail['msg'].removeprefix('Value error, ')}"


# ---- The processes and bug cases


class LogSettings(SettingsGroup):
    """Logging."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """`DEBUG`, `INFO`, `WARNING` or `ERROR`. `DEBUG` also logs why an event was ignored."""


class SlackSettings(SettingsGroup):
    """Slack. `deploy/slack/manifest.yaml` describes the app. The gateway needs the app-level token
    (Socket Mode) or the signing secret (HTTP).
    """

    prefix = "SLACK_"

    bot_token: SecretStr
    """Bot token of the app (`xoxb-…`). `threadline up` uses its sandbox."""
    app_token: SecretStr | None = None
    """App-level token (`xapp-…`). With it, events arrive by Socket Mode."""
    signing_secret: SecretStr | None = None
    """Secret that verifies events by HTTP, when there is no app-level token."""
    api_url: str | None = None
    """Base URL of the Web API, when it is not Slack's own."""


class ChannelSettings(SettingsGroup):
    """Channels. Each value is a channel id, such as `C0123456789`. Several ids are separated by
    commas.
    """

    reports_channel: Channel
    """Channel in which people report bugs. `threadline up` uses the sandbox's."""
    summaries_channel: Channel
    """Channel in which developers get findings. `threadline up` uses the sandbox's."""
    escalation_channel: Channel | Literal[""] = ""
    """Channel in which the people on call are mentioned. Defaults to the summaries channel."""
    admin_channel: Channel | Literal[""] = ""
    """Channel in which the admin, who runs Threadline, gets messages about faults of the
    installation. Defaults to the escalation channel.
    """
    external_people: Channels = ()
    """Channels in which Threadline accepts messages of guests and of other companies' members. It
    ignores them elsewhere.
    """
    allowed_apps: Apps = ()
    """Apps whose messages count like those of an external person, such as a workflow's form or a
    webhook that reports bugs: ids of bots (`B…`) or apps (`A…`). Without it, Threadline ignores
    messages of apps.
    """
    conversation_channels: Channels = ()
    """Channels in which the catch-up searches for mentions that Slack failed to deliver. It then
    leaves out direct messages and other channels. Without it, the catch-up searches every channel
    of the bot and its direct messages, 40 at each run, least recently searched first. Set it when
    the bot is in many busy channels: each listed channel is searched at every run, 30 days back
    once a day, within some 50 Slack calls a minute.
    """

    listen: Listen = Listen.MEANT
    """The messages that Threadline answers outside of the channels of cases. `mentioned`: those
    that mention it. `meant`: also answers to its questions, messages of a person who is alone with
    it in a thread, and those among several people that are meant for it. `every`: every message
    that is not addressed to somebody else, also new ones in the channel. Direct messages are
    always answered. See conversations.md.
    """
    listen_channels: Listens = Field({}, examples=["C0123456789=every,C9876543210=mentioned"])
    """Channels with another value than `THREADLINE_LISTEN`, as channel=value, separated by commas.
    """

    @model_validator(mode="after")
    def _are_apart(self) -> Self:
        if self.listen_channels.keys() & self.of_cases.keys():
            raise ValueError(
                "a channel of cases cannot be in THREADLINE_LISTEN_CHANNELS: remove it there"
            )
        if set(self.conversation_channels) & self.of_cases.keys():
            raise ValueError(
                "a channel of cases cannot be in THREADLINE_CONVERSATION_CHANNELS: remove it there"
            )
        if self.reports_channel in (self.summaries_channel, self.escalation):
            raise ValueError(
                "THREADLINE_REPORTS_CHANNEL must differ from the other case channels: its "
                "writers are reporters"
            )
        return self

    @property
    def escalation(self) -> str:
        return self.escalation_channel or self.summaries_channel

    @property
    def admin(self) -> str:
        return self.admin_channel or self.escalation

    @property
    def of_cases(self) -> dict[str, bool]:
        """The channels of cases, with whether only threads that the bot opened count there."""
        return {self.reports_channel: False, self.summaries_channel: True, self.escalation: True}

    @property
    def watched(self) -> list[str]:
        """The channels whose history is always read; without `conversation_channels`, the bot's
        other channels are read as well.
        """
        return [*self.of_cases, *self.conversation_channels]


class QueueSettings(SettingsGroup):
    """Queues whose workers are away."""

    worker_patience: Seconds = 3 * 60
    """How long a queue may have no worker before the admin and the threads of waiting
    investigations get a message.
    """


class CaseSettings(SettingsGroup):
    """Bug cases. Limits of a case, and the people whom an escalation mentions: see cases.md."""

    reporter_timeout: Seconds = 2 * 3600
    """How long a question to the reporter waits for an answer."""
    developer_timeout: Seconds = 48 * 3600
    """How long findings wait for a developer."""
    turn_timeout: Seconds = 15 * 60
    """How long one turn of the agent may take."""
    turn_budget_usd: float = Field(2.0, gt=0)
    """Cost limit of one attempt at a turn, in US dollars."""
    case_budget_usd: float = Field(10.0, gt=0)
    """Cost limit of a case, in US dollars."""
    max_questions: int = Field(3, ge=0)
    """Questions that the agent may ask in one case."""
    pull_request_poll: Seconds = 30 * 60
    """How often the state of an open pull request is checked."""
    oncall: Tiers = Field((), examples=["U1,S2;U3"])
    """User or group ids to mention in an escalation. Commas separate ids, semicolons separate
    tiers. The card of a handover mentions the first tier as well.
    """
    sla: Targets = DEFAULT_TARGETS
    """Time to acknowledge and time to resolve an escalation, by severity."""
    services: Path | None = Field(None, examples=["services.toml"])
    """TOML file with `[[service]]` tables: name, owner, and optionally description, channel and
    repository.
    """


class WorkerSettings(SettingsGroup):
    """Core worker. The deployment and the build identify it for Temporal's worker versioning: see
    deploying.md. Set both or neither.
    """

    set_together = ("deployment", "build_id")

    catch_up_interval: Seconds = 600.0
    """How often the catch-up compares Slack's history with the stored messages."""
    cached_workflows: int = Field(1000, ge=1)
    """Threads that one core worker keeps in memory. Set it above the number of threads that are
    active at the same time: a thread outside the cache is replayed from its start at its next
    message.
    """
    deployment: Annotated[
        str, _matching(r"[^.]*", "write it without a dot: Temporal puts one before the build id")
    ] = Field("", examples=["threadline"])
    """Name of the deployment, without a dot."""
    build_id: str = Field("", examples=["b2"])
    """Id of this build, such as a commit."""


class DatabaseSettings(SettingsGroup):
    """Database."""

    url: PostgresUrl = Field(
        validation_alias="DATABASE_URL",
        examples=["postgresql://threadline:…@localhost:5432/threadline"],
    )
    """Postgres, with the role that owns the schema. Migrations and commands use it too.
    `threadline up` starts its own.
    """


class AgentSettings(SettingsGroup):
    """Investigating agent. The agents' worker has no Slack token, no push credential, and a
    database role of its own.
    """

    agent_database_url: PostgresUrl = Field(
        examples=["postgresql://threadline_agent:…@localhost:5432/threadline"]
    )
    """The same database with the role `threadline_agent`. `threadline up` starts its own."""
    api_key: SecretStr = Field(validation_alias="ANTHROPIC_API_KEY")
    """API key of the model. Without it, `threadline up` uses its stand-in."""
    base_url: str | None = Field(None, validation_alias="ANTHROPIC_BASE_URL")
    """URL of the model's API, when it is not Anthropic's."""
    investigator_model: str = "claude-sonnet-5"
    """Full name of the model."""
    investigator_prices: Prices = Field(
        default_factory=dict, examples=["qwen3-coder=0.3/0.03/1.2"]
    )
    """Prices of models that are not Anthropic's, in the form of `THREADLINE_OPENAI_PRICES`.
    Without a price, a model's cost is unknown, and the budgets count an estimate.
    """
    agent_slots: int = Field(4, ge=1)
    """Turns that one agents' worker runs concurrently."""
    query_databases: Sources = Field(
        default_factory=dict, examples=["shop=postgresql://reader:…@…/shop"]
    )
    """Other databases that the agent may query, as `name=postgresql://…`, separated by commas.
    Their role must have read access to the views below and nothing else.
    """
    query_views: Names = Field((), examples=["orders_seen"])
    """Views that the agent may read in these databases, separated by commas."""
    loki_url: str | None = None
    """URL of Loki, whose logs the agent searches."""
    loki_selector: str = Field('{job=~".+"}', examples=['{namespace="shop"}'])
    """Log streams that the agent may search."""


class RepositorySettings(SettingsGroup):
    """Code and files."""

    repo: Names
    """Git URLs or paths of the code, separated by commas. A URL may contain a login; the one for
    the agents' worker must be read-only. A repository needs its whole history and a default
    branch; the account of the workers must own the folder of a path. `threadline up` makes a
    sample repository.
    """
    home: Path = Path(".threadline")
    """Folder for the files of the devstack and of the workers."""
    workspaces: Path | None = Field(None, examples=[".threadline/workspaces"])
    """Folder for the agent's copies of the code. Defaults to `workspaces` in `THREADLINE_HOME`."""

    @property
    def workspace_root(self) -> Path:
        return (self.workspaces or self.home / "workspaces").absolute()


class GitHubSettings(SettingsGroup):
    """Pull requests. Without a token a fix is a pushed branch. The agents' worker never gets this
    token.
    """

    prefix = "GITHUB_"

    token: SecretStr | None = None
    """GitHub token that opens draft pull requests."""
    api_url: str | None = None
    """API URL of a GitHub Enterprise server."""


class PayloadSettings(SettingsGroup):
    """Encryption. The keys encrypt the data that Temporal stores: see security.md. Every process
    that talks to Temporal needs the same value.
    """

    payload_keys: Keys | None = Field(None, examples=["2026-11:…"])
    """Keys as `id:key`, separated by commas. The first key encrypts, all keys decrypt. With
    `plain` in front, the keys only decrypt. Without keys, nothing is encrypted. `openssl rand
    -base64 32` makes a key.
    """


class TemporalUiSettings(SettingsGroup):
    """Temporal's UI. `threadline explain` and `threadline cases show` use the address as well, and
    run where the core worker runs.
    """

    temporal_ui: HttpAddress = Field("http://localhost:8233", examples=["http://localhost:8080"])
    """Address of Temporal's UI, for links. `threadline up` uses its own."""


class CodecSettings(SettingsGroup):
    """Codec server. `threadline codec` decrypts payloads for Temporal's UI and command line: see
    security.md.
    """

    codec_token: SecretStr | None = Field(None, min_length=16)
    """Token that clients must present, at least 16 characters. Required when the server is
    reachable from other machines.
    """
    codec_origins: Names = Field(
        ("http://localhost:8233", "http://127.0.0.1:8233"),
        examples=["http://localhost:8080,http://127.0.0.1:8080"],
    )
    """Origins of the pages that may send requests: the addresses of Temporal's UI, separated by
    commas.
    """


# ---- Conversations: their model, tools, approvals and decisions


LONGEST_ANSWER = 150.0
"""Seconds for a call. The activity that makes it ends after 600: two calls, a summary, and the
time to load the context.
"""


class ModelSettings(SettingsGroup):
    """Conversation model and embeddings. The model that answers mentions, at any endpoint with
    OpenAI's Responses or Chat Completions API. Without a key, the answer to each mention is that
    the key is missing. With embeddings, a search finds documents by meaning as well as by words:
    see knowledge.md. `threadline knowledge ingest` uses these settings too; run it after a change,
    to store the documents again.
    """

    api_key: SecretStr | None = Field(None, validation_alias="OPENAI_API_KEY")
    """API key of the model, or any text where the endpoint needs none. Without it, `threadline up`
    uses its stand-in.
    """
    base_url: HttpAddress = Field("https://api.openai.com/v1", validation_alias="OPENAI_BASE_URL")
    """URL of the model's API."""
    openai_model: str = "gpt-5.4-mini"
    """Full name of the model."""
    openai_api: Literal["auto", "responses", "chat"] = "auto"
    """API of the endpoint: `responses`, `chat`, or `auto` to detect it."""
    openai_timeout: Seconds = Field(120.0, le=LONGEST_ANSWER)
    """How long one call of the model may take, at most 150 seconds."""
    openai_prices: Prices = Field(default_factory=dict, examples=["gpt-5.4-mini=0.75/0.075/4.5"])
    """Prices that override the built-in table, as `model=input/cached/output` in US dollars for a
    million tokens, separated by commas.
    """
    embeddings: Literal["off", "local", "openai"] = "off"
    """`off`, `local` (a small model in the worker, needs the extra `embeddings`), or `openai` (at
    `OPENAI_BASE_URL`)."""
    embeddings_model: str = Field("", examples=["text-embedding-3-small"])
    """Embedding model for `openai`. Defaults to `text-embedding-3-small`."""
    knowledge_language: Annotated[str, AfterValidator(_stemmed)] = Field("en", examples=["de"])
    """Language code of documents whose front matter has no `lang`. It selects the rules by which
    their words are stemmed.
    """

    @property
    def key(self) -> str:
        """The API key; empty without one."""
        return self.api_key.get_secret_value().strip() if self.api_key else ""


class ConversationSettings(SettingsGroup):
    """Conversations. Limits of a conversation, and how long its data is kept: see
    conversations.md.
    """

    conversation_max_steps: int = Field(5, ge=1, le=20)
    """Model calls of one answer that may use tools, 1 to 20."""
    conversation_idle_timeout: Seconds = 24 * 3600
    """Silence after which a conversation's workflow ends. The next message starts a new run, which
    remembers everything.
    """
    quiet_for: Seconds = DEFAULT_QUIET
    """How long a thread stays quiet after somebody asked for it."""
    conversation_model_patience: Seconds = 3600
    """How long an answer waits for a model that is unavailable."""
    conversation_context_tokens: int = Field(12_000, ge=2_000)
    """Tokens of the thread that the model reads, at least 2000. Older messages are summarised."""
    # Longer than the catch-up looks back: it would find a message that was deleted sooner again,
    # and answer it twice.
    conversation_retention_days: float = Field(90, ge=31)
    """Days after its last message for which a conversation is kept, at least 31."""
    # Longer than the sweep resumes an approved action: one whose record was deleted sooner could
    # run twice.
    tool_log_days: float = Field(365, ge=2)
    """Days for which tool calls stay on record, at least 2."""
    restore_days: float = Field(30, ge=0)
    """Days for which `threadline messages restore` can restore messages that Slack no longer
    shows, although it reported no deletion.
    """
    memory_days: float = Field(90, gt=0)
    """Days for which the operator's memories, and people's names and addresses, are kept."""
    operator_context_tokens: int = Field(6_000, ge=1_000)
    """Tokens of records, people and memories that the operator agent gets, at least 1000."""
    mutations_per_minute: int = Field(30, ge=1)
    """Changes that tools may make to one record in a minute, in all threads together."""


class ApprovalSettings(SettingsGroup):
    """Approvals. See operator.md."""

    approvers: People = Field((), examples=["U0123456789,U9876543210"])
    """Ids of the users who may approve actions and emails, separated by commas. The person who
    requested a high-risk action cannot approve it. Without it, every action that needs an approval
    is refused.
    """
    approval_expiry: Seconds = 24 * 3600
    """How long a proposal waits for approval."""


class AccessSettings(SettingsGroup):
    """Policy and roles. Rules for the changes that need an approval, and roles with access to
    records: see security.md. `threadline tools policy` shows the rules in force.
    """

    policy: Path | None = Field(None, examples=["policy.toml"])
    """TOML file with rules that take precedence over the built-in ones."""
    roles: Path | None = Field(None, examples=["roles.toml"])
    """TOML file with groups of people, and the records that they may see and change. Without it,
    every member of the workspace may see and change everything.
    """


class DecisionSettings(SettingsGroup):
    """Decisions and handovers. See decisions.md."""

    decision_high: float = Field(0.75, gt=0, le=1)
    """Confidence from which the agent proceeds, from 0 to 1."""
    decision_low: float = Field(0.5, gt=0, le=1)
    """Confidence below which a person takes over."""
    decision_questions: int = Field(2, ge=0, le=10)
    """Questions in a row that the agent may ask before a person takes over."""
    decision_draft: bool = True
    """Draft the answer while the turn is decided, so that people wait for one model call instead
    of two. A draft that is not kept costs its tokens; a worker pauses drafts while fewer than
    three in four are kept. Turn it off for a model endpoint that answers one request at a time.
    """
    decision_variants: str = Field(
        "", examples=['[{"name": "calm", "share": 1}, {"name": "bold", "share": 1, "high": 0.7}]']
    )
    """Thresholds and prompts to compare, each in a share of all threads, as a JSON list."""
    sensitive_words: Names = Field((), examples=["cancel my contract,data breach"])
    """Sensitive words in addition to refund, legal, complaint, sue and compensation, separated by
    commas.
    """
    handover_reminder: Seconds = 1800
    """Interval of the reminders, at most five, about a thread that waits for a person to take
    over.
    """

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.decision_low > self.decision_high:
            raise ValueError("THREADLINE_DECISION_LOW must not be above THREADLINE_DECISION_HIGH")
        return self


class JiraSettings(SettingsGroup):
    """Jira. Set all three or none. Without them there are no tools for tickets; `threadline up`
    uses its sandbox.
    """

    prefix = "THREADLINE_JIRA_"
    set_together = ("url", "email", "token")

    url: HttpAddress | None = Field(None, examples=["https://acme.atlassian.net"])
    """The Jira Cloud site."""
    email: str = ""
    """Account of the bot. Everyone who may write to the bot can read and change the same tickets
    as this account.
    """
    token: SecretStr | None = None
    """API token of that account."""


class CiSettings(SettingsGroup):
    """Continuous integration. GitHub Actions runs that people can request."""

    prefix = "THREADLINE_GITHUB_"

    repository: Slug | None = Field(None, examples=["acme/shop"])
    """Repository as owner/name. Without it there are no tools for builds; `threadline up` uses its
    sandbox.
    """
    token: SecretStr | None = None
    """Token that reads and restarts its workflow runs. Defaults to `GITHUB_TOKEN`."""
    api_url: HttpAddress | None = None
    """API URL. Defaults to `GITHUB_API_URL`."""


class MailSettings(SettingsGroup):
    """Email. Set the first three together. Without them, Threadline drafts emails and never sends
    them: see sales.md.
    """

    set_together = ("smtp_url", "smtp_from", "email_domains")

    smtp_url: MailServer | None = Field(
        None, examples=["smtp://user:password@mail.example.com:587"]
    )
    """Mail server: `smtp://user:password@host:587` with STARTTLS, or
    `smtps://user:password@host:465`. `?tls=none` is for a server on the same machine.
    """
    smtp_from: MailAddress = Field("", examples=["Acme Sales <sales@example.com>"])
    """Address of the sender."""
    email_domains: Domains = Field((), examples=["example.com,acme.com"])
    """Domains to which email may go, separated by commas. Subdomains are not included. Email to
    other domains always waits for an approval.
    """
