"""The operator's memories of earlier turns, searched by the words of a question."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, TextClause, delete, func, select, text
from sqlalchemy.dialects.postgresql import insert

from threadline.db.engine import Store
from threadline.db.values import any_word, storable, storable_key, words_shared
from threadline.db.words import asked_words, stored_words
from threadline.operator.tables import memories

MAX_FACTS = 10
"""Facts of one turn that are remembered."""
MAX_SEARCH_TEXT = 1_000
MAX_MEMORY_TEXT = 4_000
"""Characters; the rest is cut off."""

_ASKED = any_word(":words")
# the tools that led to an answer
_PATTERN = "(m.kind = 'procedural' AND m.error_class = '')"


def _recall(partition: str, room: str) -> TextClause:
    """Rank memories by how many of the question's words they contain; among equal ones the newest
    comes first.
    """
    return text(f"""
WITH found AS (
    SELECT m.*, {room} AS room, row_number() OVER (
        PARTITION BY {partition}
        ORDER BY {words_shared("m.search_vector", ":words")} DESC,
                 ts_rank(m.search_vector, (SELECT {_ASKED}), 1) DESC, m.created_at DESC, m.id DESC
        ) AS place
    FROM memories m
    WHERE m.search_vector @@ {_ASKED} AND m.team = :team AND m.kind = ANY(:kinds)
      AND m.channel IN ('', :channel)
)
SELECT kind, search_text, text, error_class, user_id, channel, rfp_id, created_at
FROM found WHERE place <= room ORDER BY kind, place
""")  # noqa: S608 - all parts are constants of this package


_RECALL = _recall("m.kind", "CAST(:limit AS int)")
_RECALL_FOR_TURN = _recall(
    f"m.kind, {_PATTERN}, {_PATTERN} AND m.user_id = :user_id",
    f"CASE WHEN {_PATTERN} THEN CAST(:patterns AS int) ELSE CAST(:limit AS int) END",
)


class MemoryKind(StrEnum):
    EPISODIC = "episodic"
    """A request and its outcome."""
    SEMANTIC = "semantic"
    """A fact, valid until a person corrects it."""
    PROCEDURAL = "procedural"
    """The tools that led to an answer, or the way in which they failed."""


@dataclass(frozen=True)
class Memory:
    """A memory to store.

    Args:
        search_text: the text that a search weighs most, such as the question.
        channel: the only channel where it may be shown; empty for the whole team.
        rfp_id: the RFP of the memory, or empty.
        error_class: the kind of the failure that it describes; empty for a success.
    """

    kind: MemoryKind
    search_text: str
    text: str
    user_id: str = ""
    channel: str = ""
    rfp_id: str = ""
    error_class: str = ""


@dataclass(frozen=True)
class StoredMemory(Memory):
    created_at: datetime = field(kw_only=True)

    @property
    def is_pattern(self) -> bool:
        """Whether it names the tools that led to an answer."""
        return self.kind is MemoryKind.PROCEDURAL and not self.error_class


def fact_keys(key: str) -> list[str]:
    """Return the keys for a turn's facts, as many as it may have."""
    return [key, *(f"{key}:said:{number}" for number in range(2, MAX_FACTS + 1))]


