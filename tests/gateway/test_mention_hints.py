"""A mention that comes alone is a hint: the message is fetched with its files, and routed."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from tests.support.faulty_sandboxes import FaultySlack
from tests.support.temporal import until
from threadline.gateway.mention_hints import MentionHints
from threadline.gateway.routes import Route, RouteTarget, RoutingConfig, route
from threadline.slack.client import SlackClient, make_web_client
from threadline.slack.history import History
from threadline.slack.model import Thread
from threadline.threads.contract import Handled
from threadline.threads.model import MessageKind, edit_id
from threadline_devstack.slack.identity import (
    BOT_ID,
    BOT_TOKEN,
    BOT_USER,
    DEVELOPER,
    REPORTER,
    TEAM,
)

CONFIG = RoutingConfig(bot_user_id=BOT_USER, bot_id=BOT_ID, team=TEAM)


@dataclass
class Hints:
    """The hints of a gateway, and the routes of the messages that they led to."""

    sandbox: FaultySlack
    history: History
    stored: set[str] = field(default_factory=set)
    edits: set[str] = field(default_factory=set)
    routes: list[Route] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)

    async def thread_of_message(self, team: str, channel: str, ts: str) -> Thread | None:
        return Thread(team, channel, ts) if ts in self.stored else None

    async def has_edit(self, team: str, channel: str, ts: str, version: str) -> bool:
        return version in self.edits

    async def take(self, body: Mapping[str, Any]) -> Handled:
        if self.failures:
            raise self.failures.pop()
        found = route(body, CONFIG)
        assert isinstance(found, Route)
        self.routes.append(found)
        return Handled(found.target, signalled=True)

    def follow(
        self, *mentions: Mapping[str, Any], pauses: tuple[float, ...] = (0.0, 0.05, 0.05)
    ) -> MentionHints:
        hints = MentionHints(TEAM, self.history, self, self.take, pauses)
        for each in mentions:
            hints.accept({"type": "event_callback", "event": each})
        return hints

    async def until_routed(self, count: int = 1) -> None:
        async def routed() -> bool:
            return len(self.routes) >= count

        await until(routed, f"{count} messages are routed")


@pytest.fixture
async def hints() -> AsyncIterator[Hints]:
    async with FaultySlack.running() as sandbox, aiohttp.ClientSession() as session:
        slack = SlackClient(make_web_client(BOT_TOKEN, sandbox.api_url, session))
        yield Hints(sandbox, History(slack))


def mention(message: Any) -> Mapping[str, Any]:
    return {
        "type": "app_mention",
        "channel": message.channel,
        "user": message.user,
        "text": "",
        "ts": message.ts,
    }


async def test_message_is_fetched_with_its_files_and_begins_a_conversation(hints: Hints) -> None:
    place = hints.sandbox.workspace.create_channel("invited", [REPORTER, BOT_USER])
    file = hints.sandbox.workspace.add_file("log.txt", REPORTER, b"it fails")
    said = hints.sandbox.workspace.post(place.id, REPORTER, f"<@{BOT_USER}> look", files=[file.id])
    hints.follow(mention(said))
    await hints.until_routed()
    [found] = hints.routes
    assert (found.target, found.message.text, found.message.addressed) == (
        RouteTarget.CONVERSATION,
        "look",
        True,
    )
    assert [each.name for each in found.message.files] == ["log.txt"]


async def test_reply_keeps_its_thread_and_the_author_of_the_root(hints: Hints) -> None:
    place = hints.sandbox.workspace.create_channel("replies", [REPORTER, DEVELOPER, BOT_USER])
    root = hints.sandbox.workspace.post(place.id, DEVELOPER, "it is slow")
    said = hints.sandbox.workspace.post(
        place.id, REPORTER, f"<@{BOT_USER}> why?", thread_ts=root.ts
    )
    hints.follow({**mention(said), "parent_user_id": DEVELOPER})
    await hints.until_routed()
    [found] = hints.routes
    assert found.thread == Thread(TEAM, place.id, root.ts)
    assert found.message.root_author_id == DEVELOPER


async def test_message_that_is_stored_is_not_fetched(hints: Hints) -> None:
    place = hints.sandbox.workspace.create_channel("stored", [REPORTER, BOT_USER])
    first, second = (
        hints.sandbox.workspace.post(place.id, REPORTER, f"<@{BOT_USER}> {n}")
        for n in ("one", "two")
    )
    hints.stored.add(first.ts)
    hints.follow(mention(first), mention(second))
    await hints.until_routed()
    assert [each.message.text for each in hints.routes] == ["two"]


async def test_edit_that_calls_the_bot_is_fetched_if_its_own_event_does_not_come(
    hints: Hints,
) -> None:
    place = hints.sandbox.workspace.create_channel("edited", [REPORTER, BOT_USER])
    told, lost = (
        hints.sandbox.workspace.post(place.id, REPORTER, f"is it {n}") for n in ("told", "lost")
    )
    for each in (told, lost):
        hints.sandbox.workspace.edit(place.id, each.ts, f"<@{BOT_USER}> {each.text}")
    hints.stored |= {told.ts, lost.ts}
    hints.edits.add(told.edited_ts)
    hints.follow(
        *(
            {**mention(each), "edited": {"user": REPORTER, "ts": each.edited_ts}}
            for each in (told, lost)
        )
    )
    await hints.until_routed()
    [found] = hints.routes
    assert found.message.id == edit_id(TEAM, place.id, lost.ts, lost.edited_ts), (
        "as its own event would be stored"
    )
    assert (found.message.kind, found.message.text, found.message.addressed) == (
        MessageKind.EDIT,
        "is it lost",
        True,
    )


async def test_bot_that_joins_a_moment_later_follows_the_mention(hints: Hints) -> None:
    place = hints.sandbox.workspace.create_channel("later", [REPORTER])
    said = hints.sandbox.workspace.post(place.id, REPORTER, f"<@{BOT_USER}> hello")
    following = hints.follow(mention(said), pauses=(0.0, 0.2, 5.0))
    hints.sandbox.workspace.join(place.id, BOT_USER)
    await hints.until_routed()
    await following.close()


@pytest.mark.parametrize("error", [RuntimeError("a defect")])
async def test_failure_is_tried_again(hints: Hints, error: Exception) -> None:
    place = hints.sandbox.workspace.create_channel("failure", [REPORTER, BOT_USER])
    said = hints.sandbox.workspace.post(place.id, REPORTER, f"<@{BOT_USER}> hello")
    hints.failures.append(error)
    hints.sandbox.faults.fail_before("conversations.replies")
    hints.follow(mention(said))
    await hints.until_routed()


@pytest.mark.parametrize("event", [None, "x", {}, {"channel": 7}, {"channel": "C1"}])
async def test_damaged_hint_is_left_alone(hints: Hints, event: Any) -> None:
    MentionHints(TEAM, hints.history, hints, hints.take).accept({"event": event})
