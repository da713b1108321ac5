"""What a file is by its bytes: a name is only believed where plain text has to be told from plain text."""

from enum import StrEnum


class Kind(StrEnum):
    PDF = "pdf"
    DOCX = "docx"
    TEXT = "text"
    MARKDOWN = "markdown"


class Refused(Exception):
    """A document that cannot be taken; the words go on from “The file …” and say what to upload instead."""


_TEXTS = {
    "txt": Kind.TEXT,
    "text": Kind.TEXT,
    "": Kind.TEXT,
    "md": Kind.MARKDOWN,
    "markdown": Kind.MARKDOWN,
}
"""By the end of the name."""
_WANTED = "upload a PDF, a Word document (DOCX), or plain text (TXT, MD)"
_PROGRAMS = (
    b"MZ",
    b"\x7fELF",
    b"\xfe\xed\xfa\xce",
    b"\xfe\xed\xfa\xcf",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
)
"""Windows, Linux, macOS, Java."""
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""Also around a DOCX with a password."""
_MARKS = (("utf-8-sig", b"\xef\xbb\xbf"), ("utf-16", b"\xff\xfe"), ("utf-16", b"\xfe\xff"))
_PDF_WITHIN = 1024
"""Bytes in which a PDF begins: readers allow for rubbish before it."""
_PAGE_WITHIN = 1024
_MOST_CONTROLS = 0.001
"""The share of control characters that text may have."""
_PLAIN_CONTROLS = "\t\n\r\f\x0b\x1a"


def kind_of(content: bytes, suffix: str) -> Kind:
    """The kind of a document.

    Args:
        suffix: the end of its name, without the dot, in small letters.

    Raises:
        Refused: it is none of the kinds that are taken.
    """
    if not content.strip():
        raise Refused(f"is empty: {_WANTED}.")
    if content.startswith(_PROGRAMS):
        raise Refused(f"is a program, so it was not opened: {_WANTED}.")
    if b"%PDF-" in content[:_PDF_WITHIN]:
        return Kind.PDF
    if content.startswith(b"PK\x03\x04"):
        return Kind.DOCX  # or another archive, which opening it shows
    if content.startswith(_OLD_OFFICE):
        raise Refused("is an old Office file, or has a password: save it as DOCX or PDF without one, and upload that.")
    return _kind_of_text(decoded(content), suffix)


def decoded(content: bytes) -> str:
    """Text in one of the usual encodings. Raises `Refused`: it is no text."""
    for encoding in [name for name, mark in _MARKS if content.startswith(mark)] or ["utf-8", "cp1252"]:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if _is_written(text):
            return text
    raise Refused(f"has a type that cannot be read, whatever its name: {_WANTED}.")


def _kind_of_text(text: str, suffix: str) -> Kind:
    beginning = text[:_PAGE_WITHIN].lstrip().lower()
    if beginning.startswith(("<!doctype html", "<html")):
        raise Refused(
            "is a web page, perhaps a login page in place of the file: open it, check that it is the document, "
            f"and {_WANTED}."
        )
    if suffix not in _TEXTS:
        raise Refused(f"contains plain text, but its name ends in .{suffix[:10]}: {_WANTED}.")
    return _TEXTS[suffix]


def _is_written(text: str) -> bool:
    controls = sum(1 for sign in text if sign < " " and sign not in _PLAIN_CONTROLS)
    return "\x00" not in text and controls <= len(text) * _MOST_CONTROLS
