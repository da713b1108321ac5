"""Reads a document from the bytes of a file, and splits it into chunks for the search."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import PurePosixPath
from typing import Any

import yaml
from markdown_it import MarkdownIt

from threadline.documents.plain import other_format
from threadline.errors import Permanent
from threadline.knowledge.languages import ENGLISH, STEMMED, configuration
from threadline.knowledge.model import MAX_CHARACTERS, Chunk, Document, DocumentTerms, DocumentType

MAX_FILE_BYTES = 20 * 1024 * 1024
"""Bytes; a larger file is refused before it is read whole."""
MAX_CHUNK = 1_200
"""Characters of a chunk, without its overlap with the one before."""
OVERLAP = 150
"""Most characters that a chunk repeats of the one before, so that a statement across the cut is
found in one of them.
"""

_FENCE = "---"
_BETWEEN_HEADINGS = " › "
_KEYS = ("title", "type", "authority", "effective", "expires", "lang")


class UnreadableSource(Permanent):
    """A file or page is not a document; the message says why, and what to do."""


@dataclass(frozen=True)
class ParsedDocument:
    """A document, and a sentence for each value of its front matter that belongs to another
    program and was ignored.
    """

    document: Document
    notices: tuple[str, ...] = ()


def parse_document(source: str, content: bytes, language: str = ENGLISH) -> ParsedDocument:
    """Read a document from a file's content.

    Its title is that of the front matter, or a first heading of the first level, or the file's
    name.

    Args:
        source: its file or address, with `/` between folders.
        language: the text search configuration of documents without `lang`.

    Raises:
        UnreadableSource: it is too large, not UTF-8 or no plain text, has no text, or its front
            matter is wrong.
    """
    text = _text(source, content)
    # PyYAML does not wrap the exceptions of its constructors, and neither do their values
    try:
        return _document(source, text, language)
    except UnreadableSource:
        raise
    except Exception as error:
        raise UnreadableSource(
            f"The front matter of {source} cannot be read: write plain text, numbers and dates."
        ) from error


def too_large(source: str) -> UnreadableSource:
    """Return the refusal of a file with more than `MAX_FILE_BYTES` bytes."""
    return UnreadableSource(f"{source} is larger than {MAX_FILE_BYTES // 1024**2} MB: split it.")


def _document(source: str, text: str, language: str) -> ParsedDocument:
    body, given = _split_front_matter(source, text)
    title, body = _title(source, given.get("title"), body)
    if not body:
        raise UnreadableSource(f"{source} has no text: add text, or remove it.")
    known, notices = _without_foreign(source, given)
    document = Document(title, source, body, _terms(source, known), _language(known, language))
    return ParsedDocument(document, tuple(notices))


def _text(source: str, content: bytes) -> str:
    if len(content) > MAX_FILE_BYTES:
        raise too_large(source)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableSource(
            f"{source} is not UTF-8 text (byte {error.start}): save it as UTF-8."
        ) from error
    name, _ = other_format(text)
    if name:
        raise UnreadableSource(f"{source} is {name}, not plain text: save it as text in UTF-8.")
    if len(text) > MAX_CHARACTERS:
        raise UnreadableSource(
            f"{source} has {len(text):,} characters, and the maximum is {MAX_CHARACTERS:,}: "
            "split it."
        )
    return text.replace("\r\n", "\n").replace("\x00", "")


def _split_front_matter(source: str, text: str) -> tuple[str, Mapping[str, Any]]:
    """Return the text below the front matter, and its keys; no keys if there is none."""
    first, _, rest = text.partition("\n")
    if first.rstrip() != _FENCE:
        return text, {}
    lines = rest.split("\n")
    end = next(
        (number for number, line in enumerate(lines) if line.rstrip() in (_FENCE, "...")), None
    )
    if end is None:
        if not rest.lstrip().startswith(tuple(f"{key}:" for key in _KEYS)):
            return text, {}  # a rule above a text, and no front matter at all
        raise UnreadableSource(
            f"{source} does not close its front matter: end it with a line of {_FENCE}."
        )
    return "\n".join(lines[end + 1 :]), _front_matter(source, "\n".join(lines[:end]))


def _front_matter(source: str, words: str) -> Mapping[str, Any]:
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(words, yaml.SafeLoader)):
            raise UnreadableSource(
                f"The front matter of {source} uses aliases (*name): write them out."
            )
        given = yaml.safe_load(words)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or "it cannot be read"
        where = f", in line {mark.line + 2}" if mark else ""
        raise UnreadableSource(
            f"The front matter of {source} is not valid YAML: {problem}{where}."
        ) from error
    if not isinstance(given, dict | None):
        raise UnreadableSource(
            f"The front matter of {source} is not a list of keys: write one `title: …` per line."
        )
    return {str(key).lower(): value for key, value in (given or {}).items()}


def _title(source: str, given: Any, body: str) -> tuple[str, str]:
    """Return the title, and the text without a heading that only repeats it."""
    body = body.strip()
    first, _, rest = body.partition("\n")
    heading = first.removeprefix("# ").strip() if first.startswith("# ") else ""
    named = " ".join(str(given).split()) if given is not None else ""
    if heading and rest.strip() and (not named or heading.casefold() == named.casefold()):
        return named or heading, rest.strip()
    name = PurePosixPath(source).stem.replace("-", " ").replace("_", " ").strip()
    return named or heading or name or source, body


def _without_foreign(
    source: str, given: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Sequence[str]]:
    """Return the front matter without the values that only another program understands, and a
    notice for each. Site generators and wikis use `type`, `authority` and `lang` in their own
    sense.
    """
    known = {key: value for key, value in given.items() if value is not None}
    notices = []
    for key, is_known, taken in _FOREIGN:
        if key in known and not is_known(known[key]):
            shown = " ".join(str(known.pop(key)).split())[:60]
            notices.append(f"`{key}` of {source} is {shown!r}: {taken}.")
    return known, notices


def _is_type(value: Any) -> bool:
    return isinstance(value, str) and value.strip().lower() in set(DocumentType)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_language(value: Any) -> bool:
    """YAML reads the code of Norwegian, `no`, as False."""
    return value is False or (isinstance(value, str) and bool(_LANGUAGE.fullmatch(value.strip())))


_LANGUAGE = re.compile(
    r"[A-Za-z]{2,3}([-_][A-Za-z0-9-_.]{1,20})?|" + "|".join(set(STEMMED.values())), re.IGNORECASE
)
_FOREIGN: Sequence[tuple[str, Callable[[Any], bool], str]] = (
    (
        "type",
        _is_type,
        f"taken as {DocumentType.PRODUCT}, as it is none of {', '.join(DocumentType)}",
    ),
    ("authority", _is_number, "taken as that of its type, as it is no number"),
    (
        "lang",
        _is_language,
        "taken as the default, as it is no code of a language such as de or pt-BR",
    ),
)


def _language(given: Mapping[str, Any], default: str) -> str:
    if "lang" not in given:
        return default
    return configuration(given["lang"] or "no")


def _terms(source: str, given: Mapping[str, Any]) -> DocumentTerms:
    terms = DocumentTerms.of(DocumentType(given.get("type", DocumentType.PRODUCT).strip().lower()))
    terms = replace(
        terms, effective=_day(source, given, "effective"), expires=_day(source, given, "expires")
    )
    if terms.effective and terms.expires and terms.expires < terms.effective:
        raise UnreadableSource(
            f"{source} expires before it is effective: correct one of the dates."
        )
    authority = given.get("authority", terms.authority)
    if not 0 <= authority <= 1:
        raise UnreadableSource(
            f"`authority` of {source} is {str(authority)[:60]!r}: write a number from 0 to 1."
        )
    return replace(terms, authority=float(authority))


def _day(source: str, given: Mapping[str, Any], key: str) -> date | None:
    value = given.get(key)
    if isinstance(value, datetime):
        return value.date()
    if value is None or isinstance(value, date):
        return value
    raise UnreadableSource(
        f"`{key}` of {source} is {str(value)[:60]!r}: write a date as 2026-01-31."
    )


def split_document(document: Document) -> list[Chunk]:
    """Return the chunks in order, cut at headings, and long sections at paragraphs or sentences;
    no word is lost.
    """
    chunks = [
        Chunk(section, text)
        for section, part in _sections(document.body)
        for text in _cut(part)
        if text.strip()
    ]
    # a document that only has headings
    return chunks or [Chunk("", text) for text in _cut(document.body)]


def _sections(body: str) -> Iterator[tuple[str, str]]:
    """Yield each part of the text with the path of its headings. A heading inside code does not
    count.
    """
    lines = body.split("\n")
    path: list[tuple[int, str]] = []
    begin = 0
    tokens = MarkdownIt("commonmark").parse(body)
    for number, token in enumerate(tokens):
        if token.type != "heading_open" or token.map is None or token.level:
            continue
        yield _headings(path), "\n".join(lines[begin : token.map[0]])
        depth = int(token.tag[1:])
        path = [each for each in path if each[0] < depth] + [
            (depth, tokens[number + 1].content.strip())
        ]
        begin = token.map[1]
    yield _headings(path), "\n".join(lines[begin:])


def _headings(path: list[tuple[int, str]]) -> str:
    return _BETWEEN_HEADINGS.join(" ".join(name.split()) for _, name in path if name)


def _cut(part: str) -> Iterator[str]:
    """Yield texts of at most `MAX_CHUNK` and `OVERLAP` characters."""
    rest = part.strip()
    repeated = ""
    while len(rest) > MAX_CHUNK:
        end = _break(rest)
        yield (repeated + rest[:end]).strip()
        shown = rest[:end].rstrip()
        rest = rest[end:].lstrip()
        tail = shown[-OVERLAP + 1 :]
        if len(tail) < len(shown):  # start with a whole word
            tail = tail[tail.find(" ") + 1 :]
        repeated = f"{tail}\n" if tail else ""
    if rest:
        yield (repeated + rest).strip()


def _break(text: str) -> int:
    """Return the position of the cut: after the last paragraph, line, sentence or word that fits,
    but not in the first half.
    """
    for mark in ("\n\n", "\n", ". ", "。", " "):
        end = text.rfind(mark, MAX_CHUNK // 2, MAX_CHUNK)
        if end > 0:
            return end + len(mark)
    return MAX_CHUNK
