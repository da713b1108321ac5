"""Splits a document into the pieces that it is found by: at its headings, and within a long part at its paragraphs."""

from collections.abc import Iterator

from markdown_it import MarkdownIt

from threadline.knowledge.model import Document, Piece

LONGEST = 1_200
"""Characters of a piece, without what it repeats of the one before."""
OVERLAP = 150
"""Characters at most that a piece repeats of the end of the one before: what is said across the cut is found in one."""

_BETWEEN = " › "


def split(document: Document) -> list[Piece]:
    """Its pieces in order; all words of the document are in them, its headings as `section`."""
    pieces = [Piece(section, text) for section, part in _sections(document.body) for text in _cut(part) if text.strip()]
    return pieces or [Piece("", text) for text in _cut(document.body)]  # a document of nothing but headings


def _sections(body: str) -> Iterator[tuple[str, str]]:
    """Each stretch of text with the path of headings above it; what looks like one within code is none."""
    lines = body.split("\n")
    path: list[tuple[int, str]] = []
    begin = 0
    tokens = MarkdownIt("commonmark").parse(body)
    for place, token in enumerate(tokens):
        if token.type != "heading_open" or token.map is None or token.level:
            continue
        yield _named(path), "\n".join(lines[begin : token.map[0]])
        depth = int(token.tag[1:])
        path = [each for each in path if each[0] < depth] + [(depth, tokens[place + 1].content.strip())]
        begin = token.map[1]
    yield _named(path), "\n".join(lines[begin:])


def _named(path: list[tuple[int, str]]) -> str:
    return _BETWEEN.join(" ".join(name.split()) for _, name in path if name)


def _cut(part: str) -> Iterator[str]:
    """Texts of at most `LONGEST` and `OVERLAP` characters."""
    rest, repeated = part.strip(), ""
    while len(rest) > LONGEST:
        end = _break(rest)
        yield (repeated + rest[:end]).strip()
        repeated, rest = _tail(rest[:end]), rest[end:].lstrip()
    if rest:
        yield (repeated + rest).strip()


def _break(text: str) -> int:
    """Where to cut: after the last paragraph, line, sentence or word that fits, if it leaves no mere crumb."""
    for mark in ("\n\n", "\n", ". ", " "):
        end = text.rfind(mark, LONGEST // 2, LONGEST)
        if end > 0:
            return end + len(mark)
    return LONGEST


def _tail(text: str) -> str:
    """The end of a text, from the beginning of a word on, as what comes before the next."""
    tail = text.rstrip()[-OVERLAP + 1 :]
    if len(tail) < len(text.rstrip()):
        tail = tail[tail.find(" ") + 1 :]
    return f"{tail}\n" if tail else ""
