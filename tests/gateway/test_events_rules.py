"""Each kind of Slack event has its route, or a reason to be ignored."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.slack_events import (
    BOT,
    CONFIG,
    DEVELOPER,
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
    case_reply,
    deletion,
    edit,
    message_of,
    reply,
    routed,
    said,
    share,
)
from threadline.gateway.routes import Ignored, IgnoreReason, Route, RouteTarget, route
from threadline.slack.model import AuthorRefusal, FileRef, Thread
from threadline.threads.model import parse_message


def rich(*elements: Json) -> list[Json]:
    return [{"type": "rich_text", "elements": list(elements)}]


def words(text: str) -> Json:
    return {"type": "text", "text": text}


def section(*pieces: Json) -> Json:
    return {"type": "rich_text_section", "elements": list(pieces)}


CASE = RouteTarget.CASE
CASE_THREAD = RouteTarget.CASE_THREAD
TAKEN: list[tuple[str, Json, RouteTarget, str, str]] = [
    ("a report", said(), CASE, "report", "reporter"),
    ("a report with a root's thread_ts", said(thread_ts=ROOT), CASE, "report", "reporter"),
    ("a report by /me", said(subtype="me_message"), CASE, "report", "reporter"),
    ("a report that sounds like a close", said(text="close this"), CASE, "report", "reporter"),
    ("the reporter's reply", reply(), CASE, "message", "reporter"),
    ("the reporter closes", reply(text="never mind"), CASE, "close", "reporter"),
    (
        "the reporter closes with a reason",
        reply(text="please ignore, it was my VPN"),
        CASE,
        "close",
        "reporter",
    ),
    ("the reporter hesitates", reply(text="I think it was my VPN"), CASE, "message", "reporter"),
    ("someone unknown replies", reply(parent_user_id=None), CASE, "message", "unknown"),
    (
        "someone unknown closes",
        reply(parent_user_id=None, text="never mind"),
        CASE,
        "close",
        "unknown",
    ),
    ("a developer replies", case_reply(), CASE_THREAD, "message", "developer"),
    (
        "a developer's reply without the root's author",
        case_reply(parent_user_id=None),
        CASE_THREAD,
        "message",
        "developer",
    ),
    ("a developer says close", case_reply(text="close this"), CASE_THREAD, "message", "developer"),
    (
        "a reply to an escalation",
        case_reply(channel=ESCALATIONS),
        CASE_THREAD,
        "message",
        "developer",
    ),
    ("an edited report", edit(said(text="it breaks badly"), said()), CASE, "edit", "reporter"),
    (
        "a reply edited into a close",
        edit(reply(text="never mind"), reply()),
        CASE,
        "edit",
        "reporter",
    ),
    (
        "a developer's edit",
        edit(case_reply(text="more"), case_reply()),
        CASE_THREAD,
        "edit",
        "developer",
    ),
    (
        "a reply under a deleted report",
        reply(parent_user_id="USLACKBOT"),
        CASE,
        "message",
        "unknown",
    ),
    ("a deleted reply", deletion(reply()), CASE, "deletion", "reporter"),
    ("a developer's deletion", deletion(case_reply()), CASE_THREAD, "deletion", "developer"),
]


@pytest.mark.parametrize(
    ("event", "target", "message_kind", "sender"),
    [row[1:] for row in TAKEN],
    ids=[row[0] for row in TAKEN],
)
def test_event_of_a_case_is_routed_to_it(
    event: Json, target: RouteTarget, message_kind: str, sender: str
) -> None:
    found = routed(event)

    assert isinstance(found, Route)
    assert found.target is target
    assert found.thread == Thread(TEAM, event["channel"], ROOT)
    message = message_of(found)
    assert (message.kind, message.sender_type) == (message_kind, sender)
    assert message.sender_id in (REPORTER, DEVELOPER)
    assert message.channel == event["channel"]
    if message_kind not in ("edit", "deletion"):
        assert (message.id, message.ts) == (
            f"{TEAM}:{event['channel']}:{event['ts']}",
            event["ts"],
        )


WEBHOOK = said(
    bot_id="B_FORM", app_id="A_FORM", user=None, subtype="bot_message", username="Bug form"
)
OWN_APP = said(bot_id="B_ELSEWHERE", app_id="A_OURS", user="U_BOT_ELSEWHERE")
IGNORED: list[tuple[str, Json, IgnoreReason]] = [
    ("nothing", {}, IgnoreReason.NOT_A_MESSAGE),
    ("our own post", said(user=BOT), IgnoreReason.OWN_MESSAGE),
    ("our own post by bot id", said(user="U_X", bot_id="B_BOT"), IgnoreReason.OWN_MESSAGE),
    ("our own post, deleted", deletion(said(user=BOT)), IgnoreReason.OWN_MESSAGE),
    ("another bot", said(bot_id="B_OTHER", user=None), IgnoreReason.BOT_MESSAGE),
    ("another app", said(app_id="A_OTHER", user=None), IgnoreReason.BOT_MESSAGE),
    ("another bot by subtype", said(subtype="bot_message", user=None), IgnoreReason.BOT_MESSAGE),
    ("another bot's edit", edit(WEBHOOK | {"text": "b"}, WEBHOOK), IgnoreReason.BOT_MESSAGE),
    ("Slackbot", said(user="USLACKBOT"), IgnoreReason.BOT_MESSAGE),
    ("someone joins", said(subtype="channel_join"), IgnoreReason.SUBTYPE),
    (
        "a counter of replies",
        said(subtype="message_replied", message=said()),
        IgnoreReason.SUBTYPE,
    ),
    ("nobody", said(user=None), IgnoreReason.MISSING_FIELDS),
    ("no time", said(ts=None), IgnoreReason.MISSING_FIELDS),
    (
        "a deletion in no channel",
        deletion({"channel": "", "ts": ROOT}),
        IgnoreReason.MISSING_FIELDS,
    ),
    ("an unfurled link", edit(said(attachments=[{"text": "page"}]), said()), IgnoreReason.UNFURL),
    (
        "an unfurled link in rich text",
        edit(said(blocks=rich(section(words("x")))), said()),
        IgnoreReason.UNFURL,
    ),
    ("a third party", reply(user=OTHER), IgnoreReason.THIRD_PARTY),
    (
        "a third party's edit",
        edit(reply(user=OTHER, text="b"), reply(user=OTHER)),
        IgnoreReason.THIRD_PARTY,
    ),
    (
        "a chat among developers",
        case_reply(parent_user_id=DEVELOPER),
        IgnoreReason.NOT_A_CASE_THREAD,
    ),
    ("a developer's root", said(channel=SUMMARIES), IgnoreReason.ROOT_IN_CASE_CHANNEL),
]


FILE = {"id": "F1", "name": "a.log", "mode": "hosted"}
OTHER_FILE = FILE | {"id": "F2"}
TOMBSTONE = {"id": "F1", "mode": "tombstone"}
FILES_LEFT: list[tuple[str, list[Json], list[str]]] = [
    ("the only file is taken out", [], []),
    ("the only file is deleted", [TOMBSTONE], []),
    ("another file stays", [TOMBSTONE, OTHER_FILE], ["F2"]),
]


@pytest.mark.parametrize(
    ("left", "shown"), [row[1:] for row in FILES_LEFT], ids=[row[0] for row in FILES_LEFT]
)
@pytest.mark.parametrize("channel", [ESCALATIONS, "C_GENERAL"])
def test_removal_of_a_file_is_an_edit_though_the_words_stay(
    left: list[Json], shown: list[str], channel: str
) -> None:
    before = case_reply(channel=channel, files=[FILE, OTHER_FILE] if shown else [FILE])
    message = message_of(routed(edit(before | {"files": left}, before)))
    assert (message.kind, message.files_removed) == ("edit", True)
    assert [file.id for file in message.files] == shown


@pytest.mark.parametrize("channel", [REPORTS, SUMMARIES])
def test_removal_of_a_file_is_no_edit_in_a_case(channel: str) -> None:
    """A case's files stay until the message is deleted."""
    before = reply(channel=channel, files=[FILE])
    assert routed(edit(before | {"files": [TOMBSTONE]}, before)) == IgnoreReason.UNFURL


