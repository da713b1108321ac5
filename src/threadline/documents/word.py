"""Reads a Word document: body, notes, text boxes, headers and footers, as Word shows them to a
reader.

Tracked changes count as accepted. Hidden text is skipped, because it could instruct a model where
no person sees it. `unread` names it, as well as everything that is not text, or is a separate
file.
"""

import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import docx
from docx.oxml.ns import nsmap, qn
from docx.oxml.parser import parse_xml
from docx.parts.document import DocumentPart

from threadline.documents.reading import (
    DAMAGED,
    Reading,
    clean_text,
    counted,
    has_words,
    refusing,
)

_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")
"""Namespaces of a file that was saved as *Strict Open XML*."""
_USUAL = rb"http://schemas.openxmlformats.org/\1/2006/"
_XML = (".xml", ".rels")

_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_COMPATIBILITY = "http://schemas.openxmlformats.org/markup-compatibility/2006"
_MATH = "http://schemas.openxmlformats.org/officeDocument/2006/math"
_OFFICE = "urn:schemas-microsoft-com:office:office"
_VML = "urn:schemas-microsoft-com:vml"
_CHARTS = "http://schemas.microsoft.com/office/drawing/2014/chartex"
_DIAGRAM = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
_CHART = "http://schemas.openxmlformats.org/drawingml/2006/chart"
_DRAWING = nsmap["a"]

_ID = f"{{{_RELATIONS}}}id"
_RUN = qn("w:r")
_CELL = qn("w:tc")
_ROW = qn("w:tr")
_PARAGRAPH = qn("w:p")
_TEXTS = frozenset((qn("w:t"), f"{{{_MATH}}}t", f"{{{_DRAWING}}}t"))
_PLAIN = {
    qn("w:tab"): "\t",
    qn("w:ptab"): "\t",
    qn("w:br"): "\n",
    qn("w:cr"): "\n",
    qn("w:noBreakHyphen"): "-",
}
_ALTERNATIVES = f"{{{_COMPATIBILITY}}}AlternateContent"
_SKIPPED = {
    qn("w:del"): "text that tracked changes delete",
    qn("w:moveFrom"): "",  # read at its new place
    qn("w:pPr"): "",
    qn("w:sectPr"): "",
    qn("w:tblPr"): "",
    qn("w:instrText"): "",
}
_BOX = qn("w:txbxContent")
_LINES = frozenset((_PARAGRAPH, _ROW, _BOX, f"{{{_DRAWING}}}p"))
"""Elements that end a line."""
_NOTES = {
    qn("w:footnoteReference"): (qn("w:footnote"), f"{_RELATIONS}/footnotes", "Footnote"),
    qn("w:endnoteReference"): (qn("w:endnote"), f"{_RELATIONS}/endnotes", "Endnote"),
}
_EDGES = {qn("w:headerReference"): "Header", qn("w:footerReference"): "Footer"}
_COUNTED = {
    f"{{{_DRAWING}}}blip": "picture",
    f"{{{_VML}}}imagedata": "picture",
    f"{{{_CHART}}}chart": "chart",
    f"{{{_CHARTS}}}chart": "chart",
    f"{{{_OFFICE}}}OLEObject": "embedded object",
    qn("w:control"): "form control",
    qn("w:altChunk"): "inserted file",
    qn("w:subDoc"): "linked document",
}
_HINTS = {"inserted file": " (saving the document in Word includes it)"}
_SMART_ART = f"{{{_DIAGRAM}}}relIds"
_SIGNS = {
    "F06F": "☐",
    "F0A8": "☐",
    "F071": "☐",
    "F0FE": "☒",
    "F0FD": "☒",
    "F0FC": "✓",
    "F0FB": "✗",
}
"""Boxes and ticks of the Wingdings fonts, by their codes: people fill in forms with them."""
_NUMBERS = "automatic numbers of headings and lists"
_MARKS = ("bullet", "none")
_STYLE = qn("w:style")
_STYLE_ID = qn("w:styleId")
_VALUE = qn("w:val")
_VANISH = f"{qn('w:rPr')}/{qn('w:vanish')}"
_LIST = f"{qn('w:pPr')}/{qn('w:numPr')}/{qn('w:numId')}"
_PARAGRAPH_STYLE = f"{qn('w:pPr')}/{qn('w:pStyle')}"
_NO = ("0", "false", "off")


def read_word(content: bytes) -> Reading:
    """Read a Word document that `archive.check_office` has checked.

    Raises:
        DocumentRejected: it cannot be read.
    """
    with refusing(DAMAGED):
        return _Word(docx.Document(BytesIO(_usual_names(content))).part).read()


