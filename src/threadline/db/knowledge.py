"""What the team has written down, and the passages of it that have to do with a question."""

import re

from sqlalchemy import delete, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.agent_pool import storable
from threadline.db.tool_tables import knowledge_documents
from threadline.domain.errors import Permanent
from threadline.domain.records import Document, Passage

LARGEST = 300_000
"""Characters of a document. Postgres keeps at most 1 MiB of words of one text, and refuses what has more."""
_LONGEST_TITLE = 300
_HEADING = re.compile(r"^(#{1,6} .*)\n(?:[ \t]*\n)+", re.MULTILINE)
_PASSAGES = text(r"""
WITH asked AS (
    SELECT string_agg(quote_literal(lexeme), ' | ')::tsquery AS query, array_agg(lexeme) AS lexemes
    FROM unnest(to_tsvector('english', left(:question, 4000)))
)
SELECT d.title, d.source, CASE WHEN length(p.passage) <= :longest THEN p.passage ELSE
           ts_headline('english', left(p.passage, 100000), a.query,
                       'MaxFragments=3, MaxWords=80, MinWords=40, StartSel="", StopSel="", FragmentDelimiter=" … "')
       END AS passage
FROM asked a
JOIN knowledge_documents d ON d.team = :team AND d.words @@ a.query
CROSS JOIN LATERAL regexp_split_to_table(d.body, '\n[ \t]*\n') WITH ORDINALITY AS p (passage, place)
CROSS JOIN LATERAL (
    SELECT setweight(to_tsvector('english', d.title), 'A') || to_tsvector('english', p.passage) AS words) w
WHERE w.words @@ a.query AND p.passage ~ '\S'
ORDER BY cardinality(ARRAY(SELECT unnest(tsvector_to_array(w.words)) INTERSECT SELECT unnest(a.lexemes))) DESC,
         ts_rank(w.words, a.query, 1) DESC, d.title, p.place LIMIT :limit
""")
"""A passage is a paragraph with the heading above it; the more of the question's words it has, the sooner it comes."""
_LONGEST_PASSAGE = 1_500
"""Characters of a passage that are given whole; of a longer one the places with the words are."""


class Knowledge:
    """A document belongs to its team: no other finds it."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def save(self, team: str, document: Document) -> None:
        """Keep a document; it replaces what was known from the same source.

        Raises:
            Permanent: it has no title, no source or no text, or it is longer than `LARGEST`.
        """
        title, source = (" ".join(storable(each).split()) for each in (document.title, document.source))
        body = _HEADING.sub(r"\1\n", storable(document.body).replace("\r\n", "\n")).strip()
        if not (title and source and body):
            raise Permanent(f"{source or 'the document'} needs a title, a source and a text")
        if len(body) > LARGEST:
            raise Permanent(f"{source} has {len(body):,} characters, and {LARGEST:,} are the most: split it")
        row = {"title": title[:_LONGEST_TITLE], "body": body}
        new = insert(knowledge_documents).values(team=team, source=source, **row, updated_at=func.now())
        changed = {**row, "updated_at": func.now()}
        await self._connection.execute(new.on_conflict_do_update(index_elements=["team", "source"], set_=changed))

    async def forget(self, team: str, source: str) -> bool:
        """Whether there was a document from this source; there is none any more."""
        row = knowledge_documents.c
        named = delete(knowledge_documents).where(row.team == team, row.source == storable(source))
        return (await self._connection.execute(named)).rowcount > 0

    async def documents(self, team: str) -> list[Document]:
        """By source."""
        row = knowledge_documents.c
        query = select(row.title, row.source, row.body).where(row.team == team).order_by(row.source)
        return [Document(*each) for each in await self._connection.execute(query)]

    async def passages(self, team: str, question: str, limit: int = 5) -> list[Passage]:
        """What has the question's words in it, the likest first; nothing when it has none that mean something."""
        given = {"team": team, "question": storable(question), "limit": limit, "longest": _LONGEST_PASSAGE}
        rows = await self._connection.execute(_PASSAGES, given)
        return [Passage(*row) for row in rows]
