"""The words of a message are those that somebody reads in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.slack.wording import plain


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
def test_mentions_addresses_emoji_and_marks_are_no_words(text: str, words: str) -> None:
    assert plain(text) == words


@given(st.text())
def test_words_are_in_one_line(text: str) -> None:
    assert "\n" not in plain(text)
    assert "  " not in plain(text)
