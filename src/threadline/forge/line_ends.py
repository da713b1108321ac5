"""Restores line ends that an editing tool rewrote: some tools read a file with mixed ends and
write it with one kind, so that an edit of one word would change every line.

Pure: git compares the two texts without their ends, and `restore` applies its hunks.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

BOM = b"\xef\xbb\xbf"
LARGEST = 8 << 20
"""Bytes of a file; larger ones stay unchanged."""
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
"""Matches one line; a CR within it belongs to the line."""
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


@dataclass(frozen=True)
class Hunk:
    """Lines that differ: `new_count` lines from `new` on replaced `old_count` lines from `old` on.
    Lines count from 0.
    """

    old: int
    old_count: int
    new: int
    new_count: int


@dataclass(frozen=True)
class Text:
    """A file as its lines and their ends: CRs and LF, or none after the last line."""

    bom: bytes
    lines: list[bytes]
    ends: list[bytes]

    @classmethod
    def of(cls, content: bytes) -> "Text":
        bom = BOM if content.startswith(BOM) else b""
        raw = _LINE.findall(content[len(bom) :])
        ends = [_end(line) for line in raw]
        lines = [line[: len(line) - len(end)] for line, end in zip(raw, ends, strict=True)]
        return cls(bom, lines, ends)

    @property
    def plain(self) -> bytes:
        """The lines, each with LF."""
        return b"".join(line + b"\n" for line in self.lines)

    @property
    def content(self) -> bytes:
        return self.bom + b"".join(
            line + end for line, end in zip(self.lines, self.ends, strict=True)
        )

    @property
    def is_mixed(self) -> bool:
        return len({end for end in self.ends if end.endswith(b"\n")}) > 1


def may_differ(base: bytes, edited: bytes) -> bool:
    """Whether line ends, the last newline or a byte order mark may have changed."""
    if b"\0" in base or b"\0" in edited or not base or not edited:
        return False
    if max(len(base), len(edited)) > LARGEST:
        return False
    marks = base.startswith(BOM) == edited.startswith(BOM)
    return b"\r" in base + edited or not marks or base.endswith(b"\n") != edited.endswith(b"\n")


def hunks_in(diff: bytes) -> list[Hunk]:
    """Read the hunk headers of a diff without context (`-U0`), which number an empty part by the
    line before it.
    """
    found = []
    for head in _HUNK.finditer(diff):
        old_count = int(head[2] or b"1")
        new_count = int(head[4] or b"1")
        old = int(head[1]) - (1 if old_count else 0)
        new = int(head[3]) - (1 if new_count else 0)
        found.append(Hunk(old, old_count, new, new_count))
    return found


def restore(base: Text, edited: Text, hunks: Iterable[Hunk]) -> Text:
    """Return `edited` with the line ends, the last newline and the byte order mark of `base`. A
    new line gets the end of the line that it replaces, or of the one before it.

    Ends that are the only change of a file with one kind of line ends were changed on purpose, and
    stay.
    """
    hunks = list(hunks)
    if not hunks and not base.is_mixed:
        return edited
    ends = list[bytes]()
    old = 0
    for hunk in hunks:
        kept = hunk.new - len(ends)
        ends += base.ends[old : old + kept]
        replaced = base.ends[hunk.old : hunk.old + min(hunk.old_count, hunk.new_count)]
        ends += replaced
        before = next((end for end in reversed(ends) if _ends(end)), base.ends[0] or b"\n")
        ends += [before] * (hunk.new_count - len(replaced))
        old = hunk.old + hunk.old_count
    ends += base.ends[old:]
    return Text(base.bom, edited.lines, _closed(ends, base.ends[-1]))


def _closed(ends: list[bytes], last: bytes) -> list[bytes]:
    """End each line except perhaps the last one: the former last line may now be followed by
    others.
    """
    closed = list[bytes]()
    for end in ends:
        before = closed[-1] if closed else next((each for each in ends if _ends(each)), b"\n")
        closed.append(end if _ends(end) else before)
    if closed and not _ends(last):
        closed[-1] = last
    return closed


def _ends(end: bytes) -> bool:
    return end.endswith(b"\n")


def _end(line: bytes) -> bytes:
    return line[len(line.rstrip(b"\r\n")) :]
