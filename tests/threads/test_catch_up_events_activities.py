"""What the catch-up makes of Slack's history is routed as the event was, for everything that people do."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from threadline.cases.message_reads import StoredMessage
from threadline.gateway.routes import Close, Ignored, Lookup, Message, RoutingConfig, Start, route
from threadline.threads import addressing
from threadline.threads import catch_up_events as missed_events
from threadline.threads.catch_up_events import MissedEvent
from threadline_devstack.slack import events, identity
from threadline_devstack.slack.model import Message as Post
from threadline_devstack.slack.seed import populate
from threadline_devstack.slack.workspace import Workspace

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
