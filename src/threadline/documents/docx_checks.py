"""A DOCX is a zip of XML: what it would unpack to, and what it would do, is looked at before anything is unpacked."""

import zipfile
from io import BytesIO
from xml.parsers import expat

from threadline.documents.file_kinds import Refused

MOST_MEMBERS = 2_000
MOST_UNPACKED = 100 * 1024 * 1024
"""Bytes of all members together. None unpacks to more than it announces: Python's zipfile ends it there."""
MOST_RATIO = 100
"""How many times its own size an archive may unpack to, once that is more than `SMALL`."""
SMALL = 5 * 1024 * 1024

_TYPES = "[Content_Types].xml"
_WORD = b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
_MACROS = b"macroEnabled"
_PROLOG = 64 * 1024
"""Bytes within which the root element has to begin."""
_DAMAGED = "is damaged and cannot be unpacked: save the document again, and upload that."


class _Found(Exception):
    """The root element has begun: there is no document type any more."""


def check(content: bytes) -> None:
    """Whether an archive is a Word document that can be unpacked.

    Raises:
        Refused: it is another archive, is damaged, has a password or macros, would unpack to too much, or declares
            entities, which a Word document never does.
    """
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            _check_size(archive.infolist(), len(content))
            _check_word(archive)
            for member in archive.infolist():
                if member.filename.lower().endswith((".xml", ".rels")):
                    with archive.open(member) as part:
                        _check_prolog(part.read(_PROLOG))
    except (Refused, MemoryError):
        raise
    except Exception as exc:
        # The packers behind zipfile each fail in their own ways, and a member may be missing.
        raise Refused(_DAMAGED) from exc


def _check_size(members: list[zipfile.ZipInfo], packed: int) -> None:
    unpacked = sum(each.file_size for each in members)
    if len(members) > MOST_MEMBERS:
        raise Refused(f"contains {len(members):,} files, and the maximum is {MOST_MEMBERS:,}: it was not opened.")
    if unpacked > MOST_UNPACKED or (unpacked > SMALL and unpacked > packed * MOST_RATIO):
        raise Refused(
            f"would unpack to {unpacked / 2**20:,.0f} MiB, which is too much: it was not opened. "
            "Save it again without large pictures, or as PDF."
        )
    if any(each.flag_bits & 1 for each in members):
        raise Refused("has a password: save it without one, and upload that.")


def _check_word(archive: zipfile.ZipFile) -> None:
    names = {each.lower(): each for each in archive.namelist()}
    if _TYPES.lower() not in names:
        raise Refused("is an archive, not a Word document: upload the document itself.")
    types = archive.read(names[_TYPES.lower()])
    if _MACROS in types or any(each.endswith("vbaproject.bin") for each in names):
        raise Refused(
            "contains macros, so it was not opened: save it as DOCX without macros or as PDF, and upload that."
        )
    if _WORD not in types:
        raise Refused("is an Office file, but not a Word document: save it as PDF, and upload that.")


def _check_prolog(beginning: bytes) -> None:
    """Entities can be made to read files, to call addresses, and to grow without end; a document type brings them."""
    parser = expat.ParserCreate()

    def typed(*_: object) -> None:
        raise Refused("declares XML entities, which a Word document never does: it was not opened.")

    def began(*_: object) -> None:
        raise _Found

    parser.StartDoctypeDeclHandler = typed
    parser.StartElementHandler = began
    try:
        parser.Parse(beginning, False)
    except _Found:
        return
    except expat.ExpatError as exc:
        raise Refused(_DAMAGED) from exc
    raise Refused(_DAMAGED)
