"""Direct messages, stop signs and the bot's status, through the real client and a browser."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.devstack.conftest import SlackServer
from tests.support.faulty_sandboxes import FaultySlack
from tests.support.patience import patient
from threadline_devstack.slack.identity import (
    BOT_ID,
    BOT_TOKEN,
    BOT_USER,
    BYSTANDER,
    GENERAL,
    REPORTER,
)
from threadline_devstack.slack.workspace import STATUS_SECONDS


class Clock:
    """Advances by a millisecond at each reading, and by the amounts that a test adds."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture(loop_scope="module")
async def slack(slack_server: SlackServer, clock: Clock) -> AsyncIterator[FaultySlack]:
    async with slack_server.sandbox(retry_delays=(), ack_timeout=0.05, clock=clock) as sandbox:
        yield sandbox


@pytest.fixture
def client(slack: FaultySlack) -> AsyncWebClient:
    return AsyncWebClient(token=BOT_TOKEN, base_url=slack.api_url)


@pytest_asyncio.fixture(loop_scope="module")
async def browser(slack: FaultySlack) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(base_url=slack.url) as session:
        yield session


async def act(browser: aiohttp.ClientSession, path: str, **given: Any) -> dict[str, Any]:
    async with browser.post(f"/control/{path}", json=given) as response:
        answer: dict[str, Any] = await response.json()
        return answer


async def shown(browser: aiohttp.ClientSession) -> dict[tuple[str, str], str]:
    """Return the statuses that a newly opened page shows under its threads."""
    async with browser.get("/control/state") as response:
        statuses = (await response.json())["statuses"]
    return {(each["channel"], each["thread_ts"]): each["status"] for each in statuses}


async def refusal(call: Any) -> str:
    with pytest.raises(SlackApiError) as caught:
        await call
    return str(caught.value.response["error"])


def heard(slack: FaultySlack) -> list[dict[str, Any]]:
    """Return a list that collects every later event of the workspace."""
    events: list[dict[str, Any]] = []
    slack.workspace.listeners.append(events.append)
    return events


async def test_a_person_writes_to_the_bot_in_a_channel_of_their_own(
    slack: FaultySlack, browser: aiohttp.ClientSession, client: AsyncWebClient
) -> None:
    events = heard(slack)
    mine = (await act(browser, "channels/direct", user=REPORTER))["channel"]
    again = (await act(browser, "channels/direct", user=REPORTER))["channel"]
    others = (await act(browser, "channels/direct", user=BYSTANDER))["channel"]
    assert mine["id"] == again["id"]
    assert mine["id"] != others["id"]
    assert (mine["id"][0], mine["is_im"], mine["user"]) == ("D", True, REPORTER)

    posted = await act(browser, "messages", channel=mine["id"], user=REPORTER, text="hello")
    answered = await client.chat_postMessage(channel=mine["id"], text="hi", thread_ts=posted["ts"])

    assert [(event["channel_type"], event["channel"]) for event in events] == [
        ("im", mine["id"])
    ] * 2
    assert [delivery.type for delivery in slack.deliveries.log] == ["message", "message"], (
        "no mention event accompanies it"
    )
    replies = (await client.conversations_replies(channel=mine["id"], ts=posted["ts"]))["messages"]
    assert [message["ts"] for message in replies] == [posted["ts"], answered["ts"]]
    assert (await act(browser, "channels/direct", user="U0NOBODY"))["error"] == "user_not_found"


async def test_a_stop_sign_is_delivered_with_its_message_and_its_time(
    slack: FaultySlack, browser: aiohttp.ClientSession
) -> None:
    ts = slack.workspace.post(GENERAL, REPORTER, f"<@{BOT_USER}> add three items").ts
    events = heard(slack)
    await act(browser, "reactions", channel=GENERAL, ts=ts, user=BYSTANDER, name="octagonal_sign")

    [told] = events
    assert (told["type"], told["reaction"], told["user"]) == (
        "reaction_added",
        "octagonal_sign",
        BYSTANDER,
    )
    assert told["item"] == {"type": "message", "channel": GENERAL, "ts": ts}
    assert float(told["event_ts"]) > float(ts)
    assert slack.deliveries.log[-1].type == "reaction_added"


