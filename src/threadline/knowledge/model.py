"""A team's documents, their types, which set their authority, and the passages that a search
finds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from threadline.knowledge.languages import ENGLISH

MAX_CHARACTERS = 300_000
"""Characters of a document. Postgres refuses a text with more than 1 MiB of lexemes."""
SECTION = " – "
"""Separator of title and section where an answer cites a passage."""


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
"""Authority of a document, unless its front matter sets it."""
CRITICAL_TYPES = frozenset({DocumentType.PRICING, DocumentType.POLICY})
"""Types whose questions are answered from documents only: if they cannot be searched, a person
takes over.
"""


@dataclass(frozen=True)
class DocumentTerms:
    """The weight and validity of a document: `authority` in [0, 1]; valid from `effective` to
    `expires`, both days included.
    """

    type: DocumentType
    authority: float
    effective: date | None = None
    expires: date | None = None

    @classmethod
    def of(
        cls,
        type: DocumentType = DocumentType.PRODUCT,  # noqa: A002 - the key of front matter
    ) -> "DocumentTerms":
        """Return the terms of a document whose front matter only has a type."""
        return cls(type, AUTHORITY[type])


@dataclass(frozen=True)
class Document:
    """A text of the knowledge base.

    `source` is its file or address, unique in a team. `language` is the text search configuration
    of Postgres that stems its words.
    """

    title: str
    source: str
    body: str
    terms: DocumentTerms = field(default_factory=DocumentTerms.of)
    language: str = ENGLISH


@dataclass(frozen=True)
class Chunk:
    """A part of a document, small enough to be quoted whole; `section` is the path of its
    headings.
    """

    section: str
    text: str


@dataclass(frozen=True)
class Passage:
    """A chunk that a search found, with its document.

    `score` in [0, 1] is the covered share of the question: by words or by vector, the larger one.
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
class SearchQuery:
    """A question to a team's documents.

    `types` empty: all types. `on` None: documents that are valid today.
    """

    team: str
    text: str
    types: tuple[DocumentType, ...] = ()
    limit: int = 5
    on: date | None = None


@dataclass(frozen=True)
class SearchResult:
    """The passages of a search, best first. `quality` in [0, 1]: see
    `knowledge.search.source_quality`.
    """

    passages: tuple[Passage, ...] = ()
    quality: float = 0.0
    used_vectors: bool = False


def citation(title: str, section: str) -> str:
    """Return an answer's name for a passage: "Title – Section", or the title alone if the section
    adds nothing.
    """
    return f"{title}{SECTION}{section}" if section and section != title else title


def citations(passages: Sequence[Passage]) -> list[str]:
    """Return an answer's names for the passages that it used, each once."""
    return list(dict.fromkeys(citation(each.title, each.section) for each in passages))


@dataclass(frozen=True)
class Source:
    """A passage that was found for a question; `text` is empty once the turn is settled.

    `score` is higher for a better match; only the order has a meaning.
    """

    title: str
    section: str
    source: str
    type: str
    text: str = ""
    score: float = 0.0

    @property
    def cited(self) -> str:
        """The source's name in an answer."""
        return citation(self.title, self.section)


@dataclass(frozen=True)
class Retrieval:
    """The result of a look-up. `quality` is in [0, 1].

    `failed`: the documents could not be searched. `critical`: a question of this kind may not be
    answered without the look-up. `suspicious`: passages that may contradict each other, as pairs
    of their positions among the sources.
    """

    quality: float = 0.0
    failed: bool = False
    critical: bool = False
    suspicious: tuple[tuple[int, int], ...] = ()


def normalise_source(name: str) -> str:
    """Return the source of a file or address of this name. Spaces in a row become one, in the
    store and in look-ups alike.
    """
    return " ".join(name.replace("\x00", "").split())
