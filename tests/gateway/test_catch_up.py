"""A gateway that comes back requests a catch-up: a deep one after it was away, else a short
one.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

import pytest
import pytest_asyncio
from slack_sdk.web.async_client import AsyncWebClient
from temporalio.client import Client, WorkflowExecutionStatus

from tests.gateway.conftest import ROUTING, SOCKET, NotedRequests
from tests.support.faulty_sandboxes import FaultySlack
from tests.support.slack import Clock
from tests.support.temporal import until
from threadline.gateway.catch_up import CatchUpRequester
from threadline.gateway.router import EventRouter, ThreadLookup
from threadline.gateway.server import GatewayConfig, GatewayServer, InFlightEvents
from threadline.threads.contract import CATCH_UP_ID, parse_request
from threadline_devstack.slack import identity

pytestmark = pytest.mark.asyncio(loop_scope="session")

HTTP = GatewayConfig(signing_secret="secret", port=0)
Start = Callable[[GatewayConfig], None]


@pytest_asyncio.fixture(loop_scope="session")
async def start(
    slack: AsyncWebClient, threads: ThreadLookup, temporal: Client
) -> AsyncIterator[Start]:
    """Runs gateways until the test ends."""
    stop = asyncio.Event()
    running = list[asyncio.Task[None]]()

    def run(config: GatewayConfig) -> None:
        router = EventRouter(ROUTING, temporal, threads)
        gateway = GatewayServer(config, router, slack, {}, CatchUpRequester(temporal))
        running.append(asyncio.create_task(gateway.run(stop)))

    yield run
    stop.set()
    await asyncio.gather(*running)
    await temporal.get_workflow_handle(CATCH_UP_ID).terminate()


async def asked(temporal: Client, times: int) -> list[Any]:
    """Wait until the one catch-up has this many requests; returns whether each was deep."""

    async def enough() -> bool:
        return len(await requests(temporal)) >= times

    await until(enough, f"the catch-up has {times} requests")
    return await requests(temporal)


async def requests(temporal: Client) -> list[Any]:
    """Return whether each request of the running catch-up is deep."""
    handle = temporal.get_workflow_handle(CATCH_UP_ID)
    try:
        running = (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
        events = (await handle.fetch_history()).events if running else []
    except Exception:  # noqa: BLE001 - the catch-up has no request yet
        return []
    signals = (event.workflow_execution_signaled_event_attributes for event in events)
    return [
        json.loads(each.input.payloads[0].data)["deep"] for each in signals if each.signal_name
    ]


async def test_each_socket_connection_requests_a_catch_up(
    start: Start, sandbox: FaultySlack, temporal: Client
) -> None:
    start(SOCKET)
    assert await asked(temporal, 1) == [True]
    await sandbox.sockets.disconnect("refresh_requested")
    assert await asked(temporal, 2) == [True, False], (
        "a connection that Slack renews has missed no edit"
    )


async def test_request_names_the_followed_channels_and_the_time_of_following(
    temporal: Client,
) -> None:
    """The gateway writes to no database: messages from before the core worker's first start are
    found as well.
    """
    before = time.time()
    requester = CatchUpRequester(temporal, [identity.REPORTS, identity.SUMMARIES])
    requester.on_connected()
    await asked(temporal, 1)
    await requester.close()

    handle = temporal.get_workflow_handle(CATCH_UP_ID)
    signals = [
        each.workflow_execution_signaled_event_attributes
        for each in (await handle.fetch_history()).events
    ]
    [args] = [json.loads(each.input.payloads[0].data) for each in signals if each.signal_name]
    await handle.terminate()
    _, followed = parse_request([args])
    assert followed.keys() == {identity.REPORTS, identity.SUMMARIES}
    assert all(before <= at <= time.time() for at in followed.values())


async def test_start_with_http_requests_a_catch_up(
    start: Start, sandbox: FaultySlack, temporal: Client
) -> None:
    start(HTTP)
    assert await asked(temporal, 1) == [True]


async def test_gap_of_more_than_a_minute_requests_a_deep_catch_up(temporal: Client) -> None:
    clock = Clock()
    requests = NotedRequests(temporal, clock=clock)
    requests.on_connected()
    clock.now += 59
    requests.on_connected()
    clock.now += 61
    requests.on_connected()
    clock.now += 61
    requests.on_heartbeat()
    clock.now += 1
    requests.on_connected()
    assert requests.deep == [True, False, True, False]


async def test_events_refused_for_a_minute_request_a_deep_catch_up(
    temporal: Client, absent_temporal: Client, threads: ThreadLookup
) -> None:
    """The connection stays open, so there is no other sign that Slack has given events up."""
    clock = Clock()
    requests = NotedRequests(temporal, clock=clock)
    away, back = (
        InFlightEvents(EventRouter(ROUTING, client, threads), requests)
        for client in (absent_temporal, temporal)
    )
    said = {
        "type": "message",
        "channel": identity.REPORTS,
        "user": identity.REPORTER,
        "text": "any news",
    }

    def event(number: int) -> dict[str, Any]:
        ts = f"170000000{number}.000000"
        return {"type": "event_callback", "team_id": identity.TEAM, "event": {**said, "ts": ts}}

    assert await away.handle(event(1)) == HTTPStatus.INTERNAL_SERVER_ERROR
    clock.now += 59
    assert await back.handle(event(2)) == HTTPStatus.OK
    assert requests.deep == [], "Slack redelivers events that were refused for so short a time"
    assert await away.handle(event(3)) == HTTPStatus.INTERNAL_SERVER_ERROR
    clock.now += 31
    assert await away.handle(event(4)) == HTTPStatus.INTERNAL_SERVER_ERROR
    clock.now += 31
    ignored = {**event(5), "event": {"type": "channel_rename"}}
    assert await back.handle(ignored) == HTTPStatus.OK
    assert requests.deep == [], "an ignored event does not show that Temporal is back"
    assert await back.handle(event(6)) == HTTPStatus.OK
    assert await back.handle(event(7)) == HTTPStatus.OK
    assert requests.deep == [True]
