"""A gateway that comes back asks for a look at what it may have missed: deep when it was away, else a short one."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from slack_sdk.web.async_client import AsyncWebClient
from temporalio.client import Client, WorkflowExecutionStatus

from threadline.devstack.slack_sandbox import SlackSandbox, identity
from threadline.domain.addressing import CATCH_UP_ID
from threadline.gateway.app import Gateway, GatewayConfig
from threadline.gateway.catch_up import CatchUpRequests
from threadline.gateway.dispatch import ThreadLookup

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOCKET = GatewayConfig(
    "socket", identity.REPORTS, identity.SUMMARIES, identity.ESCALATIONS, app_token=identity.APP_TOKEN, port=0
)
HTTP = GatewayConfig(
    "http", identity.REPORTS, identity.SUMMARIES, identity.ESCALATIONS, signing_secret="secret", port=0
)
Start = Callable[[GatewayConfig], None]


@pytest_asyncio.fixture(loop_scope="session")
async def start(slack: AsyncWebClient, threads: ThreadLookup, temporal: Client) -> AsyncIterator[Start]:
    """Runs gateways until the test ends."""
    stop, running = asyncio.Event(), list[asyncio.Task[None]]()

    def run(config: GatewayConfig) -> None:
        gateway = Gateway(config, slack, temporal, threads, CatchUpRequests(temporal))
        running.append(asyncio.create_task(gateway.run(stop)))

    yield run
    stop.set()
    await asyncio.gather(*running)
    await temporal.get_workflow_handle(CATCH_UP_ID).terminate()


async def asked(temporal: Client, times: int) -> list[Any]:
    """Wait until the one catch-up was asked so often; returns whether each was to be deep."""
    handle = temporal.get_workflow_handle(CATCH_UP_ID)
    async with asyncio.timeout(20):
        while True:
            try:
                running = (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
                events = (await handle.fetch_history()).events if running else []
            except Exception:  # noqa: BLE001 - nobody has asked yet
                events = []
            signals = [event.workflow_execution_signaled_event_attributes for event in events]
            found = [json.loads(each.input.payloads[0].data)["deep"] for each in signals if each.signal_name]
            if len(found) >= times:
                return found
            await asyncio.sleep(0.05)  # between looks at another process


@pytest.mark.promise("catch-up:gateway:asks")
async def test_each_connection_by_socket_asks(start: Start, sandbox: SlackSandbox, temporal: Client) -> None:
    start(SOCKET)
    assert await asked(temporal, 1) == [True]
    await sandbox.sockets.disconnect("refresh_requested")
    assert await asked(temporal, 2) == [True, False], "a connection that Slack renews has missed no edit"


async def test_by_http_the_start_asks(start: Start, sandbox: SlackSandbox, temporal: Client) -> None:
    start(HTTP)
    assert await asked(temporal, 1) == [True]
