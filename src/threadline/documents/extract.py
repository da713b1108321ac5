"""The text in a document's bytes. It runs in the child process: whatever is wrong with the bytes ends there."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import docx
import pypdf
from docx.oxml.ns import qn
from pypdf.errors import LimitReachedError

from threadline.documents import docx_checks as archives
from threadline.documents.file_kinds import Kind, Refused, decoded, kind_of

MOST_PAGES = 1_000
LONGEST = 1_000_000
"""Characters that are kept; the rest is left out, and `cut` says so."""
READING = 12.0
"""Seconds of computing after which no further page is begun; `cut` says so."""

_RUN, _CELL, _ROW, _PARAGRAPH = qn("w:t"), qn("w:tc"), qn("w:tr"), qn("w:p")
_PLAIN = {qn("w:tab"): "\t", qn("w:br"): "\n", qn("w:cr"): "\n", qn("w:noBreakHyphen"): "-"}
_AGAIN = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
"""What stands beside it once more, for older programs."""
_BLANKS = re.compile(r"[^\S\n]+")
_HIDDEN = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff\u200b\u00ad]")
_GAPS = re.compile(r"\n{3,}")
_UNREADABLE = "cannot be read and seems to be damaged: open it, save it again, and upload that."


@dataclass(frozen=True)
class Text:
    """`pages`: of a PDF, as many as it has; 0 for what has none. `cut`: not all of it is there."""

    kind: Kind
    text: str
    pages: int = 0
    cut: bool = False


def text_of(content: bytes, suffix: str) -> Text:
    """The text of a document.

    Args:
        suffix: the end of the file's name, without the dot, in small letters.

    Raises:
        Refused: it is of no kind that is read, cannot be read, or has no text.
    """
    kind = kind_of(content, suffix)
    if kind is Kind.PDF:
        raw, pages, cut = _of_pdf(content)
    elif kind is Kind.DOCX:
        raw, pages, cut = _of_docx(content), 0, False
    else:
        raw, pages, cut = decoded(content), 0, False
    text = tidied(raw[: 2 * LONGEST])
    if not any(sign.isalnum() for sign in text):
        raise Refused("contains no text, like a scan: upload a version with text, such as one after OCR.")
    return Text(kind, text[:LONGEST], pages, cut or len(raw) > 2 * LONGEST or len(text) > LONGEST)


def tidied(text: str) -> str:
    """Without what nobody sees; lines and paragraphs stay."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")
    seen = _BLANKS.sub(" ", _HIDDEN.sub("", lines))
    return _GAPS.sub("\n\n", "\n".join(line.strip() for line in seen.split("\n"))).strip()


def _of_pdf(content: bytes) -> tuple[str, int, bool]:
    try:
        reader = pypdf.PdfReader(BytesIO(content), strict=False)
        # Many only forbid printing, and open without a password.
        locked = reader.is_encrypted and not reader.decrypt("")
        pages = 0 if locked else len(reader.pages)
    except MemoryError:
        raise
    except Exception as exc:
        raise Refused(_UNREADABLE) from exc
    if locked:
        raise Refused("has a password: save it without one, and upload that.")
    if pages > MOST_PAGES:
        raise Refused(f"has {pages:,} pages, and at most {MOST_PAGES:,} are read: upload the part that matters.")
    texts, cut = _of_pages(reader, pages)
    return "\n\n".join(texts), pages, cut


def _of_pages(reader: pypdf.PdfReader, pages: int) -> tuple[list[str], bool]:
    """The text of each page that can be read; with it, whether any is missing."""
    texts, length, broken = list[str](), 0, 0
    for number in range(pages):
        if length > LONGEST or time.process_time() > READING:
            return texts, True
        try:
            texts.append(reader.pages[number].extract_text())
            length += len(texts[-1])
        except LimitReachedError as exc:
            raise Refused("would unpack to too much data: it was not read further.") from exc
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - one page that is broken does not take the others with it
            broken += 1
    if pages and broken == pages:
        raise Refused(_UNREADABLE)
    return texts, broken > 0


def _of_docx(content: bytes) -> str:
    archives.check(content)
    try:
        return "".join(_pieces(docx.Document(BytesIO(content)).element.body))
    except MemoryError:
        raise
    except Exception as exc:
        raise Refused(_UNREADABLE) from exc


def _pieces(element: Any) -> Iterator[str]:
    """In the order of the document, whatever it stands in: tables, text boxes, content controls, insertions."""
    tag = element.tag
    if tag == _AGAIN:
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
