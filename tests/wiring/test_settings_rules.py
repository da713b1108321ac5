"""The effect of settings on the wiring, and the refused ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from temporalio.converter import WorkflowSerializationContext

from threadline.cases.model import DEFAULT_TARGETS, CaseLimits, Severity, SlaTarget
from threadline.conversations.call_input import LONGEST_SUMMARY
from threadline.conversations.contract import THINK
from threadline.conversations.model.conversation import ConversationLimits
from threadline.conversations.model.listening import Listen, Listening
from threadline.conversations.operator_context import LONGEST_CONTEXT
from threadline.decisions.model import Thresholds
from threadline.decisions.variants import Variant, load_variants
from threadline.errors import Permanent
from threadline.settings import (
    LONGEST_ANSWER,
    CaseSettings,
    ChannelSettings,
    CiSettings,
    ConversationSettings,
    DecisionSettings,
    JiraSettings,
    MailSettings,
    ModelSettings,
    WorkerSettings,
    parse_duration,
    parse_targets,
)
from threadline.threads.contract import LOOK_BACK
from threadline.tools.registry import Tool, ToolRegistry
from threadline.wiring.core_settings import ConversationFeatureSettings
from threadline.wiring.temporal import data_converter
from threadline.wiring.toolsets import TOOLS, configured_embedder

DAY = 24 * 3600.0
CASES = {"THREADLINE_REPORTS_CHANNEL": "C0REPORTS", "THREADLINE_SUMMARIES_CHANNEL": "C0SUMMARIES"}
MAIL = {
    "THREADLINE_SMTP_URL": "smtps://u:hunter2@mail.acme.example",
    "THREADLINE_SMTP_FROM": "Acme Sales <sales@acme.example>",
    "THREADLINE_EMAIL_DOMAINS": "Acme.example, @shop.example",
}
HOUSE = Thresholds(0.8, 0.4)
UNSET = (
    *("THREADLINE_ESCALATION_CHANNEL", "THREADLINE_CONVERSATION_CHANNELS"),
    *("THREADLINE_EMBEDDINGS", "THREADLINE_EMBEDDINGS_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
    *(
        "THREADLINE_JIRA_URL",
        "THREADLINE_JIRA_EMAIL",
        "THREADLINE_JIRA_TOKEN",
        "THREADLINE_GITHUB_REPOSITORY",
    ),
)
Set = Callable[[dict[str, str]], None]


@pytest.fixture
def set_to(monkeypatch: pytest.MonkeyPatch) -> Set:
    """Set variables; the others have their defaults."""
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)

    def give(given: dict[str, str]) -> None:
        for name, value in given.items():
            monkeypatch.setenv(name, value)

    give(CASES)
    return give


@pytest.mark.parametrize(
    ("made", "name", "figure"),
    [
        (CaseLimits, "reporter_timeout", 2 * 3600),
        (CaseLimits, "developer_timeout", 48 * 3600),
        (CaseSettings.load, "reporter_timeout", 2 * 3600),
        (CaseSettings.load, "developer_timeout", 48 * 3600),
        (ConversationLimits, "max_steps", 5),
        (ConversationLimits, "idle_timeout", 24 * 3600),
        (ConversationSettings.load, "conversation_max_steps", 5),
        (ConversationSettings.load, "conversation_idle_timeout", 24 * 3600),
        (ConversationSettings.load, "conversation_retention_days", 90),
        (DecisionSettings.load, "decision_high", 0.75),
        (DecisionSettings.load, "decision_low", 0.5),
    ],
    ids=[
        *(
            "a question's time",
            "a finding's time",
            "a question's time as set",
            "a finding's time as set",
        ),
        *("steps", "silence", "steps as set", "silence as set", "memory"),
        *("high", "low"),
    ],
)
def test_default_is_the_figure_of_the_design(
    set_to: Set, made: Callable[[], object], name: str, figure: float
) -> None:
    """A conversation is kept for 90 days instead of 24 hours; after these its workflow ends."""
    set_to({})
    assert getattr(made(), name) == figure


@pytest.mark.parametrize(
    ("section", "name", "value", "reason"),
    [
        (ConversationFeatureSettings, "THREADLINE_CONVERSATION_MAX_STEPS", "0", ""),
        (ConversationFeatureSettings, "THREADLINE_CONVERSATION_MAX_STEPS", "many", ""),
        (ConversationFeatureSettings, "THREADLINE_CONVERSATION_CONTEXT_TOKENS", "10", ""),
        (
            ConversationFeatureSettings,
            "THREADLINE_CONVERSATION_RETENTION_DAYS",
            str(LOOK_BACK / DAY),
            "",
        ),
        (ConversationFeatureSettings, "THREADLINE_MUTATIONS_PER_MINUTE", "0", ""),
        (ConversationFeatureSettings, "THREADLINE_MEMORY_DAYS", "0", ""),
        (ConversationFeatureSettings, "THREADLINE_OPERATOR_CONTEXT_TOKENS", "999", ""),
        (ConversationFeatureSettings, "THREADLINE_OPENAI_TIMEOUT", "151s", ""),
        (ChannelSettings.load, "THREADLINE_CONVERSATION_CHANNELS", "general", ""),
        (
            ChannelSettings.load,
            "THREADLINE_CONVERSATION_CHANNELS",
            "C0SUMMARIES",
            "a channel of cases",
        ),
        (
            ChannelSettings.load,
            "THREADLINE_CONVERSATION_CHANNELS",
            "C0GENERAL,C0REPORTS",
            "a channel of cases",
        ),
        (ChannelSettings.load, "THREADLINE_LISTEN", "always", "'mentioned', 'meant' or 'every'"),
        (ChannelSettings.load, "THREADLINE_LISTEN_CHANNELS", "C0GENERAL", "C0123456789=every"),
        (ChannelSettings.load, "THREADLINE_LISTEN_CHANNELS", "C0GENERAL=all", "the modes are"),
        (ChannelSettings.load, "THREADLINE_LISTEN_CHANNELS", "general=every", ""),
        (
            ChannelSettings.load,
            "THREADLINE_LISTEN_CHANNELS",
            "C0REPORTS=every",
            "a channel of cases",
        ),
        (MailSettings.load, "THREADLINE_SMTP_URL", "mail.acme.example:hunter2", ""),
        (MailSettings.load, "THREADLINE_SMTP_URL", "", ""),
        (MailSettings.load, "THREADLINE_SMTP_FROM", "Acme Sales", ""),
        (MailSettings.load, "THREADLINE_SMTP_FROM", "", ""),
        (MailSettings.load, "THREADLINE_EMAIL_DOMAINS", "acme.example, everywhere", ""),
        (MailSettings.load, "THREADLINE_EMAIL_DOMAINS", "", ""),
        (JiraSettings.load, "THREADLINE_JIRA_URL", "https://acme.example", "set together"),
        (
            WorkerSettings.load,
            "THREADLINE_DEPLOYMENT",
            "shop",
            "THREADLINE_DEPLOYMENT and THREADLINE_BUILD_ID must be set",
        ),
        (WorkerSettings.load, "THREADLINE_DEPLOYMENT", "shop.eu", "write it without a dot"),
        (
            CiSettings.load,
            "THREADLINE_GITHUB_REPOSITORY",
            "https://github.com/acme/shop",
            "owner/name",
        ),
    ],
)
def test_invalid_setting_is_named_without_a_secret(
    set_to: Set, section: Callable[[], Any], name: str, value: str, reason: str
) -> None:
    set_to(MAIL | {name: value})
    with pytest.raises(Permanent, match=name) as told:
        section()
    assert reason in str(told.value)
    assert "hunter2" not in str(told.value)


def test_a_channel_has_its_own_mode_of_listening(set_to: Set) -> None:
    assert ChannelSettings.load().listen is Listen.MEANT
    named = {"THREADLINE_LISTEN_CHANNELS": "C0GENERAL=every, G0PRIVATE = meant"}
    set_to({"THREADLINE_LISTEN": "mentioned", **named})
    channels = ChannelSettings.load()
    listening = Listening(channels.listen, channels.listen_channels)
    modes = [listening.of(each) for each in ("C0GENERAL", "G0PRIVATE", "C0OTHER")]
    assert modes == [Listen.EVERY, Listen.MEANT, Listen.MENTIONED]


def test_conversations_are_followed_only_in_named_channels(set_to: Set) -> None:
    assert ChannelSettings.load().watched == list(CASES.values())
    set_to({"THREADLINE_CONVERSATION_CHANNELS": "C0GENERAL, G0PRIVATE"})
    channels = ChannelSettings.load()
    assert channels.watched == [*CASES.values(), "C0GENERAL", "G0PRIVATE"]
    assert channels.of_cases == {"C0REPORTS": False, "C0SUMMARIES": True}


def test_mail_domains_are_read_in_any_form_and_the_password_is_hidden(set_to: Set) -> None:
    set_to(MAIL)
    settings = MailSettings.load()
    assert settings.email_domains == ("acme.example", "shop.example")
    assert "hunter2" not in repr(settings)


def test_all_tools_can_be_registered() -> None:
    assert all(isinstance(each, Tool) for each in TOOLS)
    assert len(ToolRegistry(TOOLS).all()) == len(TOOLS)


def test_workflow_waits_longer_than_the_slowest_answer_of_a_model() -> None:
    assert THINK.start_to_close > LONGEST_SUMMARY + LONGEST_CONTEXT + LONGEST_ANSWER


@pytest.mark.parametrize(
    ("kind", "more", "model"),
    [
        ("", {}, None),
        ("local", {}, "l2_supercat_256"),
        ("openai", {"OPENAI_API_KEY": "sk-x"}, "text-embedding-3-small"),
        ("openai", {"OPENAI_API_KEY": "sk-x", "THREADLINE_EMBEDDINGS_MODEL": "large"}, "large"),
    ],
)
async def test_settings_name_the_model_of_embeddings(
    set_to: Set, kind: str, more: dict[str, str], model: str | None
) -> None:
    set_to({"THREADLINE_EMBEDDINGS": kind, **more} if kind else {})
    async with configured_embedder(ModelSettings.load()) as embedder:
        assert (embedder and embedder.model) == model


@pytest.mark.parametrize(
    ("kind", "model", "package", "reason"),
    [
        ("remote", "", "wordllama", "THREADLINE_EMBEDDINGS"),
        ("openai", "", "wordllama", "OPENAI_API_KEY is not set"),
        ("local", "large", "wordllama", "leave .* empty"),
        ("local", "", "no_such_package", r"pip install 'threadline\[embeddings\]'"),
    ],
)
async def test_unusable_model_of_embeddings_is_refused(
    set_to: Set, monkeypatch: pytest.MonkeyPatch, kind: str, model: str, package: str, reason: str
) -> None:
    monkeypatch.setattr("threadline.models.embeddings._PACKAGE", package)
    set_to({"THREADLINE_EMBEDDINGS": kind, "THREADLINE_EMBEDDINGS_MODEL": model})
    with pytest.raises(Permanent, match=reason):
        async with configured_embedder(ModelSettings.load()):
            pass


def test_language_of_documents_is_one_that_has_a_stemmer(set_to: Set) -> None:
    set_to({})
    assert ModelSettings.load().knowledge_language == "en"
    set_to({"THREADLINE_KNOWLEDGE_LANGUAGE": "pt-BR"})
    assert ModelSettings.load().knowledge_language == "pt-BR"
    set_to({"THREADLINE_KNOWLEDGE_LANGUAGE": "tlh"})
    with pytest.raises(Permanent, match="'tlh' has no stemmer: write one of ar, "):
        ModelSettings.load()


def read_variants(set_to: Set, value: str) -> tuple[Variant, ...]:
    set_to(
        {
            "THREADLINE_DECISION_HIGH": "0.8",
            "THREADLINE_DECISION_LOW": "0.4",
            "THREADLINE_DECISION_VARIANTS": value,
        }
    )
    settings = DecisionSettings.load()
    return load_variants(
        settings.decision_variants, Thresholds(settings.decision_high, settings.decision_low)
    )


def test_variant_has_its_own_thresholds_or_the_default_ones(set_to: Set, tmp_path: Path) -> None:
    assert read_variants(set_to, "") == read_variants(set_to, "[]") == (Variant(thresholds=HOUSE),)
    prompt = tmp_path / "bold.md"
    prompt.write_text("Be bold.\n", encoding="utf-8")
    value = (
        '[{"name": "calm"}, {"name": "bold", "share": 0.25, "high": 0.7, "prompt": '
        f'"{prompt}"}}]'
    )
    calm = Variant("calm", 1.0, HOUSE)
    bold = Variant("bold", 0.25, Thresholds(0.7, 0.4), "Be bold.")
    assert read_variants(set_to, value) == (calm, bold)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("calm", "write it as a JSON list"),
        ('{"name": "calm"}', "write it as a JSON list"),
        ("[" * 100_000, "write it as a JSON list"),
        ('["calm"]', "THREADLINE_DECISION_VARIANTS is 'calm'"),
        (
            '[{"name": "a", "share": true}]',
            "THREADLINE_DECISION_VARIANTS is True: .*greater than 0",
        ),
        (
            '[{"name": "a", "high": "0.9"}]',
            "THREADLINE_DECISION_VARIANTS is '0.9': a variant's high",
        ),
        ('[{"name": "a", "prompt": "\\\\u0000"}]', "the prompt of a cannot be read"),
        ('[{"share": 1}]', "THREADLINE_DECISION_VARIANTS"),
        ('[{"name": "a b"}]', "THREADLINE_DECISION_VARIANTS is 'a b'"),
        ('[{"name": "a", "share": 0}]', "THREADLINE_DECISION_VARIANTS is 0: .*greater than 0"),
        ('[{"name": "a", "share": NaN}]', "THREADLINE_DECISION_VARIANTS is nan"),
        (
            '[{"name": "a", "high": 1.5}]',
            "THREADLINE_DECISION_VARIANTS is 1.5: .*less than or equal to 1",
        ),
        ('[{"name": "a", "hihg": 0.5}]', "THREADLINE_DECISION_VARIANTS"),
        ('[{"name": "a b"}]', "is 'a b': a variant's name has 1 to 40 letters"),
        ('[{"name": "a"}, {"name": "a"}]', "each variant needs its own name"),
        ('[{"name": "a", "low": 0.9}]', "variant a: .* 0.9 and 0.8"),
        ('[{"name": "a", "prompt": "/nowhere/at/all.md"}]', "the prompt of a cannot be read"),
    ],
)
def test_invalid_variants_are_refused(set_to: Set, value: str, reason: str) -> None:
    with pytest.raises(Permanent, match=reason):
        read_variants(set_to, value)


@pytest.mark.parametrize(
    ("content", "reason"), [(b" \n", "is empty"), (b"\xff\xfe\x00", "cannot be read")]
)
def test_empty_or_unreadable_prompt_is_refused(
    set_to: Set, tmp_path: Path, content: bytes, reason: str
) -> None:
    prompt = tmp_path / "prompt.md"
    prompt.write_bytes(content)
    with pytest.raises(Permanent, match=reason):
        read_variants(set_to, f'[{{"name": "a", "prompt": "{prompt}"}}]')


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("15m", 900), ("2h", 7200), ("5d", 432000), ("1h30m", 5400), ("1.5h", 5400)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5", "h", "5 hours", "-5m", "1h30"])
def test_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


def test_unnamed_target_keeps_its_default() -> None:
    targets = parse_targets("S1=5m/1h")
    assert targets[Severity.S1] == SlaTarget(300, 3600)
    assert targets[Severity.S2] == DEFAULT_TARGETS[Severity.S2]


@pytest.mark.parametrize("text", ["S9=1m/2m", "S1=5m", "S1:5m/1h"])
def test_invalid_target_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="target"):
        parse_targets(text)


def test_payload_converters_ignore_the_context() -> None:
    """The workers encode without a context, and clients would decode with one."""
    converter = data_converter(None)
    assert (
        converter.with_context(WorkflowSerializationContext("default", "conversation:T1"))
        is converter
    )
    assert converter.external_storage is None
