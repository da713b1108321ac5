"""A long Markdown text in pieces, each of which reads on its own: code, tables and links go on whole."""

import re
import unicodedata

SMALLEST_LIMIT = 100
"""Below this the two fence lines around a cut would leave no room for the code."""
_FENCE = re.compile(r"((?:[ \t]{0,3}>)*[ \t]*)(`{3,16}|~{3,16})(?![`~])[ \t]*([\w+#.-]{0,24})([^`]*)")
_CLOSING = 17
"""A line break and the longest fence that closes code, the marks of a quote before it included."""
_LAST_GAP = re.compile(r"\s(?=\S*\Z)")
_NEXT_GAP = re.compile(r"\s|\Z")
_WHOLE = re.compile(
    r"!?\[[^\[\]\n]{1,300}\]\([^()\s]{1,2000}\)|`[^`\n]{1,300}`|\*\*[^*\n]{1,300}\*\*|~~[^~\n]{1,300}~~"
    r"|<[@#!][^<>\n]{1,80}>|&(?:lt|gt|amp);|:[a-z0-9_+-]{2,50}:"
)
"""Links, code, bold and struck words, mentions, entities and emoji, in which nothing is cut."""
_SENTENCE_ENDS = re.compile(r"[。！？；、，．。]")
"""Signs after which scripts without blanks are cut."""
_DELIMITER = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
"""The second line of a table: https://github.github.com/gfm/#tables-extension-."""
_JOINERS = frozenset("\u200d\ufe0e\ufe0f\u20e3")
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_TAGS = range(0xE0020, 0xE0080)
_FLAGS = range(0x1F1E6, 0x1F200)


def split_markdown(text: str, limit: int) -> list[str]:
    """Cut Markdown into pieces of at most `limit` characters, in order, without an empty one.

    It is cut at the end of a paragraph, else of a line, else of a word; amid a word only when that alone is longer than
    a piece has room for, and then between characters as people see them. No link, no bold words and no emoji are cut
    unless they are as long themselves. A code fence is closed at the end of a piece and opened again in the next, and
    the head of a table is repeated there. Nothing is lost but white space around a cut.

    Raises:
        ValueError: `limit` is below `SMALLEST_LIMIT`.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"a limit of {limit} leaves no room for text: take at least {SMALLEST_LIMIT}")
    pieces: list[str] = []
    opening, rest = "", text.strip("\n")
    while len(opening) + len(rest) > limit:
        at = _cut(rest, limit - len(opening) - _CLOSING)
        body, rest = rest[:at].rstrip(), rest[at:]
        # The indentation of the next line stays, since in code it means something.
        rest = (rest[1:] if rest[:1].isspace() else rest).lstrip("\n")
        begun = opening + body
        opening, closing = open_fence(begun)
        if not opening:
            opening = _table_head(begun, rest, limit // 3)
        if body:
            pieces.append(begun + closing)
    if rest.strip():
        pieces.append(opening + rest)
    return pieces


def open_fence(text: str) -> tuple[str, str]:
    """The line that reopens the code fence left open at the end of `text`, and the one that closes it; else empty. A
    fence within a quote is reopened there, and ends with it."""
    prefix, fence, language = "", "", ""
    for line in text.split("\n"):
        match = _FENCE.fullmatch(line)
        if fence and ">" in prefix and not line.lstrip().startswith(">"):
            fence = ""
        if match is None:
            continue
        if not fence:
            prefix, fence, language = match[1], match[2], match[3]
        elif match[2].startswith(fence) and not (match[3] or match[4].strip()):
            fence = ""
    closing = f"\n{prefix}{fence}"
    is_open = bool(fence) and len(closing) <= _CLOSING
    return (f"{prefix}{fence}{language}\n", closing) if is_open else ("", "")


def _table_head(begun: str, rest: str, longest: int) -> str:
    """The head of a table that goes on in the rest, with its second line; empty where none does."""
    if not rest.startswith("|"):
        return ""
    rows = list[str]()
    for line in reversed(begun.split("\n")):
        if not line.lstrip().startswith("|"):
            break
        rows.insert(0, line)
    is_table = len(rows) >= 2 and _DELIMITER.fullmatch(rows[1]) is not None
    head = f"{rows[0]}\n{rows[1]}\n" if is_table else ""
    return head if len(head) <= longest else ""


def _cut(text: str, room: int) -> int:
    """Where to cut so that at most `room` characters come before; if it can, not in the first third of them."""
    return _before_whole(text, _row_start(text, _gap(text, room)), room)


def _gap(text: str, room: int) -> int:
    for end in ("\n\n", "\n", " "):
        at = text.rfind(end, room // 3, room + len(end))
        if at > 0:
            return at
    gap = _LAST_GAP.search(text, 0, room + 1)
    if gap is None:
        return _within_word(text, room)
    word_end = _NEXT_GAP.search(text, gap.end())
    is_short = word_end is not None and word_end.start() - gap.end() <= room
    return gap.start() if is_short and gap.start() > 0 else _within_word(text, room)


def _within_word(text: str, room: int) -> int:
    """After the last sentence of a script without blanks, else between two characters as people see them."""
    ends = [found.end() for found in _SENTENCE_ENDS.finditer(text, room // 3, room)]
    if ends:
        return ends[-1]
    at = room
    while at > 1 and _joins(text, at):
        at -= 1
    return at if at > 1 else room


def _joins(text: str, at: int) -> bool:
    """Whether the characters around a place are shown as one: https://unicode.org/reports/tr29/."""
    if at >= len(text):
        return False
    before, after = text[at - 1], text[at]
    code = ord(after)
    if after in _JOINERS or before == "\u200d" or code in _SKIN_TONES or code in _TAGS:
        return True
    if unicodedata.category(after).startswith("M") or unicodedata.combining(before) == 9:
        return True
    if code in _FLAGS and ord(before) in _FLAGS:
        begin = at
        while begin > 0 and ord(text[begin - 1]) in _FLAGS:
            begin -= 1
        return (at - begin) % 2 == 1
    return before == "\r" and after == "\n"


def _row_start(text: str, at: int) -> int:
    """The start of a table's row in which a cut would be; the cut itself elsewhere, and where the row is the first."""
    start = text.rfind("\n", 0, at)
    in_row = text.startswith("|", start + 1) and text[at : at + 1] not in ("\n", "")
    return start if in_row and start > 0 else at


def _before_whole(text: str, at: int, room: int) -> int:
    """The place before a link or the like in which a cut would be."""
    for whole in _WHOLE.finditer(text, 0, room + 2_400):
        if whole.start() >= at:
            break
        if whole.end() > at and whole.start() > 0:
            start = len(text[: whole.start()].rstrip(" "))
            return start if start > 0 else whole.start()
    return at
