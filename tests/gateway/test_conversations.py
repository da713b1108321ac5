"""Which events are a conversation's, what the bot reads of them, and what stops it."""

from dataclasses import replace
from typing import Any

import pytest

from tests.gateway.test_events import (
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
    deletion,
    edit,
    message_of,
    routed,
    said,
    share,
)
from threadline.gateway.routes import (
    Addressed,
    Ignored,
    IgnoreReason,
    Lookup,
    Message,
    Overheard,
    Sign,
    Start,
    StopWord,
    route,
)
from threadline.threads.addressing import Thread
from threadline.threads.messages import UNKNOWN, IncomingMessage

Json = dict[str, Any]
ELSE, DIRECT = "C_ELSE", "D_1"
CALL = f"<@{BOT}>"


def root(text: str = f"{CALL} add three items", **fields: Any) -> Json:
    return said(**{"channel": ELSE, "channel_type": "channel", "text": text, **fields})


def reply(text: str = "and the totals", **fields: Any) -> Json:
    return root(text, **{"ts": LATER, "thread_ts": ROOT, "parent_user_id": OTHER, **fields})


def direct(text: str = "add three items", **fields: Any) -> Json:
    return root(text, **{"channel": DIRECT, "channel_type": "im", **fields})


def sign(name: str = "octagonal_sign", **fields: Any) -> Json:
    item = {"type": "message", "channel": ELSE, "ts": LATER}
    return {"type": "reaction_added", "user": OTHER, "reaction": name, "item": item, "event_ts": EDITED, **fields}


Kind = type[Addressed] | type[Overheard]

TAKEN: list[tuple[str, Json, Kind, str]] = [
    ("a mention", root(), Addressed, "message"),
    ("a mention with a name", root(f"hi <@{BOT}|threadline>"), Addressed, "message"),
    ("a mention with a file alone", root(CALL, subtype="file_share"), Addressed, "message"),
    ("an empty mention", root(CALL), Addressed, "message"),
    ("a mention in a private channel", root(channel_type="group"), Addressed, "message"),
    ("a mention in a group message", root(channel_type="mpim"), Addressed, "message"),
    ("a mention in a reply", reply(f"{CALL} go on"), Addressed, "message"),
    ("a mention that says stop", reply(f"{CALL} stop"), Addressed, "stop"),
    ("a mention whose root says stop", root(f"{CALL} stop"), Addressed, "message"),
    ("a direct message", direct(), Addressed, "message"),
    ("a reply in a direct message", direct(ts=LATER, thread_ts=ROOT), Addressed, "message"),
    ("a reply that says stop in a direct message", direct("Stop!", ts=LATER, thread_ts=ROOT), Addressed, "stop"),
    ("a direct message to stop the build", direct("stop the build"), Addressed, "message"),
    ("a root that tells somebody else to stop", direct("<@U9> stop"), Addressed, "message"),
    ("a reply", reply(), Overheard, "message"),
    ("a reply that is sent to the channel as well", reply(subtype="thread_broadcast"), Overheard, "message"),
    ("a reply in a group message", reply(channel_type="mpim"), Overheard, "message"),
    ("a word to stop", reply("please stop it"), Overheard, "stop"),
    ("a stop sign as a message", reply(":octagonal_sign:"), Overheard, "stop"),
    ("somebody else is told to stop", reply("<@U9> stop"), Overheard, "message"),
    ("a mention in what is shared", reply("look", attachments=[share(f"{CALL} stop")]), Overheard, "message"),
    ("an edited mention", edit(root(f"{CALL} add two"), root()), Overheard, "edit"),
    ("a mention that an edit brings", edit(root(), root("hi all")), Overheard, "edit"),
    ("an edited reply", edit(reply("more"), reply()), Overheard, "edit"),
    ("a reply edited into a stop", edit(reply("stop"), reply()), Overheard, "edit"),
    ("an edited direct message", edit(direct("b"), direct()) | {"channel_type": "im"}, Overheard, "edit"),
    ("a deleted mention", deletion(root()), Overheard, "deletion"),
    ("a deleted reply", deletion(reply()), Overheard, "deletion"),
    ("a deleted direct message", deletion(direct()) | {"channel_type": "im"}, Overheard, "deletion"),
    ("a deletion of which Slack tells no more", deletion({"channel": ELSE, "ts": ROOT}), Overheard, "deletion"),
]


