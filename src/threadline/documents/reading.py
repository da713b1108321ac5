"""Shared by the readers of all kinds of documents: their result, limits, and phrases."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from threadline.documents.reader import DocumentRejected

MAX_TEXT = 1_000_000
"""Characters of a text that are kept."""
WANTED = "upload a PDF, a Word document (DOCX), or plain text (TXT, MD)"
DAMAGED = "cannot be read and seems to be damaged: open it, save it again, and upload that."
LOCKED = "has a password: save it without one, and upload that."

_MAX_NAMES = 10
_MAX_NAME = 80
_BLANKS = re.compile(r"[^\S\n]+")
_INVISIBLE = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff\u200b\u00ad]")
_GAPS = re.compile(r"\n{3,}")


@dataclass
class Reading:
    """A document's text as its library returns it.

    Args:
        text: before `clean_text`.
        unread: noun phrases that follow "Not read: ".
        pages: pages of a PDF, else 0.
    """

    text: str
    unread: list[str] = field(default_factory=list)
    pages: int = 0


def clean_text(text: str) -> str:
    """Return the text without invisible characters; lines and paragraphs stay."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")
    visible = _BLANKS.sub(" ", _INVISIBLE.sub("", lines))
    return _GAPS.sub("\n\n", "\n".join(line.strip() for line in visible.split("\n"))).strip()


def has_words(text: str) -> bool:
    return any(sign.isalnum() for sign in text)


@contextlib.contextmanager
def refusing(sentence: str) -> Iterator[None]:
    """Reject the document with `sentence` when a library fails in any way. A lack of memory is
    left to the caller.
    """
    try:
        yield
    except (DocumentRejected, MemoryError):
        raise
    except Exception as exc:
        raise DocumentRejected(sentence) from exc


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def pages_named(pages: Sequence[int]) -> str:
    """Return `page 3`, or `pages 2–4 and 7`; `pages` ascend."""
    spans: list[list[int]] = []
    for page in pages:
        if spans and spans[-1][-1] == page - 1:
            spans[-1].append(page)
        else:
            spans.append([page])
    named = [f"{each[0]:,}" if len(each) == 1 else f"{each[0]:,}–{each[-1]:,}" for each in spans]
    if len(named) > _MAX_NAMES:
        named = [*named[:_MAX_NAMES], f"{len(named) - _MAX_NAMES} more places"]
    listed = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    return f"{'page' if len(pages) == 1 else 'pages'} {listed}"


def names(given: Sequence[str]) -> str:
    """Return the first names, each without line breaks and of at most `_MAX_NAME` characters."""
    shown = [" ".join(clean_text(each).split())[:_MAX_NAME] for each in given[:_MAX_NAMES]]
    more = [f"{len(given) - _MAX_NAMES} more"] if len(given) > _MAX_NAMES else []
    return ", ".join([*shown, *more])
