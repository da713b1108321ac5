"""Every block, attachment and element of a message is read: the shapes in Slack's documentation
and in messages of real clients.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.slack.mrkdwn import WORD_JOINER
from threadline.slack.rendering import attachment_text, block_text
from threadline.slack.text import read_text

Json = dict[str, Any]


def rich(*elements: Json) -> Json:
    return {"type": "rich_text", "elements": list(elements)}


def section(*pieces: Json) -> Json:
    return {"type": "rich_text_section", "elements": list(pieces)}


def words(text: str, **style: bool) -> Json:
    return {"type": "text", "text": text, **({"style": style} if style else {})}


def plain(text: str) -> Json:
    return {"type": "plain_text", "text": text}


def mrkdwn(text: str) -> Json:
    return {"type": "mrkdwn", "text": text}


def cell(text: str) -> Json:
    return {"type": "raw_text", "text": text}


TABLE: Json = {
    "type": "table",
    "rows": [
        [cell("Name"), cell("Price")],
        [rich(section(words("Tea", bold=True))), {"type": "raw_number", "value": 3}],
        [cell("a|b"), None],
        [cell("only one")],
    ],
}
TABLE_TEXT = "| Name | Price |\n|---|---|\n| *Tea* | 3 |\n| a\\|b |  |\n| only one |  |"

BLOCKS: list[tuple[str, Json, str]] = [
    ("words", rich(section(words("R&D <b>"))), "R&D <b>"),
    ("bold", rich(section(words("a "), words("very ", bold=True), words("b"))), "a *very* b"),
    ("strike", rich(section(words("old", strike=True))), "~old~"),
    ("bold and italic", rich(section(words("x", bold=True, italic=True))), "*_x_*"),
    ("code", rich(section(words("a < b", code=True))), "`a < b`"),
    ("typed mention", rich(section(words("<@U1>"))), f"<{WORD_JOINER}@U1>"),
    ("mention", rich(section({"type": "user", "user_id": "U1"}, words(" hi"))), "<@U1> hi"),
    (
        "mention in code",
        rich(section({"type": "user", "user_id": "U1", "style": {"code": True}})),
        f"`<{WORD_JOINER}@U1>`",
    ),
    ("channel", rich(section({"type": "channel", "channel_id": "C1"})), "<#C1>"),
    ("group", rich(section({"type": "usergroup", "usergroup_id": "S1"})), "<!subteam^S1>"),
    ("broadcast", rich(section({"type": "broadcast", "range": "here"})), "<!here>"),
    ("emoji", rich(section({"type": "emoji", "name": "wave", "unicode": "1f44b"})), ":wave:"),
    ("color", rich(section({"type": "color", "value": "#ff0000"})), "#ff0000"),
    (
        "link",
        rich(section({"type": "link", "url": "https://e.org/a", "text": "a page"})),
        "[a page](https://e.org/a)",
    ),
    ("bare link", rich(section({"type": "link", "url": "https://e.org/a"})), "https://e.org/a"),
    (
        "date",
        rich(
            section(
                {
                    "type": "date",
                    "timestamp": 1720710212,
                    "format": "{date_num}",
                    "fallback": "July 11",
                }
            )
        ),
        "July 11",
    ),
    (
        "date alone",
        rich(section({"type": "date", "timestamp": 1720710212})),
        "2024-07-11 15:03 UTC",
    ),
    (
        "canvas",
        rich(
            section(
                {"type": "canvas", "file_id": "F1", "title": "Plan", "url": "https://e.org/F1"}
            )
        ),
        "[Plan](https://e.org/F1)",
    ),
    ("file", rich(section({"type": "file", "file_id": "F1"})), "F1"),
    (
        "unknown piece",
        rich(section({"type": "citation", "title": "RFC 1", "url": "https://e.org/1"})),
        "[RFC 1](https://e.org/1)",
    ),
    ("unknown element", rich({"type": "rich_text_poll", "name": "Lunch?"}), "Lunch?"),
    ("quote", rich({"type": "rich_text_quote", "elements": [words("one\ntwo")]}), "> one\n> two"),
    (
        "code block",
        rich({"type": "rich_text_preformatted", "elements": [words("if (a < b)")]}),
        "```\nif (a < b)\n```",
    ),
    (
        "link in a code block",
        rich(
            {
                "type": "rich_text_preformatted",
                "elements": [{"type": "link", "url": "https://e.org", "text": "e.org"}],
            }
        ),
        "```\ne.org\n```",
    ),
    (
        "list",
        rich(
            {
                "type": "rich_text_list",
                "style": "ordered",
                "offset": 1,
                "elements": [section(words("x"))],
            }
        ),
        "2. x",
    ),
    (
        "nested list",
        rich(
            {
                "type": "rich_text_list",
                "style": "bullet",
                "indent": 1,
                "elements": [section(words("x"))],
            }
        ),
        "    • x",
    ),
    ("header", {"type": "header", "text": plain("R&amp;D down")}, "R&D down"),
    (
        "section",
        {"type": "section", "text": mrkdwn("*CPU* &gt; 90 % <https://e.org|graph>")},
        "*CPU* > 90 % [graph](https://e.org)",
    ),
    (
        "fields",
        {"type": "section", "fields": [mrkdwn("*Host*\ndb1"), plain("eu")]},
        "*Host*\ndb1\neu",
    ),
    (
        "accessory",
        {
            "type": "section",
            "text": plain("x"),
            "accessory": {"type": "button", "text": plain("Open"), "url": "https://e.org/o"},
        },
        "x\n[Open](https://e.org/o)",
    ),
    (
        "context",
        {
            "type": "context",
            "elements": [
                {"type": "image", "image_url": "https://e.org/i.png", "alt_text": "logo"},
                mrkdwn("by _ana_"),
            ],
        },
        "[logo](https://e.org/i.png)\nby _ana_",
    ),
    (
        "buttons",
        {
            "type": "actions",
            "elements": [
                {"type": "button", "text": plain("Ack"), "action_id": "a"},
                {"type": "button", "text": plain("Runbook"), "url": "https://e.org/r"},
                {"type": "static_select", "placeholder": plain("Pick")},
            ],
        },
        "[Runbook](https://e.org/r)",
    ),
    (
        "feedback",
        {
            "type": "context_actions",
            "elements": [{"type": "feedback_buttons", "positive_button": {"text": plain("Good")}}],
        },
        "",
    ),
    (
        "image",
        {
            "type": "image",
            "image_url": "https://e.org/i.png",
            "alt_text": "a chart",
            "title": plain("Sales"),
        },
        "[Sales](https://e.org/i.png)",
    ),
    (
        "image in Slack",
        {
            "type": "image",
            "slack_file": {"id": "F1", "url": "https://files.slack.com/F1"},
            "alt_text": "a chart",
        },
        "[a chart](https://files.slack.com/F1)",
    ),
    (
        "video",
        {
            "type": "video",
            "title": plain("Demo"),
            "title_url": "https://e.org/v",
            "description": plain("two minutes"),
            "alt_text": "v",
        },
        "[Demo](https://e.org/v)\ntwo minutes",
    ),
    ("markdown", {"type": "markdown", "text": "# Head\n**bold** &lt;b>"}, "# Head\n**bold** <b>"),
    ("table", TABLE, TABLE_TEXT),
    (
        "data table",
        {"type": "data_table", "columns": [{"name": "Id"}], "rows": [{"cells": [cell("7")]}]},
        "| Id |\n|---|\n| 7 |",
    ),
    ("empty table", {"type": "table", "rows": []}, ""),
    ("alert", {"type": "alert", "level": "error", "text": mrkdwn("Disk *full*")}, "Disk *full*"),
    (
        "card",
        {
            "type": "card",
            "title": mrkdwn("Order 7"),
            "subtitle": mrkdwn("late"),
            "body": mrkdwn("since Monday"),
        },
        "Order 7\nlate\nsince Monday",
    ),
    (
        "carousel",
        {
            "type": "carousel",
            "elements": [
                {"type": "card", "title": plain("One")},
                {"type": "card", "title": plain("Two")},
            ],
        },
        "One\nTwo",
    ),
    (
        "container",
        {
            "type": "container",
            "title": plain("Results"),
            "child_blocks": [{"type": "section", "text": plain("All passed")}],
        },
        "Results\nAll passed",
    ),
    (
        "task card",
        {
            "type": "task_card",
            "title": "Deploy",
            "status": "complete",
            "output": rich(section(words("done"))),
            "sources": [{"type": "url", "url": "https://e.org/s", "text": "log"}],
        },
        "Deploy\ndone\n[log](https://e.org/s)",
    ),
    (
        "plan",
        {"type": "plan", "title": "Steps", "tasks": [{"title": "First", "status": "pending"}]},
        "Steps\nFirst",
    ),
    (
        "call",
        {
            "type": "call",
            "call_id": "R1",
            "call": {"v1": {"name": "Standup", "join_url": "https://e.org/c"}},
        },
        "[Standup](https://e.org/c)",
    ),
    (
        "file block",
        {
            "type": "file",
            "external_id": "ABC",
            "source": "remote",
            "file": {"title": "Offer.pdf", "permalink": "https://e.org/f"},
        },
        "[Offer.pdf](https://e.org/f)",
    ),
    ("divider", {"type": "divider"}, ""),
    (
        "input",
        {"type": "input", "label": plain("Your name"), "element": {"type": "plain_text_input"}},
        "Your name",
    ),
    (
        "unknown",
        {
            "type": "poll",
            "question": plain("Lunch?"),
            "choices": [{"text": plain("Yes")}],
            "url": "https://e.org/p",
        },
        "https://e.org/p\nLunch?\nYes",
    ),
    (
        "unknown with a name",
        {"type": "work_object", "name": "Ticket 7", "url": "https://e.org/7"},
        "[Ticket 7](https://e.org/7)",
    ),
    ("damaged", {"type": "section", "text": 7, "fields": "x", "accessory": [1]}, ""),
    ("nothing", {}, ""),
]


@pytest.mark.parametrize(
    ("block", "text"), [row[1:] for row in BLOCKS], ids=[row[0] for row in BLOCKS]
)
def test_block_is_read(block: Json, text: str) -> None:
    assert block_text(block) == text


ATTACHMENTS: list[tuple[str, Json, str]] = [
    (
        "an alert",
        {
            "fallback": "[FIRING] CPU",
            "color": "danger",
            "pretext": "New alert",
            "title": "CPU &gt; 90 %",
            "title_link": "https://e.org/a",
            "text": "on *db1*",
            "fields": [
                {"title": "Region", "value": "eu", "short": True},
                {"title": "", "value": "no title"},
            ],
            "footer": "Alertmanager",
            "actions": [{"type": "button", "text": "Silence", "url": "https://e.org/s"}],
        },
        (
            "New alert\n[CPU > 90 %](https://e.org/a)\non *db1*\nRegion: eu\nno "
            "title\n[Silence](https://e.org/s)\nAlertmanager"
        ),
    ),
    (
        "a pasted table",
        {"id": 1, "blocks": [TABLE], "fallback": "[no preview available]"},
        TABLE_TEXT,
    ),
    (
        "blocks",
        {"color": "#f00", "blocks": [{"type": "section", "text": mrkdwn("Build failed")}]},
        "Build failed",
    ),
    (
        "the same as text and as blocks",
        {
            "text": "The nightly build of main failed",
            "blocks": [{"type": "section", "text": mrkdwn("The *nightly* build of main failed")}],
        },
        "The nightly build of main failed",
    ),
    ("a fallback", {"fallback": "Deployed 1.2"}, "Deployed 1.2"),
    ("no preview", {"fallback": "[no preview available]"}, ""),
    (
        "an image",
        {"title": "Graph", "image_url": "https://e.org/g.png"},
        "[Graph](https://e.org/g.png)",
    ),
    (
        "a forwarded message",
        {
            "is_share": True,
            "text": "see the table",
            "message_blocks": [
                {"message": {"blocks": [rich(section(words("see the table"))), TABLE]}}
            ],
            "files": [{"id": "F1", "title": "offer.pdf", "permalink": "https://e.org/F1"}],
        },
        f"see the table\n{TABLE_TEXT}\n[offer.pdf](https://e.org/F1)",
    ),
    ("damaged", {"text": 7, "fields": {}, "blocks": [7], "message_blocks": [{"message": 7}]}, ""),
]


@pytest.mark.parametrize(
    ("attachment", "text"), [row[1:] for row in ATTACHMENTS], ids=[row[0] for row in ATTACHMENTS]
)
def test_attachment_is_read(attachment: Json, text: str) -> None:
    assert attachment_text(attachment) == text


def test_changed_table_changes_the_text_of_a_message() -> None:
    def message(price: str) -> Json:
        table = {"type": "table", "rows": [[cell("Tea"), cell(price)]]}
        return {
            "user": "U1",
            "text": "which is cheaper?",
            "attachments": [{"id": 1, "blocks": [table]}],
        }

    one = read_text(message("3"))
    other = read_text(message("4"))
    assert one.text == other.text == "which is cheaper?"
    assert one.forwarded == "[Attachment]\n> | Tea | 3 |\n> |---|---|"
    assert one.forwarded != other.forwarded
    assert one.own != other.own


def test_table_of_a_person_beside_text_is_read_and_rich_text_is_not_repeated() -> None:
    blocks = [rich(section(words("Compare "), words("these", bold=True))), TABLE]
    read = read_text({"user": "U1", "text": "Compare *these*", "blocks": blocks})

    assert read.text == f"Compare *these*\n{TABLE_TEXT}"


def test_app_that_says_more_in_blocks_than_in_text_is_read_whole() -> None:
    blocks = [
        {"type": "header", "text": plain("Error in checkout")},
        {"type": "section", "text": mrkdwn("at line 7")},
    ]
    attachment = {"fields": [{"title": "Env", "value": "prod"}]}
    read = read_text(
        {
            "bot_id": "B1",
            "text": "Error in checkout",
            "blocks": blocks,
            "attachments": [attachment],
        }
    )

    assert read.text == "Error in checkout\nat line 7\nEnv: prod"


def test_email_in_a_channel_is_read() -> None:
    email = {
        "id": "F1",
        "filetype": "email",
        "title": "Offer",
        "subject": "Offer [urgent]",
        "from": [{"address": "ana@e.org", "name": "Ana", "original": "Ana <ana@e.org>"}],
        "plain_text": "Dear team,\nplease find it.",
    }
    read = read_text({"user": "USLACKBOT", "text": "", "files": [email]})

    assert (
        read.forwarded
        == "[E-mail by Ana <ana@e.org>: Offer (urgent)]\n> Dear team,\n> please find it."
    )


CALLS: list[tuple[str, Json, set[str]]] = [
    ("a mention", {"text": "<@U1> hi"}, {"U1"}),
    ("in code", {"text": "run `<@U1>`"}, set()),
    ("in a fence", {"text": "```\n<@U1>\n```"}, set()),
    ("in a quote", {"text": "&gt; <@U1> hi\nyes"}, set()),
    ("in a long quote", {"text": "yes\n&gt;&gt;&gt; a\n<@U1> hi"}, set()),
    ("typed", {"text": "&lt;@U1&gt; hi"}, set()),
    (
        "an element between typed backticks",
        {
            "text": "`<@U1>` hi",
            "blocks": [
                rich(section(words("`"), {"type": "user", "user_id": "U1"}, words("` hi")))
            ],
        },
        {"U1"},
    ),
    (
        "an element in code",
        {
            "text": "<@U1>",
            "blocks": [rich(section({"type": "user", "user_id": "U1", "style": {"code": True}}))],
        },
        set(),
    ),
    (
        "an element in a quote",
        {
            "text": "&gt; <@U1>",
            "blocks": [
                rich({"type": "rich_text_quote", "elements": [{"type": "user", "user_id": "U1"}]})
            ],
        },
        set(),
    ),
    (
        "an element in a list",
        {
            "text": "• <@U1>",
            "blocks": [
                rich(
                    {
                        "type": "rich_text_list",
                        "style": "bullet",
                        "elements": [section({"type": "user", "user_id": "U1"})],
                    }
                )
            ],
        },
        {"U1"},
    ),
    (
        "in an attachment",
        {"text": "see", "attachments": [{"is_share": True, "text": "<@U1> hi"}]},
        set(),
    ),
]


@pytest.mark.parametrize(
    ("message", "users"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS]
)
def test_only_mentions_outside_of_code_and_quotes_count(message: Json, users: set[str]) -> None:
    assert read_text(message).calls == users


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["table", "rich_text", "section", "image"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "text",
                    "elements",
                    "rows",
                    "blocks",
                    "attachments",
                    "message_blocks",
                    "files",
                    "title",
                    "url",
                    "fields",
                    "style",
                ]
            ),
            inner,
            max_size=6,
        )
    ),
    max_leaves=30,
)


@given(
    st.dictionaries(
        st.sampled_from(["text", "blocks", "attachments", "files", "user", "bot_id"]), JSON
    )
)
def test_any_json_is_read(message: Json) -> None:
    read_text(message)


@pytest.mark.timeout(10)
def test_deep_and_wide_json_is_read_in_time() -> None:
    deep: Json = {"type": "x", "title": "end"}
    for _ in range(500):
        deep = {"type": "x", "inner": [deep, "end"]}
    wide = [
        {"type": "section", "text": mrkdwn(f"line {number} of the log")} for number in range(5_000)
    ]
    read_text({"bot_id": "B1", "text": "log", "blocks": [deep, *wide]})
