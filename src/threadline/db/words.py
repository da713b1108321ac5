"""Cuts a text into the words of the search index. Stored texts and questions are cut alike.

Postgres' parser expects sentences of a language with blanks. It takes "v2.3.1" for a host, the end
of "ERR-4012" for a negative number, "C#" for "c", and a Chinese sentence for one word. So this
module cuts texts, too:

- A word has letters alone, and then Postgres stems it; or it has digits alone.
- An identifier has several parts: "ERR-4012", "Node.js", "maxRetries". A part ends at a sign,
  between a letter and a digit, and before a capital. An identifier is indexed by each part and by
  neighbouring parts without the signs between them: "ERR4012" finds "ERR-4012", and so does
  "4012".
- A text in a script without blanks is indexed by each two characters in a row.

A store fills a column of its table with `stored_words`, and asks with `asked_words`. The functions
`word_vector` and `any_word` of the database turn both into lexemes.
"""

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

MAX_TERM = 100
"""Characters of a term. No question needs a longer one, and Postgres refuses terms of 2 kB."""

EXACT = "="
"""The first character of a word that matches the same characters only. No stem begins with it."""

MAX_ASKED = 4_000
"""Characters of a question that are searched."""

_MAX_STORED = 80_000
"""Bytes of a column's words; later ones are dropped. Postgres refuses a `tsvector` of 1 MB, and
the longest text that is indexed beside the words may take 925 kB of it.
"""
_RUN = 4
"""Most neighbouring parts that are indexed together, besides all of them."""
_WITHOUT_BLANKS = (
    (0x0E00, 0x0FFF),  # Thai, Lao, Tibetan
    (0x1000, 0x109F),  # Burmese
    (0x1100, 0x11FF),  # Korean: its words have endings that Postgres cannot stem
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x9FFF),  # Chinese, Japanese
    (0xA960, 0xA97F),  # Korean
    (0xAA60, 0xAA7F),  # Burmese
    (0xAC00, 0xD7FF),  # Korean
    (0xF900, 0xFAFF),  # Chinese
    (0x20000, 0x3FFFF),  # Chinese
)
_INVISIBLE = dict.fromkeys((0x00AD, 0x200C, 0x200D, 0x2060, 0xFEFF))
"""Invisible hyphens and joiners inside words, which get lost when a text is copied."""


class Term(NamedTuple):
    """A word, a part of an identifier, or a pair of characters. `spoken`: it only has letters, so
    that it has a stem.
    """

    text: str
    spoken: bool

    @property
    def exact(self) -> str:
        """The form that only matches the same characters."""
        return f"{EXACT}{self.text}"

    @property
    def stored(self) -> str:
        """The form that the search index has: Postgres stems it if it only has letters."""
        return self.text if self.spoken else self.exact


class Word(NamedTuple):
    """A word or an identifier.

    A document is stored with `known_by`. A question searches for `whole`, and for the `parts` of
    an identifier. Parts of one character carry too little information: `short` only counts them.
    """

    whole: Term
    known_by: frozenset[Term]
    parts: tuple[Term, ...] = ()
    short: int = 0


def cut(text: str) -> Iterator[Word]:
    """Yield the words of a text, in order."""
    # Full-width letters, ligatures and half-width kana become the usual ones.
    text = unicodedata.normalize("NFKC", text).translate(_INVISIBLE)
    shape = text.translate(_SHAPES)
    for found in _TOKEN.finditer(shape):
        token = text[found.start() : found.end()]
        if found[0][0] in "zm":
            yield from _pairs(token.lower(), found[0])
        else:
            yield _word(token, found[0])


def stored_words(*texts: str) -> list[str]:
    """Return the words with which texts are stored, in order and without duplicates: exact ones,
    which begin with `EXACT`, and ones that Postgres stems. An identifier of letters is both, so
    that `STATE_RUN` ranks above `STATE_RUNNING`.
    """
    words = dict[str, None]()
    room = _MAX_STORED
    for word in itertools.chain.from_iterable(map(cut, texts)):
        for each in _stored_forms(word):
            if each in words:
                continue
            room -= len(each.encode())
            if room < 0:
                return list(words)
            words[each] = None
    return list(words)


def asked_words(text: str) -> list[str]:
    """Return the words that a search for any word of a text looks for, in the forms of
    `stored_words`. An identifier is searched as a whole and by its longer parts.
    """
    asked = list[str]()
    for word in cut(text[:MAX_ASKED]):
        if word.parts:
            asked.append(word.whole.exact)
        asked += (each.stored for each in (word.whole, *word.parts))
    return list(dict.fromkeys(asked))


def _stored_forms(word: Word) -> Iterable[str]:
    """Return the forms of a word in the index, in a fixed order."""
    forms = {term.stored for term in word.known_by}
    if word.parts:
        forms |= {term.exact for term in word.known_by.difference(word.parts)}
    return sorted(forms)


