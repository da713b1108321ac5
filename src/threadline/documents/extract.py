"""The child process that extracts a document's text.

It runs as `python -I -B -m threadline.documents.extract SUFFIX`, reads the bytes from its standard
input and answers with JSON: `{"document": {…}}`, or `{"rejected": "…"}`. Its resources are limited
before it reads the first byte, and it cannot raise a limit again. The bytes determine the kind of
a file; its name only counts to distinguish kinds of plain text.
"""

import contextlib
import json
import resource
import sys

from threadline.documents import plain
from threadline.documents.archive import check_office
from threadline.documents.pdf import read_pdf
from threadline.documents.reader import DocumentKind, DocumentRejected, DocumentText
from threadline.documents.reading import MAX_TEXT, WANTED, Reading, clean_text, has_words
from threadline.documents.word import read_word

MEMORY = 1024 * 1024 * 1024
"""Bytes of memory; Python and its libraries take about 200 MiB."""
CPU = 16
"""Seconds of CPU time; then the system ends the process."""

_LIMITS = (
    (resource.RLIMIT_AS, MEMORY),
    (resource.RLIMIT_CPU, CPU),
    (resource.RLIMIT_FSIZE, 0),
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_NOFILE, 16),
    (resource.RLIMIT_NPROC, 0),
)

_PROGRAMS = (
    b"MZ",
    b"\x7fELF",
    b"\xfe\xed\xfa\xce",
    b"\xfe\xed\xfa\xcf",
    b"\xce\xfa\xed\xfe",
    b"\xcf\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
)
"""First bytes of programs for Windows, Linux, macOS, Java."""
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""First bytes of an old Office file, and of a DOCX with a password."""
_OLD_KINDS = {
    "EncryptedPackage": "has a password: save it without one, and upload that.",
    "WordDocument": "is an old Word file (DOC): save it as DOCX or PDF, and upload that.",
    "Workbook": "is an old Excel file (XLS): save it as PDF, and upload that.",
    "PowerPoint Document": "is an old PowerPoint file (PPT): save it as PDF, and upload that.",
    "__substg1.0_": f"is a saved Outlook message: {WANTED} that it has or names.",
    "": (
        "is an old Office file, or has a password: save it as DOCX or PDF without one, and "
        "upload that."
    ),
}
"""Refusals by the name of a stream in the file."""
_PDF_WITHIN = 1024
"""Bytes within which a PDF begins: readers allow for other bytes before it."""


def extract_text(content: bytes, suffix: str) -> DocumentText:
    """Extract the text of a document.

    Args:
        content: the file's bytes.
        suffix: the end of the file's name, without the dot, in small letters.

    Raises:
        DocumentRejected: its kind is not supported, it cannot be read, or it has no text.
    """
    kind, reading = _read(content, suffix)
    text = clean_text(reading.text[: 2 * MAX_TEXT])
    unread = list(reading.unread)
    if not has_words(text):
        missed = f" (not read: {'; '.join(unread)})" if unread else ", like a scan"
        raise DocumentRejected(
            f"contains no text that can be read{missed}: upload a version with text, such as "
            "one after OCR."
        )
    if len(reading.text) > 2 * MAX_TEXT or len(text) > MAX_TEXT:
        unread.append(f"text after the first {MAX_TEXT:,} characters")
    return DocumentText(kind=kind, text=text[:MAX_TEXT], pages=reading.pages, unread=tuple(unread))


def _read(content: bytes, suffix: str) -> tuple[DocumentKind, Reading]:
    if not content.strip():
        raise DocumentRejected(f"is empty: {WANTED}.")
    if content.startswith(_PROGRAMS):
        raise DocumentRejected(f"is a program, so it was not opened: {WANTED}.")
    if b"%PDF-" in content[:_PDF_WITHIN]:
        return DocumentKind.PDF, read_pdf(content)
    if content.startswith(b"PK\x03\x04"):
        kind = check_office(content)
        return kind, read_word(content)
    if content.startswith(_OLD_OFFICE):
        known = (told for name, told in _OLD_KINDS.items() if name.encode("utf-16-le") in content)
        raise DocumentRejected(next(known))
    kind, text = plain.read_plain(content, suffix)
    return kind, Reading(text)


def limit_resources() -> None:
    """Limit the resources to those that reading a document needs."""
    for what, limit in _LIMITS:
        # macOS has no such limit of memory
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (limit, limit))


def main() -> None:
    limit_resources()
    answer: dict[str, object]
    try:
        answer = {
            "document": extract_text(sys.stdin.buffer.read(), sys.argv[1]).model_dump(mode="json")
        }
    except DocumentRejected as rejected:
        answer = {"rejected": str(rejected)}
    except (MemoryError, RecursionError):
        answer = {"rejected": "needs too much memory to read: upload the part that matters."}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
