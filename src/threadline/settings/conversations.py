"""Settings of conversations: the model that answers, and the services that its tools use."""

from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from threadline.settings.base import (
    Domains,
    HttpAddress,
    MailAddress,
    MailServer,
    Names,
    People,
    Prices,
    Seconds,
    Section,
    Slug,
)
from threadline.tools.model import Risk

LONGEST_ANSWER = 150.0
"""Seconds; a call that took longer would be broken off by the workflow, which gives it 180."""


class OpenAISettings(Section):
    """Conversation model.

    The model that answers mentions, at any endpoint that speaks OpenAI's Responses or Chat Completions API. Without a
    key, whoever asks is told that the key is missing.
    """

    api_key: SecretStr | None = Field(
        None,
        validation_alias="OPENAI_API_KEY",
        description="API key of the model. `threadline up` uses its stand-in without it.",
    )
    base_url: HttpAddress = Field(
        "https://api.openai.com/v1", validation_alias="OPENAI_BASE_URL", description="URL of the model's API."
    )
    model: str = Field(
        "gpt-5.4-mini", validation_alias="THREADLINE_OPENAI_MODEL", description="Full name of the model."
    )
    api: Literal["auto", "responses", "chat"] = Field(
        "auto",
        validation_alias="THREADLINE_OPENAI_API",
        description="API of the endpoint: `responses`, `chat`, or `auto` to detect it.",
    )
    timeout: Seconds = Field(
        120.0,
        le=LONGEST_ANSWER,
        validation_alias="THREADLINE_OPENAI_TIMEOUT",
        description="How long one call of the model may take, at most 150 seconds.",
    )
    prices: Prices = Field(
        default_factory=dict,
        validation_alias="THREADLINE_OPENAI_PRICES",
        description="Prices that override the built-in table, as `model=input/cached/output` in US dollars for a "
        "million tokens, separated by commas.",
        examples=["gpt-5.4-mini=0.75/0.075/4.5"],
    )


class EmbeddingSettings(Section):
    """Embeddings.

    Finds documents by meaning as well as by words: see knowledge.md. `threadline knowledge ingest` reads them too; run
    it after a change, to compute the vectors again.
    """

    kind: Literal["off", "local", "openai"] = Field(
        "off",
        validation_alias="THREADLINE_EMBEDDINGS",
        description="`off`, `local` (a small model in the worker, needs the extra `embeddings`), or `openai` (at "
        "`OPENAI_BASE_URL`).",
    )
    model: str = Field(
        "",
        validation_alias="THREADLINE_EMBEDDINGS_MODEL",
        description="Embedding model for `openai`. Without it, `text-embedding-3-small`.",
        examples=["text-embedding-3-small"],
    )


class ConversationSettings(Section):
    """Conversations.

    Limits of a conversation, and how long its data is kept: see conversations.md.
    """

    model_config = SettingsConfigDict(env_prefix="THREADLINE_")

    conversation_max_turns: int = Field(
        5, ge=1, le=20, description="Model calls of one answer that may ask for tools, 1 to 20."
    )
    conversation_quiet: Seconds = Field(
        24 * 3600,
        description="Silence after which a conversation's workflow ends. The next message starts a new run, which "
        "remembers everything.",
    )
    conversation_model_patience: Seconds = Field(
        3600, description="How long an answer waits for a model that is unavailable."
    )
    conversation_context_tokens: int = Field(
        12_000,
        ge=2_000,
        description="Tokens of the thread that the model reads, at least 2000. What is older is summarised.",
    )
    conversation_retention_days: float = Field(
        90, ge=31, description="Days after its last message for which a conversation is kept, at least 31."
    )
    """Longer than the catch-up looks back: what is forgotten sooner would be missed, and answered once more."""
    tool_log_days: float = Field(365, ge=2, description="Days for which tool calls stay on record, at least 2.")
    """Longer than the sweep takes up an approved action: what is forgotten sooner could be carried out once more."""
    memory_days: float = Field(
        90, gt=0, description="Days for which the operator's memories, and people's names and addresses, are kept."
    )
    operator_context_tokens: int = Field(
        6_000,
        ge=1_000,
        description="Tokens of records, people and memories that the operator agent gets, at least 1000.",
    )
    mutations_per_minute: int = Field(
        30, ge=1, description="How often tools may change one record in a minute, in all threads together."
    )

    @property
    def context_bytes(self) -> int:
        """Four bytes for a token."""
        return self.conversation_context_tokens * 4


