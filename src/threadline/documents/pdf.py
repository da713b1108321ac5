"""Reads a PDF: the text of its pages, values of form fields, and text that was typed onto a page.

Files whose pages are only a cover are rejected: dynamic forms (XFA) and portfolios. Pictures,
comments and attached files are not read: `unread` names them.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import pypdf
from pypdf.errors import LimitReachedError

from threadline.documents.reader import DocumentRejected
from threadline.documents.reading import (
    DAMAGED,
    LOCKED,
    MAX_TEXT,
    Reading,
    counted,
    names,
    pages_named,
    refusing,
)

MAX_PAGES = 1_000
MAX_SECONDS = 12.0
"""Seconds of CPU time after which no further page is read."""
_DYNAMIC_FORM = (
    "is a dynamic form (XFA), which only Adobe Acrobat can show: open it there, print it as PDF, "
    "and upload that."
)
_PORTFOLIO = (
    "is a PDF portfolio, a cover with other files in it: upload the files that matter one by one."
)
_COVER = "If this message is not eventually replaced"
"""Adobe's text on the only page of a dynamic form."""

_PAINTING = frozenset((b"f", b"F", b"f*", b"B", b"B*", b"b", b"b*", b"S", b"s", b"sh"))
_SHOWING = frozenset((b"Tj", b"TJ", b"'", b'"'))
_BLANKS = 20
"""Bytes of text on a page that still counts as blank: Word draws a space there."""
_INLINE_IMAGE = b"INLINE IMAGE"
"""pypdf's name for an image within the page's content."""
_MAX_CAPTION = 100
"""Most letters and digits on a page that counts as a picture: a stamp or a page number."""
_PICTURE_SHARE = 0.5
"""Share of the page's area that pictures cover on a page that counts as a picture."""
_GARBLED_SHARE = 0.2
"""Share of signs without a letter in the font, above which a page counts as unreadable."""

_HIDDEN_FLAGS = 0x02 | 0x20
"""Annotation flags *Hidden* and *NoView*."""
_PUSH_BUTTON = 1 << 16
_SECRET = 1 << 13
"""Flags of a field: a button without a value, a password."""
_COMMENTS = frozenset(
    ("/Text", "/Highlight", "/Underline", "/Squiggly", "/StrikeOut", "/Caret", "/Ink", "/Square")
)
_MAX_DEPTH = 20
"""Most parents of a form field that are followed."""


@dataclass
class _Pages:
    """The findings on the pages read so far."""

    texts: list[str] = field(default_factory=list)
    length: int = 0
    broken: list[int] = field(default_factory=list)
    empty: list[int] = field(default_factory=list)
    pictures: list[int] = field(default_factory=list)
    garbled: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    comments: int = 0
    files: int = 0
    fields_seen: set[int] = field(default_factory=set)


def read_pdf(content: bytes) -> Reading:
    """Read the text of a PDF.

    Raises:
        DocumentRejected: it cannot be read.
    """
    until = time.process_time() + MAX_SECONDS
    with refusing(DAMAGED):
        reader = pypdf.PdfReader(BytesIO(content), strict=False)
        # Many encrypted files only forbid printing, and open without a password.
        if reader.is_encrypted and not reader.decrypt(""):
            raise DocumentRejected(LOCKED)
        pages = len(reader.pages)
        is_form = _refuse_covers(reader)
    if pages > MAX_PAGES:
        raise DocumentRejected(
            f"has {pages:,} pages, and at most {MAX_PAGES:,} are read: upload the part that "
            "matters."
        )
    found = _Pages()
    for number in range(1, pages + 1):
        if found.length > MAX_TEXT or time.process_time() > until:
            found.left = list(range(number, pages + 1))
            break
        _read_page(reader, number, found)
    if is_form and found.texts and _COVER in found.texts[0]:
        raise DocumentRejected(_DYNAMIC_FORM)
    if pages and len(found.broken) == pages:
        raise DocumentRejected(DAMAGED)
    return Reading("\n\n".join(found.texts), _unread(reader, found), pages)


