"""Finds passages of a team's documents: by the words of a question, mistyped ones too, and by its meaning."""

import re
from collections.abc import Sequence
from datetime import date
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.values import storable
from threadline.knowledge.model import DocumentType, Passage, Query

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


class PassageSearch:
    """Of a team's documents those are looked through that hold on the day; see `Query` in `knowledge/model.py`."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def by_words(self, query: Query, on: date, limit: int) -> list[Passage]:
        """What has words of the question, the likest first; `score` is the share of the words that it has."""
        words = _words(query.text)
        if not words:
            return []
        await self._connection.execute(_THRESHOLD, {"alike": str(_ALIKE)})
        given = {"words": words, "question": storable(query.text[:4_000]), **_bounds(query, on, limit)}
        return [_passage(row) for row in (await self._connection.execute(_BY_WORDS, given)).mappings()]

    async def by_meaning(
        self, query: Query, on: date, limit: int, model: str, vector: Sequence[float]
    ) -> list[Passage] | None:
        """What the model holds for like the question, the likest first; `score` is the cosine of both vectors.

        None where this Postgres cannot compare vectors.
        """
        if not (await self._connection.execute(_COMPARES)).scalar_one():
            return None
        given = {"model": model, "vector": list(vector), **_bounds(query, on, limit)}
        return [_passage(row) for row in (await self._connection.execute(_BY_MEANING, given)).mappings()]


_THRESHOLD = text("SELECT set_config('pg_trgm.similarity_threshold', :alike, true)")
_COMPARES = text("SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector')")


def _words(question: str) -> list[str]:
    bare = (_EDGES.sub("", each) for each in storable(question).lower().split())
    return list(dict.fromkeys(each[:100] for each in bare if each))[:_MOST_WORDS]


def _bounds(query: Query, on: date, limit: int) -> dict[str, Any]:
    return {"team": query.team, "types": [each.value for each in query.types], "on": on, "limit": limit}


def _passage(row: RowMapping) -> Passage:
    return Passage(**dict(row) | {"type": DocumentType(row["type"]), "score": round(float(row["score"]), 4)})
