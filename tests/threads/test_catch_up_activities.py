"""What is missed is looked for wherever the bot is, and routed as its event was: over the sandbox's real wire."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.conversations.test_catch_up_activities import BOT, CALL, CHANNELS, GENERAL, REPORTER, House, house
from threadline.cases.message_reads import StoredMessage
from threadline.errors import Permanent
from threadline.gateway.routes import Close, Ignored, Lookup, Message, RoutingConfig, Start, route
from threadline.slack.history import History
from threadline.threads import addressing
from threadline.threads import catch_up_events as missed_events
from threadline.threads.catch_up_events import MissedEvent
from threadline_devstack.slack import events, identity
from threadline_devstack.slack.model import Message as Post
from threadline_devstack.slack.seed import populate
from threadline_devstack.slack.workspace import Workspace

__all__ = ["house"]

CONFIG = RoutingConfig(identity.REPORTS, identity.SUMMARIES, identity.ESCALATIONS, identity.BOT_USER, identity.BOT_ID)
TEAM, REPORTS, SUMMARIES = identity.TEAM, identity.REPORTS, identity.SUMMARIES


class Floor:
    """A workspace, the last event that it told of, and the history that it shows."""

    def __init__(self) -> None:
        self.workspace = Workspace(time.time, "http://sandbox.invalid")
        populate(self.workspace)
        self.told: dict[str, Any] = {}
        self.workspace.listeners.append(self.told.update)

    def event(self) -> Any:
        return route(events.callback(dict(self.told), "Ev1", 0), CONFIG)

    def say(self, channel: str, user: str, text: str, thread: str = "", **more: Any) -> Post:
        self.told.clear()
        return self.workspace.post(channel, user, text, thread_ts=thread, **more)

    def root(self, post: Post) -> str:
        return post.root.user if post.root else ""

    def shown(self, post: Post) -> MissedEvent:
        """As it is found: history names the root's author once, at the root."""
        raw = {name: value for name, value in post.as_slack().items() if name != "parent_user_id"}
        identity_ = addressing.message_id(TEAM, post.channel, post.ts)
        return missed_events.posted(TEAM, post.channel, raw, self.root(post), identity_)


def stored(post: Post) -> StoredMessage:
    identity_ = addressing.message_id(TEAM, post.channel, post.ts)
    sender = "developer" if post.channel == SUMMARIES else "reporter"
    return StoredMessage(identity_, "message", post.user, sender, post.text, post.channel, post.ts)


@pytest.mark.parametrize(
    ("who", "text", "kind"),
    [
        (identity.REPORTER, "It fails & <b>", Message),
        (identity.REPORTER, "never mind", Close),
        (identity.BYSTANDER, "works for me", Ignored),
        (identity.BOT_USER, "I am looking", Ignored),
    ],
)
def test_a_reply_in_a_reports_thread(who: str, text: str, kind: type) -> None:
    floor = Floor()
    root = floor.say(REPORTS, identity.REPORTER, "it breaks")
    assert isinstance(floor.event(), Start)
    assert route(floor.shown(root).body, CONFIG) == floor.event()
    reply = floor.say(REPORTS, who, text, root.ts)
    assert isinstance(floor.event(), kind)
    assert route(floor.shown(reply).body, CONFIG) == floor.event()
    # With a reply the root looks otherwise in the history, and is the same report.
    assert isinstance(route(floor.shown(root).body, CONFIG), Start)


def test_a_developers_reply() -> None:
    floor = Floor()
    root = floor.say(SUMMARIES, identity.BOT_USER, "BUG-1", bot_id=identity.BOT_ID)
    reply = floor.say(SUMMARIES, identity.DEVELOPER, "please fix it", root.ts)
    assert isinstance(floor.event(), Lookup)
    assert route(floor.shown(reply).body, CONFIG) == floor.event()


def _edit(floor: Floor, post: Post) -> MissedEvent:
    before = stored(post)
    floor.workspace.edit(post.channel, post.ts, "it fails in Firefox")
    identity_ = addressing.edit_id(TEAM, post.channel, post.ts, post.edited_ts)
    return missed_events.edited(TEAM, post.channel, post.as_slack(), floor.root(post), identity_, before)