def test_edit_of_the_words_removes_no_file() -> None:
    before = case_reply(channel=ESCALATIONS, files=[FILE])
    message = message_of(routed(edit(before | {"text": "more"}, before)))
    assert not message.files_removed


def test_removal_of_a_file_from_an_edited_message_is_another_edit() -> None:
    """Slack goes on naming the earlier edit in `edited`."""
    first = case_reply(channel=ESCALATIONS, files=[FILE], edited={"ts": EDITED})
    removal = edit(first | {"files": [TOMBSTONE]}, first)
    change = edit(first, case_reply(channel=ESCALATIONS, files=[FILE], text="before"))
    assert message_of(routed(removal)).version == removal["ts"]
    assert message_of(routed(change)).version == EDITED


@pytest.mark.parametrize(
    ("event", "reason"), [row[1:] for row in IGNORED], ids=[row[0] for row in IGNORED]
)
def test_other_event_is_ignored_with_its_reason(event: Json, reason: IgnoreReason) -> None:
    assert routed(event) == reason


@pytest.mark.parametrize("app", ["B_FORM", "A_FORM"])
def test_app_that_may_speak_is_routed_by_its_ids(app: str) -> None:
    config = replace(CONFIG, allowed_apps=frozenset({app}))
    found = route({"team_id": TEAM, "event": WEBHOOK}, config)

    assert isinstance(found, Route)
    assert (found.target, found.apps) == (CASE, ("B_FORM", "A_FORM"))
    assert (found.message.sender_id, found.message.kind) == ("B_FORM", "report")
    other = said(bot_id="B_OTHER", user=None)
    assert route({"team_id": TEAM, "event": other}, config) == IgnoreReason.BOT_MESSAGE


