"""The guards of all three sandboxes: no web page that is open in a browser beside them reads or orders anything."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.slack.app import SlackSandbox
from threadline_devstack.trackers.app import TrackerSandbox

SANDBOXES: dict[str, tuple[Callable[[], AbstractAsyncContextManager[Any]], str, str, str]] = {
    # what runs it, what a page must not read, what it must not order, and the body of that order
    "slack": (SlackSandbox.running, "state", "faults", '{"fault": "drop"}'),
    "models": (ModelSandbox.running, "log?messages=1", "errors", '{"status": 500}'),
    "trackers": (TrackerSandbox.running, "state", "faults", '{"service": "jira"}'),
}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SANDBOXES)
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[tuple[str, str, str, str]]:
    running, *rest = SANDBOXES[request.param]
    async with running() as sandbox:
        yield sandbox.url, *rest


@pytest_asyncio.fixture(loop_scope="module")
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8900", "127.0.0.1.evil.example", ""])
async def test_a_sandbox_answers_no_foreign_host(
    sandbox: tuple[str, str, str, str], session: aiohttp.ClientSession, host: str
) -> None:
    url, read, *_ = sandbox
    async with session.get(f"{url}/control/{read}", headers={"Host": host}) as response:
        assert response.status == 400


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_a_sandbox_answers_to_the_names_of_this_machine(
    sandbox: tuple[str, str, str, str], session: aiohttp.ClientSession, name: str
) -> None:
    url, read, *_ = sandbox
    headers = {"Host": url.removeprefix("http://").replace("127.0.0.1", name)}
    async with session.get(f"{url}/control/{read}", headers=headers) as response:
        assert response.status == 200


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
async def test_a_sandbox_takes_no_order_that_a_browser_lets_any_page_send(
    sandbox: tuple[str, str, str, str], session: aiohttp.ClientSession, content_type: str
) -> None:
    url, _, order, body = sandbox
    headers = {"Content-Type": content_type} if content_type else {}
    async with session.post(
        f"{url}/control/{order}", data=body, headers=headers, skip_auto_headers=["Content-Type"]
    ) as response:
        assert response.status == 415
        assert (await response.json())["error"] == "send application/json"


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8"])
async def test_a_sandbox_takes_orders_in_json(
    sandbox: tuple[str, str, str, str], session: aiohttp.ClientSession, content_type: str
) -> None:
    url, _, order, body = sandbox
    async with session.post(f"{url}/control/{order}", data=body, headers={"Content-Type": content_type}) as response:
        assert response.status in {200, 204}


async def test_an_order_without_a_body_is_refused_too(session: aiohttp.ClientSession) -> None:
    async with ModelSandbox.running() as model:
        async with session.post(f"{model.url}/control/holds/conversing/arm") as response:
            assert response.status == 415
        assert model.holds.overview()["armed"] == []


async def test_the_model_answers_no_prompt_for_a_foreign_host(session: aiohttp.ClientSession) -> None:
    headers = {"Host": "evil.example"}
    async with (
        ModelSandbox.running() as model,
        session.post(f"{model.url}/v1/messages", json={}, headers=headers) as response,
    ):
        assert (response.status, await response.text()) == (400, "Invalid host header")