def _usual_names(content: bytes) -> bytes:
    """Return the document with the usual namespaces, if it was saved as *Strict Open XML*."""
    made = BytesIO()
    with zipfile.ZipFile(BytesIO(content)) as old:
        if not _STRICT.search(old.read("_rels/.rels")):
            return content
        with zipfile.ZipFile(made, "w") as new:
            for name in old.namelist():
                part = old.read(name)
                new.writestr(name, _STRICT.sub(_USUAL, part) if name.endswith(_XML) else part)
    return made.getvalue()


class _Word:
    """One reading of a document."""

    def __init__(self, main: DocumentPart) -> None:
        self._main = main
        self._part: Any = main
        self._hidden_styles = _styles_with(main, _VANISH, _is_on)
        self._lists = lists = _numbered_lists(main)
        self._numbered_styles = _styles_with(main, _LIST, lambda each: each.get(_VALUE) in lists)
        self._notes = {
            reference: _notes_of(main, kind, note) for reference, (note, kind, _) in _NOTES.items()
        }
        self._readers = {
            **dict.fromkeys(_NOTES, self._note),
            _SMART_ART: self._smart_art,
            qn("w:object"): self._object,
            qn("w:sym"): self._sign,
            qn("w:checkBox"): self._check_box,
            qn("w:ddList"): self._choice,
        }
        self._counts: Counter[str] = Counter()
        self._left: dict[str, None] = {}

    def read(self) -> Reading:
        body = "".join(self._pieces(self._main.element.body))
        edges = "".join(f"\n{name}: {text}" for name, text in self._edges())
        comments = _root(self._main, f"{_RELATIONS}/comments")
        self._counts["comment"] += len(comments) if comments is not None else 0
        unread = [
            counted(number, noun) + _HINTS.get(noun, "")
            for noun, number in self._counts.items()
            if number
        ]
        return Reading(f"{body}\n{edges}", [*self._left, *unread])

    def _edges(self) -> Iterator[tuple[str, str]]:
        """Yield the texts of headers and footers, each once. They come last, because the beginning
        of a document serves as its title.
        """
        seen = set[str]()
        for reference in self._main.element.iter(*_EDGES):
            part = self._main.related_parts.get(reference.get(_ID))
            if part is None:
                continue
            self._part = part
            counts = Counter(self._counts)
            text = clean_text("".join(self._pieces(_parsed(part))))
            self._counts = counts  # without the pictures: logos
            if has_words(text) and text not in seen:
                seen.add(text)
                yield _EDGES[reference.tag], text

    def _pieces(self, element: Any) -> Iterator[str]:
        """Yield the text in the order of the document, from all of its containers."""
        tag = element.tag
        if tag in _TEXTS:
            yield element.text or ""
        elif tag in _PLAIN:
            yield _PLAIN[tag]
        elif tag in _SKIPPED:
            self._skip(element, _SKIPPED[tag])
        elif tag == _ALTERNATIVES:
            yield self._alternative(element)
        elif tag == _CELL:
            yield f"{' '.join(self._inside(element).split())} | "
        elif tag == _RUN and self._is_hidden(element):
            self._skip(element, "hidden text")
        elif tag in self._readers:
            yield from self._readers[tag](element)
        else:
            yield from self._others(element)

    def _others(self, element: Any) -> Iterator[str]:
        if element.tag in _COUNTED:
            self._counts[_COUNTED[element.tag]] += 1
        if element.tag == _PARAGRAPH and self._is_numbered(element):
            self._left[_NUMBERS] = None
        if element.tag == _BOX:
            yield "\n"
        for child in element:
            yield from self._pieces(child)
        if element.tag in _LINES:
            yield "\n"

    def _inside(self, element: Any) -> str:
        return "".join(piece for child in element for piece in self._pieces(child))

    def _skip(self, element: Any, name: str) -> None:
        """Note that text was skipped, if there is any."""
        texts = "".join(each.text or "" for each in element.iter(qn("w:t"), qn("w:delText")))
        if name and has_words(texts):
            self._left[name] = None

    def _alternative(self, element: Any) -> str:
        """Return the first version that has text; the others repeat it for other programs."""
        counts = Counter(self._counts)
        first: Counter[str] | None = None
        for version in element:
            self._counts = Counter(counts)
            if has_words(text := self._inside(version)):
                return text
            first = first or self._counts
        self._counts = first or counts
        return ""

    def _is_hidden(self, run: Any) -> bool:
        own = run.find(_VANISH)
        if own is not None:
            return _is_on(own)
        style = run.find(f"{qn('w:rPr')}/{qn('w:rStyle')}")
        paragraph = next(run.iterancestors(_PARAGRAPH), None)
        outer = None if paragraph is None else paragraph.find(_PARAGRAPH_STYLE)
        used = {each.get(_VALUE) for each in (style, outer) if each is not None}
        return bool(used & self._hidden_styles)

    def _is_numbered(self, paragraph: Any) -> bool:
        own = paragraph.find(_LIST)
        if own is not None:
            return own.get(_VALUE) in self._lists
        style = paragraph.find(_PARAGRAPH_STYLE)
        return style is not None and style.get(_VALUE) in self._numbered_styles

    def _note(self, reference: Any) -> Iterator[str]:
        found = self._notes[reference.tag].get(reference.get(qn("w:id")))
        if found is not None and has_words(text := " ".join(self._inside(found).split())):
            yield f" [{_NOTES[reference.tag][2]}: {text}]"

    def _smart_art(self, element: Any) -> Iterator[str]:
        part = self._part.related_parts.get(element.get(f"{{{_RELATIONS}}}dm"))
        if part is not None:
            yield from ("\n", *self._pieces(_parsed(part)), "\n")

    def _object(self, element: Any) -> Iterator[str]:
        pictures = self._counts["picture"]
        yield from self._others(element)
        self._counts["picture"] = pictures  # without the picture that represents the object

    def _sign(self, element: Any) -> Iterator[str]:
        yield _SIGNS.get((element.get(qn("w:char")) or "").upper(), "")

    def _check_box(self, element: Any) -> Iterator[str]:
        marks = [element.find(qn(name)) for name in ("w:checked", "w:default")]
        mark = next((each for each in marks if each is not None), None)
        yield "☒ " if mark is not None and _is_on(mark) else "☐ "

    def _choice(self, element: Any) -> Iterator[str]:
        chosen = element.find(qn("w:result"))
        entries = element.findall(qn("w:listEntry"))
        number = 0 if chosen is None else int(chosen.get(_VALUE))
        if number < len(entries):
            yield entries[number].get(_VALUE) or ""


