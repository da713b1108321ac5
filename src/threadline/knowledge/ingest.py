"""Brings the knowledge base to what folders and lists hold: reads what is new or changed, forgets what is gone."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from threadline.errors import Permanent, Transient
from threadline.knowledge import documents
from threadline.knowledge.gathering import Candidate, Gathered
from threadline.knowledge.model import Document, Piece
from threadline.knowledge.splitting import split
from threadline.models.embeddings import Embedder

_EDITION = b"2\n"
"""Goes into each hash: raise it when pieces are cut otherwise, and each document is read anew."""


class Outcome(StrEnum):
    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REMOVED = "removed"
    REFUSED = "refused"


@dataclass(frozen=True)
class Known:
    """What is kept of a source: the hash of what was read, and the model whose vectors it has, empty for none."""

    content_hash: str
    root: str
    model: str


@dataclass(frozen=True)
class Volume:
    """A document ready to be kept; without vectors `model` is empty."""

    document: Document
    pieces: Sequence[Piece]
    root: str
    content_hash: str
    model: str = ""
    vectors: Sequence[Sequence[float]] = ()


class Shelf(Protocol):
    """Where the documents of one team are kept."""

    async def known(self) -> Mapping[str, Known]:
        """By source."""
        ...

    async def put(self, volume: Volume) -> None:
        """It replaces what was kept from its source. Raises `Permanent` where it cannot be kept."""
        ...

    async def forget_others(self, root: str, sources: Collection[str]) -> Sequence[str]:
        """The sources that came with this folder or list and are none of these; they are forgotten."""
        ...


@dataclass
class Report:
    """What an ingestion came to. `refusals`: a sentence a file; `by_words_alone`: why there are no vectors, if so."""

    tally: Counter[Outcome] = field(default_factory=Counter)
    refusals: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    by_words_alone: str = ""


class Ingestion:
    """One run over what was gathered; what is refused stays as it was kept before.

    Args:
        embedder: None for no vectors. One that is away is not asked again in this run, one that refuses a document is
            asked for the next. What it missed the next run mends.
        told: is called with each source when it is done.
        forget_all: a folder or list that holds nothing any more was emptied, and is not merely away.
    """

    def __init__(
        self,
        shelf: Shelf,
        embedder: Embedder | None,
        told: Callable[[str, Outcome], None],
        *,
        forget_all: bool = False,
    ) -> None:
        self._shelf = shelf
        self._embedder = embedder
        self._told = told
        self._forget_all = forget_all
        self.report = Report()

    async def run(self, gathered: Gathered) -> Report:
        """Raises `Transient` where the shelf cannot be reached: what is done by then stays, and needs no other run."""
        known = await self._shelf.known()
        refused = set[str]()
        for candidate in gathered.candidates:
            try:
                outcome = await self._one(candidate, known.get(candidate.source))
            except documents.UnreadableDocument as error:
                self.report.refusals.append(str(error))
                outcome = Outcome.REFUSED
                refused.add(candidate.source)
            self._tell(candidate.source, outcome)
        sources = {each.source for each in gathered.candidates}
        sources |= {source for source, each in known.items() if each.root in refused}  # a list that cannot be read
        for root in gathered.roots:
            holds = any(_within(each.root, root) for each in gathered.candidates)
            if holds or self._forget_all or not any(_within(each.root, root) for each in known.values()):
                await self._forget_others(root, sources)
            else:
                self.report.refusals.append(
                    f"{root} has no documents any more. The earlier ones are kept, in case it is missing by mistake. "
                    "Give --forget-all to delete them."
                )
                self._tell(root, Outcome.REFUSED)
        return self.report

    async def _forget_others(self, root: str, sources: Collection[str]) -> None:
        for source in await self._shelf.forget_others(root, sources):
            self.report.removed.append(source)
            self._tell(source, Outcome.REMOVED)

    def _tell(self, source: str, outcome: Outcome) -> None:
        self.report.tally[outcome] += 1
        self._told(source, outcome)

    async def _one(self, candidate: Candidate, known: Known | None) -> Outcome:
        content = await candidate.read()
        content_hash = hashlib.sha256(_EDITION + content).hexdigest()
        model = self._embedder.model if self._embedder else known.model if known else ""
        if known == Known(content_hash, candidate.root, model):
            return Outcome.UNCHANGED
        document = await asyncio.to_thread(documents.read, candidate.source, content)
        pieces = await asyncio.to_thread(split, document)
        used, vectors = await self._embedded(document, pieces)
        await self._shelf.put(Volume(document, pieces, candidate.root, content_hash, used, vectors))
        return Outcome.CHANGED if known else Outcome.NEW

    async def _embedded(self, document: Document, pieces: Sequence[Piece]) -> tuple[str, Sequence[Sequence[float]]]:
        if not self._embedder:
            return "", ()
        texts = [f"{document.title}\n{each.section}\n{each.text}" for each in pieces]
        try:
            return self._embedder.model, await self._embedder.embed(texts)
        except Permanent as error:
            self.report.by_words_alone = str(error)  # of this document: the next may be to the model's liking
        except Transient as error:
            self.report.by_words_alone = str(error)
            self._embedder = None
        return "", ()


def _within(root: str, folder: str) -> bool:
    """As `Shelf.forget_others` has it: a list within a folder came with the folder."""
    return f"{root}/".startswith(f"{folder}/")