def _delete(floor: Floor, post: Post) -> MissedEvent:
    before, author = stored(post), floor.root(post)
    root = post.thread_ts or post.ts
    floor.workspace.delete(post.channel, post.ts)
    identity_ = addressing.deletion_id(TEAM, post.channel, post.ts)
    return missed_events.deleted(TEAM, before, root, author, identity_)


@pytest.mark.parametrize("correct", [_edit, _delete])
@pytest.mark.parametrize("where", ["report", "reply", "summary"])
def test_a_correction(where: str, correct: Callable[[Floor, Post], MissedEvent]) -> None:
    floor = Floor()
    if where == "summary":
        root = floor.say(SUMMARIES, identity.BOT_USER, "BUG-1", bot_id=identity.BOT_ID)
        post = floor.say(SUMMARIES, identity.DEVELOPER, "it fails in Frefox", root.ts)
    else:
        post = root = floor.say(REPORTS, identity.REPORTER, "it fails in Frefox")
        reply = floor.say(REPORTS, identity.REPORTER, "it fails in Frefox", root.ts)
        post = reply if where == "reply" else root
    floor.told.clear()
    missed = correct(floor, post)
    expected = floor.event()
    assert not isinstance(expected, Ignored)
    assert route(missed.body, CONFIG) == expected
    assert missed.id == expected.message.id


async def test_a_mention_and_a_first_direct_message_are_found_wherever_the_bot_is(house: House) -> None:
    random = house.workspace.create_channel("random", [BOT, REPORTER])
    await house.say(f"{CALL} before the installation", kept=False)
    assert await house.look(talk=None) == []

    called = await house.say_in(random.id, f"{CALL} add three items", kept=False)
    await house.say_in(random.id, "lunch?", kept=False)
    direct = house.workspace.open_im(REPORTER)
    asked = await house.say_in(direct.id, "what is open?", kept=False)
    await house.say_in(direct.id, "for the shop", asked, kept=False)

    assert await house.look(deep=False, talk=None) == ["message"] * 3
    assert await house.memory.said(house.thread(called)) == ["add three items"]
    assert await house.memory.said(house.thread(asked)) == ["what is open?", "for the shop"]
    assert await house.look(talk=None) == []


async def test_a_mention_that_an_edit_has_brought_is_found_as_a_message(house: House) -> None:
    await house.look(talk=None)
    said = await house.say("add three items", kept=False)
    house.workspace.edit(GENERAL, said.ts, f"{CALL} add three items", by=REPORTER)

    assert await house.look(deep=False, talk=None) == ["message"]
    assert await house.memory.said(house.thread(said)) == ["add three items"]


async def test_channels_without_cases_take_turns(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadline.threads.catch_up_windows.LISTENED", 1)
    random = house.workspace.create_channel("random", [BOT, REPORTER])
    await house.look(talk=None)
    for channel in (GENERAL, random.id):
        await house.say_in(channel, f"{CALL} hi", kept=False)

    assert [await house.look(deep=False, talk=None) for _ in range(3)] == [["message"], ["message"], []]


async def test_a_bot_that_may_not_ask_where_it_is_looks_where_it_was(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.look(talk=None)
    await house.say(f"{CALL} hi", kept=False)

    async def refused(_: History) -> list[str]:
        raise Permanent("The bot token lacks the scope im:read.")

    monkeypatch.setattr(History, "channels", refused)

    assert await house.look(deep=False, talk=None) == ["message"]


async def test_a_gateway_that_starts_forgets_no_channel_of_the_bots(house: House) -> None:
    await house.look(talk=None)
    async with house.database.begin() as work:
        await work.followed.install(list(CHANNELS), time.time(), alone=False)
    await house.say(f"{CALL} hi", kept=False)

    assert await house.look(deep=False, talk=None) == ["message"]


async def test_a_channel_that_the_bot_has_left_is_read_no_more(house: House) -> None:
    await house.look(talk=None)
    house.workspace.leave(GENERAL, BOT)
    await house.look(talk=None)

    async with house.database.begin() as work:
        assert {mark.channel for mark in await work.followed.marks()} == set(CHANNELS)
