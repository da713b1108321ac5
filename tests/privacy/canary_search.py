"""Looks for words in all that a dev server of Temporal has written, in each form in which they may lie there."""

import base64
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path


def forms(word: str) -> tuple[bytes, ...]:
    """A word as it is, as the base64 of a text that it stands in (at each of three offsets), in hex, and in UTF-16."""
    raw = word.encode()
    return (raw, raw.hex().encode(), word.encode("utf-16-le"), *(_within_base64(raw, offset) for offset in range(3)))


def found(words: Iterable[str], folder: Path) -> set[str]:
    """Those of the words that are in any file below the folder, in any form."""
    pieces = list(_pieces(folder))
    return {word for word in words if any(form in piece for form in forms(word) for piece in pieces)}


def _within_base64(raw: bytes, offset: int) -> bytes:
    """What the word alone decides of the base64 of a longer text, where it begins `offset` bytes into a group."""
    encoded = base64.b64encode(bytes(offset) + raw)
    first, last = -(-offset * 8 // 6), (offset + len(raw)) * 8 // 6
    return encoded[first:last]


def _pieces(folder: Path) -> Iterator[bytes]:
    """Each file as it lies there, deleted rows and all, and each value: a long one is spread over pages."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.read_bytes()
    for file in folder.rglob("*.db"):
        with closing(sqlite3.connect(file)) as database:
            database.text_factory = bytes
            tables = [
                row[0].decode() for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            ]
            for table in tables:
                for row in database.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - the name is the database's own
                    yield from (value for value in row if isinstance(value, bytes))
