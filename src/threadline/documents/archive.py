"""Checks an Office file before a library opens it: its unpacked size, and its declarations.

It is a zip of XML, and the list of its parts' types identifies its program.
"""

import zipfile
from io import BytesIO
from posixpath import splitext
from xml.parsers import expat

from threadline.documents.reader import DocumentKind, DocumentRejected
from threadline.documents.reading import LOCKED, refusing

MAX_MEMBERS = 2_000
MAX_UNPACKED = 100 * 1024 * 1024
"""Bytes of all members together. No member unpacks to more than it announces: Python's zipfile
stops there.
"""
MAX_RATIO = 100
"""Most times its own size that an archive may unpack to, once that is more than `SMALL`."""
SMALL = 5 * 1024 * 1024

_TYPES = "[content_types].xml"
_OFFICE = b"application/vnd.openxmlformats-officedocument."
_MAIN = {
    _OFFICE + b"wordprocessingml.document.main+xml": DocumentKind.DOCX,
}
"""Kinds by the type of the main part; only these are read."""
_AS_PDF = "save it as PDF, and upload that."
# Workbooks and presentations are not read: openpyxl and python-pptx were last released in 2024,
# and a PDF has the content that people see, without hidden sheets, formulas and notes.
_OTHERS = {
    _OFFICE + b"wordprocessingml.template.main+xml": (
        "is a Word template: save it as DOCX, and upload that."
    ),
    _OFFICE + b"spreadsheetml.": f"is an Excel workbook, and workbooks are not read: {_AS_PDF}",
    _OFFICE + b"presentationml.": (
        f"is a PowerPoint presentation, and presentations are not read: {_AS_PDF}"
    ),
    b"": f"is an Office file, but not a Word document: {_AS_PDF}",
}
_OPEN_DOCUMENT = "application/vnd.oasis.opendocument."
_MACROS = b"macroEnabled"
_PROLOG = 64 * 1024
"""Bytes within which the root element must begin."""
_DAMAGED = "is damaged and cannot be unpacked: save the document again, and upload that."


def check_office(content: bytes) -> DocumentKind:
    """Check that an archive is an Office file that can be unpacked.

    Raises:
        DocumentRejected: it is another archive, is damaged, has a password or macros, would unpack
            to too much, or declares entities, which an Office file never does.
    """
    # a missing member counts as damage, too
    with (
        refusing(_DAMAGED),
        zipfile.ZipFile(BytesIO(content)) as archive,
    ):
        _check_size(archive.infolist(), len(content))
        types = _types(archive)
        kind = _kind(types)
        declared = _declared(types)
        for member in archive.infolist():
            name = member.filename.lower()
            # A library may parse it as XML by its name or by its declared type: a part may have
            # any name.
            told = [declared.get(key, "") for key in (f"/{name}", splitext(name)[1] or ".")]
            if name.endswith((".xml", ".rels")) or any(map(_is_xml_type, told)):
                with archive.open(member) as part:
                    _check_prolog(part.read(_PROLOG))
    return kind


def _check_size(members: list[zipfile.ZipInfo], packed: int) -> None:
    unpacked = sum(each.file_size for each in members)
    if len(members) > MAX_MEMBERS:
        raise DocumentRejected(
            f"contains {len(members):,} files, and the maximum is {MAX_MEMBERS:,}: it was "
            "not opened."
        )
    if unpacked > MAX_UNPACKED or (unpacked > SMALL and unpacked > packed * MAX_RATIO):
        raise DocumentRejected(
            f"would unpack to {unpacked / 2**20:,.0f} MiB, which is too much: it was not opened. "
            "Save it again without large pictures, or as PDF."
        )
    if any(each.flag_bits & 1 for each in members):
        raise DocumentRejected(LOCKED)


def _types(archive: zipfile.ZipFile) -> bytes:
    """Return the raw list of the parts' types."""
    names = {each.lower(): each for each in archive.namelist()}
    if len(names) < len(archive.namelist()):  # readers differ in the duplicate that they take
        raise DocumentRejected(_DAMAGED)
    if _TYPES not in names:
        kind = (
            archive.read(names["mimetype"])[:100].decode("latin-1") if "mimetype" in names else ""
        )
        if kind.startswith(_OPEN_DOCUMENT):
            raise DocumentRejected(
                "is an OpenDocument file: save it as DOCX or PDF, and upload that."
            )
        raise DocumentRejected("is an archive, not a Word document: upload the document itself.")
    types = archive.read(names[_TYPES])
    if _MACROS in types or any(each.endswith("vbaproject.bin") for each in names):
        raise DocumentRejected(
            "contains macros, so it was not opened: save it as DOCX without macros or as "
            "PDF, and upload that."
        )
    return types


def _kind(types: bytes) -> DocumentKind:
    for main, kind in _MAIN.items():
        if main in types:
            return kind
    raise DocumentRejected(next(refusal for sign, refusal in _OTHERS.items() if sign in types))


def _declared(types: bytes) -> dict[str, str]:
    """Return the declared content types, by `/name` and by `.extension`, in small letters."""
    declared = dict[str, str]()

    def collect(_: str, attributes: dict[str, str]) -> None:
        kind = attributes.get("ContentType", "").lower()
        for attribute, prefix in (("PartName", ""), ("Extension", ".")):
            if attribute in attributes:
                key = prefix + attributes[attribute].lower()
                # A name that is declared twice counts as XML if one of its types is XML.
                declared[key] = kind if _is_xml_type(kind) else declared.get(key, kind)

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = _reject_document_type
    parser.StartElementHandler = collect
    parser.Parse(types, True)
    return declared


def _is_xml_type(kind: str) -> bool:
    """Return whether a library may parse the type as XML. Pictures (SVG) and web pages are not
    parsed, so they may have a document type.
    """
    return kind.strip().endswith("xml") and not kind.strip().startswith(
        ("image/", "application/xhtml")
    )


def _check_prolog(beginning: bytes) -> None:
    """Reject a document type, which declares entities: these can read files, call addresses, and
    grow without end.
    """
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
    raise DocumentRejected(
        "declares XML entities, which an Office file never does: it was not opened."
    )


def _stop_at_root(*_: object) -> None:
    raise _RootFound
