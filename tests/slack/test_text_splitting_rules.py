"""A long text is cut between words, and nothing of it is lost; for its code see tests/slack/test_formatting.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.slack.text_splitting import SMALLEST_LIMIT, split

WORDS = st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="`~"), min_size=1, max_size=40)
GAPS = st.sampled_from([" ", "  ", "\n", "\n\n", "\n\n\n", "\t", "\n    ", "\u00a0", "\r\n"])
TEXTS = st.lists(st.tuples(WORDS, GAPS), max_size=120).map(lambda pairs: "".join(map("".join, pairs)))


@given(GAPS | st.just(""), TEXTS, st.integers(SMALLEST_LIMIT, 400))
def test_no_word_is_lost_or_cut(begin: str, text: str, limit: int) -> None:
    pieces = split(begin + text, limit)
    assert " ".join(pieces).split() == text.split()
    assert all(piece.strip() and len(piece) <= limit for piece in pieces)


def test_a_word_after_a_short_one_is_not_cut_to_fill_the_piece() -> None:
    word = "x" * 80
    assert split(f"see {word} and more of the same", 100) == ["see", f"{word}", "and more of the same"]


@given(st.text(st.sampled_from("ab `~\n\t"), max_size=600), st.integers(SMALLEST_LIMIT, 300))
def test_whatever_the_text_pieces_fit_and_hold_something(text: str, limit: int) -> None:
    pieces = split(text, limit)
    assert all(piece.strip() and len(piece) <= limit for piece in pieces)
    assert bool(pieces) == bool(text.strip())


def test_a_word_longer_than_a_piece_is_cut_and_whole_together() -> None:
    word = "x" * 1_000
    assert "".join(split(word, 100)) == word


@pytest.mark.parametrize("end", ["\n\n", "\n", " "])
def test_the_widest_gap_of_the_last_two_thirds_is_taken(end: str) -> None:
    text = "a" * 40 + end + "b" * 15 + " " + "c" * 80
    assert split(text, 100)[0] == ("a" * 40 if end != " " else f"{'a' * 40} {'b' * 15}")


def test_a_limit_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        split("text", SMALLEST_LIMIT - 1)
