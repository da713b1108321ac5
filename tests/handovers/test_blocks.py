"""What people see of a hand-over is what Slack takes, however it was written."""

import pytest

from threadline.handovers import blocks as handovers
from threadline.handovers.blocks import Told
from threadline.handovers.model import HandoverRef
from threadline.threads.addressing import Thread
from threadline_devstack.slack.blocks import check_blocks

REF = HandoverRef(Thread("T1", "C1234", "1700000000.000100"), 1)


@pytest.mark.parametrize("question", ["\n".join("1" * 750), "\n" * 3_000, "<" * 9_000, "why? " * 2_000])
def test_a_card_has_its_buttons_whatever_was_pasted_into_the_question(question: str) -> None:
    card = handovers.card(Told(REF, "U1", question, ["x" * 999] * 5, detail="y" * 999, sources=["z" * 99] * 9))
    check_blocks(list(card.blocks))
    assert card.blocks[-1]["type"] == "actions"
    quoted = card.blocks[0]["text"]["text"].split("\n")[1:]
    assert all(line.startswith(">") for line in quoted)


def test_every_line_of_a_question_is_quoted() -> None:
    card = handovers.card(Told(REF, "U1", "it fails\nsince Monday"))
    assert card.blocks[0]["text"]["text"].endswith("> it fails\n> since Monday")
