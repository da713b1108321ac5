"""Documents of a team in Postgres, and the passages by which they are found."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ARRAY, RowMapping, all_, and_, bindparam, delete, func, insert, or_, select, text
from sqlalchemy.dialects.postgresql import insert as upsert

from threadline.db.columns import TEXT
from threadline.db.engine import Transaction
from threadline.db.values import storable
from threadline.errors import Permanent
from threadline.knowledge.model import MAX_CHARACTERS, Document, DocumentType, Passage, Piece, Query, Terms, source_of
from threadline.knowledge.tables import knowledge_documents, knowledge_passages

_WORDS = text("""
INSERT INTO knowledge_words (team, word)
SELECT DISTINCT :team, lower(found[1])
FROM knowledge_passages CROSS JOIN LATERAL
     regexp_matches(title || ' ' || section || ' ' || body, '[[:alpha:]]{4,40}', 'g') AS found
WHERE document_id = :id ORDER BY 2 ON CONFLICT DO NOTHING
""")
"""In order, so that two who keep documents wait for each other and not in a circle. What was known once stays: a word
that no passage has any more finds none."""
_MAX_TITLE = 300
_MAX_SECTION = 500
CANDIDATES = 20
"""Least number of passages of each ranking that are fused: one that is good in both may be first in neither."""


@dataclass(frozen=True)
class StoredSource:
    """What is stored of a source besides its text.

    `ingest_root` is the folder or list that it came with, and `model` made the vectors of its passages. A document that
    no ingest has brought has neither, and the next ingest of its source replaces it.
    """

    ingest_root: str = ""
    content_hash: str = ""
    model: str = ""


@dataclass(frozen=True)
class QuestionVector:
    """The vector that `model` made of a question."""

    model: str
    values: Sequence[float]


_MOST_WORDS = 40
"""Of a question that are looked for: what follows says little more, and each costs a look at every passage found."""
_ALIKE = 0.33
"""The least likeness of letters, from 0 to 1, by which a word that no document has is taken for one that some has.

Two letters that have changed places in a word of seven leave a third of it.
"""
_MEANT = 5
"""Words that a mistyped one may be taken for."""
_EDGES = re.compile(r"^\W+|\W+$")
_HOLDS = """
    d.team = :team AND (cardinality(CAST(:types AS text[])) = 0 OR d.type = ANY(:types))
    AND (d.effective IS NULL OR d.effective <= :on) AND (d.expires IS NULL OR d.expires >= :on)
