"""A team's documents, the types that decide how much they count, and the passages that a search finds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

MAX_CHARACTERS = 300_000
"""Of a document. Postgres holds at most 1 MiB of lexemes of one text, and refuses what has more."""
SECTION = " – "
"""Between title and section where an answer cites a passage."""


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
"""How much a document counts, unless its front matter says otherwise."""
CRITICAL_TYPES = frozenset({DocumentType.PRICING, DocumentType.POLICY})
"""Questions about these are answered from documents alone: if they cannot be searched, a person takes over."""


@dataclass(frozen=True)
class DocumentTerms:
    """How a document counts: `authority` in [0, 1]; valid from `effective` to `expires`, both days included."""

    type: DocumentType
    authority: float
    effective: date | None = None
    expires: date | None = None

    @classmethod
    def of(cls, type: DocumentType = DocumentType.PRODUCT) -> "DocumentTerms":  # noqa: A002 - the key of front matter
        """The terms of a document whose front matter has a type alone."""
        return cls(type, AUTHORITY[type])


@dataclass(frozen=True)
class Document:
    """A text of the knowledge base; `source` is the file or address that it came from, unique in a team."""

    title: str
    source: str
    body: str
    terms: DocumentTerms = field(default_factory=DocumentTerms.of)


@dataclass(frozen=True)
class Chunk:
    """A part of a document, small enough to be quoted whole; `section` is the path of the headings above it."""

    section: str
    text: str


@dataclass(frozen=True)
class Passage:
    """A chunk that a search has found, with its document. `score` in [0, 1] says how much of the question it covers: by
    its words or by its vector, whichever is more."""

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
class SearchQuery:
    """`types` empty: all types. `on` None: documents that are valid today."""

    team: str
    text: str
    types: tuple[DocumentType, ...] = ()
    limit: int = 5
    on: date | None = None


@dataclass(frozen=True)
class SearchResult:
    """The best passages first. `quality` in [0, 1]: see `knowledge.search.source_quality`."""

    passages: tuple[Passage, ...] = ()
    quality: float = 0.0
    used_vectors: bool = False


def citation(title: str, section: str) -> str:
    """How an answer names a passage: "Title – Section", or the title alone if the section says no more."""
    return f"{title}{SECTION}{section}" if section and section != title else title


def citations(passages: Sequence[Passage]) -> list[str]:
    """How an answer names the passages that it used, each once."""
    return list(dict.fromkeys(citation(each.title, each.section) for each in passages))


def normalise_source(name: str) -> str:
    """The source of a file or address of this name. Spaces in a row become one, in the store and in look-ups alike."""
    return " ".join(name.replace("\x00", "").split())