class _Shapes(dict[int, str]):
    """Maps each character to its kind: `A` a capital, `a` another letter, `9` a digit, `z` a
    character of a script without blanks, `m` a mark on such a character. A sign of ASCII is its
    own kind. All others separate words, as a blank does.
    """

    def __missing__(self, code: int) -> str:
        self[code] = shape = _shape(chr(code))
        return shape


def _shape(char: str) -> str:
    category = unicodedata.category(char)
    if category[0] in "LM":
        if any(first <= ord(char) <= last for first, last in _WITHOUT_BLANKS):
            return "m" if category[0] == "M" else "z"
        return "A" if category in ("Lu", "Lt") else "a"
    if category == "Nd":
        return "9"
    if char in "‐‒−":  # after NFKC, these are the only other joining hyphens
        return "-"
    return char if char.isascii() and char.isprintable() else " "


_SHAPES = _Shapes()
_TOKEN = re.compile(
    r"""
      [zm]+
    | (?: [.@#$/-]{1,2} )?                # .NET, @types, #42, $HOME, /deploy, --force
      [Aa9]+
      (?: (?: [._/\\:@#+&=~%-]{1,3} | (?<=9),(?=9) ) [Aa9]+ )*
      (?: \+\+ | (?<![Aa9][Aa]) (?<=[Aa]) [#+] )?  # C++, Notepad++, C#, A+
    """,
    re.VERBOSE,
)
_PART = re.compile(
    r"""
      9{1,3} (?: ,999 )+ (?! ,?9 )        # 1,200 is 1200
    | (?: (?: [Aa]{1,8}9+ ){2} | (?: 9+[Aa]{1,8} ){2} ) [Aa9]*  # a hash stays whole
    | 9+ (?: \.9+ )*                      # versions, addresses
    | [Aa]{1,20}\+\+ (?! [Aa] )
    | (?<! [Aa9] ) [Aa][#+] (?! [Aa+] )
    | A{2,}a (?! a )                      # APIs
    | A+ (?= Aa )                         # HTTP in HTTPServer
    | A?a+ | A+
    """,
    re.VERBOSE,
)
_CHARACTER = re.compile("[zm]m*")
_SIGNS = re.compile("[^Aa9]+")


def _pairs(token: str, shape: str) -> Iterator[Word]:
    """Yield each two characters in a row. A mark belongs to the character before it."""
    spans = [found.span() for found in _CHARACTER.finditer(shape)]
    characters = [Term(token[begin:end].lower()[:MAX_TERM], spoken=False) for begin, end in spans]
    if len(characters) == 1:
        yield Word(characters[0], frozenset(characters))
    for first, second in itertools.pairwise(characters):
        pair = Term((first.text + second.text)[:MAX_TERM], spoken=False)
        yield Word(pair, frozenset((pair, first, second)))


def _word(token: str, shape: str) -> Word:
    parts = [_part(token[slice(*found.span())], found[0]) for found in _PART.finditer(shape)]
    joined = _joined(parts)
    signs = _SIGNS.match(shape)
    whole = Term((signs[0] + joined.text)[:MAX_TERM], spoken=False) if signs else joined
    bare = [_without_signs(each) if each == whole else each for each in parts]
    asked = tuple(each for each in bare if each != whole and len(each.text) > 1)
    return Word(
        whole,
        frozenset({whole, joined, *parts, *asked, *_neighbours(parts), *_shorter_versions(parts)}),
        asked,
        sum(len(each.text) == 1 for each in bare),
    )


def _part(text: str, shape: str) -> Term:
    return Term(text.lower().replace(",", "")[:MAX_TERM], spoken=not set(shape) - {"A", "a"})


def _joined(parts: Sequence[Term]) -> Term:
    """Join the parts without the signs between them. A dot keeps numbers apart: 2.13 is not
    21.3.
    """
    text = ""
    for part in parts[:MAX_TERM]:
        apart = text[-1:].isdecimal() and part.text[0].isdecimal()
        text = f"{text}{'.' if apart else ''}{part.text}"
    return Term(text[:MAX_TERM], all(each.spoken for each in parts))


def _neighbours(parts: Sequence[Term]) -> Iterator[Term]:
    for size in range(2, _RUN + 1):
        for begin in range(len(parts) - size + 1):
            yield _joined(parts[begin : begin + size])


def _shorter_versions(parts: Sequence[Term]) -> Iterator[Term]:
    """Yield shorter versions, such as 2.3 for 2.3.1."""
    for part in parts:
        numbers = part.text.split(".")
        for count in range(2, len(numbers)):
            yield Term(".".join(numbers[:count]), spoken=False)


def _without_signs(term: Term) -> Term:
    bare = term.text.rstrip("+#")
    return Term(bare, spoken=True) if bare != term.text else term
