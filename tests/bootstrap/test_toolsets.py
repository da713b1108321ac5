"""Which toolsets are on, by the environment."""

import pytest

from threadline.bootstrap import toolsets
from threadline.devstack.services_sandbox import Services
from threadline.domain.errors import Permanent
from threadline.settings import CiSettings, JiraSettings
from threadline.tools.builtin.ci import CI
from threadline.tools.builtin.jira import JIRA
from threadline.tools.context import Ports
from threadline.tools.registry import Registry

NAMES = [
    *(f"THREADLINE_JIRA_{each}" for each in ("URL", "EMAIL", "TOKEN")),
    *(f"THREADLINE_GITHUB_{each}" for each in ("REPOSITORY", "TOKEN", "API_URL")),
    *("GITHUB_TOKEN", "GITHUB_API_URL"),
]


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.promise("tool:port:offered-when-set-up")
async def test_without_settings_both_are_off_and_it_is_said_what_to_set() -> None:
    told = await toolsets.examined()
    assert told.startswith("on: none; ci is off: ")
    for name in ("THREADLINE_GITHUB_REPOSITORY", "THREADLINE_GITHUB_TOKEN", *NAMES[:3]):
        assert name in told


async def test_a_service_that_is_set_is_on_when_it_answers(nothing_set: pytest.MonkeyPatch) -> None:
    async with Services.running() as services:
        for name, value in services.settings.items():
            nothing_set.setenv(name, value)
        assert await toolsets.examined() == "on: ci, jira"
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
