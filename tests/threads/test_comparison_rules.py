"""Messages that the catch-up finds in a history are routed as their events would have been."""

import time
from dataclasses import replace
from typing import Any

import pytest

from threadline.gateway.routes import Ignored, Route, RouteTarget, RoutingConfig, route
from threadline.handovers.activities import HandoverThreads
from threadline.threads.comparison import MissedEvent, deleted_event, edited_event, posted_event
from threadline.threads.message_table import StoredMessage
from threadline.threads.model import message_id
from threadline_devstack.slack import events, identity
from threadline_devstack.slack.model import SandboxMessage as Post
from threadline_devstack.slack.workspace import SlackWorkspace, populate

TEAM = identity.TEAM
REPORTS = identity.REPORTS
SUMMARIES = identity.SUMMARIES
CONFIG = RoutingConfig(
    REPORTS,
    SUMMARIES,
    identity.ESCALATIONS,
    identity.BOT_USER,
    identity.BOT_ID,
    team=identity.TEAM,
)


class Floor:
    """A workspace, its last event, and the history that it shows."""

    def __init__(self) -> None:
        self.workspace = SlackWorkspace(time.time, "http://sandbox.invalid")
        populate(self.workspace)
        self.told: dict[str, Any] = {}
        self.workspace.listeners.append(self.told.update)

    def event(self) -> Route | Ignored:
        return route(events.callback(dict(self.told), "Ev1", 0), CONFIG)

    def say(self, channel: str, user: str, text: str, thread: str = "", **more: Any) -> Post:
        self.told.clear()
        return self.workspace.post(channel, user, text, thread_ts=thread, **more)

    def shown(self, post: Post) -> Route | Ignored:
        """Return a message as the history shows it: the root's author is named once, at the
        root.
        """
        raw = {name: value for name, value in post.as_slack().items() if name != "parent_user_id"}
        return route(posted_event(TEAM, post.channel, raw, author_of_root(post)).body, CONFIG)

    def edited(self, post: Post) -> MissedEvent:
        before = stored(post)
        self.workspace.edit(post.channel, post.ts, "it fails in Firefox")
        return edited_event(TEAM, post.channel, post.as_slack(), author_of_root(post), before)

    def deleted(self, post: Post) -> MissedEvent:
        before = stored(post)
        author = author_of_root(post)
        self.workspace.delete(post.channel, post.ts)
        return deleted_event(TEAM, before, post.thread_ts or post.ts, author)


def id_of(post: Post) -> str:
    return message_id(TEAM, post.channel, post.ts)


def author_of_root(post: Post) -> str:
    return post.root.user if post.root else ""


def target_of(found: Route | Ignored) -> RouteTarget | None:
    return found.target if isinstance(found, Route) else None


def stored(post: Post) -> StoredMessage:
    sender = "developer" if post.channel == SUMMARIES else "reporter"
    return StoredMessage(
        id_of(post), "message", post.user, sender, post.text, post.channel, post.ts
    )


@pytest.mark.parametrize(
    ("who", "text", "target"),
    [
        (identity.REPORTER, "It fails & <b>", RouteTarget.CASE),
        (identity.REPORTER, "never mind", RouteTarget.CASE),
        (identity.BYSTANDER, "works for me", None),
        (identity.BOT_USER, "I am looking", None),
    ],
)
def test_report_and_reply_are_routed_as_their_events(
    who: str, text: str, target: RouteTarget | None
) -> None:
    floor = Floor()
    root = floor.say(REPORTS, identity.REPORTER, "it breaks")
    assert target_of(floor.event()) is RouteTarget.CASE
    assert floor.shown(root) == floor.event()
    reply = floor.say(REPORTS, who, text, root.ts)
    assert target_of(floor.event()) is target
    assert floor.shown(reply) == floor.event()
    # The history shows a root with replies differently; it is the same report.
    assert target_of(floor.shown(root)) is RouteTarget.CASE


def test_developers_reply_is_routed_as_its_event() -> None:
    floor = Floor()
    root = floor.say(SUMMARIES, identity.BOT_USER, "BUG-1", bot_id=identity.BOT_ID)
    reply = floor.say(SUMMARIES, identity.DEVELOPER, "please fix it", root.ts)
    assert target_of(floor.event()) is RouteTarget.CASE_THREAD
    assert floor.shown(reply) == floor.event()


@pytest.mark.parametrize("correct", [Floor.edited, Floor.deleted])
@pytest.mark.parametrize("where", ["report", "reply", "summary"])
def test_correction_is_routed_as_its_event(where: str, correct: Any) -> None:
    floor = Floor()
    wrong = "it fails in Frefox"
    if where == "summary":
        root = floor.say(SUMMARIES, identity.BOT_USER, "BUG-1", bot_id=identity.BOT_ID)
        post = floor.say(SUMMARIES, identity.DEVELOPER, wrong, root.ts)
    else:
        root = floor.say(REPORTS, identity.REPORTER, wrong)
        reply = floor.say(REPORTS, identity.REPORTER, wrong, root.ts)
        post = reply if where == "reply" else root
    floor.told.clear()
    missed = correct(floor, post)
    expected = floor.event()
    assert not isinstance(expected, Ignored)
    assert route(missed.body, CONFIG) == expected
    assert missed.id == expected.message.id


def test_removal_of_a_file_is_routed_as_its_event() -> None:
    floor = Floor()
    root = floor.say(identity.ESCALATIONS, identity.BOT_USER, "needs a person")
    file = floor.workspace.add_file("a.log", identity.DEVELOPER, b"it broke")
    post = floor.say(
        identity.ESCALATIONS, identity.DEVELOPER, "reply: see", root.ts, files=(file.id,)
    )
    before = replace(stored(post), files=[{"id": file.id}])
    source = HandoverThreads()
    assert source.is_same(post.as_slack(), before)
    floor.workspace.edit(post.channel, post.ts, post.text, files=[])
    assert not source.is_same(post.as_slack(), before)
    found = route(
        edited_event(TEAM, post.channel, post.as_slack(), identity.BOT_USER, before).body, CONFIG
    )
    told = floor.event()
    assert isinstance(found, Route)
    assert isinstance(told, Route)
    assert found.message.files_removed
    assert found.message == told.message
