"""Documents of a team in Postgres, and the search for their passages."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ARRAY, all_, and_, bindparam, delete, func, or_, select, text
from sqlalchemy.dialects.postgresql import insert as upsert

from threadline.db.columns import TEXT
from threadline.db.engine import Store
from threadline.db.values import jsonb, storable
from threadline.db.words import EXACT, Term, Word, cut, stored_words
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

_PASSAGES = text("""
INSERT INTO knowledge_passages
    (document_id, position, title, section, body, model, vector, search_vector)
VALUES (:document_id, :position, :title, :section, :body, :model, CAST(:vector AS real[]),
        setweight(to_tsvector(CAST(:language AS text)::regconfig, :title), 'A')
        || setweight(to_tsvector(CAST(:language AS text)::regconfig, :section), 'B')
        || setweight(to_tsvector(CAST(:language AS text)::regconfig, :body), 'C')
        || word_vector(CAST(:language AS text)::regconfig, CAST(:words AS text[])))
""")
"""Only lexemes that Postgres cut itself have weights and positions: `ts_rank` and quoted words use
these.
"""
_WORDS = text("""
INSERT INTO knowledge_words (team, word)
SELECT :team, word FROM unnest(CAST(:words AS text[])) AS word ORDER BY 2 ON CONFLICT DO NOTHING
""")
"""Inserts words in order, so that two transactions cannot deadlock. A word stays after its last
passage is deleted, and then finds nothing.
"""
_WORD_LENGTHS = range(4, 41)
"""Lengths of the stored words that may replace a mistyped one."""
_MAX_TITLE = 300
_MAX_SECTION = 500


@dataclass(frozen=True)
class StoredSource:
    """The stored facts about a source besides its text: its folder or list, and the `model` of its
    passages' vectors. A document that did not come from an ingest has neither, and the next ingest
    replaces it.
    """

    ingest_root: str = ""
    content_hash: str = ""
    model: str = ""


class KnowledgeStore(Store):
    """Documents by team. A search only finds documents of its own team."""

    async def save(
        self,
        team: str,
        document: Document,
        chunks: Sequence[Chunk],
        stored: StoredSource | None = None,
        vectors: Sequence[Sequence[float]] = (),
    ) -> None:
        """Store a document with its chunks, and with a vector for each or with none. It replaces
        an earlier document of its source.

        Raises:
            Permanent: it has no title, no source or no text, or it is longer than
                `MAX_CHARACTERS`.
        """
        stored = stored or StoredSource()
        title = " ".join(storable(document.title).split())
        source = normalise_source(storable(document.source))
        body = storable(document.body).replace("\r\n", "\n").strip()
        if not (title and source and body and chunks):
            raise Permanent(f"{source or 'the document'} needs a title, a source and a text")
        if len(body) > MAX_CHARACTERS:
            raise Permanent(
                f"{source} has {len(body):,} characters, and the maximum is "
                f"{MAX_CHARACTERS:,}: split it"
            )
        title = title[:_MAX_TITLE]
        row = {
            **vars(document.terms),
            "ingest_root": stored.ingest_root,
            "content_hash": stored.content_hash,
            "title": title,
            "body": body,
            "language": document.language,
            "updated_at": func.now(),
        }
        new = upsert(knowledge_documents).values(team=team, source=source, **row)
        kept = new.on_conflict_do_update(index_elements=["team", "source"], set_=row)
        identity = (await self._tx.execute(kept.returning(knowledge_documents.c.id))).scalar_one()
        await self._tx.execute(
            delete(knowledge_passages).where(knowledge_passages.c.document_id == identity)
        )
        origin = {"document_id": identity, "language": document.language, "model": stored.model}
        rows = [origin | each for each in _rows(title, chunks, vectors)]
        await self._tx.execute(_PASSAGES, rows)
        words = {word for row in rows for word in row["words"] if not word.startswith(EXACT)}
        correcting = [word for word in words if len(word) in _WORD_LENGTHS]
        await self._tx.execute(_WORDS, {"team": team, "words": correcting})

    async def delete(self, team: str, source: str) -> bool:
        """Delete the document of a source; False if there is none."""
        row = knowledge_documents.c
        named = delete(knowledge_documents).where(
            row.team == team, row.source == normalise_source(storable(source))
        )
        return (await self._tx.execute(named)).rowcount > 0

    async def delete_missing(self, team: str, root: str, sources: Collection[str]) -> list[str]:
        """Delete the documents of this folder or list, except for these sources.

        Returns:
            The deleted sources, sorted.
        """
        row = knowledge_documents.c
        under = or_(
            row.ingest_root == root, row.ingest_root.startswith(f"{root}/", autoescape=True)
        )
        # an array, as asyncpg takes at most 32,767 parameters
        others = row.source != all_(bindparam("sources", list(sources), ARRAY(TEXT)))
        gone = delete(knowledge_documents).where(row.team == team, under, others)
        return sorted((await self._tx.execute(gone.returning(row.source))).scalars())

    async def documents(self, team: str) -> list[Document]:
        """Return all documents, sorted by source."""
        row = knowledge_documents.c
        terms = (row.type, row.authority, row.effective, row.expires)
        query = (
            select(row.title, row.source, row.body, row.language, *terms)
            .where(row.team == team)
            .order_by(row.source)
        )
        return [
            Document(title, source, body, DocumentTerms(DocumentType(type_), *rest), language)
            for title, source, body, language, type_, *rest in await self._tx.execute(query)
        ]

    async def sources(self, team: str) -> Mapping[str, StoredSource]:
        """Return the stored facts by source."""
        row = knowledge_documents.c
        passage = knowledge_passages.c
        query = (
            select(row.source, row.ingest_root, row.content_hash, func.coalesce(passage.model, ""))
            .outerjoin(
                knowledge_passages, and_(passage.document_id == row.id, passage.position == 1)
            )
            .where(row.team == team)
        )
        return {source: StoredSource(*rest) for source, *rest in await self._tx.execute(query)}

    async def search(
        self, query: SearchQuery, model: str, vector: Sequence[float] | None
    ) -> tuple[list[Passage], bool]:
        """Return the best passages for a question, and whether vectors were compared.

        Only documents that are valid on `query.on` count. Without a vector, or where this Postgres
        has no pgvector, only words are compared.

        Args:
            model: the model that made the vector.
            vector: the question's vector.
        """
        if vector is not None and not (await self._tx.execute(_HAS_PGVECTOR)).scalar_one():
            vector = None
        given: dict[str, Any] = {
            "team": query.team,
            "needles": jsonb(_needles(storable(query.text))),
            "question": storable(query.text),
            "types": [each.value for each in query.types],
            "on": query.on,
            "candidates": max(_CANDIDATES, 4 * query.limit),
            "limit": query.limit,
        }
        if vector is not None:
            given |= {"model": model, "vector": list(vector)}
        rows = await self._tx.execute(
            _SEARCH_WORDS if vector is None else _SEARCH_WORDS_AND_VECTORS, given
        )
        passages = [
            Passage(
                **{
                    **row,
                    "type": DocumentType(row["type"]),
                    "score": round(float(row["score"]), 4),
                }
            )
            for row in rows.mappings()
        ]
        return passages, vector is not None


def _rows(
    title: str, chunks: Sequence[Chunk], vectors: Sequence[Sequence[float]]
) -> list[dict[str, Any]]:
    each_vector: Sequence[Sequence[float] | None] = vectors or [None] * len(chunks)
    rows = []
    for position, (chunk, vector) in enumerate(zip(chunks, each_vector, strict=True), 1):
        section = storable(chunk.section)[:_MAX_SECTION]
        body = storable(chunk.text)
        rows.append(
            {
                "position": position,
                "title": title,
                "section": section,
                "body": body,
                "vector": None if vector is None else list(vector),
                "words": stored_words(title, section, body),
            }
        )
    return rows


# -- search

_MAX_WORDS = 40
"""Words of a question that are searched. Later ones add little, and each costs a scan of the
index.
"""
_MAX_PARTS = 8
"""Parts of an identifier that are searched."""
_SAME_STEM = 0.95
_ALL_PARTS = 0.9
"""Likeness of an identifier to one with the same stem, and to all its parts in any order."""
_CANDIDATES = 20
"""Least number of passages of each ranking that are fused: a passage that is good in both may be
first in neither.
"""
_MIN_SIMILARITY = 0.33
"""Least similarity of letters at which an unknown word is replaced by one of `knowledge_words`. A
word of seven letters with two of them swapped has a third. `%` uses the index from 0.3 on.
"""
_MAX_CORRECTIONS = 5
"""Stored words that may replace a mistyped one."""
_MIN_COSINE = 0.2
_FULL_COSINE = 0.7
"""Cosines of unrelated texts and of texts with the same meaning: scores 0 and 1. They fit both
models.
"""
_DAMPING = 60
"""The constant of reciprocal rank fusion: the first ranks of one list do not outweigh all of the
other. See Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and
individual rank learning methods" (SIGIR 2009).
"""
_HAS_PGVECTOR = text("SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector')")
_BY_WORDS = f"""
WITH document AS MATERIALIZED (
    SELECT id, source, type, authority, effective, expires, language FROM knowledge_documents
    WHERE team = :team
          AND (cardinality(CAST(:types AS text[])) = 0 OR type = ANY(CAST(:types AS text[])))
          AND (effective IS NULL OR effective <= :on) AND (expires IS NULL OR expires >= :on)
), language AS MATERIALIZED (  -- the passages of each language are ranked by its own words
    SELECT language, language::regconfig AS stemmer, count(*)::float AS passages
    FROM document d JOIN knowledge_passages p ON p.document_id = d.id GROUP BY language
), given AS (
    SELECT language, name, term, spoken, part, likeness, short, lexeme
    FROM language
    CROSS JOIN jsonb_to_recordset(CAST(:needles AS jsonb))
        AS n (name text, term text, spoken boolean, part boolean, likeness float, short float)
    CROSS JOIN LATERAL unnest(
        CASE WHEN spoken THEN tsvector_to_array(to_tsvector(stemmer, term))
             ELSE ARRAY['{EXACT}' || term] END
    ) AS lexeme
), share AS (
    -- a part counts as much as it has of the letters; stop words have no lexeme, and count nothing
    SELECT language, coalesce(nullif(name, ''), lexeme) AS key, term, spoken, part, lexeme,
           likeness * CASE
               WHEN part THEN length(term) / (short + sum(length(term)) OVER identifier) ELSE 1
           END AS likeness
    FROM given WINDOW identifier AS (PARTITION BY language, name, part)
), asked AS MATERIALIZED (
    -- `word` numbers the words: an identifier has several lexemes, another word has one
    SELECT row_number() OVER () AS number, dense_rank() OVER (ORDER BY language, key) AS word,
           count(*) OVER (PARTITION BY language, key) = 1 AS alone,
           language, part, min(term) AS term, bool_or(spoken) AS spoken,
           quote_literal(lexeme)::tsquery AS needle, max(likeness) AS likeness
    FROM share GROUP BY language, key, part, lexeme
), exact AS MATERIALIZED (
    -- One scan of the index for each lexeme; no tsvector is read. With `=` on the languages
    -- Postgres would join words with documents first, and read the tsvector of each passage for
    -- each word.
    SELECT a.number, p.document_id, p.position
    FROM asked a JOIN knowledge_passages p ON p.search_vector @@ a.needle
    JOIN document d ON d.id = p.document_id AND d.language IS NOT DISTINCT FROM a.language
), known AS MATERIALIZED (
    SELECT word, part, likeness, passages * likeness AS passages
    FROM asked
    JOIN (SELECT number, count(*) AS passages FROM exact GROUP BY number) counted USING (number)
), corrected AS MATERIALIZED (  -- for the words that no passage has
    SELECT a.word, p.document_id, p.position, max(w.likeness)::float AS likeness
    FROM asked a CROSS JOIN LATERAL (
        SELECT k.word, similarity(k.word, a.term) AS likeness FROM knowledge_words k
        WHERE k.team = :team AND k.word % a.term
              AND similarity(k.word, a.term) >= {_MIN_SIMILARITY}
        ORDER BY likeness DESC, k.word LIMIT {_MAX_CORRECTIONS}
    ) w
    CROSS JOIN LATERAL (
        SELECT document_id, position FROM knowledge_passages
        WHERE search_vector @@ plainto_tsquery(a.language::regconfig, w.word) OFFSET 0
    ) p
    JOIN document d ON d.id = p.document_id AND d.language = a.language
    WHERE a.spoken AND NOT a.part AND length(a.term) > 3
          AND NOT EXISTS (SELECT FROM known k WHERE k.word = a.word AND k.likeness > {_ALL_PARTS})
    GROUP BY a.word, p.document_id, p.position
), found AS (
    -- how many passages have each word; one that is like the word counts as a part of a passage
    SELECT word, greatest(1, max(passages) FILTER (WHERE NOT part),
                          sum(passages) FILTER (WHERE part)) AS passages
    FROM known GROUP BY word
    UNION ALL
    SELECT word, count(*) FROM corrected GROUP BY word
), weight AS MATERIALIZED (
    -- a rare word counts more; one that no passage has counts as if half of them had it
    SELECT word, weight / sum(weight) OVER (PARTITION BY language) AS weight
    FROM (
        SELECT a.word, l.language, ln(1 + coalesce(l.passages / f.passages, 2)) AS weight
        FROM (SELECT DISTINCT language, word FROM asked) a JOIN language l USING (language)
        LEFT JOIN (SELECT word, max(passages) AS passages FROM found GROUP BY word) f USING (word)
    ) weighed
), scored AS MATERIALIZED (
    -- rounded: the same weights in another order have a sum that differs in its last digits
    SELECT document_id, position, least(1, round(sum(weight) * 1e9) / 1e9) AS score
    FROM (
        SELECT document_id, position, weight
        FROM exact
        JOIN (SELECT number, likeness * weight AS weight
              FROM asked JOIN weight USING (word) WHERE alone) w USING (number)
        UNION ALL
        SELECT document_id, position, weight * greatest(
                   max(likeness) FILTER (WHERE NOT part), sum(likeness) FILTER (WHERE part)
               )
        FROM exact
        JOIN (SELECT * FROM asked JOIN weight USING (word) WHERE NOT alone) w USING (number)
        GROUP BY document_id, position, word, weight
        UNION ALL
        SELECT document_id, position, likeness * weight FROM corrected JOIN weight USING (word)
    ) hit
    GROUP BY document_id, position
    ORDER BY score DESC FETCH FIRST :candidates ROWS WITH TIES
), needles AS MATERIALIZED (
    SELECT language, string_agg(needle::text, ' | ')::tsquery AS any_needle,
           websearch_to_tsquery(language::regconfig, :question) AS quoted
    FROM asked GROUP BY language
), by_words AS MATERIALIZED (
    -- only the best are ranked: what has quoted words side by side, then by ts_rank
    SELECT document_id, position, score, row_number() OVER (
        ORDER BY
            p.search_vector @@ n.quoted DESC, score DESC,
            ts_rank(ts_filter(p.search_vector, '{{a,b,c}}'), n.any_needle, 1) DESC,  -- by position
            ts_rank(p.search_vector, n.any_needle, 1) DESC, d.source, position
    ) AS rank
    FROM scored JOIN knowledge_passages p USING (document_id, position)
    JOIN document d ON d.id = document_id
    JOIN needles n USING (language)
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
    WHERE cosine BETWEEN -1.01 AND 1.01
          -- to a vector of zeros it is NaN, which sorts above all numbers
    ORDER BY cosine DESC, source, position LIMIT :candidates
), by_vector AS MATERIALIZED (  -- of the unlike only those that words have found
    SELECT document_id, position, n.score,
           row_number() OVER (ORDER BY cosine DESC, source, position) AS rank
    FROM near n LEFT JOIN by_words w USING (document_id, position)
    WHERE n.score > 0 OR w.rank IS NOT NULL
)"""  # noqa: S608 - all parts are written here
_SHOWN = """
SELECT p.title, p.section, d.source, d.type, p.body AS text,
       d.authority, d.effective, d.expires,"""
_SEARCH_WORDS = text(f"""{_BY_WORDS} {_SHOWN} w.score
FROM by_words w JOIN knowledge_passages p USING (document_id, position)
JOIN document d ON d.id = document_id
ORDER BY w.rank LIMIT :limit
""")
_SEARCH_WORDS_AND_VECTORS = text(f"""{_BY_WORDS} {_BY_VECTOR} {_SHOWN}
       greatest(w.score, v.score) AS score
