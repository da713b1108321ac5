"""Socket Mode: an event from Slack's socket is acknowledged once Temporal has it, and the socket
reconnects.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse
from temporalio.client import Client

from tests.gateway.conftest import ROUTING, SOCKET, NotedRequests
from tests.support.faulty_sandboxes import FaultySlack
from tests.support.patience import patient
from tests.support.unhurried import SECONDS
from threadline.cases.model import bug_workflow_id
from threadline.errors import Permanent
from threadline.gateway.router import EventRouter, ThreadLookup
from threadline.gateway.server import (
    GatewayConfig,
    GatewayServer,
    InFlightEvents,
    SocketModeConnection,
)
from threadline.slack.model import Thread
from threadline.wiring.probes import temporal_answers
from threadline_devstack.slack import identity

pytestmark = pytest.mark.asyncio(loop_scope="session")

Serve = Callable[[Client], AbstractAsyncContextManager[Any]]


@pytest.fixture
def serve(serving: Callable[..., Any], slack: AsyncWebClient, threads: ThreadLookup) -> Serve:
    """Runs a gateway by Socket Mode over this client of Temporal."""
    return lambda temporal: serving(
        SOCKET, EventRouter(ROUTING, temporal, threads), slack, temporal
    )


def report(sandbox: FaultySlack, text: str = "it breaks", **more: Any) -> str:
    return sandbox.workspace.post(identity.REPORTS, identity.REPORTER, text, **more).ts


async def kept(temporal: Client, ts: str) -> int:
    """The number of signals that Temporal keeps of the case reported at `ts`."""
    handle = temporal.get_workflow_handle(
        bug_workflow_id(Thread(identity.TEAM, identity.REPORTS, ts))
    )
    events = (await handle.fetch_history()).events
    return sum(event.HasField("workflow_execution_signaled_event_attributes") for event in events)


async def test_acknowledged_report_is_in_temporal(
    serve: Serve, sandbox: FaultySlack, temporal: Client
) -> None:
    async with serve(temporal) as process:
        status, told = await process.ready()
        assert (status, told["socket"]) == (200, True)
        ts = report(sandbox)
        await sandbox.settled()

    assert await kept(temporal, ts) == 1
    assert [(each.outcome, each.attempts) for each in sandbox.deliveries.log] == [("delivered", 1)]


async def test_report_with_replies_and_corrections_reaches_one_case(
    serve: Serve, sandbox: FaultySlack, temporal: Client
) -> None:
    async with serve(temporal):
        root = report(sandbox, f"<@{identity.BOT_USER}> it breaks")
        reply = report(sandbox, "more", thread_ts=root)
        sandbox.workspace.unfurl(identity.REPORTS, reply, [{"text": "a page"}])
        sandbox.workspace.edit(identity.REPORTS, reply, "much more")
        sandbox.workspace.delete(identity.REPORTS, reply)
        sandbox.workspace.post(identity.REPORTS, identity.BYSTANDER, "me too", thread_ts=root)
        sandbox.workspace.post(
            identity.REPORTS, identity.BOT_USER, "looking", thread_ts=root, bot_id=identity.BOT_ID
        )
        await sandbox.settled()

    # The report, the reply, its edit and its deletion; the mention is the report once more.
    assert await kept(temporal, root) == 4
    assert {each.outcome for each in sandbox.deliveries.log} == {"delivered"}


async def test_event_that_temporal_does_not_take_comes_again(
    serve: Serve, sandbox: FaultySlack, temporal: Client, gate: Any
) -> None:
    sandbox.deliveries._ack_timeout = 1
    gate.refusals = 2
    gate.open.set()
    async with serve(gate.over(temporal)):
        ts = report(sandbox)
        await gate.refused.wait()
        sandbox.deliveries._ack_timeout = SECONDS
        await sandbox.settled()

    assert await kept(temporal, ts) == 1
    assert [(each.outcome, each.attempts) for each in sandbox.deliveries.log] == [("delivered", 3)]


async def test_event_under_way_is_acknowledged_before_the_socket_closes(
    serve: Serve, sandbox: FaultySlack, temporal: Client, gate: Any
) -> None:
    async with serve(gate.over(temporal)) as process:
        ts = report(sandbox)
        await gate.reached.wait()
        process.stop.set()
        while (await process.ready())[1]["taking_events"]:
            pass
        gate.open.set()
        await process.task

    assert await kept(temporal, ts) == 1
    await sandbox.settled()
    assert [(each.outcome, each.attempts) for each in sandbox.deliveries.log] == [("delivered", 1)]


@pytest.mark.parametrize(
    ("reason", "level"), [("refresh_requested", "info"), ("link_disabled", "error")]
)
async def test_gateway_that_slack_disconnects_logs_why_and_comes_back(
    serve: Serve, sandbox: FaultySlack, temporal: Client, reason: str, level: str
) -> None:
    async with serve(temporal) as process:
        await sandbox.sockets.disconnect(reason)
        ts = report(sandbox)
        await sandbox.settled()

    assert {"event": "socket_disconnect", "reason": reason, "level": level} in process.log
    assert await kept(temporal, ts) == 1


async def test_broken_connection_comes_back(
    serve: Serve, sandbox: FaultySlack, temporal: Client
) -> None:
    async with serve(temporal):
        await sandbox.sockets.cut()
        ts = report(sandbox)
        await sandbox.settled()

    assert await kept(temporal, ts) == 1


class SlackWithADeadAddress(AsyncWebClient):
    """Gives a dead address first."""

    given = 0

    async def apps_connections_open(self, *, app_token: str, **kwargs: Any) -> AsyncSlackResponse:
        answer = await super().apps_connections_open(app_token=app_token, **kwargs)
        self.given += 1
        if self.given == 1:
            assert isinstance(answer.data, dict)
            answer.data["url"] = "ws://127.0.0.1:1/link/"
        return answer


@asynccontextmanager
async def link_over(
    slack: AsyncWebClient, temporal: Client, threads: ThreadLookup
) -> AsyncIterator[SocketModeConnection]:
    """A link that checks its connection often, so that a test need not wait for it."""
    requests = NotedRequests(temporal)
    events = InFlightEvents(EventRouter(ROUTING, temporal, threads), requests)
    link = SocketModeConnection(events, identity.APP_TOKEN, slack, requests, heartbeat=0.2)
    try:
        async with asyncio.timeout(patient(15)):
            yield link
    finally:
        await link.close()


async def test_dead_or_refused_address_is_asked_for_again(
    sandbox: FaultySlack, temporal: Client, threads: ThreadLookup
) -> None:
    sandbox.faults.fail_before("apps.connections.open", count=2)
    slack = SlackWithADeadAddress(identity.BOT_TOKEN, base_url=sandbox.api_url)
    async with link_over(slack, temporal, threads) as link:
        await link.connect()

        assert await link.is_connected()
        assert slack.given == 2


async def test_refused_app_token_is_named(
    slack: AsyncWebClient, temporal: Client, threads: ThreadLookup
) -> None:
    config = GatewayConfig(app_token="xapp-revoked", port=0)

    router = EventRouter(ROUTING, temporal, threads)
    with pytest.raises(Permanent, match="SLACK_APP_TOKEN"):
        await GatewayServer(
            config,
            router,
            slack,
            {"temporal": temporal_answers(temporal)},
            NotedRequests(temporal),
        ).run(asyncio.Event())