WHOSE_APP: list[tuple[str, Json, bool]] = [
    ("our profile", {"bot_profile": {"team_id": TEAM}, "team": "T2"}, True),
    ("their profile", {"bot_profile": {"team_id": "T2"}, "team": TEAM}, False),
    ("their user's team", {"bot_profile": {}, "user_team": "T2", "team": TEAM}, False),
    ("their team", {"team": "T2"}, False),
    ("no team", {}, True),
    ("a broken profile", {"bot_profile": 7, "team": "T2"}, False),
]


@pytest.mark.parametrize(
    ("more", "counts"), [row[1:] for row in WHOSE_APP], ids=[row[0] for row in WHOSE_APP]
)
def test_allowed_app_of_another_company_is_refused(more: Json, counts: bool) -> None:
    config = replace(CONFIG, allowed_apps=frozenset({"A_FORM"}))
    found = route({"team_id": TEAM, "event": WEBHOOK | more}, config)
    assert isinstance(found, Route) if counts else found == AuthorRefusal.OTHER_COMPANY


@pytest.mark.parametrize("more", [{}, {"subtype": "bot_message"}, {"subtype": "file_share"}])
def test_message_that_a_user_posts_through_an_app_goes_on_to_be_checked(more: Json) -> None:
    found = routed(said(bot_id="B_OTHER", app_id="A_OTHER", **more))

    assert isinstance(found, Route)
    assert (found.message.sender_id, found.apps) == (REPORTER, ("B_OTHER", "A_OTHER"))


@pytest.mark.parametrize("allowed", [frozenset(), frozenset({"A_OURS", "B_BOT", "B_ELSEWHERE"})])
def test_own_bot_never_counts_even_when_its_app_is_allowed(allowed: frozenset[str]) -> None:
    config = replace(CONFIG, allowed_apps=allowed)
    for event in (said(user=BOT), said(user=None, bot_id="B_BOT"), OWN_APP):
        body = {"team_id": TEAM, "api_app_id": "A_OURS", "event": event}
        assert route(body, config) == IgnoreReason.OWN_MESSAGE


def test_edit_has_an_id_of_its_own_and_names_its_original() -> None:
    message = message_of(routed(edit(reply(text="more"), reply())))

    assert message.id == f"T1:C_REPORTS:{LATER}:e{EDITED}"
    assert (message.correction_of, message.version) == (f"T1:C_REPORTS:{LATER}", EDITED)
    assert (message.ts, message.text) == (LATER, "more")


def test_deletion_without_its_message_still_names_the_original() -> None:
    found = message_of(routed(deletion({"channel": REPORTS, "ts": ROOT})))
    assert (found.kind, found.correction_of, found.sender_id) == (
        "deletion",
        f"{TEAM}:{REPORTS}:{ROOT}",
        "",
    )


