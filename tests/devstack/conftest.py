"""One server for the Slack sandboxes of a module's tests, which follow one another."""

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
import pytest_asyncio
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from tests.support.faulty_sandboxes import FaultySlack
from threadline_devstack import server
from threadline_devstack.processes import HOST

HERE = Path(__file__).parent


class SlackServer:
    """Serves the sandbox of the current test: uvicorn takes 0.2 s to end, while a new sandbox
    starts at once.
    """

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session
        self._app = Starlette()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def sandbox(self, **options: Any) -> AsyncIterator[FaultySlack]:
        sandbox = FaultySlack(self._url, self._session, **options)
        self._app = sandbox.app
        try:
            yield sandbox
        finally:
            await sandbox.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def slack_server() -> AsyncIterator[SlackServer]:
    with server.bound(0) as listener:
        async with aiohttp.ClientSession() as session:
            slack = SlackServer(f"http://{HOST}:{listener.getsockname()[1]}", session)
            async with server.serving(cast("Starlette", slack), listener):
                yield slack


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests in the event loop of their module, which the server uses."""
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and item.path.is_relative_to(HERE)
            and "slack_server" in item.fixturenames
            and inspect.iscoroutinefunction(item.function)
        ):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)
