"""The child process in which a document's text is extracted: `python -I -B -m threadline.documents.extract SUFFIX`. It
takes the bytes from its standard input and answers with JSON: `{"document": {…}}`, or `{"rejected": "…"}`. Its
resources are limited before it reads the first byte, and it cannot raise a limit again.

The bytes say what a file is; its name is only believed where plain text has to be told from plain text. A DOCX is a
zip of XML: what it would unpack to, and what it declares, is checked before python-docx opens it.
"""

import contextlib
import json
import re
import resource
import sys
import time
import zipfile
from collections.abc import Iterator
from io import BytesIO
from posixpath import splitext
from typing import Any
from xml.parsers import expat

import docx
import pypdf
from docx.oxml.ns import qn
from pypdf.errors import LimitReachedError

from threadline.documents.reader import DocumentKind, DocumentRejected, DocumentText

MEMORY = 1024 * 1024 * 1024
"""Bytes, of which Python and its libraries take some 200 MiB."""
CPU = 16
"""Seconds of computing; then the system ends the process."""

_LIMITS = (
    (resource.RLIMIT_AS, MEMORY),
    (resource.RLIMIT_CPU, CPU),
    (resource.RLIMIT_FSIZE, 0),
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_NOFILE, 16),
    (resource.RLIMIT_NPROC, 0),
)
MAX_PAGES = 1_000
MAX_TEXT = 1_000_000
"""Characters that are kept; the rest is left out, and `cut` says so."""
MAX_SECONDS = 12.0
"""Seconds of computing after which no further page is begun; `cut` says so."""

MAX_MEMBERS = 2_000
MAX_UNPACKED = 100 * 1024 * 1024
"""Bytes of all members together. None unpacks to more than it announces: Python's zipfile ends it there."""
MAX_RATIO = 100
"""How many times its own size an archive may unpack to, once that is more than `SMALL`."""
SMALL = 5 * 1024 * 1024

_TEXT_KINDS = dict.fromkeys(("txt", "text", ""), DocumentKind.TEXT)
_TEXT_KINDS |= dict.fromkeys(("md", "markdown"), DocumentKind.MARKDOWN)
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
_BYTE_ORDER_MARKS = (("utf-8-sig", b"\xef\xbb\xbf"), ("utf-16", b"\xff\xfe"), ("utf-16", b"\xfe\xff"))
_PDF_WITHIN = 1024
"""Bytes in which a PDF begins: readers allow for rubbish before it."""
_HTML_WITHIN = 1024
_MAX_CONTROLS = 0.001
"""The share of control characters that text may have."""
_PLAIN_CONTROLS = "\t\n\r\f\x0b\x1a"

_TYPES = "[content_types].xml"
_WORD = b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
_MACROS = b"macroEnabled"
_PROLOG = 64 * 1024
"""Bytes within which the root element has to begin."""
_RUN, _CELL, _ROW, _PARAGRAPH = qn("w:t"), qn("w:tc"), qn("w:tr"), qn("w:p")
_PLAIN = {qn("w:tab"): "\t", qn("w:br"): "\n", qn("w:cr"): "\n", qn("w:noBreakHyphen"): "-"}
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
"""Repeats what stands beside it, for older programs."""
_BLANKS = re.compile(r"[^\S\n]+")
_HIDDEN = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff\u200b\u00ad]")
_GAPS = re.compile(r"\n{3,}")
_UNREADABLE = "cannot be read and seems to be damaged: open it, save it again, and upload that."
_DAMAGED = "is damaged and cannot be unpacked: save the document again, and upload that."


def extract_text(content: bytes, suffix: str) -> DocumentText:
    """The text of a document. `suffix`: the end of the file's name, without the dot, in small letters. Raises
    `DocumentRejected`: it is of no kind that is read, cannot be read, or has no text."""
    kind = _kind_of(content, suffix)
    if kind is DocumentKind.PDF:
        raw, pages, cut = _read_pdf(content)
    elif kind is DocumentKind.DOCX:
        _check_archive(content)
        with _refusing(_UNREADABLE):
            raw, pages, cut = "".join(_pieces(docx.Document(BytesIO(content)).element.body)), 0, False
    else:
        raw, pages, cut = _decode(content), 0, False
    text = clean_text(raw[: 2 * MAX_TEXT])
    if not any(sign.isalnum() for sign in text):
        raise DocumentRejected("contains no text, like a scan: upload a version with text, such as one after OCR.")
    cut = cut or len(raw) > 2 * MAX_TEXT or len(text) > MAX_TEXT
    return DocumentText(kind=kind, text=text[:MAX_TEXT], pages=pages, cut=cut)