@pytest.mark.parametrize(
    "event", [deletion(said()), edit(said(subtype="tombstone", user="USLACKBOT"), said())]
)
def test_deletion_names_its_original_and_carries_no_text(event: Json) -> None:
    found = routed(event)
    message = message_of(found)

    assert (message.id, message.correction_of) == (
        f"T1:C_REPORTS:{ROOT}:d",
        f"T1:C_REPORTS:{ROOT}",
    )
    assert (message.text, message.files, message.sender_id) == ("", (), REPORTER)
    assert isinstance(found, Route)
    assert found.target is RouteTarget.CASE
    assert found.thread == Thread(TEAM, REPORTS, ROOT)


THEIRS = "T_THEIRS"
OUR_TEAM: list[tuple[str, Json]] = [
    ("nothing is named", {"team_id": None}),
    ("our workspace", {"context_team_id": TEAM, "authorizations": [{"team_id": TEAM}]}),
    (
        "their channel",
        {"team_id": THEIRS, "context_team_id": TEAM, "authorizations": [{"team_id": TEAM}]},
    ),
    ("their channel, named by nothing else", {"team_id": THEIRS}),
    (
        "an arbitrary installation",
        {"context_team_id": TEAM, "authorizations": [{"team_id": THEIRS}]},
    ),
    (
        "no team, and an arbitrary installation",
        {"team_id": None, "authorizations": [{"team_id": THEIRS}]},
    ),
    (
        "their context of a shared channel",
        {"context_team_id": THEIRS, "is_ext_shared_channel": True},
    ),
    ("a grid", {"team_id": "E_GRID", "context_team_id": TEAM, "context_enterprise_id": "E_GRID"}),
    ("damaged", {"team_id": 7, "context_team_id": None, "authorizations": "x"}),
]


@pytest.mark.parametrize(
    "author", [{}, {"team": THEIRS}, {"team": TEAM, "user_team": TEAM, "source_team": TEAM}]
)
@pytest.mark.parametrize("body", [row[1] for row in OUR_TEAM], ids=[row[0] for row in OUR_TEAM])
def test_team_is_that_of_the_installation_and_not_of_the_delivery(
    body: Json, author: Json
) -> None:
    found = routed(said(**author), **body)

    assert isinstance(found, Route)
    assert found.thread == Thread(TEAM, REPORTS, ROOT)
    assert found.message.id == f"{TEAM}:{REPORTS}:{ROOT}"


def test_reactions_edits_and_deletions_are_of_the_installation_as_well() -> None:
    sign = {
        "type": "reaction_added",
        "reaction": "octagonal_sign",
        "user": OTHER,
        "event_ts": LATER,
    }
    placed = {**sign, "item": {"channel": "C_ELSE", "ts": ROOT}}
    for event in (placed, edit(said(text="worse"), said()), deletion(said())):
        assert message_of(routed(event, team_id=THEIRS)).id.startswith(f"{TEAM}:")


@pytest.mark.parametrize("shared", [False, None, "true"])
def test_delivery_to_the_installation_of_another_workspace_is_ignored(shared: Any) -> None:
    body = {
        "context_team_id": THEIRS,
        "is_ext_shared_channel": shared,
        "authorizations": [{"team_id": TEAM}],
    }
    assert routed(said(), **body) == IgnoreReason.OTHER_INSTALLATION


@pytest.mark.parametrize("named", [{"user_team": THEIRS}, {"source_team": THEIRS}])
def test_event_that_names_its_authors_company_is_refused_at_once(named: Json) -> None:
    assert routed(said(**named), team_id=THEIRS) == AuthorRefusal.OTHER_COMPANY
    body = {"type": "event_callback", "team_id": TEAM, "event": said(**named)}
    assert isinstance(route(body, replace(CONFIG, external_people=frozenset({REPORTS}))), Route)
    # In a grid they may belong to our workspace too, so Slack is asked.
    assert isinstance(route(body, replace(CONFIG, enterprise="E_GRID")), Route)


def test_gateway_that_does_not_know_its_team_takes_nothing() -> None:
    assert (
        route({"team_id": TEAM, "event": said()}, replace(CONFIG, team=""))
        == IgnoreReason.MISSING_FIELDS
    )


def test_files_are_references_without_removed_ones() -> None:
    files = [
        {
            "id": "F1",
            "name": "screen.png",
            "mimetype": "image/png",
            "size": 7,
            "url_private": "https://x",
        },
        {"id": "F2", "mode": "tombstone"},
        {"name": "no id"},
        {"id": "F3", "file_access": "check_file_info"},
        "junk",
    ]

    found = message_of(routed(said(subtype="file_share", files=files)))

    assert found.files == (FileRef("F1", "screen.png", "image/png", 7), FileRef("F3"))


