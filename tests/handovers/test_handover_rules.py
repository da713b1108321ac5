"""The card's blocks are what Slack accepts, and its buttons name their handover."""

import pytest

from threadline.conversations.model.conversation import ConversationTurn
from threadline.decisions.model import Decision, DecisionRound, DecisionType, Source, Thresholds
from threadline.handovers import blocks
from threadline.handovers.model import Handover, parse_value
from threadline.models.model import Message, Role
from threadline.slack.model import Thread
from threadline_devstack.slack.blocks import check_blocks

REF = ConversationTurn(Thread("T1", "C1234", "1700000000.000100"), 3)


@pytest.mark.parametrize("question", ["\n".join("1" * 750), "\n" * 3_000, "<" * 9_000, "why? " * 2_000])
def test_card_has_its_buttons_whatever_the_question_is(question: str) -> None:
    recent = [Message(Role.USER, "x" * 999)] * 5
    sources = (Source("z" * 99, "", "", ""),) * 9
    decided = DecisionRound(1, Decision(DecisionType.ESCALATE, "y" * 999), Thresholds(), "", "", sources=sources)
    card = blocks.card(Handover(1, REF, "U1"), question, recent, decided)
    check_blocks(list(card.blocks))
    assert card.blocks[-1]["type"] == "actions"
    quoted = card.blocks[0]["text"]["text"].split("\n")[1:]
    assert all(line.startswith(">") for line in quoted)


def test_button_value_names_its_handover_and_others_are_not_read() -> None:
    assert parse_value(REF.key) == REF
    for value in ("", "T1:C1234:1700000000.000100", "T1:C1234:x:3", "a/b:C1:1.1:1", f"{REF.key}x"):
        assert parse_value(value) is None
