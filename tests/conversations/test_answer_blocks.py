"""An answer as Slack messages: its length, its parts, and the place of the records."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.slack.limits import check, legible, tables
from tests.support.faulty_sandboxes import FaultySlack
from tests.support.slack import Clock
from threadline.conversations import blocks
from threadline.conversations.blocks import answer_of
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import NoticeReason
from threadline.db.engine import Database
from threadline.slack.client import SlackClient
from threadline.slack.text import is_blank
from threadline.threads.outbox import Outbox, Post
from threadline_devstack.slack.identity import DEVELOPER, SUMMARIES

ROLES: tuple[str, list[dict[str, Any]]] = (
    "roles",
    [{"name": "Dev", "day_rate": "900"}, {"name": "QA"}],
)
PROJECT = ("projects", [{"project_id": "P1", "name": "Shop"}])
TICKETS = ("tickets", [{"key": f"SHOP-{number}", "title": "t " * 40} for number in range(60)])
TABLE = "| a | b |\n|---|:-:|\n| 1 | 2 |"


def kinds(text: str, *groups: Any, detail: bool = False) -> list[list[str]]:
    messages = answer_of(text, groups, detail)
    check(messages)
    return [[block["type"] for block in message.blocks] for message in messages]


def test_text_is_one_markdown_block() -> None:
    (message,) = answer_of("It **works**, <@U9> & <!here>.")
    assert message.blocks == ({"type": "markdown", "text": "It **works**, @U9 & @\u2060here."},)
    assert message.text == "It **works**, @U9 &amp; @\u2060here."


@pytest.mark.parametrize("detail", [False, True])
@given(
    text=st.text()
    | st.tuples(st.text(max_size=40), st.integers(1, 900)).map(lambda drawn: drawn[0] * drawn[1])
)
def test_every_text_but_a_blank_one_is_posted(text: str, detail: bool) -> None:
    messages = answer_of(text, (), detail)
    check(messages)
    assert bool(messages) != is_blank(text)
    if not detail:
        assert (
            sum(len(block["text"]) for message in messages for block in message.blocks)
            <= answers.LIMIT
        )


def test_detailed_answer_has_every_paragraph_in_order() -> None:
    paragraphs = [f"{number}:" + " word" * 100 for number in range(40)]
    messages = answer_of("\n\n".join(paragraphs), (), detail=True)
    check(messages)
    assert len(messages) > 1
    assert [
        line for message in messages for line in message.blocks[0]["text"].split("\n\n")
    ] == paragraphs
    (short,) = answer_of("\n\n".join(paragraphs))
    assert "not the whole answer" in short.text


def test_text_with_its_records_is_within_the_limit() -> None:
    (message,) = answer_of("word " * 395, [TICKETS, ROLES])[:1]
    assert answers.LIMIT - 70 < len(message.text) <= answers.LIMIT
    assert message.text.endswith(" …")
    assert message.text.split()[-2] in {"SHOP-0", "·", "t", "Tickets", "(60)"}, "no half of a word"
    (whole,) = answer_of("word " * 395, [ROLES], detail=True)
    assert whole.text.endswith("QA · –")


def test_records_are_in_the_last_part() -> None:
    assert kinds("Here.", ROLES) == [["markdown", "section", "table"]]
    assert kinds("", ROLES) == [["section", "table"]]
    many = kinds("word " * 2_000, ROLES, detail=True)
    assert (many[0], many[-1]) == (["markdown"], ["markdown", "section", "table"])
    assert answer_of("Here.", [ROLES])[0].text == "Here.\n\nRoles (2)\nDev · 900\nQA · –"


def test_second_table_becomes_lines_or_a_message_of_its_own() -> None:
    beside = ["markdown", "section", "table"]
    assert kinds("Here.", TICKETS, PROJECT, ROLES) == [[*beside, "section", "section", "section"]]
    assert kinds("Here.", ROLES, PROJECT, TICKETS) == [
        [*beside, "section", "section"],
        ["section", "table"],
    ]
    assert kinds(f"Look:\n\n{TABLE}", TICKETS) == [["markdown"], ["section", "table"]]
    assert kinds(f"Look:\n\n{TABLE}", ROLES) == [["markdown", "section"]]
    assert kinds(f"```\n{TABLE}\n```", ROLES) == [beside]


def test_second_table_in_the_models_text_becomes_code() -> None:
    (message,) = answer_of(f"{TABLE}\n\nand\n\n{TABLE}\nend")
    assert message.blocks[0]["text"] == f"{TABLE}\n\nand\n\n```\n{TABLE}\n```\nend"


def test_table_too_large_for_the_message_goes_into_the_next() -> None:
    wide = (
        "things",
        [{name: f"{number}{name * 240}" for name in "abcdef"} for number in range(6)],
    )
    long = "\n\n".join("word " * 100 for _ in range(7)).strip()
    assert kinds(long, wide, detail=True) == [["markdown"], ["section", "table"]]


def test_key_in_an_answer_is_recognised_before_the_text_is_cut() -> None:
    key = (
        "-----BEGIN "
        + "PRIVATE KEY-----\n"
        + ("aB3d" * 16 + "\n") * 60
        + "-----END PRIVATE KEY-----"
    )
    for detail in (False, True):
        assert "aB3d" not in legible(answer_of(f"It is\n{key}\nreally", (), detail))


async def test_answer_with_its_tables_is_posted_once(
    sandbox: FaultySlack, slack: SlackClient, database: Database, clock: Clock
) -> None:
    root = sandbox.workspace.post(SUMMARIES, DEVELOPER, "which tickets?").ts
    outbox = Outbox(slack, database, clock.rising)
    post = Post("conversation:1:turn:1", SUMMARIES, root, answer_of("These.", [ROLES, TICKETS]))
    assert await outbox.publish(post) == await outbox.publish(post)
    said = [
        message
        for message in sandbox.workspace.channel(SUMMARIES).messages.values()
        if message.bot_id
    ]
    assert [message.thread_ts for message in said] == [root, root]
    assert all("table" in [block["type"] for block in message.blocks] for message in said)


def test_text_of_a_message_repeats_its_table() -> None:
    (message,) = answer_of("", [TICKETS])
    assert message.text.startswith("Tickets (60)\nSHOP-0 · t t")
    assert message.text.endswith("…")
    assert len(tables(message)[0]["rows"]) == 61


@pytest.mark.parametrize("kind", NoticeReason)
def test_notice_beside_an_answer_names_the_time_and_nothing_internal(kind: NoticeReason) -> None:
    for until in (0.0, 1_772_000_000.0):
        words = blocks.notice_text(kind, until)
        assert not any(internal in words for internal in ("`", "THREADLINE", "://", ".py"))
        waits = kind in (NoticeReason.MODEL_AWAY, NoticeReason.MODEL_SLOW)
        assert ("06:13 UTC" in words) == (waits and until > 0)


def test_missing_answer_is_announced_with_its_reason() -> None:
    assert "Check OPENAI_API_KEY." in blocks.no_answer_text("Check OPENAI_API_KEY.")
