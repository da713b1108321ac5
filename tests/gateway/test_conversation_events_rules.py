"""The events of conversations: their routes, the parts that the bot reads, and the words that stop
it.
"""

from dataclasses import replace
from typing import Any

import pytest

from tests.gateway.slack_events import (
    BOT,
    CONFIG,
    EDITED,
    ESCALATIONS,
    LATER,
    OTHER,
    REPORTER,
    REPORTS,
    ROOT,
    SUMMARIES,
    TEAM,
    Json,
    deletion,
    edit,
    message_of,
    routed,
    said,
    share,
)
from threadline.gateway.routes import IgnoreReason, Route, RouteTarget, route
from threadline.slack.model import AuthorRefusal, Thread
from threadline.threads.model import IncomingMessage, MessageKind, SenderType

ELSE = "C_ELSE"
DIRECT = "D_1"
CALL = f"<@{BOT}>"


def root(text: str = f"{CALL} add three items", **fields: Any) -> Json:
    return said(**{"channel": ELSE, "channel_type": "channel", "text": text, **fields})


def reply(text: str = "and the totals", **fields: Any) -> Json:
    return root(text, **{"ts": LATER, "thread_ts": ROOT, "parent_user_id": OTHER, **fields})


def direct(text: str = "add three items", **fields: Any) -> Json:
    return root(text, **{"channel": DIRECT, "channel_type": "im", **fields})


def sign(name: str = "octagonal_sign", **fields: Any) -> Json:
    item = {"type": "message", "channel": ELSE, "ts": LATER}
    return {
        "type": "reaction_added",
        "user": OTHER,
        "reaction": name,
        "item": item,
        "event_ts": EDITED,
        **fields,
    }


ADDRESSED = RouteTarget.CONVERSATION
OVERHEARD = RouteTarget.FOLLOWED_THREAD

MENTION_BY_EDIT = edit(root(), root("hi all"))
TAKEN: list[tuple[str, Json, RouteTarget, str]] = [
    ("a mention", root(), ADDRESSED, "message"),
    ("a mention with a name", root(f"hi <@{BOT}|threadline>"), ADDRESSED, "message"),
    ("a mention with a file alone", root(CALL, subtype="file_share"), ADDRESSED, "message"),
    ("a mention in a group message", root(channel_type="mpim"), ADDRESSED, "message"),
    ("a mention in a reply", reply(f"{CALL} go on"), ADDRESSED, "message"),
    ("a mention that says stop", reply(f"{CALL} stop"), ADDRESSED, "stop"),
    ("a mention whose root says stop", root(f"{CALL} stop"), ADDRESSED, "message"),
    ("a direct message", direct(), ADDRESSED, "message"),
    ("a reply in a direct message", direct(ts=LATER, thread_ts=ROOT), ADDRESSED, "message"),
    (
        "a reply that says stop in a direct message",
        direct("Stop!", ts=LATER, thread_ts=ROOT),
        ADDRESSED,
        "stop",
    ),
    ("a root that tells somebody else to stop", direct("<@U9> stop"), ADDRESSED, "message"),
    ("a reply", reply(), OVERHEARD, "message"),
    (
        "a reply that is sent to the channel as well",
        reply(subtype="thread_broadcast"),
        OVERHEARD,
        "message",
    ),
    ("a word to stop", reply("please stop it"), OVERHEARD, "stop"),
    ("somebody else is told to stop", reply("<@U9> stop"), OVERHEARD, "message"),
    (
        "a mention in a shared message",
        reply("look", attachments=[share(f"{CALL} stop")]),
        OVERHEARD,
        "message",
    ),
    ("a mention that an edit brings", MENTION_BY_EDIT, OVERHEARD, "edit"),
    ("an edit that takes the mention away", edit(root("hi all"), root()), OVERHEARD, "edit"),
    (
        "an edit with a mention in code",
        edit(root(f"see `{CALL}`"), root("hi all")),
        OVERHEARD,
        "edit",
    ),
    ("a reply edited into a stop", edit(reply("stop"), reply()), OVERHEARD, "edit"),
    (
        "an edited direct message",
        edit(direct("b"), direct()) | {"channel_type": "im"},
        OVERHEARD,
        "edit",
    ),
    ("a deleted reply", deletion(reply()), OVERHEARD, "deletion"),
    (
        "a deleted direct message",
        deletion(direct()) | {"channel_type": "im"},
        OVERHEARD,
        "deletion",
    ),
    (
        "a deletion without its message",
        deletion({"channel": ELSE, "ts": ROOT}),
        OVERHEARD,
        "deletion",
    ),
]


