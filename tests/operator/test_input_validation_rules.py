"""What is asked is put in order and bounded, and what is missing has a name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.operator.model.input_validation import LONGEST, Missing, Question, cut_note, normalised, validated

HERE = ("C1", "1700000000.000100")


def asked(text: str) -> Question:
    question = validated(text, *HERE)
    assert isinstance(question, Question)
    return question


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("  How   does\tit\u00a0stand? ", "How does it stand?"),
        ("Please:\r\n -  one \r\n -  two\n\n\n\n\nThanks\n", "Please:\n- one\n- two\n\nThanks"),
        ("rfp_\u200babc\ufeff123", "rfp_abc123"),
        ("👩\u200d💻", "👩\u200d💻"),
    ],
)
def test_white_space_is_put_in_order_and_a_list_stays_a_list(text: str, kept: str) -> None:
    assert asked(text) == Question(kept, *HERE)


@pytest.mark.parametrize(
    ("text", "channel", "thread_ts", "missing"),
    [
        ("", *HERE, Missing.QUESTION),
        (None, *HERE, Missing.QUESTION),
        (" \n\u200b\t", *HERE, Missing.QUESTION),
        ("<@U0BOT> <@U1|ada>", *HERE, Missing.QUESTION),
        ("Hello", "", HERE[1], Missing.CHANNEL),
        ("Hello", None, None, Missing.CHANNEL),
        ("Hello", HERE[0], " ", Missing.THREAD),
        ("Hello", HERE[0], None, Missing.THREAD),
    ],
)
def test_what_is_missing_has_a_name(
    text: str | None, channel: str | None, thread_ts: str | None, missing: Missing
) -> None:
    assert validated(text, channel, thread_ts) is missing


def test_a_long_question_is_cut_at_a_word_and_marked() -> None:
    question = asked("word " * 2_000)
    assert question.cut
    assert question.text == ("word " * 1_000).strip()
    assert asked("w" * (LONGEST - 3) + " and more").text == "w" * (LONGEST - 3)
    assert asked("w" * (LONGEST - 3) + "\nand more").text == "w" * (LONGEST - 3)
    assert len(asked(f"{'v' * 3_000} {'w' * (LONGEST - 3_001)} more").text) == LONGEST
    assert "5,000" in cut_note()


def test_what_just_fits_is_not_cut() -> None:
    question = asked("w " * (LONGEST // 2 - 1) + "ww" + "   ")
    assert (len(question.text), question.cut) == (LONGEST, False)
    assert asked("w" * LONGEST + "x").text == "w" * LONGEST


def test_a_link_is_left_out_rather_than_cut_in_two() -> None:
    words = "word " * 994
    assert asked(f"{words}<https://a.example/b|a label of some words>").text == words.strip()
    assert asked(f"a < b {'word ' * 1_000}").text.startswith("a < b word")


@given(st.text() | st.text(alphabet=" \n<>ab", min_size=1, max_size=12).map(lambda piece: piece * LONGEST))
def test_any_text_becomes_a_bounded_beginning_of_itself(text: str) -> None:
    question = validated(text, *HERE)
    if question is Missing.QUESTION:
        return
    assert isinstance(question, Question)
    whole = normalised(text)
    assert 0 < len(question.text) <= LONGEST
    assert whole.startswith(question.text)
    assert question.cut == (question.text != whole)
    assert normalised(question.text) == question.text
