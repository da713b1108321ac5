"""Turns a page of HTML into the Markdown that documents are read from: its title, headings, paragraphs and lists."""

import re
from collections.abc import Mapping

from lxml import etree

LARGEST = 4_000_000
"""Characters of a page. libxml2 took under two seconds for as many, and for some of 20 million it did not end."""
_UNSEEN = ("script", "style", "noscript", "template", "svg", "nav", "header", "footer", "form", "iframe")
"""Elements whose words are not the page's own."""
_HEADINGS = {f"h{depth}": f"\n\n{'#' * depth} " for depth in range(1, 7)}
_BLOCKS = ("p", "div", "section", "article", "main", "ul", "ol", "table", "tr", "blockquote", "pre", "dl", "dt", "dd")


def markdown(page: str) -> str:
    """The words of a page, with its title as a heading of the first level when it has none of its own.

    Args:
        page: `LARGEST` characters at most.
    """
    reader = _Reader()
    parser = etree.HTMLParser(encoding="utf-8", target=reader)
    try:
        parser.feed(page.replace("\x00", "").encode("utf-8", "replace"))
        parser.close()
    except etree.LxmlError:
        pass  # where the parser stops; what was read by then is the page
    text = re.sub(r" ?\n ?", "\n", re.sub(r"[ \t]+", " ", "".join(reader.pieces)))
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    title = " ".join("".join(reader.title).split())
    if not title or not text or text.startswith("# "):
        return text
    return f"# {title}\n\n{text}"


class _Reader:
    """What lxml tells of a page as it reads; see https://lxml.de/parsing.html, "The target parser interface"."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.title: list[str] = []
        self._unseen: list[str] = []
        self._in_title = False

    def start(self, tag: str, _attributes: Mapping[str, str]) -> None:
        if self._unseen or tag in _UNSEEN:
            self._unseen += [tag] if tag in _UNSEEN else []
        elif tag == "title":
            self._in_title = True
        elif tag in _HEADINGS:
            self.pieces.append(_HEADINGS[tag])
        elif tag in ("li", "br"):
            self.pieces.append("\n- " if tag == "li" else "\n")
        elif tag in ("td", "th"):
            self.pieces.append(" ")
        elif tag in _BLOCKS:
            self.pieces.append("\n\n" if tag != "tr" else "\n")

    def end(self, tag: str) -> None:
        if tag in self._unseen:
            del self._unseen[self._unseen.index(tag) :]
        elif tag == "title":
            self._in_title = False
        elif not self._unseen and (tag in _HEADINGS or tag in _BLOCKS):
            self.pieces.append("\n\n" if tag != "tr" else "\n")

    def data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._unseen:
            self.pieces.append(re.sub(r"\s+", " ", data))

    def close(self) -> None:
        """Nothing is left to do; lxml wants to be able to say so."""
