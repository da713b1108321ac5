"""Reads plain text, and distinguishes it from formats such as HTML, which are text but not
readable as such.

Encodings are not guessed. In November 2026 charset-normalizer was unsure of most Western texts,
and sure of a wrong encoding for some: it would have turned a price in euro into another currency.
"""

from threadline.documents.reader import DocumentKind, DocumentRejected
from threadline.documents.reading import WANTED

_KINDS = dict.fromkeys(("txt", "text", ""), DocumentKind.TEXT)
_KINDS |= dict.fromkeys(("md", "markdown"), DocumentKind.MARKDOWN)
"""Kinds by the end of the name."""
_BYTE_ORDER_MARKS = (
    ("utf-8-sig", b"\xef\xbb\xbf"),
    ("utf-32", b"\xff\xfe\x00\x00"),
    ("utf-32", b"\x00\x00\xfe\xff"),
    ("utf-16", b"\xff\xfe"),
    ("utf-16", b"\xfe\xff"),
)
"""Byte order marks by encoding. UTF-32 begins like UTF-16, so it comes first."""
_BEGINNING = 1024
"""Characters at the beginning that identify a format."""
_MAX_CONTROLS = 0.001
"""Largest share of control characters in text."""
_PLAIN_CONTROLS = "\t\n\r\f\x0b\x1a\x1b"
"""Control characters of plain text; the last one begins a colour in a terminal's output."""
_AS_DOCUMENT = "open it, save it as DOCX or PDF, and upload that"
_CHECKED = f"open it, check that it is the document, and {WANTED}"
_WEB_PAGE = "a web page, perhaps a login page in place of the file"
_FORMATS = {
    "<!doctype html": (_WEB_PAGE, _CHECKED),
    "<html": (_WEB_PAGE, _CHECKED),
    "{\\rtf": ("a Rich Text file (RTF)", _AS_DOCUMENT),
    "%!ps": ("a PostScript file", _AS_DOCUMENT),
    "<?xml": ("an XML file", _AS_DOCUMENT),
    "mime-version: 1": ("a saved email or web archive", _AS_DOCUMENT),
    "received: from": ("a saved email", _AS_DOCUMENT),
    "return-path: <": ("a saved email", _AS_DOCUMENT),
    "-----begin pgp message": ("an encrypted message (PGP)", f"decrypt it, and {WANTED}"),
}
"""Formats by their first characters, in small letters: name and advice."""


def other_format(text: str) -> tuple[str, str]:
    """Return the name of a text's format, and advice on such a file; both are empty for text that
    people can read as it is.
    """
    beginning = text[:_BEGINNING].lstrip().lower()
    return next((told for sign, told in _FORMATS.items() if beginning.startswith(sign)), ("", ""))


def read_plain(content: bytes, suffix: str) -> tuple[DocumentKind, str]:
    """Read plain text. The file's name determines its kind.

    Raises:
        DocumentRejected: it is no text, has another encoding, or is of another format.
    """
    text = decode_text(content)
    name, advice = other_format(text)
    if name:
        raise DocumentRejected(f"is {name}, despite its name: {advice}.")
    if suffix not in _KINDS:
        raise DocumentRejected(
            f"contains plain text, but its name ends in .{suffix[:10]}: {WANTED}."
        )
    return _KINDS[suffix], text


def decode_text(content: bytes) -> str:
    """Decode a text by its byte order mark, or as UTF-8.

    Raises:
        DocumentRejected: it is no text, or has another encoding.
    """
    marked = (name for name, mark in _BYTE_ORDER_MARKS if content.startswith(mark))
    encoding = next(marked, "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        if _is_binary(content.decode("latin-1")):
            raise _no_text() from error
        raise DocumentRejected(
            f"is not in Unicode (its byte {error.start + 1:,} is not UTF-8), and its encoding "
            "is not guessed: save it as UTF-8, and upload that."
        ) from error
    if _is_binary(text):
        raise _no_text()
    return text


def _is_binary(text: str) -> bool:
    controls = sum(1 for sign in text if sign < " " and sign not in _PLAIN_CONTROLS)
    return "\x00" in text or controls > len(text) * _MAX_CONTROLS


def _no_text() -> DocumentRejected:
    return DocumentRejected(f"has a type that cannot be read, despite its name: {WANTED}.")