class ApprovalSettings(Section):
    """Approvals.

    See operator.md.
    """

    approvers: People = Field(
        (),
        validation_alias="THREADLINE_APPROVERS",
        description="Ids of the users who may approve actions and emails, separated by commas. An action of high risk "
        "is never approved by whoever asked for it. Without it, actions of medium and high risk are refused.",
        examples=["U0123456789,U9876543210"],
    )
    expiry: Seconds = Field(
        24 * 3600, validation_alias="THREADLINE_APPROVAL_EXPIRY", description="How long a proposal waits for approval."
    )


class DecisionSettings(Section):
    """Decisions and handovers.

    See decisions.md.
    """

    model_config = SettingsConfigDict(env_prefix="THREADLINE_")

    decision_high: float = Field(0.75, gt=0, le=1, description="Confidence from which the agent goes on, from 0 to 1.")
    decision_low: float = Field(0.5, gt=0, le=1, description="Confidence below which a person takes over.")
    decision_questions: int = Field(
        2, ge=0, le=10, description="Questions in a row that the agent may ask before a person takes over."
    )
    decision_variants: str = Field(
        "",
        description="Thresholds and prompts to compare, each in a share of all threads, as a JSON list.",
        examples=['[{"name": "calm", "share": 1}, {"name": "bold", "share": 1, "high": 0.7}]'],
    )
    sensitive_words: Names = Field(
        (),
        description="Sensitive words in addition to refund, legal, complaint, sue and compensation, separated by "
        "commas.",
        examples=["cancel my contract,data breach"],
    )
    handover_reminder: Seconds = Field(
        1800, description="How often people are reminded of a thread that nobody has taken over, five times at most."
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.decision_low > self.decision_high:
            raise ValueError("THREADLINE_DECISION_LOW must not be above THREADLINE_DECISION_HIGH")
        return self


class JiraSettings(Section):
    """Jira.

    Set all three or none. Without them there are no tools for tickets; `threadline up` uses its sandbox.
    """

    model_config = SettingsConfigDict(env_prefix="THREADLINE_JIRA_")

    url: HttpAddress | None = Field(None, description="The Jira Cloud site.", examples=["https://acme.atlassian.net"])
    email: str = Field(
        "",
        description="Account of the bot. Everyone who may write to the bot can read and change what this account may.",
    )
    token: SecretStr | None = Field(None, description="API token of that account.")

    @model_validator(mode="after")
    def _all_or_none(self) -> Self:
        if len({bool(self.url), bool(self.email), self.token is not None}) > 1:
            raise ValueError(
                "THREADLINE_JIRA_URL, THREADLINE_JIRA_EMAIL and THREADLINE_JIRA_TOKEN must be set together"
            )
        return self


class CiSettings(Section):
    """Continuous integration.

    GitHub Actions runs that people may ask for.
    """

    model_config = SettingsConfigDict(env_prefix="THREADLINE_GITHUB_")

    repository: Slug | None = Field(
        None,
        description="Repository as owner/name. Without it there are no tools for builds; `threadline up` uses its "
        "sandbox.",
        examples=["acme/shop"],
    )
    token: SecretStr | None = Field(
        None, description="Token that reads and restarts its workflow runs. Without it, `GITHUB_TOKEN`."
    )
    api_url: HttpAddress | None = Field(None, description="API URL. Without it, `GITHUB_API_URL`.")


class MailSettings(Section):
    """Email.

    Set the first three together. Without them emails are drafted and never sent: see sales.md.
    """

    server: MailServer | None = Field(
        None,
        validation_alias="THREADLINE_SMTP_URL",
        description="Mail server: `smtp://user:password@host:587` with STARTTLS, or `smtps://user:password@host:465`. "
        "`?tls=none` is for a server on the same machine.",
        examples=["smtp://user:password@mail.example.com:587"],
    )
    sender: MailAddress = Field(
        "", validation_alias="THREADLINE_SMTP_FROM", description="Sender.", examples=["Acme Sales <sales@example.com>"]
    )
    domains: Domains = Field(
        (),
        validation_alias="THREADLINE_EMAIL_DOMAINS",
        description="Domains that email may go to, separated by commas. Subdomains are not included.",
        examples=["example.com,acme.com"],
    )
    free: Risk = Field(
        Risk.LOW,
        validation_alias="THREADLINE_EMAIL_RISK",
        description="Highest risk at which an email is sent without approval: `low` (to whoever asks), `medium` (to "
        "someone on record) or `high`.",
    )

    @model_validator(mode="after")
    def _all_or_none(self) -> Self:
        if len({self.server is not None, bool(self.sender), bool(self.domains)}) > 1:
            raise ValueError(
                "THREADLINE_SMTP_URL, THREADLINE_SMTP_FROM and THREADLINE_EMAIL_DOMAINS must be set together"
            )
        return self