async def test_a_status_stays_until_the_bot_answers(
    slack: FaultySlack, client: AsyncWebClient, browser: aiohttp.ClientSession
) -> None:
    root = slack.workspace.post(GENERAL, REPORTER, f"<@{BOT_USER}> add three items").ts
    other = slack.workspace.post(GENERAL, REPORTER, f"<@{BOT_USER}> and you?").ts
    for place in (root, other):
        await client.assistant_threads_setStatus(
            channel_id=GENERAL, thread_ts=place, status="is thinking"
        )
    await client.assistant_threads_setStatus(
        channel_id=GENERAL, thread_ts=root, status="is adding items"
    )
    slack.workspace.post(GENERAL, BYSTANDER, "me too", thread_ts=root)
    assert await shown(browser) == {
        (GENERAL, root): "is adding items",
        (GENERAL, other): "is thinking",
    }

    await client.chat_postMessage(channel=GENERAL, thread_ts=root, text="Done.")

    assert await shown(browser) == {(GENERAL, other): "is thinking"}


async def test_an_empty_status_clears_the_status(
    slack: FaultySlack, client: AsyncWebClient, browser: aiohttp.ClientSession
) -> None:
    root = slack.workspace.post(GENERAL, REPORTER, "hi").ts
    await client.assistant_threads_setStatus(
        channel_id=GENERAL, thread_ts=root, status="is thinking"
    )
    await client.assistant_threads_setStatus(channel_id=GENERAL, thread_ts=root, status="")

    assert await shown(browser) == {}


async def test_a_status_without_a_post_disappears_after_two_minutes(
    slack: FaultySlack, client: AsyncWebClient, browser: aiohttp.ClientSession, clock: Clock
) -> None:
    root = slack.workspace.post(GENERAL, REPORTER, "hi").ts
    await client.assistant_threads_setStatus(
        channel_id=GENERAL, thread_ts=root, status="is thinking"
    )
    clock.now += STATUS_SECONDS - 1
    assert await shown(browser)
    clock.now += 1

    assert await shown(browser) == {}


async def test_the_page_gets_a_status_and_the_app_does_not(
    slack: FaultySlack, client: AsyncWebClient, browser: aiohttp.ClientSession
) -> None:
    root = slack.workspace.post(GENERAL, REPORTER, "hi").ts
    before = len(slack.deliveries.log)
    async with asyncio.timeout(patient(5)), browser.get("/stream") as stream:
        assert await stream.content.readline() == b": hello\n"
        await client.assistant_threads_setStatus(
            channel_id=GENERAL, thread_ts=root, status="is thinking"
        )
        await stream.content.readline()
        event = json.loads((await stream.content.readline()).removeprefix(b"data: "))

    assert (event["type"], event["channel"], event["thread_ts"], event["status"]) == (
        "status",
        GENERAL,
        root,
        "is thinking",
    )
    assert len(slack.deliveries.log) == before


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"channel_id": "C0NOWHERE"}, "channel_not_found"),
        ({"thread_ts": "1.000001"}, "invalid_thread_ts"),
        ({"thread_ts": ""}, "invalid_thread_ts"),
        ({"status": None}, "invalid_arguments"),
        ({"loading_messages": ["wait"] * 11}, "invalid_arguments"),
    ],
)
async def test_a_status_is_refused_by_the_name_slack_uses(
    slack: FaultySlack, client: AsyncWebClient, given: dict[str, Any], error: str
) -> None:
    root = slack.workspace.post(GENERAL, REPORTER, "hi").ts
    whole = {"channel_id": GENERAL, "thread_ts": root, "status": "is thinking"} | given

    assert await refusal(client.api_call("assistant.threads.setStatus", json=whole)) == error


async def test_a_status_belongs_to_a_threads_root_in_a_channel_with_the_bot(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    root = slack.workspace.post(GENERAL, REPORTER, "hi").ts
    reply = slack.workspace.post(GENERAL, BOT_USER, "hi", thread_ts=root, bot_id=BOT_ID).ts

    def shows(thread_ts: str) -> Any:
        return client.assistant_threads_setStatus(
            channel_id=GENERAL, thread_ts=thread_ts, status="is thinking"
        )

    assert await refusal(shows(reply)) == "invalid_thread_ts"
    slack.workspace.leave(GENERAL, BOT_USER)
    assert await refusal(shows(root)) == "channel_not_found"