FROM by_words w FULL JOIN by_vector v USING (document_id, position)
JOIN knowledge_passages p USING (document_id, position) JOIN document d ON d.id = document_id
ORDER BY coalesce(1.0 / ({_DAMPING} + w.rank), 0) + coalesce(1.0 / ({_DAMPING} + v.rank), 0) DESC,
         w.rank NULLS LAST, v.rank
LIMIT :limit
""")


def _needles(question: str) -> list[dict[str, Any]]:
    """Return the terms that a question searches for: rows of `given` in the statement above."""
    words = list({word.whole: word for word in cut(question)}.values())[:_MAX_WORDS]
    return [needle for word in words for needle in _needles_of(word)]


def _needles_of(word: Word) -> Iterator[dict[str, Any]]:
    """Yield the needles of a word. A word's own needle has no name: its key is its stem, so that
    "refund" and "refunds" count once. Needles of an identifier are named by the whole of it.
    """
    if not word.parts:
        yield _needle("", word.whole, 1.0)
        return
    name = word.whole.text
    yield _needle(name, Term(word.whole.text, spoken=False), 1.0)
    if word.whole.spoken:
        yield _needle(name, word.whole, _SAME_STEM)
    for part in word.parts[:_MAX_PARTS]:
        yield _needle(name, part, _ALL_PARTS) | {"part": True, "short": word.short}


def _needle(name: str, term: Term, likeness: float) -> dict[str, Any]:
    return {
        "name": name,
        "term": term.text,
        "spoken": term.spoken,
        "part": False,
        "likeness": likeness,
        "short": 0,
    }
