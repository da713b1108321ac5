"""Slack accepts the card's blocks, and its buttons name their handover."""

from collections.abc import Mapping

import pytest

from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.model.handover import Handover
from threadline.decisions.model import Decision, DecisionRound, DecisionType, Thresholds
from threadline.handovers import blocks
from threadline.handovers.model import parse_value
from threadline.handovers.reply import HandoverAnswer, Intent, ReplyState
from threadline.knowledge.model import Source
from threadline.models.model import Message, Role
from threadline.slack.model import Thread
from threadline.slack.text import read_text
from threadline_devstack.slack.blocks import check_blocks

REF = ConversationTurn(Thread("T1", "C1234", "1700000000.000100"), 3)


@pytest.mark.parametrize(
    "question", ["\n".join("1" * 750), "\n" * 3_000, "<" * 9_000, "why? " * 2_000]
)
def test_card_has_its_buttons_with_any_question(question: str) -> None:
    recent = [Message(Role.USER, "x" * 999)] * 5
    sources = (Source("z" * 99, "", "", ""),) * 9
    decided = DecisionRound(
        1, Decision(DecisionType.ESCALATE, "y" * 999), Thresholds(), "", "", sources=sources
    )
    card = blocks.card(Handover(1, REF, "U1"), question, recent, decided)
    check_blocks(list(card.blocks))
    assert card.blocks[-1]["type"] == "actions"
    quoted = card.blocks[0]["text"]["text"].split("\n")[1:]
    assert all(line.startswith(">") for line in quoted)


def test_button_value_names_its_handover_and_others_are_not_read() -> None:
    assert parse_value(REF.key) == REF
    for value in ("", "T1:C1234:1700000000.000100", "T1:C1234:x:3", "a/b:C1:1.1:1", f"{REF.key}x"):
        assert parse_value(value) is None


QUOTING: list[tuple[str, str]] = [
    ("reply:\n&gt; you asked how long\nTwo days.", "> you asked how long\nTwo days."),
    ("&gt; how long?\nreply: Two days.", "> how long?\nTwo days."),
    ("reply: please see\n&gt; step 3\nand tell us", "please see\n> step 3\nand tell us"),
    (
        "&gt; how long?\n\nreply: Two days.\n&gt; and then?\nThen we see.",
        "> how long?\nTwo days.\n> and then?\nThen we see.",
    ),
    ("<@U1> Two days.\n&gt; how long?", "Two days.\n> how long?"),
    ("&gt; why?\nreply:\n&gt; how long?", "> why?\n> how long?"),
    ("reply:\n&gt;&gt;&gt; do this\nthen that", "> do this\n> then that"),
    ("reply: Two days.", "Two days."),
]


@pytest.mark.parametrize(("written", "told"), QUOTING)
def test_quotes_in_a_reply_belong_to_it_and_shared_messages_do_not(
    written: str, told: str
) -> None:
    shared = {"text": written, "attachments": [{"is_share": True, "text": "our margin"}]}
    words = _answer(shared).words("U1")
    assert (words.intent, words.text) == (Intent.REPLY, told)


def test_quote_without_a_prefix_stays_internal() -> None:
    assert _answer({"text": "&gt; reply: no"}).words("U1").intent is Intent.INTERNAL
    assert (
        _answer({"text": "reply:", "attachments": [{"is_share": True, "text": "x"}]})
        .words("U1")
        .text
        == ""
    )


def _answer(said: Mapping[str, object]) -> HandoverAnswer:
    read = read_text(said)
    return HandoverAnswer(
        "m",
        "U2",
        read.text,
        (),
        deleted=False,
        state=ReplyState.INTERNAL,
        undone_by="",
        is_shown_as_held=False,
        forwarded=read.forwarded,
        as_written=read.as_written,
    )
