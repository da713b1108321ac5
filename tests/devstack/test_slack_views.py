"""Modals of the sandbox: who may open one, and the payload that the app gets when a person submits
it.
"""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.devstack.conftest import SlackServer
from tests.support.faulty_sandboxes import FaultySlack
from threadline_devstack.slack.identity import BOT_TOKEN, BOT_USER, BYSTANDER, DEVELOPER, GENERAL
from threadline_devstack.slack.model import SlackRefusal

FIELD = {"type": "plain_text_input", "action_id": "words", "multiline": True, "max_length": 20}
INPUT = {
    "type": "input",
    "block_id": "b",
    "label": {"type": "plain_text", "text": "Words"},
    "element": FIELD,
}
VIEW: dict[str, Any] = {
    "type": "modal",
    "callback_id": "form",
    "private_metadata": "here",
    "title": {"type": "plain_text", "text": "A form"},
    "submit": {"type": "plain_text", "text": "Send"},
    "blocks": [INPUT],
}


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture(loop_scope="module")
async def slack(slack_server: SlackServer, clock: Clock) -> AsyncIterator[FaultySlack]:
    async with slack_server.sandbox(retry_delays=(), ack_timeout=0.05, clock=clock) as sandbox:
        yield sandbox


def client_of(slack: FaultySlack) -> AsyncWebClient:
    return AsyncWebClient(token=BOT_TOKEN, base_url=slack.api_url)


def press(slack: FaultySlack, user: str = DEVELOPER) -> str:
    """Press a button as this user; return the trigger."""
    button = {
        "type": "button",
        "text": {"type": "plain_text", "text": "Write"},
        "action_id": "write",
    }
    blocks = [{"type": "actions", "elements": [button]}]
    message = slack.workspace.post(
        GENERAL, BOT_USER, "a card", blocks=blocks, bot_id="B0THREADLINE"
    )
    return str(slack._interactions.click(user, GENERAL, message.ts, "write")["trigger_id"])


async def refusal(slack: FaultySlack, trigger: str, view: dict[str, Any]) -> str:
    with pytest.raises(SlackApiError) as refused:
        await client_of(slack).views_open(trigger_id=trigger, view=view)
    return str(refused.value.response["error"])


async def test_modal_opens_with_a_trigger_and_is_submitted_with_its_fields(
    slack: FaultySlack,
) -> None:
    answer = await client_of(slack).views_open(trigger_id=press(slack), view=VIEW)
    view = slack.workspace.view_of(DEVELOPER)
    assert view
    assert answer["view"]["id"] == view.id
    assert answer["view"]["state"]["values"]["b"]["words"]["value"] is None
    body = slack._interactions.submit(DEVELOPER, view.id, {"words": "a & <b>"})
    assert (body["type"], body["user"]["id"], body["view"]["callback_id"]) == (
        "view_submission",
        DEVELOPER,
        "form",
    )
    assert body["view"]["private_metadata"] == "here"
    assert body["view"]["state"]["values"] == {
        "b": {"words": {"type": "plain_text_input", "value": "a & <b>"}}
    }


async def test_trigger_opens_one_modal_within_three_seconds(
    slack: FaultySlack, clock: Clock
) -> None:
    used = press(slack)
    late = press(slack)
    await client_of(slack).views_open(trigger_id=used, view=VIEW)
    assert await refusal(slack, used, VIEW) == "exchanged_trigger_id"
    clock.now += 3.1
    assert await refusal(slack, late, VIEW) == "expired_trigger_id"
    assert await refusal(slack, "1.2.3", VIEW) == "invalid_trigger_id"


@pytest.mark.parametrize(
    "change",
    [
        {"type": "home"},
        {"title": {"type": "plain_text", "text": "x" * 25}},
        {"submit": None},
        {"private_metadata": "x" * 3_001},
        {"blocks": [{**INPUT, "element": {**FIELD, "max_length": 3_001}}]},
        {"blocks": [{**INPUT, "label": "Words"}]},
    ],
)
async def test_view_that_slack_would_refuse_is_refused(
    slack: FaultySlack, change: dict[str, Any]
) -> None:
    assert await refusal(slack, press(slack), VIEW | change) == "invalid_arguments"


async def test_person_sends_only_their_own_modal_and_no_empty_field(slack: FaultySlack) -> None:
    await client_of(slack).views_open(trigger_id=press(slack), view=VIEW)
    view = slack.workspace.view_of(DEVELOPER)
    assert view
    for user, words in ((BYSTANDER, "hello"), (DEVELOPER, ""), (DEVELOPER, "x" * 21)):
        with pytest.raises(SlackRefusal):
            slack._interactions.submit(user, view.id, {"words": words})


async def test_page_shows_a_modal_until_it_is_closed(slack: FaultySlack) -> None:
    await client_of(slack).views_open(trigger_id=press(slack), view=VIEW)
    async with aiohttp.ClientSession(base_url=slack.url) as browser:

        async def views() -> list[dict[str, Any]]:
            async with browser.get("/control/state") as response:
                shown: list[dict[str, Any]] = (await response.json())["views"]
                return shown

        (view,) = await views()
        assert (view["user"], view["title"]["text"]) == (DEVELOPER, "A form")
        given = {"user": DEVELOPER, "view": view["id"], "values": {"words": "hello"}}
        async with browser.post("/control/views/submit", json=given) as response:
            assert await response.json() == {"ok": True, "acknowledged": False}, (
                "no app is connected"
            )
        assert len(await views()) == 1, "as in Slack, it stays open then"
        async with browser.post(
            "/control/views/close", json={"user": DEVELOPER, "view": view["id"]}
        ) as response:
            assert (await response.json())["ok"]
        assert await views() == []
