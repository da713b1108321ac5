"""Whom a text mentions, the text without a mention, and its plain words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.slack.mentions import mentioned, without
from threadline.slack.wording import plain

pieces = st.lists(
    st.sampled_from(["<@U1>", "<@U1|one>", "<@U2>", " ", "\t", "\n", ",", ":", "word", "<", ">", "|", "<@"])
)


@pytest.mark.parametrize(
    ("text", "users"),
    [("<@U1> and <@U2|two>", {"U1", "U2"}), ("<@U1", set()), ("&lt;@U1&gt;", set()), ("<#C1> <!here> U1", set())],
)
def test_mentioned_users_are_found(text: str, users: set[str]) -> None:
    assert mentioned(text) == users


@given(pieces.map("".join))
def test_mentions_of_one_user_alone_are_taken_out(text: str) -> None:
    left = without(text, "U1")

    assert "<@U1>" not in left
    assert "<@U1|one>" not in left
    assert left.count("word") == text.count("word")
    assert mentioned(left) >= mentioned(text) - {"U1"}


@given(st.text())
def test_text_without_the_mention_keeps_its_words(text: str) -> None:
    if "U1" not in mentioned(text):
        assert without(text, "U1") == text.strip()


@pytest.mark.timeout(10)
@pytest.mark.parametrize("text", [" " * 40_000, "<@" * 20_000, "<@U1|" * 8_000, "<@U1> " * 6_000, "\t ," * 13_000])
def test_text_of_40000_characters_is_read_in_time(text: str) -> None:
    """A pattern that begins anew at each of them would take minutes."""
    assert "<@U1>" not in without(text, "U1")
    assert mentioned(text) <= {"U1"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<@U1> *It’s* new: <https://a.b|this>", "it's new: this"),
        ("<@U1|ada> <#C1|bids> <!here> <https://a.b/bid>", ""),
        ("A &amp; B &lt;c&gt;", "a b c"),
        (":runner: at 10:30, `code` _so_", "at 10:30, code _so_"),
        ("one\n\n two", "one two"),
    ],
)
def test_plain_words_have_no_mentions_addresses_emoji_or_marks(text: str, words: str) -> None:
    assert plain(text) == words


@given(st.text())
def test_plain_words_are_in_one_line(text: str) -> None:
    assert "\n" not in plain(text)
    assert "  " not in plain(text)
