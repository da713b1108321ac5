"""PDFs whose text is not, or not only, in the drawing commands of their pages."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from pypdf import PdfReader, PdfWriter
from pypdf.annotations import FreeText, Text
from pypdf.generic import (
    ArrayObject,
    BooleanObject,
    DictionaryObject,
    NameObject,
    NumberObject,
    PdfObject,
    StreamObject,
    TextStringObject,
)

from tests.documents.document_samples import pdf

_RECT = (72, 600, 300, 620)
_COVER = "Please wait... If this message is not eventually replaced by the proper contents"


def scan(*lines: str, scans: int) -> bytes:
    """Pages with a line of text each, and then pictures of pages."""
    writer = _writer(*lines, *[""] * scans)
    for page in writer.pages[len(lines) :]:
        _draw_picture(writer, page)
    return _written(writer)


def stamped_scan(stamp: str) -> bytes:
    """A picture of a page, with a line of text on it."""
    writer = _writer(stamp)
    _draw_picture(writer, writer.pages[0], before=writer.pages[0].get_contents().get_data())  # type: ignore[union-attr]
    return _written(writer)


def letterhead(line: str) -> bytes:
    """A page of text with a small picture in its corner."""
    writer = _writer(line)
    _draw_picture(
        writer,
        writer.pages[0],
        before=writer.pages[0].get_contents().get_data(),  # type: ignore[union-attr]
        size=(60, 60),
    )
    return _written(writer)


def outlines() -> bytes:
    """A page whose letters are drawn as curves."""
    writer = _writer("A crane", "")
    _set_content(writer, writer.pages[1], b"100 100 m 150 150 l 200 100 l h f")
    return _written(writer)


def blank_page(line: str) -> bytes:
    """A page of text, and an empty one as Word ends a document."""
    writer = _writer(line, " ")
    return _written(writer)


def unmapped_font(line: str) -> bytes:
    """A second page with a font that only numbers its signs, as some printers' drivers write
    it.
    """
    writer = _writer(line, "x")
    page = writer.pages[1]
    descendant = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/CIDFontType2"),
            NameObject("/BaseFont"): NameObject("/ABCDEF+Arial"),
            NameObject("/CIDSystemInfo"): DictionaryObject(
                {
                    NameObject("/Registry"): TextStringObject("Adobe"),
                    NameObject("/Ordering"): TextStringObject("Identity"),
                    NameObject("/Supplement"): NumberObject(0),
                }
            ),
        }
    )
    page["/Resources"]["/Font"][NameObject("/F1")] = DictionaryObject(  # type: ignore[index]
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type0"),
            NameObject("/BaseFont"): NameObject("/ABCDEF+Arial"),
            NameObject("/Encoding"): NameObject("/Identity-H"),
            NameObject("/DescendantFonts"): ArrayObject([descendant]),
        }
    )
    signs = "".join(f"{number:04x}" for number in range(1, 25))
    _set_content(writer, page, f"BT /F1 12 Tf 72 720 Td <{signs}> Tj ET".encode())
    return _written(writer)


def form(label: str, *fields: Mapping[str, Any], parent: Mapping[str, Any] | None = None) -> bytes:
    """A page with a label, and form fields on it."""
    writer = _writer(label)
    owner = writer._add_object(_object(parent)) if parent else None
    widgets = ArrayObject()
    for given in fields:
        field = _object({"/Type": "/Annot", "/Subtype": "/Widget", "/Rect": list(_RECT), **given})
        if owner is not None:
            field[NameObject("/Parent")] = owner
        widgets.append(writer._add_object(field))
    writer.pages[0][NameObject("/Annots")] = widgets
    listed = ArrayObject([owner]) if owner is not None else widgets
    _set_form(writer, {"/Fields": listed})
    return _written(writer)


def dynamic_form(*, rendering: bool = False, listed: bool = False) -> bytes:
    """A form whose pages only Adobe's programs render."""
    writer = _writer(_COVER)
    template = StreamObject()
    template.set_data(b"<template><subform><field name='client'/></subform></template>")
    parts = ArrayObject([TextStringObject("template"), writer._add_object(template)])
    fields = ArrayObject()
    if listed:
        fields.append(
            writer._add_object(_object({"/T": TextStringObject("client"), "/FT": "/Tx"}))
        )
    _set_form(writer, {"/Fields": fields, "/XFA": parts})
    if rendering:
        writer.root_object[NameObject("/NeedsRendering")] = BooleanObject(True)
    return _written(writer)