"""
_SHOWN = "p.title, p.section, d.source, d.type, p.body AS text, d.authority, d.effective, d.expires"
_BY_WORDS = text(f"""
WITH asked AS MATERIALIZED (
    SELECT lexeme, min(word) AS word, CAST(quote_literal(lexeme) AS tsquery) AS needle
    FROM unnest(CAST(:words AS text[])) AS word
    CROSS JOIN LATERAL unnest(tsvector_to_array(to_tsvector('english', word))) AS lexeme
    GROUP BY lexeme
), whole AS MATERIALIZED (
    SELECT string_agg(CAST(needle AS text), ' | ')::tsquery AS any_of,
           websearch_to_tsquery('english', :question) AS all_of
    FROM asked
), hits AS MATERIALIZED (
    SELECT p.document_id, p.place, p.words
    FROM whole JOIN knowledge_passages p ON p.words @@ whole.any_of JOIN knowledge_documents d ON d.id = p.document_id
    WHERE {_HOLDS}
), same AS MATERIALIZED (
    SELECT document_id, place, lexeme, 1.0::float AS likeness FROM hits JOIN asked ON hits.words @@ needle
), meant AS MATERIALIZED (
    SELECT asked.lexeme, CAST(quote_literal(known) AS tsquery) AS needle, max(near.likeness)::float AS likeness
    FROM asked CROSS JOIN LATERAL (
        SELECT k.word, similarity(k.word, asked.word) AS likeness FROM knowledge_words k
        WHERE k.team = :team AND k.word % asked.word ORDER BY 2 DESC, 1 LIMIT {_MEANT}
    ) near CROSS JOIN LATERAL unnest(tsvector_to_array(to_tsvector('english', near.word))) AS known
    WHERE length(asked.word) > 3 AND NOT EXISTS (SELECT FROM same WHERE same.lexeme = asked.lexeme)
    GROUP BY asked.lexeme, known
), alike AS MATERIALIZED (
    SELECT p.document_id, p.place, meant.lexeme, max(meant.likeness) AS likeness
    FROM meant JOIN knowledge_passages p ON p.words @@ meant.needle JOIN knowledge_documents d ON d.id = p.document_id
    WHERE {_HOLDS} GROUP BY p.document_id, p.place, meant.lexeme
), size AS MATERIALIZED (
    SELECT greatest(count(*), 1)::float AS passages
    FROM knowledge_passages p JOIN knowledge_documents d ON d.id = p.document_id WHERE {_HOLDS}
), weighed AS MATERIALIZED (
    SELECT a.lexeme, ln(1 + coalesce(size.passages / nullif(count(found.lexeme), 0), 2)) AS weight
    FROM size CROSS JOIN asked a LEFT JOIN (SELECT lexeme FROM same UNION ALL SELECT lexeme FROM alike) found
        ON found.lexeme = a.lexeme
    GROUP BY a.lexeme, size.passages
), met AS (
    SELECT document_id, place, sum(likeness * weight) / (SELECT sum(weight) FROM weighed) AS score
    FROM (SELECT * FROM same UNION ALL SELECT * FROM alike) found JOIN weighed USING (lexeme)
    GROUP BY document_id, place
)
SELECT {_SHOWN}, met.score
FROM met CROSS JOIN whole JOIN knowledge_passages p USING (document_id, place)
JOIN knowledge_documents d ON d.id = p.document_id
ORDER BY p.words @@ whole.all_of DESC, met.score DESC, ts_rank(p.words, whole.any_of, 1) DESC, d.source, p.place
LIMIT :limit
""")  # noqa: S608 - all parts are written here
"""A rare word counts more than one that many passages have; one that none has, as one that half of them have."""
_BY_MEANING = text(f"""
WITH near AS MATERIALIZED (
    SELECT p.document_id, p.place,
           1 - (CAST(p.vector AS vector) <=> CAST(CAST(:vector AS real[]) AS vector)) AS likeness
    FROM knowledge_passages p JOIN knowledge_documents d ON d.id = p.document_id
    WHERE p.model = :model AND cardinality(p.vector) = cardinality(CAST(:vector AS real[])) AND {_HOLDS}
)
SELECT {_SHOWN}, near.likeness AS score
FROM near JOIN knowledge_passages p USING (document_id, place) JOIN knowledge_documents d ON d.id = p.document_id
WHERE near.likeness BETWEEN -1.01 AND 1.01
ORDER BY near.likeness DESC, d.source, p.place LIMIT :limit
""")  # noqa: S608 - all parts are written here
"""What is no number, as the likeness to nothing but zeros, is above all bounds, and left out."""


class KnowledgeStore:
    """A document belongs to its team: no other finds it."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    async def save(
        self,
        team: str,
        document: Document,
        chunks: Sequence[Piece],
        stored: StoredSource | None = None,
        vectors: Sequence[Sequence[float]] = (),
    ) -> None:
        """Store a document with its chunks, and with a vector for each or with none. It replaces that of its source.

        Raises:
            Permanent: it has no title, no source or no text, or it is longer than `MAX_CHARACTERS`.
        """
        stored = stored or StoredSource()
        title, source = " ".join(storable(document.title).split()), source_of(storable(document.source))
        body = storable(document.body).replace("\r\n", "\n").strip()
        if not (title and source and body and chunks):
            raise Permanent(f"{source or 'the document'} needs a title, a source and a text")
        if len(body) > MAX_CHARACTERS:
            raise Permanent(f"{source} has {len(body):,} characters, and the maximum is {MAX_CHARACTERS:,}: split it")
        title = title[:_MAX_TITLE]
        origin = {"root": stored.ingest_root, "content_hash": stored.content_hash}
        row = {**vars(document.terms), **origin, "title": title, "body": body, "updated_at": func.now()}
        new = upsert(knowledge_documents).values(team=team, source=source, **row)
        kept = new.on_conflict_do_update(index_elements=["team", "source"], set_=row)
        identity = (await self._tx.execute(kept.returning(knowledge_documents.c.id))).scalar_one()
        old = delete(knowledge_passages).where(knowledge_passages.c.document_id == identity)
        await self._tx.execute(old)
        await self._tx.execute(insert(knowledge_passages), _rows(identity, title, chunks, stored.model, vectors))
        await self._tx.execute(_WORDS, {"team": team, "id": identity})

    async def delete(self, team: str, source: str) -> bool:
        """Delete the document of a source; False if there is none."""
        row = knowledge_documents.c
        named = delete(knowledge_documents).where(row.team == team, row.source == source_of(storable(source)))
        return (await self._tx.execute(named)).rowcount > 0

    async def delete_missing(self, team: str, root: str, sources: Collection[str]) -> list[str]:
        """Delete the documents that came with this folder or list, except for these sources; returns what is gone."""
        row = knowledge_documents.c
        under = or_(row.root == root, row.root.startswith(f"{root}/", autoescape=True))
        others = row.source != all_(bindparam("sources", list(sources), ARRAY(TEXT)))  # a parameter each is too many
        gone = delete(knowledge_documents).where(row.team == team, under, others)
        return sorted((await self._tx.execute(gone.returning(row.source))).scalars())

    async def documents(self, team: str) -> list[Document]:
        """All documents, by source."""
        row = knowledge_documents.c
        terms = (row.type, row.authority, row.effective, row.expires)
        query = select(row.title, row.source, row.body, *terms).where(row.team == team).order_by(row.source)
        rows = await self._tx.execute(query)
        return [
            Document(title, source, body, Terms(DocumentType(type_), *rest))
            for title, source, body, type_, *rest in rows
        ]

    async def sources(self, team: str) -> Mapping[str, StoredSource]:
        row, passage = knowledge_documents.c, knowledge_passages.c
        first = and_(passage.document_id == row.id, passage.place == 1)
        query = (
            select(row.source, row.root, row.content_hash, func.coalesce(passage.model, ""))
            .outerjoin(knowledge_passages, first)
            .where(row.team == team)
        )
        return {source: StoredSource(*rest) for source, *rest in await self._tx.execute(query)}

    async def search(self, query: Query, vector: QuestionVector | None = None) -> tuple[list[Passage], bool]:
        """The best passages for a question, and whether vectors were compared.

        Documents count that are valid on `query.on`. Without a vector, or where this Postgres has no pgvector, words
        alone are compared.
        """
        candidates = max(CANDIDATES, 4 * query.limit)
        by_words = await self._by_words(query, candidates)
        by_vector = await self._by_vector(query, candidates, vector) if vector else None
        if by_vector is None:
            return by_words[: query.limit], False
        found = {replace(each, score=0.0) for each in by_words}
        likes = [replace(each, score=_likeness(each.score)) for each in by_vector]
        likely = [each for each in likes if each.score > 0 or replace(each, score=0.0) in found]
        return _fused([by_words, likely], query.limit), True

    async def _by_words(self, query: Query, limit: int) -> list[Passage]:
        words = _words(query.text)
        if not words:
            return []
        await self._tx.execute(_THRESHOLD, {"alike": str(_ALIKE)})
        given = {"words": words, "question": storable(query.text[:4_000]), **_bounds(query, limit)}
        return [_passage(row) for row in (await self._tx.execute(_BY_WORDS, given)).mappings()]

    async def _by_vector(self, query: Query, limit: int, vector: QuestionVector) -> list[Passage] | None:
        if not (await self._tx.execute(_HAS_PGVECTOR)).scalar_one():
            return None
        given = {"model": vector.model, "vector": list(vector.values), **_bounds(query, limit)}
        return [_passage(row) for row in (await self._tx.execute(_BY_MEANING, given)).mappings()]


