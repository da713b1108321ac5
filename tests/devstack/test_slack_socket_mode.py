"""Socket Mode, with Bolt's own handler at the other end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest_asyncio
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from tests.devstack.conftest import SlackServer
from tests.support.faulty_sandboxes import FaultySlack
from tests.support.patience import patient
from threadline_devstack.slack.identity import (
    APP_TOKEN,
    BOT_ID,
    BOT_TOKEN,
    BOT_USER,
    BYSTANDER,
    GENERAL,
    REPORTER,
    REPORTS,
    TEAM,
)
from threadline_devstack.slack.socket_mode import link

Bodies = list[dict[str, Any]]


class Gateway:
    """A Bolt app that records its events; it fails on the first `failures` of them and so
    acknowledges none of these.
    """

    def __init__(self, slack: FaultySlack) -> None:
        self.client = AsyncWebClient(token=BOT_TOKEN, base_url=slack.api_url)
        self.app = AsyncApp(
            client=self.client, process_before_response=True, ignoring_self_events_enabled=False
        )
        self.bodies: Bodies = []
        self.retries: list[str] = []
        self.clicks: Bodies = []
        self.failures = 0
        for kind in ("message", "app_mention", "reaction_added", "reaction_removed"):
            self.app.event(kind)(self._keep)
        self.app.action("resolve")(self._click)

    @property
    def events(self) -> Bodies:
        return [body["event"] for body in self.bodies]

    async def _keep(self, body: dict[str, Any], request: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")
        self.retries += request.headers.get("x-slack-retry-num", [])
        self.bodies.append(body)

    async def _click(
        self, ack: Callable[[], Any], body: dict[str, Any], respond: Callable[..., Any]
    ) -> None:
        await ack()
        self.clicks.append(body)
        await respond(text="resolved", replace_original=True)


@contextlib.asynccontextmanager
async def connected(slack: FaultySlack, gateway: Gateway) -> AsyncIterator[AsyncSocketModeHandler]:
    handler = AsyncSocketModeHandler(gateway.app, APP_TOKEN)
    before = slack.sockets.count
    await handler.connect_async()  # type: ignore[no-untyped-call]
    await until(lambda: slack.sockets.count > before)
    try:
        yield handler
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]
        handler.client.message_processor.cancel()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(patient(10)):
        while not holds():  # noqa: ASYNC110 - Bolt has no event to wait on
            await asyncio.sleep(0.01)


@pytest_asyncio.fixture(loop_scope="module")
async def slack(slack_server: SlackServer) -> AsyncIterator[FaultySlack]:
    async with slack_server.sandbox(ack_timeout=1.0, retry_delays=(0.0, 0.05, 0.05)) as sandbox:
        yield sandbox


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(slack: FaultySlack) -> AsyncIterator[Gateway]:
    gateway = Gateway(slack)
    async with connected(slack, gateway):
        yield gateway


async def test_a_message_arrives_as_slack_wraps_it(slack: FaultySlack, gateway: Gateway) -> None:
    message = slack.workspace.post(
        REPORTS, REPORTER, "it *breaks* &amp; <https://example.com|burns>"
    )
    await slack.settled()
    [body] = gateway.bodies
    assert (body["type"], body["team_id"]) == ("event_callback", TEAM)
    assert body["authorizations"][0]["user_id"] == BOT_USER
    assert body["event_id"].startswith("Ev")
    event = body["event"]
    assert (event["type"], event["channel"], event["user"], event["ts"]) == (
        "message",
        REPORTS,
        REPORTER,
        message.ts,
    )
    assert event["channel_type"] == "channel"
    assert "thread_ts" not in event
    [section] = event["blocks"][0]["elements"]
    assert section["elements"][0] == {"type": "text", "text": "it *breaks* & "}
    assert section["elements"][1] == {
        "type": "link",
        "url": "https://example.com",
        "text": "burns",
    }


async def test_a_reply_names_its_root_and_the_roots_author(
    slack: FaultySlack, gateway: Gateway
) -> None:
    root = slack.workspace.post(REPORTS, REPORTER, "bug").ts
    slack.workspace.post(REPORTS, BYSTANDER, "me too", thread_ts=root, broadcast=True)
    await slack.settled()
    reply = gateway.events[1]
    assert (reply["thread_ts"], reply["parent_user_id"], reply["subtype"]) == (
        root,
        REPORTER,
        "thread_broadcast",
    )


async def test_a_mention_arrives_twice_with_two_event_ids(
    slack: FaultySlack, gateway: Gateway
) -> None:
    file = slack.workspace.add_file("shot.png", REPORTER, b"png")
    slack.workspace.post(GENERAL, REPORTER, f"<@{BOT_USER}> look", files=[file.id])
    await slack.settled()
    by_type = {event["type"]: event for event in gateway.events}
    assert by_type.keys() == {"message", "app_mention"}
    assert by_type["message"]["ts"] == by_type["app_mention"]["ts"]
    assert (by_type["message"]["subtype"], by_type["message"]["files"][0]["id"]) == (
        "file_share",
        file.id,
    )
    assert "files" not in by_type["app_mention"]
    assert len({body["event_id"] for body in gateway.bodies}) == 2


async def test_an_edit_shows_before_and_after_and_mentions_again(
    slack: FaultySlack, gateway: Gateway
) -> None:
    ts = slack.workspace.post(GENERAL, REPORTER, "hello").ts
    slack.workspace.edit(GENERAL, ts, f"hello <@{BOT_USER}>", by=REPORTER)
    await slack.settled()
    [change] = [event for event in gateway.events if event.get("subtype") == "message_changed"]
    assert change["message"]["ts"] == ts
    assert change["message"]["edited"]["ts"] == change["ts"]
    assert change["previous_message"]["text"] == "hello"
    [mention] = [event for event in gateway.events if event["type"] == "app_mention"]
    assert mention["edited"]["user"] == REPORTER


async def test_a_preview_fires_a_change_without_an_edit(
    slack: FaultySlack, gateway: Gateway
) -> None:
    ts = slack.workspace.post(GENERAL, REPORTER, f"<@{BOT_USER}> <https://example.com>").ts
    slack.workspace.unfurl(GENERAL, ts, [{"title": "Example", "fallback": "Example"}])
    await slack.settled()
    [change] = [event for event in gateway.events if event.get("subtype") == "message_changed"]
    assert "edited" not in change["message"]
    assert [event["type"] for event in gateway.events].count("app_mention") == 1


async def test_a_deletion_has_the_deleted_message(slack: FaultySlack, gateway: Gateway) -> None:
    alone = slack.workspace.post(REPORTS, REPORTER, "oops").ts
    root = slack.workspace.post(REPORTS, REPORTER, "bug").ts
    slack.workspace.post(REPORTS, BYSTANDER, "me too", thread_ts=root)
    slack.workspace.delete(REPORTS, alone)
    slack.workspace.delete(REPORTS, root)
    await slack.settled()
    gone, tombstone = gateway.events[3:]
    assert (gone["subtype"], gone["deleted_ts"], gone["previous_message"]["text"]) == (
        "message_deleted",
        alone,
        "oops",
    )
    assert (tombstone["subtype"], tombstone["message"]["subtype"]) == (
        "message_changed",
        "tombstone",
    )
    assert tombstone["previous_message"]["text"] == "bug"


async def test_reactions_and_joins_are_delivered(slack: FaultySlack, gateway: Gateway) -> None:
    ts = slack.workspace.post(REPORTS, REPORTER, "bug").ts
    slack.workspace.react(REPORTS, ts, BYSTANDER, "eyes")
    slack.workspace.unreact(REPORTS, ts, BYSTANDER, "eyes")
    slack.workspace.leave(REPORTS, BYSTANDER)
    slack.workspace.join(REPORTS, BYSTANDER)
    await slack.settled()
    kinds = [event.get("subtype", event["type"]) for event in gateway.events]
    assert kinds == [
        "message",
        "reaction_added",
        "reaction_removed",
        "channel_leave",
        "channel_join",
    ]
    assert gateway.events[1]["item"] == {"type": "message", "channel": REPORTS, "ts": ts}
    assert gateway.events[1]["item_user"] == REPORTER


async def test_the_bot_gets_events_of_its_own_posts_and_of_other_bots(
    slack: FaultySlack, gateway: Gateway
) -> None:
    await gateway.client.chat_postMessage(channel=REPORTS, text="mine")
    slack.workspace.post(
        REPORTS, BYSTANDER, "alert", bot_id="B0ALERTS", subtype="bot_message", username="alerts"
    )
    await slack.settled()
    mine, alert = gateway.events
    assert (mine["user"], mine["bot_id"]) == (BOT_USER, BOT_ID)
    assert (alert["subtype"], alert["bot_id"], alert["username"]) == (
        "bot_message",
        "B0ALERTS",
        "alerts",
    )


async def test_a_removed_bot_gets_no_events(slack: FaultySlack, gateway: Gateway) -> None:
    slack.workspace.leave(GENERAL, BOT_USER)
    await slack.settled()
    heard = len(gateway.events)
    slack.workspace.post(GENERAL, REPORTER, f"<@{BOT_USER}> are you there?")
    await slack.settled()
    assert len(gateway.events) == heard


async def test_an_unacknowledged_event_is_sent_again_with_its_number(slack: FaultySlack) -> None:
    gateway = Gateway(slack)
    gateway.failures = 2
    async with connected(slack, gateway):
        slack.workspace.post(REPORTS, REPORTER, "bug")
        await slack.settled()
    assert gateway.retries == ["2"]
    assert [(delivery.attempts, delivery.outcome) for delivery in slack.deliveries.log] == [
        (3, "delivered")
    ]


async def test_an_event_that_is_never_acknowledged_is_given_up() -> None:
    async with FaultySlack.running(ack_timeout=0.05, retry_delays=(0.0, 0.01)) as slack:
        slack.workspace.post(REPORTS, REPORTER, "nobody listens")
        await slack.settled()
        assert [(delivery.attempts, delivery.outcome) for delivery in slack.deliveries.log] == [
            (3, "given_up")
        ]


async def test_an_event_goes_to_one_of_several_connections(
    slack: FaultySlack, gateway: Gateway
) -> None:
    second = Gateway(slack)
    async with connected(slack, second):
        for number in range(4):
            slack.workspace.post(REPORTS, REPORTER, f"{number}")
        await slack.settled()
    assert (len(gateway.events), len(second.events)) == (2, 2)


async def test_a_refreshed_connection_loses_nothing(slack: FaultySlack, gateway: Gateway) -> None:
    assert await slack.sockets.disconnect() == 1
    slack.workspace.post(REPORTS, REPORTER, "in between")
    await slack.settled()
    assert [event["text"] for event in gateway.events] == ["in between"]
    assert slack.sockets.count == 1


async def test_ordered_misbehaviour_happens_once(slack: FaultySlack, gateway: Gateway) -> None:
    def say(*texts: str) -> None:
        for text in texts:
            slack.workspace.post(REPORTS, REPORTER, text)

    slack.faults.duplicate()
    say("twice")
    slack.faults.drop()
    say("never")
    await slack.settled()
    slack.faults.reorder()
    say("late", "early")
    await slack.settled()
    slack.faults.delay(0.2)
    say("slow", "fast")
    await slack.settled()
    assert [event["text"] for event in gateway.events] == [
        "twice",
        "twice",
        "early",
        "late",
        "fast",
        "slow",
    ]
    assert gateway.bodies[0]["event_id"] == gateway.bodies[1]["event_id"]


async def test_a_click_reaches_the_app_which_answers_by_its_response_url(
    slack: FaultySlack, gateway: Gateway
) -> None:
    button = {
        "type": "button",
        "text": {"type": "plain_text", "text": "Resolve"},
        "action_id": "resolve",
        "value": "BUG-1",
    }
    posted = await gateway.client.chat_postMessage(
        channel=REPORTS,
        text="done?",
        blocks=[{"type": "actions", "block_id": "row", "elements": [button]}],
    )
    assert await slack.click(REPORTER, REPORTS, posted["ts"], "resolve")
    [body] = gateway.clicks
    assert body["user"]["id"] == REPORTER
    assert body["container"]["message_ts"] == posted["ts"]
    assert (body["actions"][0]["block_id"], body["actions"][0]["value"]) == ("row", "BUG-1")
    await until(lambda: slack.workspace.message(REPORTS, posted["ts"]).text == "resolved")
    assert slack.workspace.message(REPORTS, posted["ts"]).blocks == []


async def test_an_unacknowledged_interaction_is_reported_as_failed() -> None:
    async with FaultySlack.running(ack_timeout=0.05) as slack:
        assert not await slack.deliveries.interact({"type": "block_actions"})


async def test_an_event_accepts_no_payload_in_its_acknowledgement(slack: FaultySlack) -> None:
    async with aiohttp.ClientSession() as session, session.ws_connect(link(slack.url)) as app:
        assert (await app.receive_json())["type"] == "hello"
        slack.workspace.post(REPORTS, REPORTER, "bug")
        envelope = await app.receive_json()
        assert (envelope["type"], envelope["accepts_response_payload"]) == ("events_api", False)
        await app.send_json({"envelope_id": envelope["envelope_id"]})
        await slack.settled()
