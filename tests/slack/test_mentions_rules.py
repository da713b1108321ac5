"""Whom a text calls, and the text without the call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.slack.mentions import mentioned, without

pieces = st.lists(
    st.sampled_from(["<@U1>", "<@U1|one>", "<@U2>", " ", "\t", "\n", ",", ":", "word", "<", ">", "|", "<@"])
)


@pytest.mark.parametrize(
    ("text", "users"),
    [("<@U1> and <@U2|two>", {"U1", "U2"}), ("<@U1", set()), ("&lt;@U1&gt;", set()), ("<#C1> <!here> U1", set())],
)
def test_who_is_mentioned(text: str, users: set[str]) -> None:
    assert mentioned(text) == users


@given(pieces.map("".join))
def test_nothing_but_one_users_mentions_is_taken_out(text: str) -> None:
    left = without(text, "U1")

    assert "<@U1>" not in left
    assert "<@U1|one>" not in left
    assert left.count("word") == text.count("word")
    assert mentioned(left) >= mentioned(text) - {"U1"}


@given(st.text())
def test_a_text_without_the_mention_keeps_its_words(text: str) -> None:
    if "U1" not in mentioned(text):
        assert without(text, "U1") == text.strip()


@pytest.mark.timeout(10)
@pytest.mark.parametrize("text", [" " * 40_000, "<@" * 20_000, "<@U1|" * 8_000, "<@U1> " * 6_000, "\t ," * 13_000])
def test_forty_thousand_characters_cost_no_more_than_others(text: str) -> None:
    """A pattern that begins anew at each of them would take minutes."""
    assert "<@U1>" not in without(text, "U1")
    assert mentioned(text) <= {"U1"}