def clean_text(text: str) -> str:
    """The text without invisible characters; lines and paragraphs stay."""
    visible = _BLANKS.sub(" ", _HIDDEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")))
    return _GAPS.sub("\n\n", "\n".join(line.strip() for line in visible.split("\n"))).strip()


def _kind_of(content: bytes, suffix: str) -> DocumentKind:
    if not content.strip():
        raise DocumentRejected(f"is empty: {_WANTED}.")
    if content.startswith(_PROGRAMS):
        raise DocumentRejected(f"is a program, so it was not opened: {_WANTED}.")
    if b"%PDF-" in content[:_PDF_WITHIN]:
        return DocumentKind.PDF
    if content.startswith(b"PK\x03\x04"):
        return DocumentKind.DOCX  # or another archive, which opening it shows
    if content.startswith(_OLD_OFFICE):
        raise DocumentRejected(
            "is an old Office file, or has a password: save it as DOCX or PDF without one, and upload that."
        )
    if _decode(content)[:_HTML_WITHIN].lstrip().lower().startswith(("<!doctype html", "<html")):
        raise DocumentRejected(
            "is a web page, perhaps a login page in place of the file: open it, check that it is the document, "
            f"and {_WANTED}."
        )
    if suffix not in _TEXT_KINDS:
        raise DocumentRejected(f"contains plain text, but its name ends in .{suffix[:10]}: {_WANTED}.")
    return _TEXT_KINDS[suffix]


def _decode(content: bytes) -> str:
    """Text in one of the usual encodings."""
    marked = [name for name, mark in _BYTE_ORDER_MARKS if content.startswith(mark)]
    for encoding in marked or ["utf-8", "cp1252"]:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        controls = sum(1 for sign in text if sign < " " and sign not in _PLAIN_CONTROLS)
        if "\x00" not in text and controls <= len(text) * _MAX_CONTROLS:
            return text
    raise DocumentRejected(f"has a type that cannot be read, whatever its name: {_WANTED}.")


@contextlib.contextmanager
def _refusing(sentence: str) -> Iterator[None]:
    """Around libraries, which each fail in their own ways: the document is refused, but for want of memory."""
    try:
        yield
    except (DocumentRejected, MemoryError):
        raise
    except Exception as exc:
        raise DocumentRejected(sentence) from exc


def _read_pdf(content: bytes) -> tuple[str, int, bool]:
    with _refusing(_UNREADABLE):
        reader = pypdf.PdfReader(BytesIO(content), strict=False)
        # Many only forbid printing, and open without a password.
        locked = reader.is_encrypted and not reader.decrypt("")
        pages = 0 if locked else len(reader.pages)
    if locked:
        raise DocumentRejected("has a password: save it without one, and upload that.")
    if pages > MAX_PAGES:
        raise DocumentRejected(
            f"has {pages:,} pages, and at most {MAX_PAGES:,} are read: upload the part that matters."
        )
    texts, cut = _read_pages(reader, pages)
    return "\n\n".join(texts), pages, cut


def _read_pages(reader: pypdf.PdfReader, pages: int) -> tuple[list[str], bool]:
    """The text of each page that can be read; with it, whether any is missing."""
    texts, length, broken = list[str](), 0, 0
    for number in range(pages):
        if length > MAX_TEXT or time.process_time() > MAX_SECONDS:
            return texts, True
        try:
            texts.append(reader.pages[number].extract_text())
            length += len(texts[-1])
        except LimitReachedError as exc:
            raise DocumentRejected("would unpack to too much data: it was not read further.") from exc
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - one page that is broken does not take the others with it
            broken += 1
    if pages and broken == pages:
        raise DocumentRejected(_UNREADABLE)
    return texts, broken > 0


def _pieces(element: Any) -> Iterator[str]:
    """In the order of the document, whatever it stands in: tables, text boxes, content controls, insertions."""
    tag = element.tag
    if tag == _FALLBACK:
        return
    if tag == _RUN:
        yield element.text or ""
    elif tag in _PLAIN:
        yield _PLAIN[tag]
    elif tag == _CELL:
        yield " ".join("".join(piece for child in element for piece in _pieces(child)).split()) + " | "
    else:
        for child in element:
            yield from _pieces(child)
        if tag in (_PARAGRAPH, _ROW):
            yield "\n"


def _check_archive(content: bytes) -> None:
    """Check that an archive is a Word document that can be unpacked. Raises `DocumentRejected`: it is another archive,
    is damaged, has a password or macros, would unpack to too much, or declares entities, which a Word document never
    does."""
    with _refusing(_DAMAGED), zipfile.ZipFile(BytesIO(content)) as archive:  # also where a member is missing
        _check_size(archive.infolist(), len(content))
        types = _check_word(archive)
        for member in archive.infolist():
            name = member.filename.lower()
            # It could be parsed as XML by its name or by its declared type, since a part may have any name.
            declared = [types.get(key, "") for key in (f"/{name}", splitext(name)[1] or ".")]
            if name.endswith((".xml", ".rels")) or any(map(_is_xml_type, declared)):
                with archive.open(member) as part:
                    _check_prolog(part.read(_PROLOG))


def _check_size(members: list[zipfile.ZipInfo], packed: int) -> None:
    unpacked = sum(each.file_size for each in members)
    if len(members) > MAX_MEMBERS:
        raise DocumentRejected(
            f"contains {len(members):,} files, and the maximum is {MAX_MEMBERS:,}: it was not opened."
        )
    if unpacked > MAX_UNPACKED or (unpacked > SMALL and unpacked > packed * MAX_RATIO):
        raise DocumentRejected(
            f"would unpack to {unpacked / 2**20:,.0f} MiB, which is too much: it was not opened. "
            "Save it again without large pictures, or as PDF."
        )
    if any(each.flag_bits & 1 for each in members):
        raise DocumentRejected("has a password: save it without one, and upload that.")


def _check_word(archive: zipfile.ZipFile) -> dict[str, str]:
    """The declared content types, by `/name` and by `.extension`, in small letters."""
    names = {each.lower(): each for each in archive.namelist()}
    if len(names) < len(archive.namelist()):  # readers differ in which of two they take
        raise DocumentRejected(_DAMAGED)
    if _TYPES not in names:
        raise DocumentRejected("is an archive, not a Word document: upload the document itself.")
    types = archive.read(names[_TYPES])
    if _MACROS in types or any(each.endswith("vbaproject.bin") for each in names):
        raise DocumentRejected(
            "contains macros, so it was not opened: save it as DOCX without macros or as PDF, and upload that."
        )
    if _WORD not in types:
        raise DocumentRejected("is an Office file, but not a Word document: save it as PDF, and upload that.")
    declared = dict[str, str]()

    def collect(_: str, attributes: dict[str, str]) -> None:
        kind = attributes.get("ContentType", "").lower()
        for attribute, prefix in (("PartName", ""), ("Extension", ".")):
            if attribute in attributes:
                key = prefix + attributes[attribute].lower()
                # A name that is declared twice counts as XML if it is once.
                declared[key] = kind if _is_xml_type(kind) else declared.get(key, kind)

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _reject_document_type
    parser.StartElementHandler = collect
    parser.Parse(types, True)
    return declared


def _is_xml_type(kind: str) -> bool:
    """Pictures (SVG) and web pages may have a document type: nothing here parses them."""
    return kind.strip().endswith("xml") and not kind.strip().startswith(("image/", "application/xhtml"))


def _check_prolog(beginning: bytes) -> None:
    """Entities can be made to read files, to call addresses, and to grow without end; a document type brings them."""
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _reject_document_type
    parser.StartElementHandler = _stop_at_root
    try:
        parser.Parse(beginning, False)
    except _RootFound:
        return
    raise DocumentRejected(_DAMAGED)


class _RootFound(Exception):
    """The root element has begun: no document type can follow."""


def _reject_document_type(*_: object) -> None:
    raise DocumentRejected("declares XML entities, which a Word document never does: it was not opened.")


def _stop_at_root(*_: object) -> None:
    raise _RootFound


def limit_resources() -> None:
    """Take away what reading a document does not need."""
    for what, limit in _LIMITS:
        with contextlib.suppress(ValueError, OSError):  # macOS has no limit of this kind for memory
            resource.setrlimit(what, (limit, limit))


def main() -> None:
    limit_resources()
    answer: dict[str, object]
    try:
        answer = {"document": extract_text(sys.stdin.buffer.read(), sys.argv[1]).model_dump(mode="json")}
    except DocumentRejected as rejected:
        answer = {"rejected": str(rejected)}
    except (MemoryError, RecursionError):
        answer = {"rejected": "needs too much memory to read: upload the part that matters."}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
