"""Each fault picks its side once, in words for a person; over a real connection."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from slack_sdk.errors import SlackRequestError

from tests.support.slack import Serve
from threadline.errors import Permanent, Transient
from threadline.slack.client import Slack, make_client
from threadline.slack.errors import RATE_LIMIT_PAUSE, Refused, translate


async def _fault(serve: Serve, session: aiohttp.ClientSession, **answer: Any) -> Permanent | Transient:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(**answer)

    slack = Slack(make_client("xoxb-test", await serve(handler), session))
    try:
        await slack.post("C1", "hello")
    except (Permanent, Transient) as fault:
        return fault
    pytest.fail("the call went well")


def _json(status: int = 200, **body: Any) -> dict[str, Any]:
    return {"status": status, "text": json.dumps({"ok": False, **body}), "content_type": "application/json"}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("not_in_channel", "The bot is not a member of channel C1: type `/invite`"),
        ("channel_not_found", "check the channel's id in the settings"),
        ("is_archived", "Slack has archived channel C1"),
        ("invalid_auth", r"does not accept the bot token \(invalid_auth\)"),
        ("token_revoked", "install the app again"),
        ("msg_too_long", "too long"),
        ("msg_blocks_too_long", "in several parts"),
        ("a_new_error", "a_new_error"),
    ],
)
async def test_a_refusal_is_permanent_and_says_what_to_do(
    serve: Serve, session: aiohttp.ClientSession, error: str, words: str
) -> None:
    fault = await _fault(serve, session, **_json(error=error))
    assert isinstance(fault, Permanent)
    with pytest.raises(Permanent, match=words):
        raise fault


async def test_a_missing_scope_is_named(serve: Serve, session: aiohttp.ClientSession) -> None:
    fault = await _fault(serve, session, **_json(error="missing_scope", needed="chat:write", provided="commands"))
    assert isinstance(fault, Permanent)
    assert "lacks the scope chat:write for channel C1" in str(fault)


@pytest.mark.parametrize(("header", "pause"), [("77", 77.0), ("soon", RATE_LIMIT_PAUSE)])
async def test_a_rate_limit_passes_on_how_long_to_wait(
    serve: Serve, session: aiohttp.ClientSession, header: str, pause: float
) -> None:
    answer = _json(429, error="ratelimited") | {"headers": {"Retry-After": header}}
    fault = await _fault(serve, session, **answer)
    assert isinstance(fault, Refused)
    assert fault.retry_after == pause


@pytest.mark.parametrize(
    "answer",
    [
        _json(error="internal_error"),
        _json(error="fatal_error"),
        _json(503, error="service_unavailable"),
        {"status": 502, "text": "<html>bad gateway</html>", "content_type": "text/html"},
        {"status": 500, "text": "oops", "content_type": "text/plain"},
        {"status": 200, "text": "{half", "content_type": "application/json"},
        {"status": 200, "text": "<html>", "content_type": "text/html"},
    ],
)
async def test_what_may_have_been_done_is_transient_and_not_a_refusal(
    serve: Serve, session: aiohttp.ClientSession, answer: dict[str, Any]
) -> None:
    assert type(await _fault(serve, session, **answer)) is Transient


async def test_an_answer_that_is_not_slacks_points_at_the_address(serve: Serve, session: aiohttp.ClientSession) -> None:
    fault = await _fault(serve, session, status=404, text="no such page", content_type="text/html")
    assert isinstance(fault, Permanent)
    assert "HTTP 404" in str(fault)


async def test_nobody_listening_is_a_refusal_that_may_be_repeated(session: aiohttp.ClientSession) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(Refused, match="check the network"):
        await Slack(make_client("xoxb-test", f"http://127.0.0.1:{port}", session)).post("C1", "hello")


async def test_a_connection_that_breaks_off_is_transient(serve: Serve, session: aiohttp.ClientSession) -> None:
    async def hang_up(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    with pytest.raises(Transient) as caught:
        await Slack(make_client("xoxb-test", await serve(hang_up), session)).post("C1", "hello")
    assert type(caught.value) is Transient


def test_a_call_that_could_not_be_made_is_permanent() -> None:
    assert isinstance(translate(SlackRequestError("no such verb"), "channel C1"), Permanent)
    assert isinstance(translate(aiohttp.InvalidURL("slack"), "channel C1"), Permanent)
