"""New messages without a mention, in channels with different modes, for the gateway and the
catch-up.
"""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from tests.gateway.slack_events import BOT, CONFIG, OTHER, TEAM, Json, said
from threadline.conversations.catch_up import ConversationThreads
from threadline.conversations.model.listening import Listen, Listening
from threadline.gateway.routes import IgnoreReason, Route, RouteTarget, route
from threadline.threads.catch_up_store import CatchUpThread

CHANNEL = "C_EVERY"
EVERY = Listening(by_channel={CHANNEL: Listen.EVERY})
ROOT = "1700000000.000100"


def routed(**fields: Any) -> object:
    event = said(**{"channel": CHANNEL, "ts": ROOT, **fields})
    return route({"event": event}, replace(CONFIG, listening=EVERY))


def test_a_new_message_begins_a_conversation_where_every_message_is_answered() -> None:
    found = routed(text="the export is slow")
    assert isinstance(found, Route)
    assert (found.target, found.message.addressed) == (RouteTarget.CONVERSATION, True)


@pytest.mark.parametrize(
    "fields",
    [
        {"text": f"<@{OTHER}> can you look?"},
        {"text": "hello", "channel": "C_OTHER"},
        {"text": "the build is red", "bot_id": "B_CI"},
        {"text": " "},
    ],
    ids=["to another person", "another channel", "by an app", "empty"],
)
def test_other_new_messages_are_left_alone(fields: Json) -> None:
    assert routed(**fields) is IgnoreReason.OTHER_CHANNEL


def test_a_reply_is_followed_and_begins_nothing() -> None:
    found = routed(ts="1700000001.000100", thread_ts=ROOT, parent_user_id=OTHER)
    assert isinstance(found, Route)
    assert found.target is RouteTarget.FOLLOWED_THREAD


@pytest.mark.parametrize(
    ("text", "count"), [("the export is slow", 2), (f"<@{OTHER}> can you look?", 0)]
)
def test_the_catch_up_finds_the_same_messages(text: str, count: int) -> None:
    source = ConversationThreads(BOT, listening=EVERY)
    thread = CatchUpThread(TEAM, CHANNEL, ROOT, "", None, "", Decimal(0))
    root = {"user": "U_REPORTER", "ts": ROOT, "text": text}
    reply = {"user": OTHER, "ts": "1700000001.000100", "thread_ts": ROOT, "text": "me too"}
    assert source.begins(CHANNEL, root) is bool(count)
    assert len(source.relevant(thread, "", [root, reply])) == count