class MemoryStore(Store):
    """Stores and recalls memories; a memory is visible to its own team only."""

    async def remember(self, team: str, new: Iterable[tuple[str, Memory]], now: float) -> None:
        """Store memories; first write wins for each key and kind. Memories without a text are
        skipped.

        Args:
            new: each memory with the key of its subject, such as the turn's correlation id.
            now: seconds since 1970.
        """
        when = datetime.fromtimestamp(now, UTC)
        rows = [
            _columns(memory) | {"team": team, "key": storable_key(key), "created_at": when}
            for key, memory in new
        ]
        rows = [row for row in rows if row["text"]]
        if rows:
            await self._tx.execute(insert(memories).values(rows).on_conflict_do_nothing())

    async def recall(
        self,
        team: str,
        question: str,
        kinds: Collection[MemoryKind] = tuple(MemoryKind),
        *,
        channel: str = "",
        limit: int = 5,
    ) -> dict[MemoryKind, list[StoredMemory]]:
        """Return the memories that contain words of the question, the best match first, at most
        `limit` of each kind; all kinds in one query.

        Args:
            channel: the channel that will show them; memories of other channels are excluded.
        """
        recalled: dict[MemoryKind, list[StoredMemory]] = {kind: [] for kind in kinds}
        for each in await self._recalled(_RECALL, team, question, kinds, channel, limit=limit):
            recalled[each.kind].append(each)
        return recalled

    async def recall_for_turn(
        self, team: str, question: str, *, channel: str, user_id: str, limit: int, patterns: int
    ) -> list[StoredMemory]:
        """Recall as `recall` does, with a separate limit for tool patterns: at most `patterns` of
        this user and as many of others.
        """
        room = {"user_id": storable(user_id), "limit": limit, "patterns": patterns}
        return await self._recalled(
            _RECALL_FOR_TURN, team, question, tuple(MemoryKind), channel, **room
        )

    async def _recalled(
        self,
        query: TextClause,
        team: str,
        question: str,
        kinds: Collection[MemoryKind],
        channel: str,
        **room: object,
    ) -> list[StoredMemory]:
        given = {
            "team": team,
            "words": asked_words(question),
            "kinds": list(kinds),
            "channel": storable(channel),
        }
        found = (await self._tx.execute(query, given | room)).mappings()
        return [StoredMemory(**dict(row) | {"kind": MemoryKind(row["kind"])}) for row in found]

    async def forget_user_content(self, team: str, keys: Collection[str]) -> int:
        """Delete the memories under these keys that contain people's words, and return their
        number. Tool patterns and failures stay.
        """
        row = memories.c
        known = [storable_key(each) for key in keys for each in fact_keys(key)]
        said = (
            row.team == team,
            row.kind.in_((MemoryKind.EPISODIC, MemoryKind.SEMANTIC)),
            row.key.in_(known),
        )
        return (await self._tx.execute(delete(memories).where(*said))).rowcount

    async def count_of_rfp(self, team: str, rfp_id: str) -> int:
        """Count the memories about an RFP that `forget_rfp` would delete."""
        query = select(func.count()).select_from(memories).where(*_told_of_rfp(team, rfp_id))
        return int((await self._tx.execute(query)).scalar_one())

    async def forget_rfp(self, team: str, rfp_id: str) -> None:
        """Delete the memories of turns about an RFP. Tool patterns and failures stay: they contain
        no user text and name no RFP.
        """
        await self._tx.execute(delete(memories).where(*_told_of_rfp(team, rfp_id)))

    async def prune(self, before: float, limit: int = 10_000) -> int:
        """Delete at most `limit` memories from before a moment (seconds since 1970) and return
        their number.
        """
        old = (
            select(memories.c.id)
            .where(memories.c.created_at < datetime.fromtimestamp(before, UTC))
            .limit(limit)
        )
        return (await self._tx.execute(delete(memories).where(memories.c.id.in_(old)))).rowcount


def _told_of_rfp(team: str, rfp_id: str) -> tuple[ColumnElement[bool], ...]:
    row = memories.c
    return row.team == team, row.rfp_id == rfp_id, row.kind != MemoryKind.PROCEDURAL


def _columns(memory: Memory) -> dict[str, Any]:
    """Return the columns of a memory, with the words of its texts."""
    sought = storable(memory.search_text).strip()[:MAX_SEARCH_TEXT]
    told = storable(memory.text).strip()[:MAX_MEMORY_TEXT]
    words = stored_words(sought, told)
    return vars(memory) | {"search_text": sought, "text": told, "words": words}
