"""What conversations need: the model that answers, and the services that its tools reach."""

from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from threadline.approvals.model import Risk
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
from threadline.settings.variants import Variants

LONGEST_ANSWER = 150.0
"""Seconds; a call that took longer would be broken off by the workflow, which gives it 180."""


class OpenAISettings(Section):
    """The model that answers mentions, at any endpoint that speaks one of OpenAI's two APIs; no key, no answers."""

    api_key: SecretStr | None = Field(None, validation_alias="OPENAI_API_KEY")
    base_url: HttpAddress = Field("https://api.openai.com/v1", validation_alias="OPENAI_BASE_URL")
    model: str = Field("gpt-5.4-mini", validation_alias="THREADLINE_OPENAI_MODEL")
    api: Literal["auto", "responses", "chat"] = Field("auto", validation_alias="THREADLINE_OPENAI_API")
    timeout: Seconds = Field(120.0, le=LONGEST_ANSWER, validation_alias="THREADLINE_OPENAI_TIMEOUT")
    prices: Prices = Field(default_factory=dict, validation_alias="THREADLINE_OPENAI_PRICES")


class EmbeddingSettings(Section):
    """By what documents are found besides their words: nothing, a model in this process, or one at OpenAI's API."""

    kind: Literal["off", "local", "openai"] = Field("off", validation_alias="THREADLINE_EMBEDDINGS")
    model: str = Field("", validation_alias="THREADLINE_EMBEDDINGS_MODEL")


class ConversationSettings(Section):
    """What bounds a conversation in a thread, and for how long it is kept."""

    model_config = SettingsConfigDict(env_prefix="THREADLINE_")

    conversation_max_turns: int = Field(5, ge=1, le=20)
    conversation_quiet: Seconds = 24 * 3600
    conversation_model_patience: Seconds = 3600
    conversation_context_tokens: int = Field(12_000, ge=2_000)
    conversation_retention_days: float = Field(90, ge=31)
    """Longer than the catch-up looks back: what is forgotten sooner would be missed, and answered once more."""
    tool_log_days: float = Field(365, gt=0)
    memory_days: float = Field(90, gt=0)
    operator_context_tokens: int = Field(6_000, ge=1_000)
    mutations_per_minute: int = Field(30, ge=1)

    @property
    def context_bytes(self) -> int:
        """Four bytes for a token."""
        return self.conversation_context_tokens * 4


class ApprovalSettings(Section):
    """Who may approve what the operator proposes, and for how long a proposal waits; nobody, unless they are named."""

    approvers: People = Field((), validation_alias="THREADLINE_APPROVERS")
    expiry: Seconds = Field(24 * 3600, validation_alias="THREADLINE_APPROVAL_EXPIRY")


class DecisionSettings(Section):
    """How sure a decision has to be, how often in a row the engine may ask back, and what is sensitive here."""

    model_config = SettingsConfigDict(env_prefix="THREADLINE_")

    decision_high: float = Field(0.75, gt=0, le=1)
    decision_low: float = Field(0.5, gt=0, le=1)
    decision_questions: int = Field(2, ge=0, le=10)
    decision_variants: Variants = ()
    sensitive_words: Names = ()
    handover_reminder: Seconds = 1800

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.decision_low > self.decision_high:
            raise ValueError("THREADLINE_DECISION_LOW must not be above THREADLINE_DECISION_HIGH")
        return self


class JiraSettings(Section):
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


class CiSettings(Section):
    """The repository whose workflow runs people may ask for; what is not set here is as in `ForgeSettings`."""

    model_config = SettingsConfigDict(env_prefix="THREADLINE_GITHUB_")

    repository: Slug | None = None
    token: SecretStr | None = None
    api_url: HttpAddress | None = None


class MailSettings(Section):
    """The server by which mails go out, from whom, to which domains, and up to which risk without an approval."""

    server: MailServer | None = Field(None, validation_alias="THREADLINE_SMTP_URL")
    sender: MailAddress = Field("", validation_alias="THREADLINE_SMTP_FROM")
    domains: Domains = Field((), validation_alias="THREADLINE_EMAIL_DOMAINS")
    free: Risk = Field(Risk.LOW, validation_alias="THREADLINE_EMAIL_RISK")

    @model_validator(mode="after")
    def _all_or_none(self) -> Self:
        if len({self.server is not None, bool(self.sender), bool(self.domains)}) > 1:
            raise ValueError("THREADLINE_SMTP_URL, THREADLINE_SMTP_FROM and THREADLINE_EMAIL_DOMAINS are set together")
        return self