@pytest.mark.parametrize(
    ("event", "target", "message_kind"), [row[1:] for row in TAKEN], ids=[row[0] for row in TAKEN]
)
def test_event_of_a_conversation_is_addressed_or_overheard(
    event: Json, target: RouteTarget, message_kind: str
) -> None:
    found = routed(event)

    assert isinstance(found, Route)
    assert found.target is target
    assert found.thread == Thread(TEAM, event["channel"], ROOT)
    message = message_of(found)
    assert (message.kind, message.sender_type) == (message_kind, SenderType.UNKNOWN)
    calls_since_edit = event is MENTION_BY_EDIT
    assert message.addressed is (target is ADDRESSED or calls_since_edit)
    assert message.sender_id in (REPORTER, "")


IGNORED: list[tuple[str, Json, IgnoreReason | AuthorRefusal]] = [
    ("a root without a mention", root("hi all"), IgnoreReason.OTHER_CHANNEL),
    ("a root that calls somebody else", root("<@U9> hi"), IgnoreReason.OTHER_CHANNEL),
    ("a root in a group message", root("hi", channel_type="mpim"), IgnoreReason.OTHER_CHANNEL),
    (
        "a mention in a root's shared message",
        root("look", attachments=[share(CALL)]),
        IgnoreReason.OTHER_CHANNEL,
    ),
    ("a mention's twin", root(type="app_mention"), IgnoreReason.MENTION),
    ("another company's mention", root(user_team="T_ELSE"), AuthorRefusal.OTHER_COMPANY),
    ("another reaction", sign("eyes"), IgnoreReason.REACTION),
    (
        "a stop sign on a file",
        sign(item={"type": "file", "file": "F1"}),
        IgnoreReason.MISSING_FIELDS,
    ),
    ("a stop sign at no time", sign(event_ts=None), IgnoreReason.MISSING_FIELDS),
    (
        "a stop sign on a report",
        sign(item={"channel": REPORTS, "ts": ROOT}),
        IgnoreReason.REACTION,
    ),
    ("a stop sign that is taken away", sign(type="reaction_removed"), IgnoreReason.REACTION),
    ("a thumb on a person's message", sign("+1", item_user=REPORTER), IgnoreReason.REACTION),
    ("our own thumb", sign("+1", user=BOT, item_user=BOT), IgnoreReason.OWN_MESSAGE),
]


@pytest.mark.parametrize(
    ("event", "reason"), [row[1:] for row in IGNORED], ids=[row[0] for row in IGNORED]
)
def test_other_event_is_ignored_with_its_reason(
    event: Json, reason: IgnoreReason | AuthorRefusal
) -> None:
    assert routed(event) == reason


CASES: list[tuple[str, Json, RouteTarget | None]] = [
    ("a report that mentions the bot", said(text=f"{CALL} it breaks"), RouteTarget.CASE),
    (
        "a reporter who mentions it",
        said(text=CALL, ts=LATER, thread_ts=ROOT, parent_user_id=REPORTER),
        RouteTarget.CASE,
    ),
    (
        "a developer who says stop",
        reply("stop", channel=ESCALATIONS, parent_user_id=BOT),
        RouteTarget.CASE_THREAD,
    ),
    ("a mention beside the cases", root(channel=SUMMARIES), None),
    ("help that no mention asks for", root("help", channel=SUMMARIES), None),
    ("a greeting of somebody else, too", root(f"hi <@U9> {CALL}", channel=SUMMARIES), None),
    ("help with files", root(f"{CALL} help", channel=SUMMARIES, files=[{"id": "F1"}]), None),
    ("help with a request", root(f"{CALL} help me close this", channel=SUMMARIES), None),
    ("a chat that asks for help", reply(f"{CALL} help", channel=SUMMARIES), None),
    ("a reporter who asks for help", said(text=f"{CALL} help"), RouteTarget.CASE),
]


@pytest.mark.parametrize("channel", [SUMMARIES, ESCALATIONS])
@pytest.mark.parametrize(
    "text", [CALL, f"{CALL} help", f"hi {CALL}!", f"{CALL} what can you do?", f"{CALL} :wave:"]
)
def test_cry_for_help_in_a_developers_channel_is_for_the_bot(text: str, channel: str) -> None:
    found = routed(root(text, channel=channel))

    assert isinstance(found, Route)
    assert (found.target, found.thread) == (ADDRESSED, Thread(TEAM, channel, ROOT))
    assert message_of(found).addressed
    assert routed(edit(root(text, channel=channel), root("lunch?", channel=channel))) is (
        IgnoreReason.ROOT_IN_CASE_CHANNEL
    )


