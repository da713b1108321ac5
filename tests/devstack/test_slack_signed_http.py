"""Events as signed HTTP, with Bolt's own HTTP adapter at the other end."""

import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from slack_bolt.adapter.starlette.async_handler import AsyncSlackRequestHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.signature import SignatureVerifier
from slack_sdk.web.async_client import AsyncWebClient
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.devstack.conftest import SlackServer
from tests.support.faulty_sandboxes import FaultySlack
from threadline_devstack import server
from threadline_devstack.slack.identity import BOT_TOKEN, REPORTER, REPORTS, SIGNING_SECRET


class Receiver:
    """Bolt with a proxy in front that records the headers and may reply with `answers` first, by
    status and headers.
    """

    def __init__(
        self, slack: FaultySlack, listener: socket.socket, secret: str = SIGNING_SECRET
    ) -> None:
        client = AsyncWebClient(token=BOT_TOKEN, base_url=slack.api_url)
        bolt = AsyncApp(client=client, signing_secret=secret, process_before_response=True)
        bolt.event("message")(self._keep)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/slack/events"
        self.app = Starlette(routes=[Route("/slack/events", self._door, methods=["POST"])])
        self.bodies: list[dict[str, Any]] = []
        self.retries: list[tuple[str, str]] = []
        self.genuine: list[bool] = []
        self.answers: list[tuple[int, dict[str, str]]] = []
        self._bolt = AsyncSlackRequestHandler(bolt)

    async def _keep(self, body: dict[str, Any]) -> None:
        self.bodies.append(body)

    async def _door(self, request: Request) -> Response:
        headers = dict(request.headers)
        self.genuine.append(
            SignatureVerifier(SIGNING_SECRET).is_valid_request(await request.body(), headers)
        )
        self.retries.append(
            (headers.get("x-slack-retry-num", ""), headers.get("x-slack-retry-reason", ""))
        )
        if self.answers:
            status, more = self.answers.pop(0)
            return Response(status_code=status, headers=more)
        return await self._bolt.handle(request)


@pytest_asyncio.fixture(loop_scope="module")
async def slack(slack_server: SlackServer) -> AsyncIterator[FaultySlack]:
    async with slack_server.sandbox(retry_delays=(0.0, 0.01, 0.02)) as sandbox:
        yield sandbox


@pytest_asyncio.fixture(loop_scope="module")
async def receiver(slack: FaultySlack) -> AsyncIterator[Receiver]:
    with server.bound(0) as listener:
        receiver = Receiver(slack, listener)
        async with server.serving(receiver.app, listener):
            slack.deliveries.request_url = receiver.url
            yield receiver


async def test_a_signed_event_passes_bolts_check(slack: FaultySlack, receiver: Receiver) -> None:
    slack.workspace.post(REPORTS, REPORTER, "über &amp; ünder")
    await slack.settled()
    assert receiver.genuine == [True]
    assert receiver.retries == [("", "")]
    assert [body["event"]["text"] for body in receiver.bodies] == ["über &amp; ünder"]


async def test_a_failure_is_retried_with_number_and_reason(
    slack: FaultySlack, receiver: Receiver
) -> None:
    receiver.answers = [(500, {}), (503, {})]
    slack.workspace.post(REPORTS, REPORTER, "bug")
    await slack.settled()
    assert receiver.retries == [("", ""), ("1", "http_error"), ("2", "http_error")]
    assert len(receiver.bodies) == 1
    assert slack.deliveries.log[-1].outcome == "delivered"


async def test_an_app_may_ask_for_no_retry(slack: FaultySlack, receiver: Receiver) -> None:
    receiver.answers = [(500, {"X-Slack-No-Retry": "1"})]
    slack.workspace.post(REPORTS, REPORTER, "bug")
    await slack.settled()
    assert (slack.deliveries.log[-1].attempts, slack.deliveries.log[-1].outcome) == (1, "given_up")


async def test_an_app_that_is_away_gets_three_retries(slack: FaultySlack) -> None:
    with server.bound(0) as taken:
        slack.deliveries.request_url = f"http://127.0.0.1:{taken.getsockname()[1]}/slack/events"
        slack.workspace.post(REPORTS, REPORTER, "bug")
        await slack.settled()
    assert (slack.deliveries.log[-1].attempts, slack.deliveries.log[-1].outcome) == (4, "given_up")


async def test_an_interaction_is_sent_once(slack: FaultySlack, receiver: Receiver) -> None:
    submission = {"type": "block_actions", "user": {"id": REPORTER}}
    receiver.answers = [(200, {}), (500, {})]
    assert await slack.deliveries.interact(submission)
    assert not await slack.deliveries.interact(submission)