@pytest.mark.parametrize(("event", "kind", "message_kind"), [row[1:] for row in TAKEN], ids=[row[0] for row in TAKEN])
def test_what_people_say_to_the_bot_or_beside_it_has_a_route(event: Json, kind: Kind, message_kind: str) -> None:
    found = routed(event)

    assert type(found) is kind
    assert found.thread == Thread(TEAM, event["channel"], ROOT)
    message = message_of(found)
    assert (message.kind, message.sender_type) == (message_kind, UNKNOWN)
    assert message.addressed is (kind is Addressed)
    assert message.sender_id in (REPORTER, "")


IGNORED: list[tuple[str, Json, IgnoreReason]] = [
    ("a root without a mention", root("hi all"), IgnoreReason.OTHER_CHANNEL),
    ("a root that calls somebody else", root("<@U9> hi"), IgnoreReason.OTHER_CHANNEL),
    ("a root in a group message", root("hi", channel_type="mpim"), IgnoreReason.OTHER_CHANNEL),
    ("a mention in a root's shared message", root("look", attachments=[share(CALL)]), IgnoreReason.OTHER_CHANNEL),
    ("a mention's twin", root(type="app_mention"), IgnoreReason.MENTION),
    ("a bot that calls us", root(bot_id="B_OTHER"), IgnoreReason.BOT_MESSAGE),
    ("our own answer", reply(CALL, user=BOT), IgnoreReason.OWN_MESSAGE),
    ("our own direct message", direct(user=BOT), IgnoreReason.OWN_MESSAGE),
    ("another company's mention", root(user_team="T_ELSE"), IgnoreReason.OTHER_COMPANY),
    ("a link that unfurls", edit(root(attachments=[{"text": "page"}]), root()), IgnoreReason.UNFURL),
    ("a mention by nobody", root(user=None), IgnoreReason.MISSING_FIELDS),
    ("another reaction", sign("eyes"), IgnoreReason.REACTION),
    ("our own stop sign", sign(user=BOT), IgnoreReason.OWN_MESSAGE),
    ("a stop sign on a file", sign(item={"type": "file", "file": "F1"}), IgnoreReason.MISSING_FIELDS),
    ("a stop sign of nobody", sign(user=None), IgnoreReason.MISSING_FIELDS),
    ("a stop sign at no time", sign(event_ts=None), IgnoreReason.MISSING_FIELDS),
    ("a stop sign on a report", sign(item={"channel": REPORTS, "ts": ROOT}), IgnoreReason.REACTION),
    ("a stop sign on findings", sign(item={"channel": SUMMARIES, "ts": ROOT}), IgnoreReason.REACTION),
    ("a stop sign that is taken away", sign(type="reaction_removed"), IgnoreReason.REACTION),
    ("another reaction that is taken away", sign("eyes", type="reaction_removed"), IgnoreReason.REACTION),
    ("a thumb on what a person said", sign("+1", item_user=REPORTER), IgnoreReason.REACTION),
    ("our own thumb", sign("+1", user=BOT, item_user=BOT), IgnoreReason.OWN_MESSAGE),
    ("a thumb at no time", sign("+1", item_user=BOT, event_ts=None), IgnoreReason.MISSING_FIELDS),
    ("a thumb on findings", sign("+1", item_user=BOT, item={"channel": SUMMARIES, "ts": ROOT}), IgnoreReason.REACTION),
]


@pytest.mark.parametrize(("event", "reason"), [row[1:] for row in IGNORED], ids=[row[0] for row in IGNORED])
def test_what_is_said_among_others_is_ignored_with_its_reason(event: Json, reason: IgnoreReason) -> None:
    assert routed(event) == Ignored(reason)


CASES: list[tuple[str, Json, type]] = [
    ("a report that mentions the bot", said(text=f"{CALL} it breaks"), Start),
    ("a reporter who mentions it", said(text=CALL, ts=LATER, thread_ts=ROOT, parent_user_id=REPORTER), Message),
    ("a developer who does", reply(CALL, channel=SUMMARIES, parent_user_id=BOT), Lookup),
    ("a developer who says stop", reply("stop", channel=ESCALATIONS, parent_user_id=BOT), Lookup),
    ("a mention beside the cases", root(channel=SUMMARIES), Ignored),
    ("a bystander's mention", said(user=OTHER, text=CALL, ts=LATER, thread_ts=ROOT, parent_user_id=REPORTER), Ignored),
]


