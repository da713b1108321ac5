"""Documents of a team in Postgres, and the passages by which they are found."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ARRAY, all_, and_, bindparam, delete, func, insert, or_, select, text
from sqlalchemy.dialects.postgresql import insert as upsert

from threadline.db.columns import TEXT
from threadline.db.engine import Store
from threadline.db.values import storable
from threadline.errors import Permanent
from threadline.knowledge.model import (
    MAX_CHARACTERS,
    Chunk,
    Document,
    DocumentTerms,
    DocumentType,
    Passage,
    SearchQuery,
    normalise_source,
)
from threadline.knowledge.tables import knowledge_documents, knowledge_passages

_WORDS = text("""
INSERT INTO knowledge_words (team, word)
SELECT DISTINCT :team, lower(found[1])
FROM knowledge_passages CROSS JOIN LATERAL
     regexp_matches(title || ' ' || section || ' ' || body, '[[:alpha:]]{4,40}', 'g') AS found
WHERE document_id = :id ORDER BY 2 ON CONFLICT DO NOTHING
""")
"""Inserted in order, so that two transactions cannot deadlock. A word stays when its last passage is gone, and then
finds nothing."""
_MAX_TITLE = 300
_MAX_SECTION = 500


@dataclass(frozen=True)
class StoredSource:
    """What is stored of a source besides its text: the folder or list that it came with, and the `model` that made the
    vectors of its passages. A document that no ingest has brought has neither, and the next ingest replaces it."""

    ingest_root: str = ""
    content_hash: str = ""
    model: str = ""


class KnowledgeStore(Store):
    """Documents belong to a team, and no other team finds them."""

    async def save(
        self,
        team: str,
        document: Document,
        chunks: Sequence[Chunk],
        stored: StoredSource | None = None,
        vectors: Sequence[Sequence[float]] = (),
    ) -> None:
        """Store a document with its chunks, and with a vector for each or with none. It replaces that of its source.
        Raises `Permanent`: it has no title, no source or no text, or it is longer than `MAX_CHARACTERS`."""
        stored = stored or StoredSource()
        title, source = " ".join(storable(document.title).split()), normalise_source(storable(document.source))
        body = storable(document.body).replace("\r\n", "\n").strip()
        if not (title and source and body and chunks):
            raise Permanent(f"{source or 'the document'} needs a title, a source and a text")
        if len(body) > MAX_CHARACTERS:
            raise Permanent(f"{source} has {len(body):,} characters, and the maximum is {MAX_CHARACTERS:,}: split it")
        title = title[:_MAX_TITLE]
        origin = {"ingest_root": stored.ingest_root, "content_hash": stored.content_hash}
        row = {**vars(document.terms), **origin, "title": title, "body": body, "updated_at": func.now()}
        new = upsert(knowledge_documents).values(team=team, source=source, **row)
        kept = new.on_conflict_do_update(index_elements=["team", "source"], set_=row)
        identity = (await self._tx.execute(kept.returning(knowledge_documents.c.id))).scalar_one()
        await self._tx.execute(delete(knowledge_passages).where(knowledge_passages.c.document_id == identity))
        await self._tx.execute(insert(knowledge_passages), _rows(identity, title, chunks, stored.model, vectors))
        await self._tx.execute(_WORDS, {"team": team, "id": identity})

    async def delete(self, team: str, source: str) -> bool:
        """Delete the document of a source; False if there is none."""
        row = knowledge_documents.c
        named = delete(knowledge_documents).where(row.team == team, row.source == normalise_source(storable(source)))
        return (await self._tx.execute(named)).rowcount > 0

    async def delete_missing(self, team: str, root: str, sources: Collection[str]) -> list[str]:
        """Delete the documents that came with this folder or list, except for these sources; returns what is gone."""
        row = knowledge_documents.c
        under = or_(row.ingest_root == root, row.ingest_root.startswith(f"{root}/", autoescape=True))
        others = row.source != all_(bindparam("sources", list(sources), ARRAY(TEXT)))  # asyncpg takes 32,767 parameters
        gone = delete(knowledge_documents).where(row.team == team, under, others)
        return sorted((await self._tx.execute(gone.returning(row.source))).scalars())

    async def documents(self, team: str) -> list[Document]:
        """All documents, by source."""
        row = knowledge_documents.c
        terms = (row.type, row.authority, row.effective, row.expires)
        query = select(row.title, row.source, row.body, *terms).where(row.team == team).order_by(row.source)
        return [
            Document(title, source, body, DocumentTerms(DocumentType(type_), *rest))
            for title, source, body, type_, *rest in await self._tx.execute(query)
        ]

    async def sources(self, team: str) -> Mapping[str, StoredSource]:
        """What is stored of each source."""
        row, passage = knowledge_documents.c, knowledge_passages.c
        query = (
            select(row.source, row.ingest_root, row.content_hash, func.coalesce(passage.model, ""))
            .outerjoin(knowledge_passages, and_(passage.document_id == row.id, passage.position == 1))
            .where(row.team == team)
        )
        return {source: StoredSource(*rest) for source, *rest in await self._tx.execute(query)}

    async def search(
        self, query: SearchQuery, model: str, vector: Sequence[float] | None
    ) -> tuple[list[Passage], bool]:
        """The best passages for a question, and whether vectors were compared. Documents count that are valid on
        `query.on`. Without a vector, which `model` made of the question, or where this Postgres has no pgvector, words
        alone are compared."""
        if vector is not None and not (await self._tx.execute(_HAS_PGVECTOR)).scalar_one():
            vector = None
        bare = (_EDGES.sub("", each)[:100] for each in storable(query.text).lower().split())
        given: dict[str, Any] = {
            "team": query.team,
            "words": list(dict.fromkeys(filter(None, bare)))[:_MAX_WORDS],
            "question": storable(query.text),
            "types": [each.value for each in query.types],
            "on": query.on,
            "candidates": max(_CANDIDATES, 4 * query.limit),
            "limit": query.limit,
        }
        if vector is not None:
            given |= {"model": model, "vector": list(vector)}
        rows = await self._tx.execute(_SEARCH_WORDS if vector is None else _SEARCH_WORDS_AND_VECTORS, given)
        passages = [
            Passage(**{**row, "type": DocumentType(row["type"]), "score": round(float(row["score"]), 4)})
            for row in rows.mappings()
        ]
        return passages, vector is not None


def _rows(
    document_id: int, title: str, chunks: Sequence[Chunk], model: str, vectors: Sequence[Sequence[float]]
) -> list[dict[str, Any]]:
    each_vector: Sequence[Sequence[float] | None] = vectors or [None] * len(chunks)
    return [
        {
            "document_id": document_id,
            "position": position,
            "title": title,
            "section": storable(chunk.section)[:_MAX_SECTION],
            "body": chunk.text,
            "model": model,
            "vector": None if vector is None else list(vector),
        }
        for position, (chunk, vector) in enumerate(zip(chunks, each_vector, strict=True), 1)
    ]


# -- search ------------------------------------------------------------------------------------------------------------

_MAX_WORDS = 40
"""Words of a question that are searched for. Later ones say little more, and each costs a scan of the index."""
_CANDIDATES = 20
"""Least number of passages of each ranking that are fused: one that is good in both may be first in neither."""
_MIN_SIMILARITY = 0.33
"""Least similarity of letters at which a word that no passage has is taken for one of `knowledge_words`. A word of
seven letters of which two have changed places has a third. `%` uses the index from 0.3 on."""
_MAX_CORRECTIONS = 5
"""Words that a mistyped one may be taken for."""
_MIN_COSINE, _FULL_COSINE = 0.2, 0.7
"""Cosines of texts that have nothing in common, and of texts that say the same: scores 0 and 1. Both models fit."""
_DAMPING = 60
"""The constant of reciprocal rank fusion: the first ranks of one list do not outweigh all of the other. See Cormack,
Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods" (SIGIR
2009)."""
_EDGES = re.compile(r"^\W+|\W+$")
_HAS_PGVECTOR = text("SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector')")
_BY_WORDS = f"""
WITH asked AS MATERIALIZED (
    SELECT row_number() OVER () AS number, min(word) AS word, quote_literal(lexeme)::tsquery AS needle
    FROM unnest(CAST(:words AS text[])) AS word
    CROSS JOIN LATERAL unnest(tsvector_to_array(to_tsvector('english', word))) AS lexeme
    GROUP BY lexeme
), document AS MATERIALIZED (
    SELECT id, source, type, authority, effective, expires FROM knowledge_documents
    WHERE team = :team AND (cardinality(CAST(:types AS text[])) = 0 OR type = ANY(CAST(:types AS text[])))
          AND (effective IS NULL OR effective <= :on) AND (expires IS NULL OR expires >= :on)
), exact AS MATERIALIZED (  -- one scan of the index for each word; no tsvector is read
    SELECT a.number, p.document_id, p.position
    FROM asked a JOIN knowledge_passages p ON p.search_vector @@ a.needle JOIN document d ON d.id = p.document_id
), known AS MATERIALIZED (
    SELECT number, count(*) AS passages FROM exact GROUP BY number
), corrected AS MATERIALIZED (  -- for the words that no passage has
    SELECT a.number, p.document_id, p.position, max(w.likeness)::float AS likeness
    FROM asked a CROSS JOIN LATERAL (
        SELECT k.word, similarity(k.word, a.word) AS likeness FROM knowledge_words k
        WHERE k.team = :team AND k.word % a.word AND similarity(k.word, a.word) >= {_MIN_SIMILARITY}
        ORDER BY likeness DESC, k.word LIMIT {_MAX_CORRECTIONS}
    ) w
    JOIN knowledge_passages p ON p.search_vector @@ plainto_tsquery('english', w.word)
    JOIN document d ON d.id = p.document_id
    WHERE length(a.word) > 3 AND NOT EXISTS (SELECT FROM known k WHERE k.number = a.number)
    GROUP BY a.number, p.document_id, p.position
), weight AS MATERIALIZED (  -- a rare word counts more; one that no passage has counts as if half of them had it
    SELECT number, ln(1 + coalesce(a.passages / h.passages, 2)) AS weight
    FROM asked LEFT JOIN (
        SELECT * FROM known UNION ALL SELECT number, count(*) FROM corrected GROUP BY number
    ) h USING (number)
    CROSS JOIN (
        SELECT count(*)::float AS passages FROM knowledge_passages p JOIN document d ON d.id = p.document_id
    ) a
), scored AS MATERIALIZED (
    SELECT document_id, position, sum(weight) / (SELECT sum(weight) FROM weight) AS score
    FROM (
        SELECT document_id, position, weight FROM exact JOIN weight USING (number)
        UNION ALL
        SELECT document_id, position, likeness * weight FROM corrected JOIN weight USING (number)
    ) hit
    GROUP BY document_id, position
    ORDER BY score DESC FETCH FIRST :candidates ROWS WITH TIES
), by_words AS MATERIALIZED (  -- only the best are ranked: what has quoted words side by side, then by ts_rank
    SELECT document_id, position, score, row_number() OVER (
        ORDER BY p.search_vector @@ websearch_to_tsquery('english', :question) DESC, score DESC,
                 ts_rank(p.search_vector, (SELECT string_agg(needle::text, ' | ')::tsquery FROM asked), 1) DESC,
                 d.source, position
    ) AS rank
    FROM scored JOIN knowledge_passages p USING (document_id, position) JOIN document d ON d.id = document_id
    ORDER BY rank LIMIT :candidates
)"""  # noqa: S608 - all parts are written here
_BY_VECTOR = f""", near AS MATERIALIZED (
    SELECT document_id, position, source, cosine, least(1, greatest(0, round(
               CAST((cosine - {_MIN_COSINE}) / ({_FULL_COSINE} - {_MIN_COSINE}) AS numeric), 4
           ))) AS score
    FROM (
        SELECT p.document_id, p.position, d.source,
               1 - (CAST(p.vector AS vector) <=> CAST(CAST(:vector AS real[]) AS vector)) AS cosine
        FROM knowledge_passages p JOIN document d ON d.id = p.document_id
        WHERE p.model = :model AND cardinality(p.vector) = cardinality(CAST(:vector AS real[]))
    ) compared
    WHERE cosine BETWEEN -1.01 AND 1.01  -- to a vector of zeros it is NaN, which sorts above all numbers
    ORDER BY cosine DESC, source, position LIMIT :candidates
), by_vector AS MATERIALIZED (  -- of the unlike only those that words have found
    SELECT document_id, position, n.score, row_number() OVER (ORDER BY cosine DESC, source, position) AS rank
    FROM near n LEFT JOIN by_words w USING (document_id, position)
    WHERE n.score > 0 OR w.rank IS NOT NULL
)"""  # noqa: S608 - all parts are written here
_SHOWN = """
SELECT p.title, p.section, d.source, d.type, p.body AS text, d.authority, d.effective, d.expires,"""
_SEARCH_WORDS = text(f"""{_BY_WORDS} {_SHOWN} w.score
FROM by_words w JOIN knowledge_passages p USING (document_id, position) JOIN document d ON d.id = document_id
ORDER BY w.rank LIMIT :limit
""")
_SEARCH_WORDS_AND_VECTORS = text(f"""{_BY_WORDS} {_BY_VECTOR} {_SHOWN} greatest(w.score, v.score) AS score
FROM by_words w FULL JOIN by_vector v USING (document_id, position)
JOIN knowledge_passages p USING (document_id, position) JOIN document d ON d.id = document_id
ORDER BY coalesce(1.0 / ({_DAMPING} + w.rank), 0) + coalesce(1.0 / ({_DAMPING} + v.rank), 0) DESC,
         w.rank NULLS LAST, v.rank
LIMIT :limit
""")
