"""What the team has written down: kinds of documents, what follows from a kind, and what is found in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

MAX_CHARACTERS = 300_000
"""Of a document. Postgres holds at most 1 MiB of lexemes of one text, and refuses what has more."""
SECTION = " – "
"""Between a title and a section where a passage is cited."""


class DocumentType(StrEnum):
    PRICING = "pricing"
    POLICY = "policy"
    SOP = "sop"
    FAQ = "faq"
    PRODUCT = "product"


AUTHORITY = {
    DocumentType.PRICING: 1.0,
    DocumentType.POLICY: 1.0,
    DocumentType.SOP: 0.8,
    DocumentType.PRODUCT: 0.7,
    DocumentType.FAQ: 0.6,
}
"""How much the word of a document counts, unless it says so itself."""
CRITICAL = frozenset({DocumentType.PRICING, DocumentType.POLICY})
"""What may not be answered from anything else: where they cannot be asked, a person is."""


@dataclass(frozen=True)
class Terms:
    """How a document counts: `authority` in [0, 1]; it holds from `effective` to `expires`, both days included."""

    type: DocumentType
    authority: float
    effective: date | None = None
    expires: date | None = None

    @classmethod
    def of(cls, type: DocumentType = DocumentType.PRODUCT) -> "Terms":  # noqa: A002 - the word of the front matter
        """Those of a document that says nothing but its type."""
        return cls(type, AUTHORITY[type])


ORDINARY = Terms.of()
"""Those of a document that says nothing of itself."""


@dataclass(frozen=True)
class Document:
    """A text of the knowledge base; `source` says where it is from (an address, a file), once in a team."""

    title: str
    source: str
    body: str
    terms: Terms = ORDINARY


@dataclass(frozen=True)
class Piece:
    """A part of a document, small enough to be shown whole; `section` is the path of its headings, empty above them."""

    section: str
    text: str


@dataclass(frozen=True)
class Passage:
    """A part of a document that has to do with a question.

    `score` in [0, 1]: how much of the question it meets, by its words or by its meaning, whichever is more.
    """

    title: str
    section: str
    source: str
    type: DocumentType
    text: str
    authority: float
    effective: date | None = None
    expires: date | None = None
    score: float = 0.0


@dataclass(frozen=True)
class Query:
    """What to look for; `types` empty for all, `on` None for what holds today."""

    team: str
    text: str
    types: tuple[DocumentType, ...] = ()
    limit: int = 5
    on: date | None = None


@dataclass(frozen=True)
class Found:
    """The likest first. `quality` in [0, 1], see `source_quality`; `fused`: meanings were compared, too."""

    passages: tuple[Passage, ...] = ()
    quality: float = 0.0
    fused: bool = False


def cited(title: str, section: str) -> str:
    """How an answer names a passage: "Title – Section", or the title where the section says no more."""
    return f"{title}{SECTION}{section}" if section and section != title else title


def citations(passages: Sequence[Passage]) -> list[str]:
    """How an answer names what it used, each once."""
    return list(dict.fromkeys(cited(each.title, each.section) for each in passages))


def source_of(name: str) -> str:
    """What a document is known by that comes from a file or an address of this name: blanks in a row are one space.

    The same for whoever keeps it and whoever looks for what is gone.
    """
    return " ".join(name.replace("\x00", "").split())