@pytest.mark.parametrize(
    ("event", "target"), [row[1:] for row in CASES], ids=[row[0] for row in CASES]
)
def test_mention_in_a_case_channel_changes_nothing(
    event: Json, target: RouteTarget | None
) -> None:
    found = routed(event)

    assert (found.target if isinstance(found, Route) else None) is target
    if isinstance(found, Route):
        assert message_of(found).text == event["text"]
        assert message_of(found).kind != "stop"


@pytest.mark.parametrize("text", ["stop", f"{CALL} stop!"])
def test_root_that_says_stop_in_a_direct_channel_is_looked_up(text: str) -> None:
    found = routed(direct(text))

    assert isinstance(found, Route)
    assert found.target is RouteTarget.DIRECT_STOP
    assert found.thread == Thread(TEAM, DIRECT, ROOT)
    assert (found.message.kind, found.message.addressed) == ("stop", True)


@pytest.mark.parametrize("name", ["octagonal_sign", "stop_sign", "no_entry"])
def test_stop_sign_says_to_stop_when_it_was_put_there(name: str) -> None:
    found = routed(sign(name))

    assert found == Route(
        RouteTarget.REACTED_MESSAGE,
        Thread(TEAM, ELSE, LATER),
        IncomingMessage(
            f"{TEAM}:{ELSE}:{LATER}:stop:{OTHER}:{EDITED}",
            MessageKind.STOP,
            SenderType.UNKNOWN,
            OTHER,
            "",
            ELSE,
            EDITED,
        ),
    )


def test_each_stop_sign_has_an_id_of_its_own() -> None:
    ids = {
        message_of(routed(sign(user=user, event_ts=at))).id
        for user in (OTHER, REPORTER)
        for at in ("7.1", "8.2")
    }
    assert len(ids) == 4


@pytest.mark.parametrize("name", ["-1", "+1::skin-tone-5"])
@pytest.mark.parametrize("author", [{"item_user": BOT}, {}])
def test_thumb_on_a_message_of_the_bot_names_that_message(name: str, author: Json) -> None:
    found = routed(sign(name, **author))
    assert isinstance(found, Route)
    assert found.target is RouteTarget.REACTED_MESSAGE
    told = found.message
    assert found.thread == Thread(TEAM, ELSE, LATER)
    assert (told.kind, told.text, told.sender_id, told.ts) == ("thumb", name, OTHER, EDITED)
    assert told.correction_of == f"{TEAM}:{ELSE}:{LATER}"


def test_thumb_that_is_taken_away_is_another_event_on_the_same_message() -> None:
    put = message_of(routed(sign("-1", item_user=BOT)))
    away = message_of(routed(sign("-1", item_user=BOT, type="reaction_removed", event_ts="9.9")))
    assert (put.kind, away.kind, away.correction_of) == ("thumb", "thumb_taken", put.correction_of)
    assert put.id != away.id


def test_author_of_the_root_is_passed_on_unless_it_is_the_bot() -> None:
    authors = {REPORTER: REPORTER, BOT: "", "USLACKBOT": "", None: ""}
    for author, told in authors.items():
        assert message_of(routed(reply(parent_user_id=author))).root_author_id == told
    assert (
        message_of(routed(reply(f"{CALL} hi", parent_user_id=REPORTER))).root_author_id == REPORTER
    )


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (f"{CALL} add three items", "add three items"),
        (f"  {CALL}, {CALL} hi", "hi"),
        (f"{CALL} :wave:", ":wave:"),
        (f"{CALL}: :wave::skin-tone-2: hi", ":wave::skin-tone-2: hi"),
        (f"is it you, <@{BOT}|threadline>?", "is it you, @Threadline?"),
        (f"{CALL}\n1. one\n    2. two", "1. one\n    2. two"),
        (f"{CALL} <@{BOT}X> hi", f"<@{BOT}X> hi"),
    ],
)
def test_mention_of_the_bot_is_left_out_of_the_text(text: str, read: str) -> None:
    assert message_of(routed(root(text))).text == read
    assert message_of(routed(edit(root(text), root("before")))).text == read


def test_gateway_without_a_bot_user_sees_no_mention() -> None:
    nameless = replace(CONFIG, bot_user_id="")
    found = route({"team_id": TEAM, "event": root("<@> hi")}, nameless)

    assert found == IgnoreReason.OTHER_CHANNEL
