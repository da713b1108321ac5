"""The gateway as a process: it takes signed requests, sends signals, and acknowledges only events
that Temporal keeps.
"""

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import ClientResponse, ClientSession, web
from aiohttp.test_utils import TestServer
from slack_sdk.signature import SignatureVerifier
from slack_sdk.web.async_client import AsyncWebClient
from temporalio.client import Client, WorkflowHandle

from tests.gateway.conftest import NotedRequests, Process, within_slacks_limit
from tests.support.faulty_sandboxes import FaultySlack
from threadline.cases.model import bug_workflow_id
from threadline.errors import Permanent, Transient
from threadline.gateway.router import EventRouter, ThreadLookup
from threadline.gateway.routes import RoutingConfig
from threadline.gateway.server import MAX_BODY, GatewayConfig, GatewayServer
from threadline.slack.client import identify
from threadline.slack.model import Thread
from threadline.wiring.probes import temporal_answers
from threadline_devstack.slack import identity

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET = "signing-secret"
CONFIG = GatewayConfig(signing_secret=SECRET, port=0)
ROUTING = RoutingConfig(
    "C_REPORTS", "C_SUMMARIES", "C_ESCALATIONS", identity.BOT_USER, identity.BOT_ID, team="T1"
)

_serial = count(1)

Json = dict[str, Any]


