"""Each fault is classified once, with a text for users; over a real connection."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from slack_sdk.errors import SlackRequestError

from tests.support.slack import Serve
from threadline.errors import Mendable, NotDone, Permanent, Transient
from threadline.slack.client import SlackClient, make_web_client
from threadline.slack.errors import RATE_LIMIT_PAUSE, translate


async def _fault(
    serve: Serve, session: aiohttp.ClientSession, **answer: Any
) -> Permanent | Transient:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(**answer)

    slack = SlackClient(make_web_client("xoxb-test", await serve(handler), session))
    try:
        await slack.post("C1", "hello")
    except (Permanent, Transient) as fault:
        return fault
    pytest.fail("the call went well")


def _json(status: int = 200, **body: Any) -> dict[str, Any]:
    return {
        "status": status,
        "text": json.dumps({"ok": False, **body}),
        "content_type": "application/json",
    }


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("not_in_channel", "channel C1.*/invite"),
        ("channel_not_found", "channel C1"),
        ("is_archived", "archived channel C1"),
        ("invalid_auth", "token.*invalid_auth"),
        ("missing_scope", "chat:write.*channel C1"),
        ("msg_too_long", "too long"),
        ("a_new_error", "a_new_error"),
    ],
)
async def test_refusal_is_permanent_and_advises_the_user(
    serve: Serve, session: aiohttp.ClientSession, error: str, says: str
) -> None:
    with pytest.raises(Permanent, match=says):
        raise await _fault(serve, session, **_json(error=error, needed="chat:write"))


TOKEN = ("slack_access", "token")
CHANNEL = ("slack_channel", "C1")
MESSAGE = None
REFUSALS = {
    "access_denied": TOKEN,
    "accesslimited": TOKEN,
    "account_inactive": TOKEN,
    "app_access_restricted": TOKEN,
    "ekm_access_denied": TOKEN,
    "enterprise_is_restricted": TOKEN,
    "invalid_auth": TOKEN,
    "missing_scope": ("slack_access", "chat:write"),
    "no_permission": TOKEN,
    "not_allowed_token_type": TOKEN,
    "not_authed": TOKEN,
    "org_login_required": TOKEN,
    "team_access_not_granted": TOKEN,
    "team_added_to_org": TOKEN,
    "team_not_found": TOKEN,
    "token_expired": TOKEN,
    "token_revoked": TOKEN,
    "two_factor_setup_required": TOKEN,
    "channel_not_found": CHANNEL,
    "channel_type_not_supported": CHANNEL,
    "is_archived": CHANNEL,
    "message_limit_exceeded": CHANNEL,
    "messages_tab_disabled": CHANNEL,
    "not_in_channel": CHANNEL,
    "restricted_action": CHANNEL,
    "restricted_action_non_threadable_channel": CHANNEL,
    "restricted_action_read_only_channel": CHANNEL,
    "restricted_action_thread_locked": CHANNEL,
    "restricted_action_thread_only_channel": CHANNEL,
    "as_user_not_supported": MESSAGE,
    "attachment_payload_limit_exceeded": MESSAGE,
    "cannot_reply_to_message": MESSAGE,
    "deprecated_endpoint": MESSAGE,
    "duplicate_message_not_found": MESSAGE,
    "invalid_arg_name": MESSAGE,
    "invalid_arguments": MESSAGE,
    "invalid_blocks": MESSAGE,
    "invalid_blocks_format": MESSAGE,
    "invalid_metadata_format": MESSAGE,
    "invalid_metadata_schema": MESSAGE,
    "markdown_text_conflict": MESSAGE,
    "message_not_found": MESSAGE,
    "metadata_must_be_sent_from_app": MESSAGE,
    "metadata_too_large": MESSAGE,
    "msg_blocks_too_long": MESSAGE,
    "msg_too_long": MESSAGE,
    "no_text": MESSAGE,
    "slack_connect_canvas_sharing_blocked": MESSAGE,
    "slack_connect_file_link_sharing_blocked": MESSAGE,
    "thread_not_found": MESSAGE,
    "too_many_attachments": MESSAGE,
    "too_many_contact_cards": MESSAGE,
}
"""Slack's refusals of `chat.postMessage`, each with its fault of the installation if the admin can
mend it.
"""


@pytest.mark.parametrize(("error", "expected"), REFUSALS.items())
async def test_refusal_that_an_admin_can_mend_differs_from_one_of_the_message(
    serve: Serve, session: aiohttp.ClientSession, error: str, expected: tuple[str, str] | None
) -> None:
    fault = await _fault(serve, session, **_json(error=error, needed="chat:write"))
    found = (fault.kind, fault.subject) if isinstance(fault, Mendable) else None
    assert found == expected


@pytest.mark.parametrize(("header", "pause"), [("77", 77.0), ("soon", RATE_LIMIT_PAUSE)])
async def test_rate_limit_carries_its_delay(
    serve: Serve, session: aiohttp.ClientSession, header: str, pause: float
) -> None:
    answer = _json(429, error="ratelimited") | {"headers": {"Retry-After": header}}
    fault = await _fault(serve, session, **answer)
    assert isinstance(fault, NotDone)
    assert fault.retry_after == pause


@pytest.mark.parametrize(
    "answer",
    [
        _json(error="internal_error"),
        _json(error="fatal_error"),
        _json(503, error="service_unavailable"),
        {"status": 502, "text": "<html>bad gateway</html>", "content_type": "text/html"},
        {"status": 200, "text": "{half", "content_type": "application/json"},
        {"status": 200, "text": "<html>", "content_type": "text/html"},
    ],
)
async def test_call_that_may_have_been_done_is_transient_and_not_refused(
    serve: Serve, session: aiohttp.ClientSession, answer: dict[str, Any]
) -> None:
    assert type(await _fault(serve, session, **answer)) is Transient


async def test_answer_that_is_not_slacks_is_permanent(
    serve: Serve, session: aiohttp.ClientSession
) -> None:
    fault = await _fault(serve, session, status=404, text="no such page", content_type="text/html")
    assert isinstance(fault, Permanent)
    assert "HTTP 404" in str(fault)


async def test_refused_connection_may_be_repeated(session: aiohttp.ClientSession) -> None:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(NotDone):
        await SlackClient(make_web_client("xoxb-test", f"http://127.0.0.1:{port}", session)).post(
            "C1", "hello"
        )


async def test_connection_that_breaks_off_is_transient(
    serve: Serve, session: aiohttp.ClientSession
) -> None:
    async def hang_up(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    with pytest.raises(Transient) as caught:
        await SlackClient(make_web_client("xoxb-test", await serve(hang_up), session)).post(
            "C1", "hello"
        )
    assert type(caught.value) is Transient


def test_call_that_could_not_be_made_is_permanent() -> None:
    assert isinstance(translate(SlackRequestError("no such verb"), "channel C1"), Permanent)
    assert isinstance(translate(aiohttp.InvalidURL("slack"), "channel C1"), Permanent)
