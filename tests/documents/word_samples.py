"""Word documents whose text is not, or not only, in the paragraphs of their body."""

import zipfile
from io import BytesIO

import docx

from tests.documents.document_samples import changed, word

_BODY = "word/document.xml"
_TYPES = "[Content_Types].xml"
_RELATIONS = "word/_rels/document.xml.rels"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_NAMESPACES = " ".join(
    f'xmlns:{prefix}="{name}"'
    for prefix, name in {
        "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "r": _OFFICE,
        "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
        "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
        "a": "http://schemas.openxmlformats.org/drawingml/2006/main",
        "c": "http://schemas.openxmlformats.org/drawingml/2006/chart",
        "dgm": "http://schemas.openxmlformats.org/drawingml/2006/diagram",
        "pic": "http://schemas.openxmlformats.org/drawingml/2006/picture",
        "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
        "v": "urn:schemas-microsoft-com:vml",
        "o": "urn:schemas-microsoft-com:office:office",
    }.items()
)
_WORD_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml"


def paragraph(text: str) -> str:
    return f"<w:p>{run(text)}</w:p>"


def run(text: str, style: str = "") -> str:
    style = f"<w:rPr>{style}</w:rPr>" if style else ""
    return f'<w:r>{style}<w:t xml:space="preserve">{text}</w:t></w:r>'


def body(xml: str) -> bytes:
    """A document with this body."""
    return changed(word(), {_BODY: _root("document", f"<w:body>{xml}</w:body>")})


def with_part(xml: str, name: str, part: bytes, kind: str, *, declared: str = "") -> bytes:
    """A document whose body can refer to a part as `rIdX`.

    Args:
        name: of the part, within `word/`.
        kind: of the relation to it.
        declared: the part's type.
    """
    made = body(xml)
    relation = f'<Relationship Id="rIdX" Type="{_OFFICE}/{kind}" Target="{name}"/></Relationships>'
    with zipfile.ZipFile(BytesIO(made)) as archive:
        relations = archive.read(_RELATIONS).replace(b"</Relationships>", relation.encode())
        types = archive.read(_TYPES)
    declared = declared or f"{_WORD_TYPE}.{kind}+xml"
    override = f'<Override PartName="/word/{name}" ContentType="{declared}"/></Types>'
    types = types.replace(b"</Types>", override.encode())
    return changed(made, {f"word/{name}": part, _RELATIONS: relations, _TYPES: types})


def with_note(text: str, note: str, kind: str = "footnote") -> bytes:
    xml = f'<w:p>{run(text)}<w:r><w:{kind}Reference w:id="2"/></w:r>{run(" follows")}</w:p>'
    separator = f'<w:{kind} w:id="0">{paragraph("separator")}</w:{kind}>'
    part = f'{separator}<w:{kind} w:id="2">{paragraph(note)}</w:{kind}>'
    return with_part(xml, f"{kind}s.xml", _root(f"{kind}s", part), f"{kind}s")


def with_comment(text: str, comment: str) -> bytes:
    part = _root("comments", f'<w:comment w:id="0" w:author="A">{paragraph(comment)}</w:comment>')
    return with_part(paragraph(text), "comments.xml", part, "comments")


def with_edges(text: str, header: str, footer: str) -> bytes:
    document = docx.Document()
    document.add_paragraph(text)
    document.sections[0].header.paragraphs[0].text = header
    document.sections[0].footer.paragraphs[0].text = footer
    second = document.add_section()
    second.header.is_linked_to_previous = False
    second.header.paragraphs[0].text = header
    out = BytesIO()
    document.save(out)
    return out.getvalue()


def listed(text: str, style: str) -> bytes:
    """A list, as the styles of Word's own template make one."""
    document = docx.Document()
    document.add_paragraph(text, style=style)
    out = BytesIO()
    document.save(out)
    return out.getvalue()


def numbered(text: str) -> bytes:
    """A paragraph that is numbered without a style."""
    made = listed(text, "List Number")
    with zipfile.ZipFile(BytesIO(made)) as archive:
        styles = archive.read("word/styles.xml").decode()
    number = (
        styles.partition('w:styleId="ListNumber"')[2]
        .partition('<w:numId w:val="')[2]
        .partition('"')[0]
    )
    xml = f'<w:p><w:pPr><w:numPr><w:numId w:val="{number}"/></w:numPr></w:pPr>{run(text)}</w:p>'
    return changed(made, {_BODY: _root("document", f"<w:body>{xml}</w:body>")})


def inserted_file(text: str) -> bytes:
    """The whole text is a web page that Word takes in when it opens the document."""
    page = f"<html><body>{text}</body></html>".encode()
    xml = f'{paragraph("")}<w:altChunk r:id="rIdX"/>'
    return with_part(xml, "chunk.html", page, "aFChunk", declared="text/html")


def smart_art(text: str, drawn: str) -> bytes:
    names = 'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram" '
    names += 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    part = f"<dgm:dataModel {names}><a:p><a:r><a:t>{drawn}</a:t></a:r></a:p></dgm:dataModel>"
    xml = (
        f'{paragraph(text)}<w:p><w:r><w:drawing><dgm:relIds r:dm="rIdX"/></w:drawing></w:r></w:p>'
    )
    kind = "application/vnd.openxmlformats-officedocument.drawingml.diagramData+xml"
    return with_part(xml, "data1.xml", part.encode(), "diagramData", declared=kind)


def hidden_by_style(text: str, hidden: str) -> bytes:
    made = body(
        f"{paragraph(text)}<w:p><w:r><w:rPr><w:rStyle "
        f'w:val="Child"/></w:rPr><w:t>{hidden}</w:t></w:r></w:p>'
    )
    styles = (
        '<w:style w:type="character" w:styleId="Secret"><w:rPr><w:vanish/></w:rPr></w:style>'
        '<w:style w:type="character" w:styleId="Child"><w:basedOn w:val="Secret"/></w:style>'
    )
    return changed(made, {"word/styles.xml": _root("styles", styles)})


def strict(*paragraphs: str) -> bytes:
    """The document as Word saves it as *Strict Open XML*."""
    made = word(*paragraphs)
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(made)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            part = old.read(name)
            for area in (b"wordprocessingml", b"officeDocument", b"drawingml"):
                usual = b"http://schemas.openxmlformats.org/" + area + b"/2006/"
                part = part.replace(usual, b"http://purl.oclc.org/ooxml/" + area + b"/")
            new.writestr(name, part)
    return out.getvalue()


def template(text: str) -> bytes:
    made = word(text)
    with zipfile.ZipFile(BytesIO(made)) as archive:
        types = archive.read(_TYPES)
    return changed(made, {_TYPES: types.replace(b".document.main+xml", b".template.main+xml")})


def open_document() -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as new:
        new.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        new.writestr("content.xml", "<office/>")
    return out.getvalue()


def _root(name: str, xml: str) -> bytes:
    return f"<w:{name} {_NAMESPACES}>{xml}</w:{name}>".encode()