@pytest.mark.parametrize("text", [None, "", "  \n"])
def test_rich_text_is_read_when_there_is_no_plain_text(text: str | None) -> None:
    blocks = rich(
        section(
            {"type": "user", "user_id": "U9"},
            words(" a < b, see "),
            {"type": "link", "url": "https://e.org", "text": "the page"},
            words(" in "),
            {"type": "channel", "channel_id": "C9"},
            {"type": "emoji", "name": "bug"},
        ),
        {
            "type": "rich_text_list",
            "style": "ordered",
            "elements": [section(words("open")), section(words("press"))],
        },
        {
            "type": "rich_text_list",
            "style": "bullet",
            "indent": 1,
            "elements": [section(words("twice"))],
        },
        {"type": "rich_text_quote", "elements": [words("it said\nno")]},
        {"type": "rich_text_preformatted", "elements": [words("Traceback")]},
        section({"type": "link", "url": "https://e.org"}, {"type": "broadcast", "range": "here"}),
    )

    message = message_of(routed(said(text=text, blocks=blocks)))
    assert message.text == (
        "<@U9> a < b, see [the page](https://e.org) in <#C9>:bug:\n"
        "1. open\n2. press\n    • twice\n```\nTraceback\n```\nhttps://e.org<!here>"
    )
    assert message.forwarded == "[Quoted]\n> it said\n> no"
    assert "twice\n> it said\n> no\n```\nTraceback" in message.as_written


def test_edit_of_rich_text_alone_is_an_edit() -> None:
    before, after = (reply(text="", blocks=rich(section(words(w)))) for w in ("one", "two"))

    assert message_of(routed(edit(after, before))).text == "two"


def test_shared_messages_are_read_and_unfurled_pages_are_not() -> None:
    page = {"text": "a page's summary", "from_url": "https://e.org"}
    shared = message_of(routed(said(text="look", attachments=[share("it says 500"), page])))
    bare = message_of(routed(said(text="", attachments=[{"fallback": "a picture"}])))

    assert (shared.text, shared.forwarded) == (
        "look",
        (
            "[Forwarded message by somebody]\n> it says 500\n[Preview of https://e.org]\n> a "
            "page's summary"
        ),
    )
    assert (bare.text, bare.forwarded) == ("", "[Attachment]\n> a picture")


BY_BOB = {"author_name": "Bob", "author_id": "U_BOB", "channel_id": "C_ELSE"}
NEVER_MIND = {"is_msg_unfurl": True, "text": "never mind", **BY_BOB}
FORWARDING: list[tuple[str, Json]] = [
    ("a share without a comment", {"text": "", "attachments": [share("never mind")]}),
    ("a share by its other mark", {"text": "", "attachments": [NEVER_MIND]}),
    (
        "a share of a reply",
        {"text": "", "attachments": [{"is_reply_unfurl": True, "text": "never mind"}]},
    ),
    (
        "a share of blocks",
        {
            "text": "",
            "attachments": [
                {
                    "message_blocks": [
                        {"message": {"blocks": rich(section(words("never mind")))}}
                    ],
                    "fallback": "x",
                }
            ],
        },
    ),
    ("a quote", {"text": "&gt; never mind"}),
    ("a long quote", {"text": "&gt;&gt;&gt; never\nmind"}),
    (
        "a quote in rich text",
        {
            "text": "",
            "blocks": rich({"type": "rich_text_quote", "elements": [words("never mind")]}),
        },
    ),
    (
        "a quoted list",
        {
            "text": "",
            "blocks": rich(
                {
                    "type": "rich_text_list",
                    "style": "bullet",
                    "border": 1,
                    "elements": [section(words("never mind"))],
                }
            ),
        },
    ),
    (
        "a preview",
        {"text": "", "attachments": [{"from_url": "https://e.org", "text": "never mind"}]},
    ),
    (
        "an attachment without marks",
        {"text": "", "attachments": [{"author_name": "Bob", "text": "never mind"}]},
    ),
]