def _refuse_covers(reader: pypdf.PdfReader) -> bool:
    """Reject a file whose pages only name the program that shows the document.

    Returns:
        True for a form (XFA) that may still be such a file.
    """
    catalog = reader.root_object
    if "/Collection" in catalog:
        raise DocumentRejected(_PORTFOLIO)
    form = _dictionary(catalog.get("/AcroForm"))
    if not form.get("/XFA"):
        return False
    static = bool(_list(form.get("/Fields"))) and not catalog.get("/NeedsRendering")
    if not static:
        raise DocumentRejected(_DYNAMIC_FORM)
    return True


def _read_page(reader: pypdf.PdfReader, number: int, found: _Pages) -> None:
    """Add the page to the findings; a broken page does not affect the others."""
    try:
        page = reader.pages[number - 1]
        look = _PageLook(page)
        text = page.extract_text(visitor_operand_before=look.see)
        added = list(_annotations(page, found))
    except LimitReachedError as exc:
        raise DocumentRejected("would unpack to too much data: it was not read further.") from exc
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - pypdf fails in many ways
        found.broken.append(number)
        return
    letters = sum(sign.isalnum() for sign in text)
    if _is_garbled(text):
        found.garbled.append(number)
        text = ""
    elif not letters:
        found.empty += [number] if look.painted else []
    elif look.is_mostly_picture and letters <= _MAX_CAPTION:
        found.pictures.append(number)
    whole = "\n".join([text, *added])
    found.texts.append(whole)
    found.length += len(whole)


class _PageLook:
    """Observes the drawing operators of a page while pypdf extracts its text."""

    def __init__(self, page: pypdf.PageObject) -> None:
        self._area = float(page.mediabox.width) * float(page.mediabox.height)
        self._covered = 0.0
        self._signs = 0
        self._drawn = False
        drawings = _dictionary(_dictionary(page.get("/Resources")).get("/XObject"))
        self._forms = {
            name for name, each in drawings.items() if _dictionary(each).get("/Subtype") == "/Form"
        }

    @property
    def is_mostly_picture(self) -> bool:
        return self._covered >= _PICTURE_SHARE * self._area

    @property
    def painted(self) -> bool:
        """Whether the page is not blank."""
        return self._drawn or self._signs > _BLANKS

    def see(self, operator: bytes, operands: Any, matrix: Any, _: Any) -> None:
        if operator in _PAINTING:
            self._drawn = True
        elif operator in _SHOWING:
            shown = operands[-1] if operands else ""
            self._signs += sum(map(_length, shown if isinstance(shown, list) else [shown]))
        elif operator == _INLINE_IMAGE or (operator == b"Do" and operands[0] not in self._forms):
            # A form is drawn by its own operators, which also arrive here.
            self._drawn = True
            self._covered += abs(matrix[0] * matrix[3] - matrix[1] * matrix[2])


def _length(shown: Any) -> int:
    return len(shown) if isinstance(shown, str | bytes) else 0


def _is_garbled(text: str) -> bool:
    """Whether the fonts do not map their signs to letters."""
    signs = [each for each in text if not each.isspace()]
    unknown = sum(
        1 for each in signs if each == "\ufffd" or "\ue000" <= each <= "\uf8ff" or each < " "
    )
    return unknown > _GARBLED_SHARE * len(signs)


def _annotations(page: pypdf.PageObject, found: _Pages) -> Iterator[str]:
    """Yield the values of the page's form fields, and text that was typed onto it."""
    for each in _list(page.get("/Annots")):
        annotation = _dictionary(each)
        kind = annotation.get("/Subtype")
        if _flags(annotation.get("/F")) & _HIDDEN_FLAGS:
            continue
        if kind == "/Widget":
            yield from _field(annotation, found)
        elif kind == "/FreeText":
            yield _text(annotation.get("/Contents"))
        elif kind == "/FileAttachment":
            found.files += 1
        elif kind in _COMMENTS and _text(annotation.get("/Contents")).strip():
            found.comments += 1