class Running:
    """A gateway that is up, and the requests that Slack sends to it."""

    def __init__(self, http: ClientSession, process: Process) -> None:
        self.http = http
        self.url = f"http://127.0.0.1:{process.port}"
        self.process = process

    async def send(self, body: str, path: str = "/slack/events", **headers: str) -> ClientResponse:
        now = str(int(time.time()))
        signature = SignatureVerifier(SECRET).generate_signature(timestamp=now, body=body)
        signed = {
            "Content-Type": "application/json",
            "X-Slack-Request-Timestamp": now,
            "X-Slack-Signature": str(signature),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return await self.http.post(
            self.url + path, data=io.BytesIO(body.encode()), headers=signed
        )

    async def event(self, event: Json, **headers: str) -> int:
        body = {
            "type": "event_callback",
            "team_id": "T1",
            "event_id": f"Ev{next(_serial)}",
            "event": event,
        }
        return (await self.send(json.dumps(body), **headers)).status


Serve = Callable[[Client], AbstractAsyncContextManager[Running]]


@pytest.fixture
def serve(serving: Callable[..., Any], slack: AsyncWebClient, threads: ThreadLookup) -> Serve:
    """Runs a gateway by HTTP over this client of Temporal."""

    @asynccontextmanager
    async def served(temporal: Client) -> AsyncIterator[Running]:
        async with (
            serving(CONFIG, EventRouter(ROUTING, temporal, threads), slack, temporal) as process,
            ClientSession() as http,
        ):
            yield Running(http, process)

    return served


@pytest_asyncio.fixture(loop_scope="session")
async def gateway(serve: Serve, temporal: Client) -> AsyncIterator[Running]:
    async with serve(temporal) as running:
        yield running


def report(**fields: Any) -> Json:
    ts = f"{time.time_ns() // 1_000_000_000}.{next(_serial):06d}"
    return {
        "type": "message",
        "channel": "C_REPORTS",
        "user": "U1",
        "text": "it breaks",
        "ts": ts,
        **fields,
    }


def case_of(temporal: Client, event: Json) -> WorkflowHandle[Any, Any]:
    return temporal.get_workflow_handle(
        bug_workflow_id(Thread("T1", event["channel"], event["ts"]))
    )


async def signals(handle: WorkflowHandle[Any, Any]) -> list[Json]:
    """The envelopes that Temporal keeps for a case, as they are on the wire."""
    history = await handle.fetch_history()
    found = [each.workflow_execution_signaled_event_attributes for each in history.events]
    return [json.loads(each.input.payloads[0].data) for each in found if each.signal_name]


async def test_event_is_not_acknowledged_before_temporal_has_it(
    serve: Serve, temporal: Client, gate: Any
) -> None:
    async with serve(gate.over(temporal)) as gateway:
        sent = asyncio.create_task(gateway.event(report()))
        await gate.reached.wait()
        # While the event is in flight the gateway answers others, and not this one.
        assert (await gateway.process.ready())[0] == 200
        assert not sent.done()

        gate.open.set()
        assert await sent == 200


async def test_event_under_way_is_finished_when_the_gateway_stops(
    serve: Serve, temporal: Client, gate: Any
) -> None:
    async with serve(gate.over(temporal)) as gateway:
        taken = report()
        sent = asyncio.create_task(gateway.event(taken))
        await gate.reached.wait()

        gateway.process.stop.set()
        while (await gateway.process.ready())[1]["taking_events"]:
            pass
        assert await gateway.event(report()) == 503

        gate.open.set()
        assert await sent == 200
        await gateway.process.task
        assert len(await signals(case_of(temporal, taken))) == 1


async def test_absent_temporal_makes_slack_deliver_again(
    serve: Serve, absent_temporal: Client
) -> None:
    async with serve(absent_temporal) as gateway:
        async with within_slacks_limit():
            assert await gateway.event(report()) == 500
        status, told = await gateway.process.ready()

    assert (status, told["temporal"]) == (503, False)
    assert told["counts"] == {"not_accepted": 1}


async def test_acknowledged_report_is_in_temporal_as_often_as_it_is_delivered(
    gateway: Running, temporal: Client
) -> None:
    event = report()
    retried = {"X_Slack_Retry_Num": "1", "X_Slack_Retry_Reason": "http_timeout"}

    assert await gateway.event(event) == 200
    assert await gateway.event(event, **retried) == 200

    kept = await signals(case_of(temporal, event))
    assert [(each["id"], each["kind"]) for each in kept] == [
        (f"T1:C_REPORTS:{event['ts']}", "report")
    ] * 2


async def test_message_counts_over_its_own_mention(gateway: Running, temporal: Client) -> None:
    twin = report(subtype="file_share", files=[{"id": "F1"}], text="<@U0THREADLINE> look")
    mention = {
        **{name: twin[name] for name in ("channel", "user", "text", "ts")},
        "type": "app_mention",
    }

    assert [await gateway.event(mention), await gateway.event(twin)] == [200, 200]

    [kept] = await signals(case_of(temporal, twin))
    assert len(kept["files"]) == 1


async def test_ignored_events_are_acknowledged_and_counted_by_reason(gateway: Running) -> None:
    for event in (
        report(bot_id="B9", user=None),
        report(user=identity.BOT_USER),
        report(channel="C9"),
        {"type": "reaction_added"},
        {"type": "channel_created"},
    ):
        assert await gateway.event(event) == 200

    status, told = await gateway.process.ready()
    assert status == 200
    kinds = ("bot_message", "own_message", "other_channel", "reaction", "not_a_message")
    assert told["counts"] == dict.fromkeys(kinds, 1)


async def test_url_verification_is_answered(gateway: Running) -> None:
    answer = await gateway.send(json.dumps({"type": "url_verification", "challenge": "abc"}))

    assert (answer.status, await answer.json()) == (200, {"challenge": "abc"})


async def test_click_and_rate_limit_warning_are_acknowledged_and_counted(gateway: Running) -> None:
    body = "payload=" + json.dumps(
        {"type": "block_actions", "team": {"id": "T1"}, "user": {"id": "U1"}, "actions": []}
    )
    form = {"Content_Type": "application/x-www-form-urlencoded"}

    assert (await gateway.send(body, "/slack/interactions", **form)).status == 200
    assert (
        await gateway.send(json.dumps({"type": "app_rate_limited", "team_id": "T1"}))
    ).status == 200

    assert await gateway.process.counts() == {"unknown_button": 1, "unhandled_app_rate_limited": 1}


UNSIGNED: dict[str, dict[str, str]] = {
    "no number": {"X_Slack_Request_Timestamp": "yesterday"},
    "an absurd number": {"X_Slack_Request_Timestamp": "9" * 400},
    "stale": {"X_Slack_Request_Timestamp": str(int(time.time()) - 3600)},
    "from the future": {"X_Slack_Request_Timestamp": str(int(time.time()) + 3600)},
    "another signature": {"X_Slack_Signature": "v0=" + "0" * 64},
    "no signature": {"X_Slack_Signature": ""},
    "a signature of other letters": {"X_Slack_Signature": "v0=é"},
}


@pytest.mark.parametrize("path", ["/slack/events", "/slack/interactions"])
async def test_unsigned_request_is_refused(gateway: Running, path: str) -> None:
    body = json.dumps({"type": "url_verification", "challenge": "abc"})
    for name, headers in UNSIGNED.items():
        answer = await gateway.send(body, path, **headers)
        assert (answer.status, await answer.text()) == (401, ""), name
    assert await gateway.process.counts() == {"unsigned": len(UNSIGNED)}
    for bare in (
        {},
        {"X-Slack-Request-Timestamp": str(int(time.time())), "X-Slack-Signature": "v0=0"},
    ):
        async with gateway.http.post(
            gateway.url + path, data=b"\xff\xfe{", headers=bare
        ) as answer:
            assert answer.status == 401


async def test_body_of_more_than_a_megabyte_is_refused_unread(gateway: Running) -> None:
    assert (await gateway.send("x" * (MAX_BODY + 1))).status == 413
    assert await gateway.process.counts() == {}


async def test_running_gateway_is_alive_and_ready(gateway: Running) -> None:
    async with gateway.http.get(gateway.url + "/healthz") as answer:
        assert answer.status == 200

    status, told = await gateway.process.ready()
    assert status == 200
    assert told == {"temporal": True, "taking_events": True, "in_flight": 0, "counts": {}}


@pytest.mark.parametrize("token", ["xoxb-revoked", "", identity.APP_TOKEN])
async def test_refused_bot_token_is_named(slack: AsyncWebClient, token: str) -> None:
    with pytest.raises(Permanent, match="SLACK_BOT_TOKEN"):
        await identify(AsyncWebClient(token, base_url=slack.base_url))


async def test_token_of_a_person_is_no_bot_token() -> None:
    async def auth_test(_: web.Request) -> web.Response:
        return web.json_response({"ok": True, "team_id": "T1", "user_id": "U_PERSON"})

    app = web.Application()
    app.add_routes([web.post("/api/auth.test", auth_test)])
    async with TestServer(app) as server:
        slack = AsyncWebClient("xoxp-person", base_url=str(server.make_url("/api/")))
        with pytest.raises(Permanent, match="SLACK_BOT_TOKEN"):
            await identify(slack)


@pytest.mark.parametrize("fault", ["rate_limit", "fail_before", "away"])
async def test_start_while_slack_is_away_or_busy_may_be_tried_again(
    sandbox: FaultySlack, slack: AsyncWebClient, fault: str
) -> None:
    if fault == "away":
        slack.base_url = "http://127.0.0.1:1/api/"
    else:
        getattr(sandbox.faults, fault)("auth.test")

    with pytest.raises(Transient, match="Slack"):
        await identify(slack)


async def test_missing_secret_is_named(
    slack: AsyncWebClient, temporal: Client, threads: ThreadLookup
) -> None:
    router = EventRouter(ROUTING, temporal, threads)
    with pytest.raises(Permanent, match="SLACK_SIGNING_SECRET"):
        await GatewayServer(
            GatewayConfig(),
            router,
            slack,
            {"temporal": temporal_answers(temporal)},
            NotedRequests(temporal),
        ).run(asyncio.Event())
