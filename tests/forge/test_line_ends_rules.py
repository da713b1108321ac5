"""Lines that a tool rewrote unasked get their ends back; lines changed on purpose stay."""

import difflib

import pytest

from threadline.forge.line_ends import BOM, Hunk, Text, hunks_in, may_differ, restore


def restored(base: bytes, edited: bytes) -> bytes:
    old = Text.of(base)
    new = Text.of(edited)
    matcher = difflib.SequenceMatcher(None, old.lines, new.lines, autojunk=False)
    hunks = [
        Hunk(old_from, old_to - old_from, new_from, new_to - new_from)
        for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes()
        if kind != "equal"
    ]
    return restore(old, new, hunks).content


MIXED = b"a\r\nb\nc\r\nd\n"
CASES = {
    "all to LF": (MIXED, b"a\nB\nc\nd\n", b"a\r\nB\nc\r\nd\n"),
    "all to CRLF": (MIXED, b"a\r\nB\r\nc\r\nd\r\n", b"a\r\nB\nc\r\nd\n"),
    "CRLF rewritten as LF": (b"a\r\nb\r\n", b"a\nB\n", b"a\r\nB\r\n"),
    "LF rewritten as CRLF": (b"a\nb\n", b"a\r\nB\r\n", b"a\nB\n"),
    "lines added in the middle": (
        MIXED,
        b"a\nnew\nnew\nb\nc\nd\n",
        b"a\r\nnew\r\nnew\r\nb\nc\r\nd\n",
    ),
    "lines added at the start": (b"a\r\nb\n", b"new\na\nb\n", b"new\r\na\r\nb\n"),
    "lines added at the end": (b"a\r\nb\r\n", b"a\nb\nnew\n", b"a\r\nb\r\nnew\r\n"),
    "lines removed": (MIXED, b"a\nd\n", b"a\r\nd\n"),
    "first line removed": (MIXED, b"b\nc\nd\n", b"b\nc\r\nd\n"),
    "last line removed": (MIXED, b"a\nb\nc\n", b"a\r\nb\nc\r\n"),
    "many for one": (MIXED, b"a\nx\ny\nz\nc\nd\n", b"a\r\nx\ny\nz\nc\r\nd\n"),
    "everything replaced": (b"a\r\nb\r\n", b"x\ny\nz\n", b"x\r\ny\r\nz\r\n"),
    "only ends of a mixed file": (MIXED, b"a\nb\nc\nd\n", MIXED),
    "final newline added": (b"a\nb", b"A\nb\n", b"A\nb"),
    "final newline lost": (b"a\nb\n", b"A\nb", b"A\nb\n"),
    "final newline lost with CRLF": (b"a\r\nb\r\n", b"A\nb", b"A\r\nb\r\n"),
    "line after one without newline": (b"a\nb", b"a\nb\nc\n", b"a\nb\nc"),
    "line after one without newline, CRLF": (b"a\r\nb", b"a\nb\nc\n", b"a\r\nb\r\nc"),
    "one line without newline": (b"a", b"b\n", b"b"),
    "one line without newline becomes two": (b"a", b"a\nb\n", b"a\nb"),
    "mark lost": (BOM + b"a\nb\n", b"A\nb\n", BOM + b"A\nb\n"),
    "mark added": (b"a\nb\n", BOM + b"A\nb\n", b"A\nb\n"),
    "mark and ends lost": (BOM + MIXED, b"a\nB\nc\nd\n", BOM + b"a\r\nB\nc\r\nd\n"),
    "two CRs": (b"a\r\r\nb\n", b"a\nB\n", b"a\r\r\nB\n"),
    "CR at the very end": (b"a\nb\r", b"A\nb\n", b"A\nb\r"),
    "CR within a line": (b"a\rb\nc\r\n", b"a\rb\nC\n", b"a\rb\nC\r\n"),
    "not UTF-8": (b"caf\xe9\r\nb\n", b"caf\xe9\nB\n", b"caf\xe9\r\nB\n"),
    "ends alone, from CRLF to LF": (
        b"#!/bin/sh\r\nls\r\n",
        b"#!/bin/sh\nls\n",
        b"#!/bin/sh\nls\n",
    ),
    "mark alone": (BOM + b"{}\n", b"{}\n", b"{}\n"),
    "final newline alone": (b"a\nb", b"a\nb\n", b"a\nb\n"),
    "nothing of this": (b"a\nb\n", b"a\nB\n", b"a\nB\n"),
}


@pytest.mark.parametrize(("base", "edited", "expected"), CASES.values(), ids=CASES)
def test_ends_are_those_of_the_base(base: bytes, edited: bytes, expected: bytes) -> None:
    assert restored(base, edited) == expected
    if expected != edited:
        assert may_differ(base, edited)


def test_text_is_its_lines_and_ends() -> None:
    for base, edited, _ in CASES.values():
        assert (Text.of(base).content, Text.of(edited).content) == (base, edited)


@pytest.mark.parametrize(
    ("base", "edited"),
    [(b"a\nb\n", b"a\nB\n"), (b"\0\r\n", b"\0\n"), (b"", b"a\r\n"), (b"a\r\n", b"")],
)
def test_other_files_are_not_looked_at(base: bytes, edited: bytes) -> None:
    assert not may_differ(base, edited)


def test_heads_of_a_diff_are_read() -> None:
    diff = (
        b"@@ -1 +1 @@ x\n-a\n+A\n@@ -4,2 +3,0 @@\n-b\n-c\n@@ -9,0 +8,3 @@ @@ -1 +1 "
        b"@@\n+d\n+e\n+@@ -5 +5 @@\n"
    )
    assert hunks_in(diff) == [Hunk(0, 1, 0, 1), Hunk(3, 2, 3, 0), Hunk(9, 0, 7, 3)]
