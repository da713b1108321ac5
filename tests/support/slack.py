"""A Slack to write to, a clock to turn, and a server that gives any answer of a test."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web
from sqlalchemy import Double, bindparam

from tests.support.faulty_sandboxes import FaultySlack
from threadline.slack.client import SlackClient, make_web_client
from threadline.threads import store
from threadline_devstack.slack.identity import BOT_TOKEN

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[str]]


class Clock:
    """Seconds since 1970, for both the product and the sandbox. Time that is added here is added
    to Postgres's clock.
    """

    def __init__(self) -> None:
        self.began = self.now = float(int(time.time()))

    def __call__(self) -> float:
        return self.now

    def rising(self) -> float:
        """The same clock as a monotonic one, which begins anywhere but in 1970."""
        return self.now - self.began


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    turned = bindparam(None, callable_=lambda: clock.now - clock.began, type_=Double)
    monkeypatch.setattr(store, "POSTGRES_CLOCK", store.POSTGRES_CLOCK + turned)
    return clock


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
async def sandbox(clock: Clock) -> AsyncIterator[FaultySlack]:
    async with FaultySlack.running(clock=clock) as running:
        yield running


@pytest.fixture
def slack(sandbox: FaultySlack, session: aiohttp.ClientSession) -> SlackClient:
    return SlackClient(make_web_client(BOT_TOKEN, sandbox.api_url, session))


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts a server whose every path is answered by the handler, and returns its address."""
    runners: list[web.AppRunner] = []

    async def start(handler: Handler) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        return f"http://{host}:{port}"

    yield start
    for runner in runners:
        await runner.cleanup()