_THRESHOLD = text("SELECT set_config('pg_trgm.similarity_threshold', :alike, true)")
_HAS_PGVECTOR = text("SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector')")


def _words(question: str) -> list[str]:
    bare = (_EDGES.sub("", each) for each in storable(question).lower().split())
    return list(dict.fromkeys(each[:100] for each in bare if each))[:_MOST_WORDS]


def _bounds(query: Query, limit: int) -> dict[str, Any]:
    return {"team": query.team, "types": [each.value for each in query.types], "on": query.on, "limit": limit}


def _passage(row: RowMapping) -> Passage:
    return Passage(**dict(row) | {"type": DocumentType(row["type"]), "score": round(float(row["score"]), 4)})


def _likeness(cosine: float) -> float:
    return round(min(1.0, max(0.0, (cosine - 0.2) / 0.5)), 4)


def _fused(rankings: Sequence[Sequence[Passage]], limit: int) -> list[Passage]:
    sums: dict[Passage, float] = {}
    best: dict[Passage, float] = {}
    for ranking in rankings:
        for rank, passage in enumerate(ranking, 1):
            bare = replace(passage, score=0.0)
            sums[bare] = sums.get(bare, 0.0) + 1 / (60 + rank)
            best[bare] = max(best.get(bare, 0.0), passage.score)
    order = sorted(sums, key=lambda each: -sums[each])
    return [replace(each, score=best[each]) for each in order[:limit]]


def _rows(
    document_id: int, title: str, chunks: Sequence[Piece], model: str, vectors: Sequence[Sequence[float]]
) -> list[dict[str, Any]]:
    each_vector: Sequence[Sequence[float] | None] = vectors or [None] * len(chunks)
    return [
        {
            "document_id": document_id,
            "place": place,
            "title": title,
            "section": storable(chunk.section)[:_MAX_SECTION],
            "body": chunk.text,
            "model": model,
            "vector": None if vector is None else list(vector),
        }
        for place, (chunk, vector) in enumerate(zip(chunks, each_vector, strict=True), 1)
    ]