@pytest.mark.parametrize(
    "content", [row[1] for row in FORWARDING], ids=[row[0] for row in FORWARDING]
)
def test_forwarded_words_are_not_the_authors_own(content: Json) -> None:
    message = message_of(routed(reply(**content)))

    assert (message.kind, message.text) == ("message", "")
    assert "never" in message.forwarded
    assert (
        message_of(routed(reply(text="never mind", attachments=[share("it works")]))).kind
        == "close"
    )


def test_forwarded_words_are_redacted_and_bounded_and_go_with_a_deletion() -> None:
    message = message_of(
        routed(said(text="", attachments=[share(f"x {TOKEN}"), share("y" * 50_000)]))
    )
    assert TOKEN not in message.forwarded
    assert len(message.forwarded) <= 40_000
    assert message_of(routed(deletion(reply(attachments=[share("secret")])))).forwarded == ""
    quoting = message_of(routed(said(text=f"why?\n&gt; {TOKEN}")))
    assert TOKEN not in quoting.as_written
    assert quoting.as_written.startswith("why?\n> ")
    assert message_of(routed(deletion(reply(text="why?\n&gt; secret")))).as_written == ""


def test_text_is_made_storable() -> None:
    found = message_of(routed(said(text="a\x00b\ud800c" + "x" * 50_000)))

    assert found.text.startswith("ab?cx")
    assert len(found.text) == 40_000


TOKEN = "gh" + "p_" + "a1B2" * 9


def test_redaction_changes_neither_ids_nor_what_counts_as_an_edit() -> None:
    secret = reply(text=f"x {TOKEN}")
    plain = message_of(routed(reply(text="x")))
    redacted = message_of(routed(secret))
    assert redacted.id == plain.id
    assert TOKEN not in redacted.text
    # A token replaced by another reads the same once redacted, and is still an edit.
    assert message_of(routed(edit(reply(text=f"x {TOKEN[:-4]}zzZ9"), secret))).kind == "edit"


def test_redacted_text_of_the_largest_size_stays_within_it() -> None:
    text = message_of(routed(said(text="pw=a1b2 " * 5_000))).text
    assert len(text) <= 40_000
    assert "a1b2" not in text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
LIKELY = {
    "type": ["message", "app_mention", "reaction_added", "reaction_removed"],
    "subtype": ["message_changed", "message_deleted", "file_share", "tombstone"],
    "channel": [REPORTS, SUMMARIES, "C_ELSE", "D_1"],
    "channel_type": ["channel", "group", "mpim", "im"],
    "user": [REPORTER],
    "ts": [ROOT],
    "thread_ts": [LATER],
    "text": [f"<@{BOT}> stop", "stop", f"<@{BOT}|bot> <@U9>"],
    "reaction": ["octagonal_sign", "eyes", "+1", "-1::skin-tone-2"],
    "item_user": [BOT, REPORTER],
    "event_ts": [EDITED],
}
pieces = st.dictionaries(
    st.sampled_from(["type", "elements", "style", "indent", "offset"]), json_values
)
slack_shaped: st.SearchStrategy[Json] = st.deferred(
    lambda: st.fixed_dictionaries(
        {},
        optional={
            **{name: st.sampled_from(values) | json_values for name, values in LIKELY.items()},
            "item": st.fixed_dictionaries({"channel": st.just("C_ELSE"), "ts": st.just(ROOT)})
            | json_values,
            "edited": json_values,
            "files": st.lists(
                st.dictionaries(st.sampled_from(["id", "name", "size"]), json_values)
            )
            | json_values,
            "attachments": json_values,
            "blocks": st.lists(
                st.fixed_dictionaries({"type": st.just("rich_text"), "elements": st.lists(pieces)})
            )
            | json_values,
            "message": slack_shaped | json_values,
            "previous_message": slack_shaped | json_values,
        },
    )
)


@given(st.just(TEAM) | json_values, slack_shaped | json_values, json_values)
def test_any_json_gets_a_route_and_can_be_read_back(
    team: Any, event: Any, authorizations: Any
) -> None:
    found = route({"team_id": team, "event": event, "authorizations": authorizations}, CONFIG)

    if not isinstance(found, Ignored):
        found.message.text.encode()
        assert all(file.id for file in found.message.files)
        place = found.thread
        assert all((place.team, place.channel, place.ts))
        assert (
            parse_message(
                [{**vars(found.message), "files": [vars(file) for file in found.message.files]}]
            )
            == found.message
        )