def _styles_with(main: DocumentPart, path: str, is_meant: Callable[[Any], bool]) -> set[str]:
    """Return the ids of the styles whose property is meant, set by themselves or by a style that
    they are based on.

    Args:
        path: from a style to the property.
        is_meant: tells whether a property's element counts.
    """
    root = _root(main, f"{_RELATIONS}/styles")
    styles = {} if root is None else {each.get(_STYLE_ID): each for each in root.iter(_STYLE)}
    found = set[str]()
    for name in styles:
        seen = set[str]()
        each: Any = name
        while each in styles and each not in seen:
            seen.add(each)
            mark = styles[each].find(path)
            if mark is not None:
                found |= {name} if is_meant(mark) else set()
                break
            base = styles[each].find(qn("w:basedOn"))
            each = None if base is None else base.get(_VALUE)
    return found


def _numbered_lists(main: DocumentPart) -> set[str]:
    """Return the ids of lists that Word numbers; bulleted lists do not count."""
    root = _root(main, f"{_RELATIONS}/numbering")
    if root is None:
        return set()
    formats = {
        each.get(qn("w:abstractNumId")): each.find(f"{qn('w:lvl')}/{qn('w:numFmt')}")
        for each in root.iter(qn("w:abstractNum"))
    }
    alike = {
        name for name, each in formats.items() if each is not None and each.get(_VALUE) in _MARKS
    }
    return {
        each.get(qn("w:numId"))
        for each in root.iter(qn("w:num"))
        if each.find(qn("w:abstractNumId")).get(_VALUE) not in alike
    }


def _notes_of(main: DocumentPart, kind: str, tag: str) -> dict[str, Any]:
    root = _root(main, kind)
    return {} if root is None else {each.get(qn("w:id")): each for each in root.iter(tag)}


def _root(main: DocumentPart, kind: str) -> Any:
    """Return the root element of the one part of a kind; None without it."""
    found = (each for each in main.rels.values() if each.reltype == kind and not each.is_external)
    part = next(found, None)
    return None if part is None else _parsed(part.target_part)


def _parsed(part: Any) -> Any:
    element = getattr(part, "element", None)
    return parse_xml(part.blob) if element is None else element


def _is_on(toggle: Any) -> bool:
    return (toggle.get(_VALUE) or "true") not in _NO
