"""Documents as people upload them, and malicious documents."""

import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO

import docx
from pypdf import PdfReader, PdfWriter

_TYPES = "[Content_Types].xml"
_BODY = "word/document.xml"


def pdf(*pages: str) -> bytes:
    """Return a PDF with one line of text on each page; an empty string gives a page without
    text.
    """
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    kids = []
    for line in pages:
        drawn = f"BT /F1 12 Tf 72 720 Td ({line}) Tj ET".encode("latin-1") if line else b""
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn))
        font = b"<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
        objects.append(
            (
                b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
                b"/Resources %s >>"
            )
            % (len(objects), font)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(kids))
    return _numbered(objects)


def _numbered(objects: Sequence[bytes]) -> bytes:
    made = bytearray(b"%PDF-1.4\n")
    places = []
    for number, each in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    start = len(made)
    made += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    made += b"".join(b"%010d 00000 n \n" % place for place in places)
    made += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        start,
    )
    return bytes(made)


def locked_pdf(password: str, *pages: str) -> bytes:
    """An empty password only forbids printing."""
    writer = PdfWriter(clone_from=PdfReader(BytesIO(pdf(*pages))))
    writer.encrypt(password, "the owner's", algorithm="AES-256")
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def word(*paragraphs: str, table: Sequence[Sequence[str]] = ()) -> bytes:
    document = docx.Document()
    for each in paragraphs:
        document.add_paragraph(each)
    if table:
        grid = document.add_table(rows=0, cols=len(table[0]))
        for row in table:
            for cell, text in zip(grid.add_row().cells, row, strict=True):
                cell.text = text
    out = BytesIO()
    document.save(out)
    return out.getvalue()


def changed(content: bytes, parts: Mapping[str, bytes]) -> bytes:
    """Return the archive with these parts, in place of those of the same name or in addition."""
    out = BytesIO()
    with (
        zipfile.ZipFile(BytesIO(content)) as old,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            if name not in parts:
                new.writestr(name, old.read(name))
        for name, part in parts.items():
            new.writestr(name, part)
    return out.getvalue()


def bomb(mebibytes: int) -> bytes:
    """Return a Word document that unpacks to this size."""
    return changed(word("Boom"), {"word/media/image1.bin": bytes(mebibytes * 2**20)})


def crowded(members: int) -> bytes:
    return changed(word("Boom"), {f"word/media/{number}.bin": b"" for number in range(members)})


def with_macros() -> bytes:
    return changed(word("Enable the content"), {"word/vbaProject.bin": b"\xd0\xcf\x11\xe0"})


def with_entities(declared: str, used: str, encoding: str = "UTF-8") -> bytes:
    """Return a document whose text uses entities that it declares itself: XXE or "billion
    laughs".
    """
    body = (
        f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE w:document [{declared}]>'
        '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
        f"<w:body><w:p><w:r><w:t>Budget: {used}</w:t></w:r></w:p></w:body></w:document>"
    )
    return changed(word(""), {_BODY: body.encode()})


def renamed_body(content: bytes, body: str, *, by_extension: bool = False) -> bytes:
    """Return the document with its main part under another name.

    Args:
        by_extension: the list of types gives the type of the name's extension instead of the
            part's.
    """
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    override = f'<Override PartName="/{_BODY}" ContentType="{kind}"/>'
    default = f'<Default Extension="{body.rpartition(".")[2].upper()}" ContentType="{kind}"/>'
    new_type = default if by_extension else override.replace(_BODY, body)
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            part = old.read(name)
            if name == _TYPES:
                part = part.replace(override.encode(), new_type.encode())
            if name == "_rels/.rels":
                part = part.replace(_BODY.encode(), body.encode())
            new.writestr(body if name == _BODY else name, part)
    return out.getvalue()


def office_file(main: str = "spreadsheetml.sheet", types: str = _TYPES) -> bytes:
    """Return an Office file of another program than Word.

    Args:
        main: the kind of its main part.
        types: the name of the part that lists the types of the others.
    """
    kind = f"application/vnd.openxmlformats-officedocument.{main}.main+xml"
    listed = changed(
        word(""), {_TYPES: f'<Types><Override ContentType="{kind}"/></Types>'.encode()}
    )
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(listed)) as old, zipfile.ZipFile(out, "w") as new:
        for each in old.namelist():
            new.writestr(types if each == _TYPES else each, old.read(each))
    return out.getvalue()


def archive() -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as new:
        new.writestr("notes.txt", "not a document")
    return out.getvalue()


def packed_badly() -> bytes:
    """Return an archive whose list of parts is packed by LZMA, and corrupt."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_LZMA) as new:
        new.writestr(_TYPES, "<Types>" * 200)
    made = bytearray(out.getvalue())
    start = 30 + len(_TYPES) + 9
    made[start : start + 8] = b"\xff" * 8
    return bytes(made)


def old_office(stream: str) -> bytes:
    """Return the beginning of a compound file, and the name of a stream in it."""
    return (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + stream.encode("utf-16-le") + bytes(512)
    )
