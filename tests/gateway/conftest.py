"""Real parts for the gateway's tests: Temporal's dev server or its absence, a Slack, and the
gateway between them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
import structlog
from aiohttp import ClientSession
from slack_sdk.web.async_client import AsyncWebClient
from temporalio.client import (
    Client,
    Interceptor,
    OutboundInterceptor,
    StartWorkflowInput,
    WorkflowHandle,
)
from temporalio.contrib.pydantic import pydantic_data_converter

from tests.support.faulty_sandboxes import FaultySlack
from tests.support.patience import patient
from tests.support.temporal import connect
from tests.support.unhurried import SECONDS, unhurried
from threadline.cases.model import SUMMARY, case_owner
from threadline.conversations.model.conversation import conversation_workflow_id
from threadline.gateway import router
from threadline.gateway.catch_up import CatchUpRequester
from threadline.gateway.router import TEMPORAL_RETRIES, EventRouter, ThreadLookup
from threadline.gateway.routes import RoutingConfig
from threadline.gateway.server import GatewayConfig, GatewayServer
from threadline.slack.model import Thread
from threadline.threads.model import ThreadOwner
from threadline.wiring.probes import temporal_answers
from threadline_devstack.slack import identity
from threadline_devstack.slack.delivery import ACK_TIMEOUT

SOCKET = GatewayConfig(app_token=identity.APP_TOKEN, port=0)
ROUTING = RoutingConfig(
    identity.REPORTS,
    identity.SUMMARIES,
    identity.ESCALATIONS,
    identity.BOT_USER,
    identity.BOT_ID,
    team=identity.TEAM,
)


@pytest_asyncio.fixture(loop_scope="session")
async def temporal() -> Client:
    """A client of a namespace of its own; no worker runs, since accepting a message needs none."""
    return await connect(retry_config=TEMPORAL_RETRIES)


@pytest_asyncio.fixture(loop_scope="session", params=["refuses", "stalls"])
async def absent_temporal(
    request: pytest.FixtureRequest, unused_tcp_port: int
) -> AsyncIterator[Client]:
    """A client of a Temporal that is away: no server listens, or one listens and never answers."""
    connections: list[asyncio.StreamWriter] = []
    server = None
    if request.param == "stalls":
        server = await asyncio.start_server(
            lambda _, writer: connections.append(writer), "127.0.0.1", unused_tcp_port
        )
    yield await Client.connect(
        f"127.0.0.1:{unused_tcp_port}",
        lazy=True,
        data_converter=pydantic_data_converter,
        retry_config=TEMPORAL_RETRIES,
    )
    for writer in connections:
        writer.close()
    if server:
        server.close()


class TemporalGate(Interceptor):
    """Interrupts the next `refusals` signals to Temporal, and holds the others until it is open.

    `refused` is set with the last refusal.
    """

    def __init__(self) -> None:
        self.refusals = 0
        self.refused = asyncio.Event()
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    def over(self, temporal: Client) -> Client:
        return Client(
            temporal.service_client,
            namespace=temporal.namespace,
            data_converter=temporal.data_converter,
            interceptors=[self],
        )

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002
        gate = self

        class Gated(OutboundInterceptor):
            async def start_workflow(self, input: StartWorkflowInput) -> WorkflowHandle[Any, Any]:  # noqa: A002
                if gate.refusals:
                    gate.refusals -= 1
                    if not gate.refusals:
                        gate.refused.set()
                    raise ConnectionResetError("Temporal went away")
                gate.reached.set()
                await gate.open.wait()
                return await super().start_workflow(input)

        return Gated(next)


@pytest.fixture
def gate() -> TemporalGate:
    return TemporalGate()


class KnownThreads(ThreadLookup):
    """The cases of developers' threads by the thread's `ts`; it fails or takes its time on
    request.

    `talks` are the threads of conversations, by the `ts` of each message in them, `edits` their
    edits by `ts` and version, `working` those at work, by channel; the next `refusals` reads fail.
    """

    def __init__(self) -> None:
        # Without super().__init__(): it reads no database.
        self.cases: dict[str, Thread] = {}
        self.talks: dict[str, Thread] = {}
        self.edits: set[tuple[str, str]] = set()
        self.fails = False
        self.hangs = False
        self.working: dict[str, Thread] = {}
        self.refusals = 0

    async def owner(self, thread: Thread) -> ThreadOwner | None:
        await self._trouble()
        if report := self.cases.get(thread.ts):
            return case_owner(report, SUMMARY)
        talks = thread in self.talks.values()
        return ThreadOwner(conversation_workflow_id(thread), "conversation") if talks else None

    async def thread_of_message(self, team: str, channel: str, ts: str) -> Thread | None:
        await self._trouble()
        return self.talks.get(ts)

    async def has_edit(self, team: str, channel: str, ts: str, version: str) -> bool:
        await self._trouble()
        return (ts, version) in self.edits

    async def active_in_channel(self, team: str, channel: str) -> Thread | None:
        await self._trouble()
        return self.working.get(channel)

    async def _trouble(self) -> None:
        if self.fails or self.refusals:
            self.refusals = max(0, self.refusals - 1)
            raise ConnectionRefusedError("the database is away")
        if self.hangs:
            await asyncio.Event().wait()


class NotedRequests(CatchUpRequester):
    """Records the requested catch-ups, deep or not, and starts none."""

    def __init__(self, client: Client, **given: Any) -> None:
        super().__init__(client, **given)
        self.deep: list[bool] = []

    def _request(self, *, deep: bool) -> None:
        self.deep.append(deep)


@pytest.fixture
def threads() -> KnownThreads:
    return KnownThreads()


@pytest.fixture
def real_limits() -> None:
    """A test that uses this tests the gateway's limits of time."""


