"""Reads a document from the bytes of a file, and splits it into the chunks by which it is found."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime
from pathlib import PurePosixPath
from typing import Any

import yaml
from markdown_it import MarkdownIt

from threadline.errors import Permanent
from threadline.knowledge.model import MAX_CHARACTERS, Chunk, Document, DocumentTerms, DocumentType

MAX_FILE_BYTES = 20 * 1024 * 1024
"""A larger file is not read to its end."""
MAX_CHUNK = 1_200
"""Characters of a chunk, without what it repeats of the one before."""
OVERLAP = 150
"""Characters at most that a chunk repeats of the one before: a statement across the cut is found in one of them."""

_FENCE = "---"
_BETWEEN_HEADINGS = " › "
_KEYS = ("title", "type", "authority", "effective", "expires")


class UnreadableSource(Permanent):
    """A file or page is not a document; the message says why, and what to do."""


def parse_document(source: str, content: bytes) -> Document:
    """Read a document from a file's content. Its title is that of the front matter, or a first heading of the first
    level, or the file's name. `source`: where it is from, with `/` between folders. Raises `UnreadableSource`: it is
    too large, not UTF-8, has no text, or its front matter is wrong."""
    text = _text(source, content)
    try:
        return _document(source, text)
    except UnreadableSource:
        raise
    except Exception as error:  # PyYAML lets through whatever its constructors run into, and so do their values
        raise UnreadableSource(
            f"The front matter of {source} cannot be read: write plain text, numbers and dates."
        ) from error


def too_large(source: str) -> UnreadableSource:
    """The refusal of a file with more than `MAX_FILE_BYTES` bytes."""
    return UnreadableSource(f"{source} is larger than {MAX_FILE_BYTES // 1024**2} MB: split it.")


def _document(source: str, text: str) -> Document:
    body, given = _split_front_matter(source, text)
    title, body = _title(source, given.get("title"), body)
    if not body:
        raise UnreadableSource(f"{source} has no text: add text, or remove it.")
    return Document(title, source, body, _terms(source, given))


def _text(source: str, content: bytes) -> str:
    if len(content) > MAX_FILE_BYTES:
        raise too_large(source)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableSource(f"{source} is not UTF-8 text (byte {error.start}): save it as UTF-8.") from error
    if len(text) > MAX_CHARACTERS:
        raise UnreadableSource(
            f"{source} has {len(text):,} characters, and the maximum is {MAX_CHARACTERS:,}: split it."
        )
    return text.replace("\r\n", "\n").replace("\x00", "")


def _split_front_matter(source: str, text: str) -> tuple[str, Mapping[str, Any]]:
    """The text below the front matter, and its keys; no keys if there is none."""
    first, _, rest = text.partition("\n")
    if first.rstrip() != _FENCE:
        return text, {}
    lines = rest.split("\n")
    end = next((number for number, line in enumerate(lines) if line.rstrip() in (_FENCE, "...")), None)
    if end is None:
        if not rest.lstrip().startswith(tuple(f"{key}:" for key in _KEYS)):
            return text, {}  # a rule above a text, and no front matter at all
        raise UnreadableSource(f"{source} does not close its front matter: end it with a line of {_FENCE}.")
    return "\n".join(lines[end + 1 :]), _front_matter(source, "\n".join(lines[:end]))


def _front_matter(source: str, words: str) -> Mapping[str, Any]:
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(words, yaml.SafeLoader)):
            raise UnreadableSource(f"The front matter of {source} uses aliases (*name): write them out.")
        given = yaml.safe_load(words)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or "it cannot be read"
        where = f", in line {mark.line + 2}" if mark else ""
        raise UnreadableSource(f"The front matter of {source} is not valid YAML: {problem}{where}.") from error
    if not isinstance(given, dict | None):
        raise UnreadableSource(f"The front matter of {source} is not a list of keys: write one `title: …` per line.")
    return {str(key).lower(): value for key, value in (given or {}).items()}


def _title(source: str, given: Any, body: str) -> tuple[str, str]:
    """The title, and the text without the heading that only repeats it."""
    body = body.strip()
    first, _, rest = body.partition("\n")
    heading = first.removeprefix("# ").strip() if first.startswith("# ") else ""
    named = " ".join(str(given).split()) if given is not None else ""
    if heading and rest.strip() and (not named or heading.casefold() == named.casefold()):
        return named or heading, rest.strip()
    name = PurePosixPath(source).stem.replace("-", " ").replace("_", " ").strip()
    return named or heading or name or source, body


def _terms(source: str, given: Mapping[str, Any]) -> DocumentTerms:
    named = str(DocumentType.PRODUCT if given.get("type") is None else given["type"])
    if named.strip().lower() not in set(DocumentType):
        raise UnreadableSource(f"{source} has the type {named[:60]!r}: write one of {', '.join(DocumentType)}.")
    terms = DocumentTerms.of(DocumentType(named.strip().lower()))
    terms = replace(terms, effective=_day(source, given, "effective"), expires=_day(source, given, "expires"))
    if terms.effective and terms.expires and terms.expires < terms.effective:
        raise UnreadableSource(f"{source} expires before it is effective: correct one of the dates.")
    if (authority := given.get("authority")) is None:
        return terms
    number = isinstance(authority, int | float) and not isinstance(authority, bool)
    if not number or not 0 <= authority <= 1:
        raise UnreadableSource(f"`authority` of {source} is {str(authority)[:60]!r}: write a number from 0 to 1.")
    return replace(terms, authority=float(authority))


def _day(source: str, given: Mapping[str, Any], key: str) -> date | None:
    value = given.get(key)
    if isinstance(value, datetime):
        return value.date()
    if value is None or isinstance(value, date):
        return value
    raise UnreadableSource(f"`{key}` of {source} is {str(value)[:60]!r}: write a date as 2026-01-31.")


def split_document(document: Document) -> list[Chunk]:
    """The chunks in order, cut at headings, and long sections at paragraphs or sentences; no word is lost."""
    chunks = [Chunk(section, text) for section, part in _sections(document.body) for text in _cut(part) if text.strip()]
    return chunks or [Chunk("", text) for text in _cut(document.body)]  # a document of nothing but headings


def _sections(body: str) -> Iterator[tuple[str, str]]:
    """Each part of the text with the path of the headings above it. A heading inside code is none."""
    lines = body.split("\n")
    path: list[tuple[int, str]] = []
    begin = 0
    tokens = MarkdownIt("commonmark").parse(body)
    for number, token in enumerate(tokens):
        if token.type != "heading_open" or token.map is None or token.level:
            continue
        yield _headings(path), "\n".join(lines[begin : token.map[0]])
        depth = int(token.tag[1:])
        path = [each for each in path if each[0] < depth] + [(depth, tokens[number + 1].content.strip())]
        begin = token.map[1]
    yield _headings(path), "\n".join(lines[begin:])


def _headings(path: list[tuple[int, str]]) -> str:
    return _BETWEEN_HEADINGS.join(" ".join(name.split()) for _, name in path if name)


def _cut(part: str) -> Iterator[str]:
    """Texts of at most `MAX_CHUNK` and `OVERLAP` characters."""
    rest, repeated = part.strip(), ""
    while len(rest) > MAX_CHUNK:
        end = _break(rest)
        yield (repeated + rest[:end]).strip()
        shown, rest = rest[:end].rstrip(), rest[end:].lstrip()
        tail = shown[-OVERLAP + 1 :]
        if len(tail) < len(shown):  # it begins with a whole word
            tail = tail[tail.find(" ") + 1 :]
        repeated = f"{tail}\n" if tail else ""
    if rest:
        yield (repeated + rest).strip()


def _break(text: str) -> int:
    """Where to cut: after the last paragraph, line, sentence or word that fits, but not in the first half."""
    for mark in ("\n\n", "\n", ". ", " "):
        end = text.rfind(mark, MAX_CHUNK // 2, MAX_CHUNK)
        if end > 0:
            return end + len(mark)
    return MAX_CHUNK