def _field(widget: Mapping[str, Any], found: _Pages) -> Iterator[str]:
    """Yield `name: value` of a field with a value, once for all of its widgets."""
    chain = list(_chain(widget))
    owner = next((each for each in chain if "/T" in each), chain[0])
    value = _value(chain)
    if value.strip() and id(owner) not in found.fields_seen:
        found.fields_seen.add(id(owner))
        name = next((_text(each["/TU"]) for each in chain if each.get("/TU")), "")
        parts = [_text(each["/T"]) for each in reversed(chain) if each.get("/T")]
        yield f"{name.strip() or '.'.join(parts) or 'Form field'}: {value}"


def _chain(widget: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the widget and the fields that it inherits from."""
    each = widget
    for _ in range(_MAX_DEPTH):
        yield each
        if "/Parent" not in each:
            return
        each = _dictionary(each["/Parent"])


def _value(chain: list[Mapping[str, Any]]) -> str:
    kind = _inherited(chain, "/FT")
    flags = _flags(_inherited(chain, "/Ff"))
    value = _inherited(chain, "/V")
    if kind == "/Btn":
        return "" if flags & _PUSH_BUTTON else _choice_of_button(chain, value)
    if kind == "/Ch":
        shown = dict(map(_option, _list(_inherited(chain, "/Opt"))))
        chosen = [_text(each) for each in (value if isinstance(value, list) else [value])]
        return ", ".join(shown.get(each, each) for each in chosen)
    if kind == "/Sig":
        return "signed" if value is not None else ""
    return "" if flags & _SECRET else _text(value)


def _choice_of_button(chain: list[Mapping[str, Any]], value: Any) -> str:
    state = str(value if value is not None else chain[0].get("/AS", "/Off")).removeprefix("/")
    options = [_text(each) for each in _list(_inherited(chain, "/Opt"))]
    if state in ("", "Off"):
        return ""
    if state.isdecimal() and int(state) < len(options):
        return options[int(state)]
    return "yes" if state in ("Yes", "On", "1") else state


def _option(given: Any) -> tuple[str, str]:
    """Return the stored value of a choice, and its label in the form."""
    pair = _list(given)
    return (_text(pair[0]), _text(pair[-1])) if pair else (_text(given), _text(given))


def _inherited(chain: list[Mapping[str, Any]], key: str) -> Any:
    return _resolved(next((each[key] for each in chain if each.get(key) is not None), None))


def _unread(reader: pypdf.PdfReader, found: _Pages) -> list[str]:
    told = [
        (found.empty, "no text, like a scan or a drawing"),
        (found.pictures, "mostly a picture, like a scan"),
        (found.garbled, "a font that does not map to letters"),
        (found.broken, "damaged"),
        (found.left, "too long a text"),
    ]
    unread = [f"{pages_named(pages)} ({why})" for pages, why in told if pages]
    if found.comments:
        unread.append(counted(found.comments, "comment"))
    try:
        attached = [each.name for each in reader.attachment_list]
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - pypdf fails in many ways
        attached = ["with names that cannot be read"]
    if attached:
        unread.append(f"attached files: {names(attached)}")
    elif found.files:
        unread.append(counted(found.files, "attached file"))
    return unread


def _resolved(given: Any) -> Any:
    return given.get_object() if hasattr(given, "get_object") else given


def _dictionary(given: Any) -> Mapping[str, Any]:
    resolved = _resolved(given)
    return resolved if isinstance(resolved, Mapping) else {}


def _list(given: Any) -> list[Any]:
    resolved = _resolved(given)
    return list(resolved) if isinstance(resolved, list) else []


def _flags(given: Any) -> int:
    resolved = _resolved(given)
    return int(resolved) if isinstance(resolved, int) else 0


def _text(given: Any) -> str:
    resolved = _resolved(given)
    if hasattr(resolved, "get_data"):
        resolved = resolved.get_data()
    if isinstance(resolved, bytes):
        return resolved.decode("utf-8", "replace")
    return str(resolved) if isinstance(resolved, str) else ""
