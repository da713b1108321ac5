"""The splitting of long Markdown into pieces that each read on their own: code, tables and links
stay whole.
"""

import re
import unicodedata

SMALLEST_LIMIT = 100
"""Below this limit, the two fence lines around a cut would leave no room for the code."""
_FENCE = re.compile(
    r"((?:[ \t]{0,3}>)*[ \t]*)(`{3,16}|~{3,16})(?![`~])[ \t]*([\w+#.-]{0,24})([^`]*)"
)
_CLOSING = 17
"""Characters of a line break and the longest closing fence, including the quote marks before
it.
"""
_LAST_GAP = re.compile(r"\s(?=\S*\Z)")
_NEXT_GAP = re.compile(r"\s|\Z")
_WHOLE = re.compile(
    r"!?\[[^\[\]\n]{1,300}\]\([^()\s]{1,2000}\)|`[^`\n]{1,300}`"
    r"|\*\*[^*\n]{1,300}\*\*|~~[^~\n]{1,300}~~"
    r"|<[@#!][^<>\n]{1,80}>|&(?:lt|gt|amp);|:[a-z0-9_+-]{2,50}:"
)
"""Links, code, bold and struck words, mentions, entities and emoji, which must not be cut."""
_SENTENCE_ENDS = re.compile(r"[。！？；、，．。]")
"""Signs after which scripts without blanks can be cut."""
_DELIMITER = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
"""The second line of a table: https://github.github.com/gfm/#tables-extension-."""
_JOINERS = frozenset("\u200d\ufe0e\ufe0f\u20e3")
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_TAGS = range(0xE0020, 0xE0080)
_FLAGS = range(0x1F1E6, 0x1F200)


def split_markdown(text: str, limit: int) -> list[str]:
    """Split Markdown into pieces of at most `limit` characters, in order and none of them empty.

    A cut is at the end of a paragraph, else of a line, else of a word; inside a word only if the
    word is longer than a piece, and then between characters as people see them. Links, bold words
    and emoji are cut only if they are that long themselves. A code fence is closed at the end of a
    piece and opened again in the next, and the head of a table is repeated there. Only white space
    around a cut is lost.

    Raises:
        ValueError: `limit` is below `SMALLEST_LIMIT`.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(
            f"a limit of {limit} leaves no room for text: take at least {SMALLEST_LIMIT}"
        )
    pieces: list[str] = []
    opening = ""
    rest = text.strip("\n")
    while len(opening) + len(rest) > limit:
        at = _cut(rest, limit - len(opening) - _CLOSING)
        body = rest[:at].rstrip()
        rest = rest[at:]
        # Keep the indentation of the next line, which is significant in code.
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
    """Return the line that reopens the code fence left open at the end of `text`, and the line
    that closes it; empty if none is open. A fence within a quote is reopened there, and ends with
    it.
    """
    prefix = ""
    fence = ""
    language = ""
    for line in text.split("\n"):
        match = _FENCE.fullmatch(line)
        if fence and ">" in prefix and not line.lstrip().startswith(">"):
            fence = ""
        if match is None:
            continue
        if not fence:
            prefix = match[1]
            fence = match[2]
            language = match[3]
        elif match[2].startswith(fence) and not (match[3] or match[4].strip()):
            fence = ""
    closing = f"\n{prefix}{fence}"
    is_open = bool(fence) and len(closing) <= _CLOSING
    return (f"{prefix}{fence}{language}\n", closing) if is_open else ("", "")


def _table_head(begun: str, rest: str, longest: int) -> str:
    """Return the head of a table that continues in the rest, with its second line; empty if none
    does.
    """
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
    """Return the place of a cut with at most `room` characters before it, if possible not in their
    first third.
    """
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
    """Return the end of the last sentence of a script without blanks, else a place between two
    characters as people see them.
    """
    ends = [found.end() for found in _SENTENCE_ENDS.finditer(text, room // 3, room)]
    if ends:
        return ends[-1]
    at = room
    while at > 1 and _joins(text, at):
        at -= 1
    return at if at > 1 else room


def _joins(text: str, at: int) -> bool:
    """Return whether the characters around a place are shown as one:
    https://unicode.org/reports/tr29/.
    """
    if at >= len(text):
        return False
    before = text[at - 1]
    after = text[at]
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
    """Return the start of the table row that a cut would split; the cut itself elsewhere, and in
    the first row.
    """
    start = text.rfind("\n", 0, at)
    in_row = text.startswith("|", start + 1) and text[at : at + 1] not in ("\n", "")
    return start if in_row and start > 0 else at


def _before_whole(text: str, at: int, room: int) -> int:
    """Return the place before the link or similar token that a cut would split; the cut itself
    elsewhere.
    """
    for whole in _WHOLE.finditer(text, 0, room + 2_400):
        if whole.start() >= at:
            break
        if whole.end() > at and whole.start() > 0:
            start = len(text[: whole.start()].rstrip(" "))
            return start if start > 0 else whole.start()
    return at
