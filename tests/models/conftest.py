"""A model sandbox, clients of it, and an endpoint with answers set by the test."""

import inspect
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.devstack.model_reset import reset
from tests.models import asking
from threadline.models.client import OpenAIConfig, OpenAIModel
from threadline_devstack.models.sandbox import ModelSandbox

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests that use the sandbox run in the event loop of their module, as it does."""
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and item.path.is_relative_to(HERE)
            and "sandbox" in item.fixturenames
            and inspect.iscoroutinefunction(item.function)
        ):
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served_model() -> AsyncIterator[ModelSandbox]:
    async with ModelSandbox.running(api_key=asking.KEY) as running:
        yield running


@pytest.fixture
def sandbox(served_model: ModelSandbox) -> ModelSandbox:
    """A model that accepts the key of `asking`, and works out its request."""
    model = reset(served_model)
    model.script(asking.work_out, when=lambda request: request.prompt == asking.REQUEST)
    return model


@pytest_asyncio.fixture(loop_scope="module")
async def make(sandbox: ModelSandbox) -> AsyncIterator[asking.Make]:
    """Makes models that are closed at the end; without changes one for the sandbox."""
    made: list[OpenAIModel] = []

    def make(**changes: Any) -> OpenAIModel:
        config: dict[str, Any] = {
            "model": "gpt-5.4-mini",
            "api_key": asking.KEY,
            "base_url": f"{sandbox.url}/v1",
        } | changes
        made.append(OpenAIModel(OpenAIConfig(**config)))
        return made[-1]

    yield make
    for model in made:
        await model.close()


@pytest.fixture
def bodies() -> list[Any]:
    return []


@pytest_asyncio.fixture(loop_scope="module")
async def answering(bodies: list[Any]) -> AsyncIterator[asking.Answering]:
    """Starts an endpoint that gives every request the same answer, and keeps the requests in
    `bodies`; returns its address.
    """
    servers: list[TestServer] = []

    async def start(body: Any, kind: str = "application/json", status: int = 200) -> str:
        async def answer(request: web.Request) -> web.Response:
            bodies.append(await request.json())
            text = body if isinstance(body, str) else json.dumps(body)
            return web.Response(text=text, status=status, content_type=kind)

        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", answer)
        servers.append(TestServer(app))
        await servers[-1].start_server()
        return str(servers[-1].make_url("/v1"))

    yield start
    for server in servers:
        await server.close()
