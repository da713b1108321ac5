"""Tables fit the terminal; in a pipe each row is one whole line."""

import contextlib
import io

import pytest
from rich.cells import cell_len

from threadline.cli import output

HEADS = ("case", "status", "title")
WORDS = "The cart total is too high with the code SAVE10 "


def printed(rows: list[tuple[str, ...]], **options: int) -> list[str]:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        output.print_table(HEADS, rows, fixed=("case",), **options)
    return told.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize(
    "title",
    [
        "",
        "short",
        WORDS * 9,
        "x" * 300,
        "カートの合計が間違っています" * 9,
        "👩‍💻🎉" * 60,
        "one\ntwo\tthree",
        "[bold]not markup[/bold] [/]",
        "https://example.slack.com/archives/C0123456789/p1700000000000100?thread_ts=1.2",
    ],
)
def test_no_line_is_wider_than_the_terminal(
    title: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = printed([("BUG-1", "pending_verification", title), ("BUG-1234567890123", "", "")])
    assert max(map(cell_len, lines)) <= width


def test_wrapped_cell_keeps_every_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = printed([("BUG-1", "new", WORDS * 3)])
    assert len(lines) > 2
    assert " ".join(" ".join(lines).split()).count("SAVE10") == 3


def test_long_cell_ends_in_an_ellipsis_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (_, row) = printed([("BUG-1", "new", "x" * 300)], longest=20)
    assert row.rstrip().endswith(f"{'x' * 19}…")


def test_row_is_one_whole_line_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    head, first, second = printed(
        [("BUG-1", "new", f"{WORDS * 9}\nend"), ("BUG-12", "", "カート [/]")], longest=20
    )
    assert head == "case    status  title"
    assert first == f"BUG-1   new     {(WORDS * 9).strip()} end"
    assert second == "BUG-12          カート [/]"
