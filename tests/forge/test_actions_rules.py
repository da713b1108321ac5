"""The end of a log."""

from hypothesis import given
from hypothesis import strategies as st

from threadline.forge.actions import tail

LINE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=30).map(
    str.rstrip
)


def test_log_is_shown_without_timestamps_and_colours() -> None:
    log = (
        "\ufeff2026-03-01T09:00:00.1234567Z \x1b[36;1mmake test\x1b[0m\n2026-03-01T09:00:01.1Z   "
        "FAIL: one\r\n"
    )
    assert tail(log, 100) == "make test\n  FAIL: one"


def test_end_of_a_long_line_is_shown() -> None:
    assert tail("x" * 50 + "the end", 10) == "xxxthe end"


def test_character_of_several_bytes_is_not_cut() -> None:
    assert tail("ä" * 50, 5) == "ää"


@given(st.lists(LINE, max_size=20), st.integers(1, 200))
def test_end_of_a_log_is_whole_lines_within_its_room(lines: list[str], room: int) -> None:
    log = "\n".join(lines)
    end = tail(log, room)
    assert len(end.encode()) <= room
    whole = [each.rstrip() for each in log.rstrip().split("\n")]
    if end and len(whole[-1].encode()) < room:
        assert end.split("\n") == whole[-len(end.split("\n")) :]
