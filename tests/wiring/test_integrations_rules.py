"""Which toolsets are on, by the environment."""

import pytest

from tests.sales.mail_server import serving
from threadline.approvals.model import Risk
from threadline.ci.tools import CI
from threadline.errors import Permanent
from threadline.settings import CiSettings, JiraSettings, MailSettings
from threadline.tools.context import Ports
from threadline.tools.registry import Registry
from threadline.trackers.tools import JIRA
from threadline.wiring import integrations as toolsets
from threadline_devstack.trackers import Services

NAMES = [
    *(f"THREADLINE_JIRA_{each}" for each in ("URL", "EMAIL", "TOKEN")),
    *(f"THREADLINE_GITHUB_{each}" for each in ("REPOSITORY", "TOKEN", "API_URL")),
    *("GITHUB_TOKEN", "GITHUB_API_URL"),
    *(f"THREADLINE_{each}" for each in ("SMTP_URL", "SMTP_FROM", "EMAIL_DOMAINS", "EMAIL_RISK")),
]


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


async def test_without_settings_both_are_off_and_it_is_said_what_to_set() -> None:
    told = await toolsets.examined()
    assert told.startswith("on: none; ci is off: ")
    for name in ("THREADLINE_GITHUB_REPOSITORY", "THREADLINE_GITHUB_TOKEN", *NAMES[:3]):
        assert name in told


async def test_a_service_that_is_set_is_on_when_it_answers(nothing_set: pytest.MonkeyPatch) -> None:
    async with Services.running() as services:
        for name, value in services.settings.items():
            nothing_set.setenv(name, value)
        assert (await toolsets.examined()).startswith("on: ci, jira; no mail is sent: Set THREADLINE_SMTP_URL")
        nothing_set.setenv("THREADLINE_JIRA_TOKEN", "another")
        with pytest.raises(Permanent, match="THREADLINE_JIRA_TOKEN"):
            await toolsets.examined()


async def test_the_code_hosts_token_serves_for_builds_too(nothing_set: pytest.MonkeyPatch) -> None:
    async with Services.running() as services:
        nothing_set.setenv("GITHUB_TOKEN", services.settings["THREADLINE_GITHUB_TOKEN"])
        nothing_set.setenv("GITHUB_API_URL", services.settings["THREADLINE_GITHUB_API_URL"])
        async with toolsets.remote_ports() as ports:
            assert CI not in ports, "without a repository there is nothing to show"
        nothing_set.setenv("THREADLINE_GITHUB_REPOSITORY", services.settings["THREADLINE_GITHUB_REPOSITORY"])
        assert (await toolsets.examined()).startswith("on: ci; jira is off")


def mail_is_set(environment: pytest.MonkeyPatch, url: str) -> None:
    environment.setenv("THREADLINE_SMTP_URL", url)
    environment.setenv("THREADLINE_SMTP_FROM", "Acme Sales <sales@acme.example>")
    environment.setenv("THREADLINE_EMAIL_DOMAINS", "Acme.example, @shop.example")


async def test_a_mail_server_that_is_set_is_looked_at(nothing_set: pytest.MonkeyPatch) -> None:
    async with serving() as server:
        mail_is_set(nothing_set, server.url)
        assert (await toolsets.examined()).endswith("; mail is sent")
        nothing_set.setenv("THREADLINE_SMTP_URL", f"smtp://127.0.0.1:{server.port}")
        with pytest.raises(Permanent, match="offers no encryption"):
            await toolsets.examined()


def test_domains_are_read_in_any_form_and_mail_waits_above_low_risk(nothing_set: pytest.MonkeyPatch) -> None:
    mail_is_set(nothing_set, "smtps://u:hunter2@mail.acme.example")
    settings = MailSettings.read()
    assert (settings.domains, settings.free) == (("acme.example", "shop.example"), Risk.LOW)
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("THREADLINE_SMTP_URL", "mail.acme.example:hunter2"),
        ("THREADLINE_SMTP_URL", ""),
        ("THREADLINE_SMTP_FROM", "Acme Sales"),
        ("THREADLINE_SMTP_FROM", ""),
        ("THREADLINE_EMAIL_DOMAINS", "acme.example, everywhere"),
        ("THREADLINE_EMAIL_DOMAINS", ""),
        ("THREADLINE_EMAIL_RISK", "none"),
    ],
)
def test_a_wrong_setting_of_mail_is_named_without_a_secret(
    nothing_set: pytest.MonkeyPatch, name: str, value: str
) -> None:
    mail_is_set(nothing_set, "smtps://u:hunter2@mail.acme.example")
    nothing_set.setenv(name, value)
    with pytest.raises(Permanent, match=name) as told:
        MailSettings.read()
    assert "hunter2" not in str(told.value)


def test_jira_is_set_as_a_whole_or_not_at_all(nothing_set: pytest.MonkeyPatch) -> None:
    nothing_set.setenv("THREADLINE_JIRA_URL", "https://acme.example")
    with pytest.raises(Permanent, match="set together"):
        JiraSettings.read()


def test_a_repository_is_written_as_owner_and_name(nothing_set: pytest.MonkeyPatch) -> None:
    nothing_set.setenv("THREADLINE_GITHUB_REPOSITORY", "https://github.com/acme/shop")
    with pytest.raises(Permanent, match="owner/name"):
        CiSettings.read()


def test_other_ports_stay() -> None:
    assert toolsets.told(Registry(toolsets.REMOTE), Ports()).count("is off") == 2
    assert JIRA.help in toolsets.told(Registry(toolsets.REMOTE), Ports())