def static_xfa_form(label: str, value: str) -> bytes:
    """A form with XFA that also has ordinary pages and fields."""
    writer = PdfWriter(clone_from=PdfReader(BytesIO(form(label, text_field("client", value)))))
    template = StreamObject()
    template.set_data(b"<template/>")
    parts = ArrayObject([TextStringObject("template"), writer._add_object(template)])
    writer.root_object["/AcroForm"][NameObject("/XFA")] = parts  # type: ignore[index]
    return _written(writer)


def text_field(name: str, value: str, **more: Any) -> dict[str, Any]:
    return {"/FT": "/Tx", "/T": TextStringObject(name), "/V": TextStringObject(value), **more}


def button(name: str, value: str, **more: Any) -> dict[str, Any]:
    return {"/FT": "/Btn", "/T": TextStringObject(name), "/V": value, "/AS": value, **more}


def typed_onto(line: str, typed: str) -> bytes:
    """A page that a person has filled in with a viewer's typewriter, without a form."""
    writer = _writer(line)
    writer.add_annotation(0, FreeText(text=typed, rect=_RECT))
    return _written(writer)


def commented(line: str, comment: str) -> bytes:
    writer = _writer(line)
    writer.add_annotation(0, Text(text=comment, rect=_RECT))
    return _written(writer)


def with_attachments(content: bytes, names: Sequence[str], *, portfolio: bool = False) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(BytesIO(content)))
    for name in names:
        writer.add_attachment(name, b"1,2,3")
    if portfolio:
        writer.root_object[NameObject("/Collection")] = DictionaryObject()
    return _written(writer)


def with_broken_page(*lines: str) -> bytes:
    """A document whose second page uses an unknown compression."""
    writer = _writer(*lines)
    stream = writer.pages[1]["/Contents"].get_object()
    stream[NameObject("/Filter")] = NameObject("/Nonsense")  # type: ignore[index]
    return _written(writer)


def _writer(*lines: str) -> PdfWriter:
    return PdfWriter(clone_from=PdfReader(BytesIO(pdf(*lines))))


def _written(writer: PdfWriter) -> bytes:
    out = BytesIO()
    writer.write(out)
    return out.getvalue()


def _draw_picture(
    writer: PdfWriter, page: Any, *, before: bytes = b"", size: tuple[int, int] = (612, 792)
) -> None:
    picture = StreamObject()
    picture.set_data(bytes(100))
    picture.update(
        _object(
            {
                "/Type": "/XObject",
                "/Subtype": "/Image",
                "/Width": 10,
                "/Height": 10,
                "/BitsPerComponent": 8,
                "/ColorSpace": "/DeviceGray",
            }
        )
    )
    pictures = DictionaryObject({NameObject("/Im0"): writer._add_object(picture)})
    page["/Resources"][NameObject("/XObject")] = pictures
    _set_content(writer, page, before + b" q %d 0 0 %d 0 0 cm /Im0 Do Q" % size)


def _set_content(writer: PdfWriter, page: Any, content: bytes) -> None:
    stream = StreamObject()
    stream.set_data(content)
    page[NameObject("/Contents")] = writer._add_object(stream)


def _set_form(writer: PdfWriter, form: Mapping[str, Any]) -> None:
    writer.root_object[NameObject("/AcroForm")] = writer._add_object(_object(form))


def _object(given: Mapping[str, Any]) -> DictionaryObject:
    return DictionaryObject({NameObject(key): _value(value) for key, value in given.items()})


def _value(given: Any) -> PdfObject:
    if isinstance(given, PdfObject):
        return given
    if isinstance(given, int):
        return NumberObject(given)
    if isinstance(given, str):
        return NameObject(given) if given.startswith("/") else TextStringObject(given)
    return ArrayObject([_value(each) for each in given])
