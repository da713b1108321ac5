"""Common properties of all three sandboxes: they close all connections when they end, and guard
against web pages in a browser.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from starlette.applications import Starlette

from tests.support.faulty_sandboxes import FaultySlack, FaultyTrackers
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.server import bound, serving

REPORT = '{"channel": "C0REPORTS", "user": "U0REPORTER", "text": "x"}'
SANDBOXES: dict[str, tuple[Callable[[], AbstractAsyncContextManager[Any]], str]] = {
    # its server, and a path that a page must not read
    "slack": (FaultySlack.running, "control/state"),
    "models": (ModelSandbox.running, "v1/messages"),
    "trackers": (FaultyTrackers.running, "jira/rest/api/2/myself"),
}
ORDERS: dict[str, tuple[Callable[[], AbstractAsyncContextManager[Any]], str, str]] = {
    # its server, a path that a page must not post to, and a body
    "slack": (FaultySlack.running, "control/messages", REPORT),
    "models": (ModelSandbox.running, "v1/messages", '{"messages": []}'),
}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SANDBOXES)
async def page(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """The URL that a page of another host must not read."""
    running, path = SANDBOXES[request.param]
    async with running() as sandbox:
        yield f"{sandbox.url}/{path}"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=ORDERS)
async def order(request: pytest.FixtureRequest) -> AsyncIterator[tuple[str, str]]:
    """The URL that no page may post to, and a body."""
    running, path, body = ORDERS[request.param]
    async with running() as sandbox:
        yield f"{sandbox.url}/{path}", body


@pytest_asyncio.fixture(loop_scope="module")
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8900", "127.0.0.1.evil.example", ""]
)
async def test_a_sandbox_answers_no_foreign_host(
    page: str, session: aiohttp.ClientSession, host: str
) -> None:
    async with session.get(page, headers={"Host": host}) as response:
        assert (response.status, await response.text()) == (400, "Invalid host header")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_a_sandbox_answers_to_the_names_of_this_machine(
    page: str, session: aiohttp.ClientSession, name: str
) -> None:
    host = page.split("/")[2].replace("127.0.0.1", name)
    async with session.get(page, headers={"Host": host}) as response:
        assert response.status in {200, 401, 405}, "the answer of the route itself"


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""],
)
async def test_a_sandbox_accepts_no_order_that_a_browser_lets_any_page_send(
    order: tuple[str, str], session: aiohttp.ClientSession, content_type: str
) -> None:
    url, body = order
    headers = {"Content-Type": content_type} if content_type else {}
    async with session.post(
        url, data=body, headers=headers, skip_auto_headers=["Content-Type"]
    ) as response:
        assert response.status == 415
        assert (await response.json())["error"] == "send application/json"


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8"])
async def test_a_sandbox_accepts_orders_in_json(
    order: tuple[str, str], session: aiohttp.ClientSession, content_type: str
) -> None:
    url, body = order
    async with session.post(url, data=body, headers={"Content-Type": content_type}) as response:
        assert response.status == 200


@pytest.mark.parametrize("ticks", range(12))
async def test_a_connection_that_comes_while_the_server_ends_is_closed(ticks: int) -> None:
    async def come(address: tuple[str, int]) -> socket.socket | None:
        for _ in range(
            ticks
        ):  # each iteration of the event loop while the server ends, since only one of them leaked
            await asyncio.sleep(0)
        try:
            return socket.create_connection(address)
        except ConnectionRefusedError:
            return None

    with bound(0) as listener:
        async with serving(Starlette(), listener):
            coming = asyncio.create_task(come(listener.getsockname()))
    if client := await coming:
        with client:
            client.setblocking(False)
            try:
                left = client.recv(1)
            except ConnectionResetError:
                left = b""
            assert not left
