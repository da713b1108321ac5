"""What the team has written down: documents, and the passages in which they are found."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ARRAY, all_, and_, bindparam, delete, func, insert, or_, select, text
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.columns import TEXT
from threadline.db.values import storable
from threadline.errors import Permanent
from threadline.knowledge.model import Document, DocumentType, Piece, Terms, source_of
from threadline.knowledge.tables import knowledge_documents, knowledge_passages

LARGEST = 300_000
"""Characters of a document. Postgres keeps at most 1 MiB of words of one text, and refuses what has more."""
_WORDS = text("""
INSERT INTO knowledge_words (team, word)
SELECT DISTINCT :team, lower(found[1])
FROM knowledge_passages CROSS JOIN LATERAL
     regexp_matches(title || ' ' || section || ' ' || body, '[[:alpha:]]{4,40}', 'g') AS found
WHERE document_id = :id ORDER BY 2 ON CONFLICT DO NOTHING
""")
"""In order, so that two who keep documents wait for each other and not in a circle. What was known once stays: a word
that no passage has any more finds none."""
_LONGEST_TITLE = 300
_LONGEST_SECTION = 500


@dataclass(frozen=True)
class Origin:
    """Where a document came from: with which folder or list, and the hash of what was read."""

    root: str = ""
    content_hash: str = ""


NOWHERE = Origin()
"""Of a document that no reading brought: the next one that brings its source replaces it."""


@dataclass(frozen=True)
class Embedded:
    """What `model` made of a document's pieces, a vector each."""

    model: str = ""
    vectors: Sequence[Sequence[float]] = ()


NOT_EMBEDDED = Embedded()


class Knowledge:
    """A document belongs to its team: no other finds it."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def save(
        self,
        team: str,
        document: Document,
        pieces: Sequence[Piece],
        origin: Origin = NOWHERE,
        embedded: Embedded = NOT_EMBEDDED,
    ) -> None:
        """Keep a document with the pieces it is found by; it replaces what was known from the same source.

        Raises:
            Permanent: it has no title, no source or no text, or it is longer than `LARGEST`.
        """
        title, source = " ".join(storable(document.title).split()), source_of(storable(document.source))
        body = storable(document.body).replace("\r\n", "\n").strip()
        if not (title and source and body and pieces):
            raise Permanent(f"{source or 'the document'} needs a title, a source and a text")
        if len(body) > LARGEST:
            raise Permanent(f"{source} has {len(body):,} characters, and the maximum is {LARGEST:,}: split it")
        title = title[:_LONGEST_TITLE]
        row = {**vars(document.terms), **vars(origin), "title": title, "body": body, "updated_at": func.now()}
        new = upsert(knowledge_documents).values(team=team, source=source, **row)
        kept = new.on_conflict_do_update(index_elements=["team", "source"], set_=row)
        identity = (await self._connection.execute(kept.returning(knowledge_documents.c.id))).scalar_one()
        old = delete(knowledge_passages).where(knowledge_passages.c.document_id == identity)
        await self._connection.execute(old)
        await self._connection.execute(insert(knowledge_passages), _rows(identity, title, pieces, embedded))
        await self._connection.execute(_WORDS, {"team": team, "id": identity})

    async def forget(self, team: str, source: str) -> bool:
        """Whether there was a document from this source; there is none any more."""
        row = knowledge_documents.c
        named = delete(knowledge_documents).where(row.team == team, row.source == source_of(storable(source)))
        return (await self._connection.execute(named)).rowcount > 0

    async def forget_others(self, team: str, root: str, sources: Collection[str]) -> list[str]:
        """The sources that came with this folder or list and are none of these: they are forgotten."""
        row = knowledge_documents.c
        under = or_(row.root == root, row.root.startswith(f"{root}/", autoescape=True))
        others = row.source != all_(bindparam("sources", list(sources), ARRAY(TEXT)))  # a parameter each is too many
        gone = delete(knowledge_documents).where(row.team == team, under, others)
        return sorted((await self._connection.execute(gone.returning(row.source))).scalars())

    async def documents(self, team: str) -> list[Document]:
        """By source."""
        row = knowledge_documents.c
        terms = (row.type, row.authority, row.effective, row.expires)
        query = select(row.title, row.source, row.body, *terms).where(row.team == team).order_by(row.source)
        rows = await self._connection.execute(query)
        return [
            Document(title, source, body, Terms(DocumentType(type_), *rest))
            for title, source, body, type_, *rest in rows
        ]

    async def known(self, team: str) -> Mapping[str, tuple[Origin, str]]:
        """By source, where each document came from, and the model whose vectors it is found by; empty for none."""
        row, passage = knowledge_documents.c, knowledge_passages.c
        first = and_(passage.document_id == row.id, passage.place == 1)
        query = (
            select(row.source, row.root, row.content_hash, func.coalesce(passage.model, ""))
            .outerjoin(knowledge_passages, first)
            .where(row.team == team)
        )
        rows = await self._connection.execute(query)
        return {source: (Origin(root, content_hash), model) for source, root, content_hash, model in rows}


def _rows(identity: int, title: str, pieces: Sequence[Piece], embedded: Embedded) -> list[dict[str, Any]]:
    vectors: Sequence[Sequence[float] | None] = embedded.vectors or [None] * len(pieces)
    return [
        {
            "document_id": identity,
            "place": place,
            "title": title,
            "section": storable(piece.section)[:_LONGEST_SECTION],
            "body": piece.text,
            "model": embedded.model,
            "vector": None if vector is None else list(vector),
        }
        for place, (piece, vector) in enumerate(zip(pieces, vectors, strict=True), 1)
    ]
