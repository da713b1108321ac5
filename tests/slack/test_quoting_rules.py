"""Quotes keep their places among an author's words, under the rule that separates the two."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.slack.text import leading_quotes, split_quotes, with_marked_quotes

LINES = st.lists(
    st.sampled_from(["", "yes", " no", "> quoted", ">>> all", " >", "```", "```x```"])
)


@given(LINES.map("\n".join))
def test_marked_text_has_the_words_and_the_quotes(text: str) -> None:
    marked = with_marked_quotes(text)
    (written, quoted) = split_quotes(text)
    if not marked:
        assert (written, quoted) == (text, "")
        return
    assert split_quotes(marked) == (written, quoted)
    assert len(marked.split("\n")) == len(text.split("\n"))


@pytest.mark.parametrize(
    ("marked", "parts"),
    [
        ("\n> one\n\n> two\nyes\n> three", ("> one\n\n> two", "yes\n> three")),
        ("yes\n> one", ("", "yes\n> one")),
        ("> one", ("> one", "")),
    ],
)
def test_quotes_before_the_first_word_are_parted_from_it(
    marked: str, parts: tuple[str, str]
) -> None:
    assert leading_quotes(marked) == parts
