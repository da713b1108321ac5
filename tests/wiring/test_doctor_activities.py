"""Doctor's checks of the services and people in the settings, on the sandboxes."""

import os
from pathlib import Path
from unittest import mock

import pytest
from slack_sdk.web.async_client import AsyncWebClient
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from temporalio.api.taskqueue.v1 import PollerInfo
from temporalio.api.workflowservice.v1 import DescribeTaskQueueResponse
from temporalio.client import Client

from tests.sales.mail_server import serving
from tests.support.faulty_sandboxes import FaultySlack, FaultyTrackers
from threadline.errors import Permanent, Transient
from threadline.forge.actions import Actions
from threadline.settings import ApprovalSettings
from threadline.threads.model import CORE_QUEUE
from threadline.tools.context import Services, setup_hint
from threadline.tools.registry import ToolRegistry
from threadline.trackers.jira import JiraClient
from threadline.wiring import doctor, toolsets
from threadline_devstack.processes import HOST
from threadline_devstack.server import bound
from threadline_devstack.server import serving as sandbox_serving
from threadline_devstack.slack import identity

JIRA_NAMES = [f"THREADLINE_JIRA_{each}" for each in ("URL", "EMAIL", "TOKEN")]
CI_NAMES = [f"THREADLINE_GITHUB_{each}" for each in ("REPOSITORY", "TOKEN", "API_URL")]
MAIL_NAMES = [f"THREADLINE_{each}" for each in ("SMTP_URL", "SMTP_FROM", "EMAIL_DOMAINS")]


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in (*JIRA_NAMES, *CI_NAMES, *MAIL_NAMES, "GITHUB_TOKEN", "GITHUB_API_URL"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


async def test_every_check_is_reported_without_any_setting(unused_tcp_port: int) -> None:
    machine = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with mock.patch.dict(
        os.environ, machine | {"TEMPORAL_ADDRESS": f"127.0.0.1:{unused_tcp_port}"}, clear=True
    ):
        checks = await doctor.run_checks()
    assert [check.name for check in checks if check.ok] == ["tools", "programs"]
    assert {check.found for check in checks if not check.ok} == {"needs attention"}
    advice = {check.name: check.advice for check in checks}
    assert "DATABASE_URL is not set" in advice["quarantine"]
    assert "Temporal does not answer" in advice["history"]
    assert "SLACK_BOT_TOKEN is not set" in advice["catch-up"]


@pytest.mark.parametrize("busy", [True, False])
async def test_agents_worker_with_all_slots_in_use_serves_its_queue(
    monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    poller = PollerInfo()

    async def pollers(
        _: object, queue: str, __: object
    ) -> tuple[DescribeTaskQueueResponse, list[PollerInfo]]:
        return DescribeTaskQueueResponse(), [poller] if queue == CORE_QUEUE else []

    async def turn_runs() -> bool:
        return busy

    monkeypatch.setattr(doctor, "live_pollers", pollers)
    client = mock.create_autospec(Client)
    if busy:
        assert await doctor.check_task_queues(client, turn_runs) == "both queues are served"
    else:
        with pytest.raises(Permanent, match="threadline worker --queue agents"):
            await doctor.check_task_queues(client, turn_runs)


async def test_services_without_settings_are_off_and_their_variables_named() -> None:
    told = await toolsets.check_integrations()
    assert told.startswith("on: none; ci is off: ")
    for name in (*CI_NAMES[:2], *JIRA_NAMES):
        assert name in told
    off = toolsets.describe_toolsets(ToolRegistry(toolsets.REMOTE), Services())
    assert (off.count("is off"), setup_hint(JiraClient) in off) == (2, True)


async def test_services_with_settings_are_on_when_they_answer(
    nothing_set: pytest.MonkeyPatch,
) -> None:
    async with FaultyTrackers.running() as sandbox:
        for name, value in sandbox.settings.items():
            nothing_set.setenv(name, value)
        assert (await toolsets.check_integrations()).startswith(
            "on: ci, jira; no mail is sent: Set THREADLINE_SMTP_URL"
        )
        nothing_set.setenv("THREADLINE_JIRA_TOKEN", "another")
        with pytest.raises(Permanent, match="THREADLINE_JIRA_TOKEN"):
            await toolsets.check_integrations()


async def test_jira_is_reached_through_the_proxy_of_the_environment(
    nothing_set: pytest.MonkeyPatch,
) -> None:
    async def proxy(request: Request) -> Response:
        return JSONResponse({"displayName": f"Bot of {request.url.hostname}"})

    with bound(0) as listener:
        async with sandbox_serving(
            Starlette(routes=[Route("/rest/api/2/myself", proxy)]), listener
        ):
            for name, value in zip(
                JIRA_NAMES, ("http://jira.invalid", "bot@acme.example", "token"), strict=True
            ):
                nothing_set.setenv(name, value)
            nothing_set.setenv("http_proxy", f"http://{HOST}:{listener.getsockname()[1]}")
            nothing_set.delenv("no_proxy", raising=False)
            async with toolsets.open_integrations() as services:
                assert await services[JiraClient].account() == "Bot of jira.invalid"
            nothing_set.setenv("no_proxy", "jira.invalid")
            async with toolsets.open_integrations() as services:
                with pytest.raises(Transient, match="could not be reached"):
                    await services[JiraClient].account()


async def test_jira_account_of_a_netrc_file_is_not_used(
    nothing_set: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login another password word\n")
    nothing_set.setenv("NETRC", str(netrc))
    async with FaultyTrackers.running() as sandbox:
        for name in JIRA_NAMES:
            nothing_set.setenv(name, sandbox.settings[name])
        async with toolsets.open_integrations() as services:
            assert await services[JiraClient].account() == "Shop Bot"


async def test_token_of_the_code_host_serves_for_builds(nothing_set: pytest.MonkeyPatch) -> None:
    async with FaultyTrackers.running() as sandbox:
        nothing_set.setenv("GITHUB_TOKEN", sandbox.settings["THREADLINE_GITHUB_TOKEN"])
        nothing_set.setenv("GITHUB_API_URL", sandbox.settings["THREADLINE_GITHUB_API_URL"])
        async with toolsets.open_integrations() as services:
            assert Actions not in services, "builds need a repository"
        nothing_set.setenv(
            "THREADLINE_GITHUB_REPOSITORY", sandbox.settings["THREADLINE_GITHUB_REPOSITORY"]
        )
        assert (await toolsets.check_integrations()).startswith("on: ci; jira is off")


async def test_mail_server_must_offer_encryption(nothing_set: pytest.MonkeyPatch) -> None:
    nothing_set.setenv("THREADLINE_SMTP_FROM", "Acme Sales <sales@acme.example>")
    nothing_set.setenv("THREADLINE_EMAIL_DOMAINS", "acme.example")
    async with serving() as server:
        nothing_set.setenv("THREADLINE_SMTP_URL", server.url)
        assert (await toolsets.check_integrations()).endswith("; mail is sent")
        nothing_set.setenv("THREADLINE_SMTP_URL", f"smtp://127.0.0.1:{server.port}")
        with pytest.raises(Permanent, match="offers no encryption"):
            await toolsets.check_integrations()


async def test_key_of_the_model_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with pytest.raises(Permanent, match="OPENAI_API_KEY is not set"):
        await doctor.check_conversation_model()


async def test_approvers_must_be_people_in_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FaultySlack.running() as sandbox:
        monkeypatch.delenv("THREADLINE_APPROVERS", raising=False)
        slack = AsyncWebClient(identity.BOT_TOKEN, base_url=sandbox.api_url)
        assert (await doctor.check_approvers(slack)).startswith("no approvers")
        monkeypatch.setenv("THREADLINE_APPROVERS", f"{identity.DEVELOPER},{identity.REPORTER}")
        assert await doctor.check_approvers(slack) == "2 may approve proposals"
        monkeypatch.setenv("THREADLINE_APPROVERS", f"{identity.DEVELOPER},U0NOBODY")
        with pytest.raises(Permanent, match="U0NOBODY"):
            await doctor.check_approvers(slack)
    monkeypatch.setenv("THREADLINE_APPROVERS", "ada")
    with pytest.raises(Permanent, match="give the ids of users"):
        ApprovalSettings.load()
