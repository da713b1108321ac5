"""A long text is cut between words, and nothing of it is lost."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from threadline.slack.text import SMALLEST_LIMIT, split_markdown

WORDS = st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="`~"), min_size=1, max_size=40)
GAPS = st.sampled_from([" ", "  ", "\n", "\n\n", "\n\n\n", "\t", "\n    ", "\u00a0", "\r\n"])
FENCE = re.compile(r"`{3,}\w*")
TOKENS = ["```", "```python", "~~~~", "\n", "\n\n", " ", "\t", "x = 1", "word" * 40, "- a", "`"]
TEXTS = st.lists(st.tuples(WORDS, GAPS), max_size=120).map(lambda pairs: "".join(map("".join, pairs)))


@given(GAPS | st.just(""), TEXTS, st.integers(SMALLEST_LIMIT, 400))
def test_no_word_is_lost_or_cut(begin: str, text: str, limit: int) -> None:
    pieces = split_markdown(begin + text, limit)
    assert " ".join(pieces).split() == text.split()
    assert all(piece.strip() and len(piece) <= limit for piece in pieces)


def test_word_after_a_short_one_is_not_cut() -> None:
    word = "x" * 80
    assert split_markdown(f"see {word} and more of the same", 100) == ["see", f"{word}", "and more of the same"]


@given(st.lists(st.sampled_from(TOKENS)).map("".join), st.integers(SMALLEST_LIMIT, 300))
@example(" " * 150 + "x", 100)
def test_pieces_fit_and_hold_something_whatever_the_text(text: str, limit: int) -> None:
    pieces = split_markdown(text, limit)
    assert all(piece.strip() and len(piece) <= limit for piece in pieces)
    assert bool(pieces) == bool(text.strip())


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40)), min_size=1, max_size=12), st.integers(100, 400))
def test_code_stays_code_in_every_piece(plan: list[tuple[bool, int]], limit: int) -> None:
    words = (f"{'c' if is_code else 'p'}{number}" for number, (is_code, count) in enumerate(plan) for _ in range(count))
    chapters = [(is_code, "\n".join(next(words) + "-" * 9 for _ in range(count))) for is_code, count in plan]
    text = "\n\n".join(f"```python\n{body}\n```" if is_code else body for is_code, body in chapters)
    seen: list[str] = []
    for piece in split_markdown(text, limit):
        inside = False
        for line in piece.split("\n"):
            if FENCE.fullmatch(line):
                inside = not inside
            elif line:
                assert line.startswith("c" if inside else "p")
                seen.append(line)
        assert not inside
    assert seen == [line for _, body in chapters for line in body.split("\n")]


def test_indentation_of_code_is_kept() -> None:
    pieces = split_markdown("```\n" + "\n".join("    deep()" for _ in range(40)) + "\n```", 100)
    assert all(line == "    deep()" for piece in pieces for line in piece.split("\n")[1:-1])


def test_word_longer_than_a_piece_is_cut() -> None:
    word = "x" * 1_000
    assert "".join(split_markdown(word, 100)) == word


@pytest.mark.parametrize(("wide", "narrow"), [("\n\n", "\n"), ("\n", " ")])
def test_widest_gap_of_the_last_two_thirds_is_taken(wide: str, narrow: str) -> None:
    begin = "a" * 40 + wide + "b" * 15
    assert split_markdown(begin + narrow + "c" * 80, 100)[0] == "a" * 40
    assert split_markdown(begin + wide + "c" * 80, 100)[0] == begin


def test_limit_without_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 100"):
        split_markdown("text", SMALLEST_LIMIT - 1)
