"""A long text is cut between words, without losing any of it."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from threadline.slack.splitting import SMALLEST_LIMIT, open_fence, split_markdown

WORDS = st.text(
    st.characters(categories=["L", "N", "P", "S"], exclude_characters="`~"),
    min_size=1,
    max_size=40,
)
GAPS = st.sampled_from([" ", "  ", "\n", "\n\n", "\n\n\n", "\t", "\n    ", "\u00a0", "\r\n"])
FENCE = re.compile(r"`{3,}\w*")
TOKENS = ["```", "```python", "~~~~", "\n", "\n\n", " ", "\t", "x = 1", "word" * 40, "- a", "`"]
TEXTS = st.lists(st.tuples(WORDS, GAPS), max_size=120).map(
    lambda pairs: "".join(map("".join, pairs))
)


@given(GAPS | st.just(""), TEXTS, st.integers(SMALLEST_LIMIT, 400))
def test_no_word_is_lost_or_cut(begin: str, text: str, limit: int) -> None:
    pieces = split_markdown(begin + text, limit)
    assert " ".join(pieces).split() == text.split()
    assert all(piece.strip() and len(piece) <= limit for piece in pieces)


def test_word_after_a_short_one_is_not_cut() -> None:
    word = "x" * 80
    assert split_markdown(f"see {word} and more of the same", 100) == [
        "see",
        f"{word}",
        "and more of the same",
    ]


@given(st.lists(st.sampled_from(TOKENS)).map("".join), st.integers(SMALLEST_LIMIT, 300))
@example(" " * 150 + "x", 100)
def test_pieces_of_any_text_fit_and_are_not_empty(text: str, limit: int) -> None:
    pieces = split_markdown(text, limit)
    assert all(piece.strip() and len(piece) <= limit for piece in pieces)
    assert bool(pieces) == bool(text.strip())


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 40)), min_size=1, max_size=12),
    st.integers(100, 400),
)
def test_code_stays_code_in_every_piece(plan: list[tuple[bool, int]], limit: int) -> None:
    words = (
        f"{'c' if is_code else 'p'}{number}"
        for number, (is_code, count) in enumerate(plan)
        for _ in range(count)
    )
    chapters = [
        (is_code, "\n".join(next(words) + "-" * 9 for _ in range(count)))
        for is_code, count in plan
    ]
    text = "\n\n".join(
        f"```python\n{body}\n```" if is_code else body for is_code, body in chapters
    )
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


HEAD = "| Name | Price |\n|------|------:|"
ROWS = [f"| tea {number} | {number} |" for number in range(60)]


def test_head_of_a_table_is_repeated_in_every_piece() -> None:
    pieces = split_markdown("\n".join(["Prices:", "", HEAD, *ROWS, "", "That is all."]), 300)
    assert len(pieces) > 3
    assert all(HEAD in piece for piece in pieces)
    assert [
        line for piece in pieces for line in piece.split("\n") if line.startswith("| tea")
    ] == ROWS
    assert pieces[-1].endswith("That is all.")


@pytest.mark.parametrize(
    "lines", [["| a | b |"] * 60, ["a | b"] * 60, ["| a |", "text", "| b |"] * 30]
)
def test_lines_with_bars_that_are_no_table_have_no_head(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert "\n".join(split_markdown(text, 100)).split("\n") == lines


def test_fence_within_a_quote_is_reopened_there_and_ends_with_it() -> None:
    code = [f"> line {number}" for number in range(40)]
    pieces = split_markdown("\n".join(["> ```python", *code, "> ```", "after"]), 200)
    assert all(
        piece.startswith("> ```python\n") and "> ```" in piece.split("\n")[1:]
        for piece in pieces[:-1]
    )
    assert [
        line for piece in pieces for line in piece.split("\n") if line.startswith("> line")
    ] == code
    assert open_fence("> ```\n> code\nno quote any more") == ("", "")


WHOLE = [
    "[the page](https://e.org/a?b=c)",
    "`x = 1`",
    "**very bold words**",
    "<@U0ANA>",
    "&lt;",
    ":wave:",
    "👩‍👩‍👧‍👦",
    "🇩🇪",
    "é",
]


@pytest.mark.parametrize("whole", WHOLE)
@pytest.mark.parametrize("before", range(60, 100))
def test_no_cut_falls_within_a_visible_character(whole: str, before: int) -> None:
    text = "汉" * before + whole + "字" * 120
    pieces = split_markdown(text, 100)
    assert "".join(pieces) == text
    assert any(whole in piece for piece in pieces)


@pytest.mark.parametrize("gap", ["", " "])
def test_link_with_blanks_is_not_cut(gap: str) -> None:
    link = "[a label of some words](https://e.org/a)"
    for before in range(40, 100):
        pieces = split_markdown("x" * before + gap + link + " and more words" * 8, 100)
        assert any(link in piece for piece in pieces)


def test_script_without_blanks_is_cut_after_a_sentence() -> None:
    text = "这是一句话。" * 60
    pieces = split_markdown(f"你好 {text}", 200)
    assert all(len(piece) > 100 and piece.endswith("。") for piece in pieces[:-1])
    assert "".join(pieces) == f"你好 {text}"


LONG_WORDS = st.text(
    st.characters(categories=["L", "M", "S"], exclude_characters="`~|"), min_size=150, max_size=900
)


@given(LONG_WORDS, st.integers(SMALLEST_LIMIT, 200))
def test_text_without_blanks_fills_its_pieces_and_loses_nothing(text: str, limit: int) -> None:
    pieces = split_markdown(text, limit)
    assert "".join(pieces).split() == text.split()
    assert all(len(piece) <= limit for piece in pieces)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "piece", ["[", "**", "`", "|", "> ```\n", "🇩", "\u0301", ":", "<@", "汉", "\u200d"]
)
def test_40000_characters_are_cut_in_time(piece: str) -> None:
    split_markdown(piece * (40_000 // len(piece)), 2_000)