@pytest.mark.parametrize(("event", "kind"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_in_the_channels_of_cases_a_mention_changes_nothing(event: Json, kind: type) -> None:
    found = routed(event)

    assert type(found) is kind
    if not isinstance(found, Ignored):
        assert message_of(found).text == event["text"]
        assert message_of(found).kind != "stop"


@pytest.mark.parametrize("text", ["stop", f"{CALL} stop!", "please stop it", "🛑"])
def test_a_word_to_stop_beside_the_threads_of_a_direct_channel_has_its_thread_looked_up(text: str) -> None:
    found = routed(direct(text))

    assert isinstance(found, StopWord)
    assert found.thread == Thread(TEAM, DIRECT, ROOT)
    assert (found.message.kind, found.message.addressed) == ("stop", True)


@pytest.mark.parametrize("name", ["octagonal_sign", "stop_sign", "no_entry"])
def test_a_stop_sign_says_to_stop_when_it_was_put_there(name: str) -> None:
    found = routed(sign(name))

    assert found == Sign(
        Thread(TEAM, ELSE, LATER),
        IncomingMessage(f"{TEAM}:{ELSE}:{LATER}:stop:{OTHER}:{EDITED}", "stop", UNKNOWN, OTHER, "", ELSE, EDITED),
    )


def test_each_stop_sign_is_one_of_its_own_and_the_same_when_it_is_delivered_again() -> None:
    ids = {message_of(routed(sign(user=user, event_ts=at))).id for user in (OTHER, REPORTER) for at in ("7.1", "8.2")}
    again = message_of(routed(sign(user=OTHER, event_ts="7.1"))).id

    assert len(ids) == 4
    assert again in ids


@pytest.mark.parametrize("name", ["+1", "-1", "+1::skin-tone-5"])
@pytest.mark.parametrize("author", [{"item_user": BOT}, {}])
def test_a_thumb_on_what_the_bot_said_is_taken_with_its_message(name: str, author: Json) -> None:
    found = routed(sign(name, **author))
    assert isinstance(found, Sign)
    told = found.message
    assert found.place == Thread(TEAM, ELSE, LATER)
    assert (told.kind, told.text, told.sender_id, told.ts) == ("thumb", name, OTHER, EDITED)
    assert told.correction_of == f"{TEAM}:{ELSE}:{LATER}"


def test_a_thumb_that_is_taken_away_is_told_too_and_is_another_event() -> None:
    put = message_of(routed(sign("-1", item_user=BOT)))
    away = message_of(routed(sign("-1", item_user=BOT, type="reaction_removed", event_ts="9.9")))
    again = message_of(routed(sign("-1", item_user=BOT)))
    assert (put.kind, away.kind, away.correction_of) == ("thumb", "thumb_taken", put.correction_of)
    assert put.id == again.id != away.id


def test_who_wrote_the_root_is_told_unless_it_was_the_bot() -> None:
    assert message_of(routed(reply(parent_user_id=REPORTER))).root_by == REPORTER
    assert message_of(routed(reply(f"{CALL} hi", parent_user_id=REPORTER))).root_by == REPORTER
    assert message_of(routed(reply(parent_user_id=BOT))).root_by == ""
    assert message_of(routed(reply(parent_user_id="USLACKBOT"))).root_by == ""
    assert message_of(routed(reply(parent_user_id=None))).root_by == ""


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (f"{CALL} add three items", "add three items"),
        (f"{CALL}: add three items", "add three items"),
        (f"  {CALL}, {CALL} hi", "hi"),
        (f"hey {CALL} what is open?", "hey what is open?"),
        (f"is it you, <@{BOT}|threadline>?", "is it you,?"),
        (f"{CALL} ask <@U9>", "ask <@U9>"),
        (f"{CALL}\n1. one\n    2. two", "1. one\n    2. two"),
        (CALL, ""),
        (f"{CALL} <@{BOT}X> hi", f"<@{BOT}X> hi"),
    ],
)
def test_the_bots_own_mention_is_no_part_of_what_it_reads(text: str, read: str) -> None:
    assert message_of(routed(root(text))).text == read
    assert message_of(routed(edit(root(text), root("before")))).text == read


def test_a_gateway_that_does_not_know_its_name_is_called_by_nobody() -> None:
    nameless = replace(CONFIG, bot_user_id="")
    found = route({"team_id": TEAM, "event": root("<@> hi")}, nameless)

    assert found == Ignored(IgnoreReason.OTHER_CHANNEL)