@pytest.fixture(autouse=True)
def gateway_limits(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give the gateway the time of a busy machine, except where its limits are tested."""
    if _tests_limits(request):
        yield
    else:
        with unhurried():
            yield


def _tests_limits(request: pytest.FixtureRequest) -> bool:
    return not {"real_limits", "absent_temporal"}.isdisjoint(request.fixturenames)


@asynccontextmanager
async def within_slacks_limit() -> AsyncIterator[None]:
    """The block ends by a limit of the gateway's, before Slack's limit of three seconds.

    A busy machine may need more than the second between the two limits. Without its own limits
    the gateway would wait for ten seconds or more.
    """
    assert router.ACCEPT_TIMEOUT < ACK_TIMEOUT
    async with asyncio.timeout(router.ACCEPT_TIMEOUT + patient(1)):
        yield


@pytest_asyncio.fixture(loop_scope="session")
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[FaultySlack]:
    """A Slack that redelivers unacknowledged events at once."""
    waits = ACK_TIMEOUT if _tests_limits(request) else SECONDS
    async with FaultySlack.running(retry_delays=(0.0,) * 5, ack_timeout=waits) as running:
        yield running


@pytest.fixture
def slack(sandbox: FaultySlack) -> AsyncWebClient:
    return AsyncWebClient(identity.BOT_TOKEN, base_url=sandbox.api_url)


@dataclass
class Process:
    """A running gateway: its address, its stop, and its log."""

    task: "asyncio.Task[None]"
    stop: asyncio.Event
    port: int = 0
    log: list[dict[str, Any]] = field(default_factory=list)

    async def ready(self) -> tuple[int, dict[str, Any]]:
        async with (
            ClientSession() as http,
            http.get(f"http://127.0.0.1:{self.port}/readyz") as answer,
        ):
            return answer.status, await answer.json()

    async def counts(self) -> dict[str, int]:
        """The count of each outcome and of each reason to ignore an event."""
        return dict((await self.ready())[1]["counts"])


@asynccontextmanager
async def _running(
    config: GatewayConfig,
    router: EventRouter,
    slack: AsyncWebClient,
    temporal: Client,
    seconds: float = 30,
) -> AsyncIterator[Process]:
    stop = asyncio.Event()
    ready = asyncio.Event()
    gateway = GatewayServer(
        config, router, slack, {"temporal": temporal_answers(temporal)}, NotedRequests(temporal)
    )
    process = Process(asyncio.create_task(gateway.run(stop)), stop)

    def notice(_: Any, level: str, entry: Any) -> Any:
        process.log.append({**entry, "level": level})
        if entry["event"] == "gateway_ready":
            process.port = entry["port"]
            ready.set()
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[notice], cache_logger_on_first_use=False)
    waiting = asyncio.create_task(ready.wait())
    try:
        async with asyncio.timeout(patient(seconds)):
            await asyncio.wait({process.task, waiting}, return_when=asyncio.FIRST_COMPLETED)
            yield process
            stop.set()
            await process.task
    finally:
        waiting.cancel()
        process.task.cancel()
        structlog.configure(**before)


@pytest.fixture
def serving() -> Callable[..., AbstractAsyncContextManager[Process]]:
    """Runs a gateway for the length of a block; at the end it must stop by itself."""
    return _running
