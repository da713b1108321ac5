"""Where a long Markdown text is cut into pieces, each of which reads on its own."""

import re

SMALLEST_LIMIT = 100
"""Below this the two fence lines around a cut would leave no room for the code."""

_FENCE = re.compile(r"[ \t]*(`{3,16}|~{3,16})(?![`~])[ \t]*([\w+#.-]{0,24})([^`]*)")
_CLOSING = 17
"""A line break and the longest fence that closes code."""
_LAST_GAP = re.compile(r"\s(?=\S*\Z)")


def split(text: str, limit: int) -> list[str]:
    """Cut Markdown into pieces of at most `limit` characters, in order, without an empty one.

    It is cut at the end of a paragraph, else of a line, else of a word; amid a word only when that alone is longer
    than a piece has room for. A code fence is closed at the end of a piece and opened again in the next. Nothing is
    lost but white space around a cut.

    Raises:
        ValueError: `limit` is below `SMALLEST_LIMIT`.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"a limit of {limit} leaves no room for text: take at least {SMALLEST_LIMIT}")
    pieces: list[str] = []
    opening, rest = "", text.strip("\n")
    while len(opening) + len(rest) > limit:
        at = _cut(rest, limit - len(opening) - _CLOSING)
        body, rest = rest[:at].rstrip(), _after(rest, at)
        begun = opening + body
        opening, closing = open_fence(begun)
        if body:
            pieces.append(begun + closing)
    if rest.strip():
        pieces.append(opening + rest)
    return pieces


def open_fence(text: str) -> tuple[str, str]:
    """The line that reopens the code fence left open at the end of `text`, and the one that closes it; else empty."""
    fence, language = "", ""
    for line in text.split("\n"):
        match = _FENCE.fullmatch(line)
        if match is None:
            continue
        if not fence:
            fence, language = match[1], match[2]
        elif match[1].startswith(fence) and not (match[2] or match[3].strip()):
            fence, language = "", ""
    return (f"{fence}{language}\n", f"\n{fence}") if fence else ("", "")


def _cut(text: str, room: int) -> int:
    """Where to cut so that at most `room` characters come before; if it can, not in the first third of them."""
    for end in ("\n\n", "\n", " "):
        at = text.rfind(end, room // 3, room + len(end))
        if at > 0:
            return at
    gap = _LAST_GAP.search(text, 0, room + 1)
    return gap.start() if gap else room


def _after(text: str, at: int) -> str:
    """What follows a cut; the indentation of a line stays, since in code it means something."""
    rest = text[at:]
    return (rest[1:] if rest[:1].isspace() else rest).lstrip("\n")
