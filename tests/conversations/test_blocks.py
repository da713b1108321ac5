"""An answer as messages: its length, its parts, and where the records stand."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.slack.ledger import MemoryLedger
from tests.slack.limits import check, legible, tables
from tests.support.slack import Clock
from threadline.conversations.blocks import answer_of
from threadline.conversations.model import answers
from threadline.slack.client import Slack
from threadline.threads.outbox_posts import Post, Posts
from threadline_devstack.slack import SlackSandbox
from threadline_devstack.slack.identity import DEVELOPER, SUMMARIES

ROLES: tuple[str, list[dict[str, Any]]] = ("roles", [{"name": "Dev", "day_rate": "900"}, {"name": "QA"}])
TICKETS = ("tickets", [{"key": f"SHOP-{number}", "title": "t " * 40} for number in range(60)])
TABLE = "| a | b |\n|---|:-:|\n| 1 | 2 |"


def kinds(text: str, *groups: Any, detail: bool = False) -> list[list[str]]:
    messages = answer_of(text, groups, detail)
    check(messages)
    return [[block["type"] for block in message.blocks] for message in messages]


def test_a_text_alone_is_one_markdown_block() -> None:
    (message,) = answer_of("It **works**, <@U9> & <!here>.")
    assert message.blocks == ({"type": "markdown", "text": "It **works**, &lt;@U9> & &lt;!here>."},)
    assert message.text == "It **works**, &lt;@U9&gt; &amp; &lt;!here&gt;."


@pytest.mark.parametrize("detail", [False, True])
@settings(max_examples=100)
@given(text=st.text() | st.tuples(st.text(max_size=40), st.integers(1, 900)).map(lambda drawn: drawn[0] * drawn[1]))
def test_a_text_that_can_be_seen_is_posted_and_one_that_cannot_is_not(text: str, detail: bool) -> None:
    messages = answer_of(text, (), detail)
    check(messages)
    assert bool(messages) != answers.is_blank(text)
    if not detail:
        assert sum(len(block["text"]) for message in messages for block in message.blocks) <= answers.LIMIT


def test_in_detail_every_paragraph_is_posted_in_order() -> None:
    paragraphs = [f"{number}:" + " word" * 100 for number in range(40)]
    messages = answer_of("\n\n".join(paragraphs), (), detail=True)
    check(messages)
    assert len(messages) > 1
    told = [line for message in messages for line in message.blocks[0]["text"].split("\n\n")]
    assert told == paragraphs
    (short,) = answer_of("\n\n".join(paragraphs))
    assert "not the whole answer" in short.text


def test_a_text_with_its_records_is_no_longer_than_an_answer_may_be() -> None:
    (message,) = answer_of("word " * 395, [TICKETS, ROLES])[:1]
    assert answers.LIMIT - 70 < len(message.text) <= answers.LIMIT
    assert message.text.split()[-1] in {"SHOP-0", "·", "t", "Tickets", "(60)"}, "no half of a word"
    (whole,) = answer_of("word " * 395, [ROLES], detail=True)
    assert whole.text.endswith("QA · –")


def test_the_records_stand_in_the_last_part() -> None:
    assert kinds("Here.", ROLES) == [["markdown", "section", "table"]]
    many = kinds("word " * 2_000, ROLES, detail=True)
    assert many[0] == ["markdown"]
    assert many[-1] == ["markdown", "section", "table"]
    assert answer_of("Here.", [ROLES])[0].text == "Here.\n\nRoles (2)\nDev · 900\nQA · –"


def test_records_without_a_text_are_posted() -> None:
    assert kinds("", ROLES) == [["section", "table"]]


def test_a_second_table_is_lines_where_it_is_short_else_it_has_a_message_of_its_own() -> None:
    project = ("projects", [{"project_id": "P1", "name": "Shop"}])
    assert kinds("Here.", TICKETS, project, ROLES) == [
        ["markdown", "section", "table", "section", "section", "section"]
    ]
    assert kinds("Here.", ROLES, project, TICKETS) == [
        ["markdown", "section", "table", "section", "section"],
        ["section", "table"],
    ]


def test_a_table_beside_the_models_own_is_lines_or_goes_into_the_next_message() -> None:
    assert kinds(f"Look:\n\n{TABLE}", TICKETS) == [["markdown"], ["section", "table"]]
    assert kinds(f"Look:\n\n{TABLE}", ROLES) == [["markdown", "section"]]
    assert kinds(f"```\n{TABLE}\n```", ROLES) == [["markdown", "section", "table"]]


def test_of_two_tables_of_the_model_the_second_is_code() -> None:
    (message,) = answer_of(f"{TABLE}\n\nand\n\n{TABLE}\nend")
    assert message.blocks[0]["text"] == f"{TABLE}\n\nand\n\n```\n{TABLE}\n```\nend"


def test_what_slack_takes_no_more_of_in_one_message_is_one_more() -> None:
    wide = ("things", [{name: f"{number}{name * 240}" for name in "abcdef"} for number in range(6)])
    long = "\n\n".join("word " * 100 for _ in range(7)).strip()
    assert kinds(long, wide, detail=True) == [["markdown"], ["section", "table"]]


def test_a_key_in_an_answer_is_recognised_before_the_text_is_cut() -> None:
    key = "-----BEGIN " + "PRIVATE KEY-----\n" + ("aB3d" * 16 + "\n") * 60 + "-----END PRIVATE KEY-----"
    for detail in (False, True):
        assert "aB3d" not in legible(answer_of(f"It is\n{key}\nreally", (), detail))


async def test_an_answer_with_its_tables_is_posted_once_part_by_part(
    sandbox: SlackSandbox, slack: Slack, clock: Clock
) -> None:
    root = sandbox.workspace.post(SUMMARIES, DEVELOPER, "which tickets?").ts
    posts = Posts(slack, MemoryLedger(), clock)
    post = Post("talk:1:turn:1", SUMMARIES, root, answer_of("These.", [ROLES, TICKETS]), case="", kind="answer")
    assert await posts.publish(post) == await posts.publish(post)
    said = [message for message in sandbox.workspace.channel(SUMMARIES).messages.values() if message.bot_id]
    assert [message.thread_ts for message in said] == [root, root]
    assert all("table" in [block["type"] for block in message.blocks] for message in said)


def test_the_text_of_a_message_says_what_its_table_does() -> None:
    (message,) = answer_of("", [TICKETS])
    assert message.text.startswith("Tickets (60)\nSHOP-0 · t t")
    assert message.text.endswith("…")
    assert len(tables(message)[0]["rows"]) == 61
