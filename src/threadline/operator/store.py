"""What the operator remembers of earlier turns, found by the words of a question."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from sqlalchemy import ColumnElement, TextClause, delete, func, select, text
from sqlalchemy.dialects.postgresql import insert

from threadline.db.engine import Store
from threadline.db.values import any_word, storable, storable_key, words_shared
from threadline.operator.tables import memories

MAX_FACTS = 10
"""That are remembered of one turn."""
MAX_SEARCH_TEXT, MAX_MEMORY_TEXT = 1_000, 4_000
"""Characters; the rest is cut off."""

_ASKED = any_word(":question")
_PATTERN = "(m.kind = 'procedural' AND m.error_class = '')"  # the tools that led to an answer


def _recall(partition: str, room: str) -> TextClause:
    """The more of the question's words a memory has, the sooner it comes; of those that are as good, the newest."""
    return text(f"""
WITH found AS (
    SELECT m.*, {room} AS room, row_number() OVER (
        PARTITION BY {partition}
        ORDER BY {words_shared("m.search_vector", ":question")} DESC,
                 ts_rank(m.search_vector, {_ASKED}, 1) DESC, m.created_at DESC, m.id DESC
        ) AS place
    FROM memories m
    WHERE m.search_vector @@ {_ASKED} AND m.team = :team AND m.kind = ANY(:kinds) AND m.channel IN ('', :channel)
)
SELECT kind, search_text, text, error_class, user_id, channel, rfp_id, created_at
FROM found WHERE place <= room ORDER BY kind, place
""")  # noqa: S608 - all parts are written in this package


_RECALL = _recall("m.kind", "CAST(:limit AS int)")
_RECALL_FOR_TURN = _recall(
    f"m.kind, {_PATTERN}, {_PATTERN} AND m.user_id = :user_id",
    f"CASE WHEN {_PATTERN} THEN CAST(:patterns AS int) ELSE CAST(:limit AS int) END",
)


class MemoryKind(StrEnum):
    EPISODIC = "episodic"
    """What was asked and what came of it."""
    SEMANTIC = "semantic"
    """What is so, until somebody says otherwise."""
    PROCEDURAL = "procedural"
    """Which tools did it, or how they failed."""


@dataclass(frozen=True)
class Memory:
    """`search_text` is what it is found by first, such as the question; `rfp_id` what it is about, if anything.
    `error_class` names the kind of failure that it tells of; empty when it went well. `channel` is the only place where
    it may be told; empty for any in the team."""

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
        """Whether it tells which tools led to an answer."""
        return self.kind is MemoryKind.PROCEDURAL and not self.error_class


def fact_keys(key: str) -> list[str]:
    """Under which a turn's facts are kept, one for each that somebody wanted to have remembered in it."""
    return [key, *(f"{key}:said:{number}" for number in range(2, MAX_FACTS + 1))]


class MemoryStore(Store):
    """A memory belongs to its team: no other finds it."""

    async def remember(self, team: str, new: Iterable[tuple[str, Memory]], now: float) -> None:
        """Keep memories, each once for its key and kind; without a text there is nothing to keep. `new`: each with the
        key of what it tells, such as the turn's correlation id. `now`: seconds since 1970."""
        when = datetime.fromtimestamp(now, UTC)
        rows = [
            vars(memory)
            | {"search_text": storable(memory.search_text).strip()[:MAX_SEARCH_TEXT], "text": told}
            | {"team": team, "key": storable_key(key), "created_at": when}
            for key, memory in new
            if (told := storable(memory.text).strip()[:MAX_MEMORY_TEXT])
        ]
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
        """What has the question's words in it, the likest first, of each kind at most `limit`; all kinds in one query.
        What belongs to another channel than `channel`, where it will be told, is not recalled."""
        recalled: dict[MemoryKind, list[StoredMemory]] = {kind: [] for kind in kinds}
        for each in await self._recalled(_RECALL, team, question, kinds, channel, limit=limit):
            recalled[each.kind].append(each)
        return recalled

    async def recall_for_turn(
        self, team: str, question: str, *, channel: str, user_id: str, limit: int, patterns: int
    ) -> list[StoredMemory]:
        """As `recall`, with a room of their own for the ways in which tools succeeded: at most `patterns` of this user
        and as many of others."""
        room = {"user_id": storable(user_id), "limit": limit, "patterns": patterns}
        return await self._recalled(_RECALL_FOR_TURN, team, question, tuple(MemoryKind), channel, **room)

    async def _recalled(
        self, query: TextClause, team: str, question: str, kinds: Collection[MemoryKind], channel: str, **room: object
    ) -> list[StoredMemory]:
        given = {"team": team, "question": storable(question), "kinds": list(kinds), "channel": storable(channel)}
        found = (await self._tx.execute(query, given | room)).mappings()
        return [StoredMemory(**dict(row) | {"kind": MemoryKind(row["kind"])}) for row in found]

    async def forget_user_content(self, team: str, keys: Collection[str]) -> int:
        """Forget what holds people's words, of what these keys tell; returns how much. How tools did stays."""
        row, known = memories.c, [storable_key(each) for key in keys for each in fact_keys(key)]
        said = (row.team == team, row.kind.in_((MemoryKind.EPISODIC, MemoryKind.SEMANTIC)), row.key.in_(known))
        return (await self._tx.execute(delete(memories).where(*said))).rowcount

    async def count_of_rfp(self, team: str, rfp_id: str) -> int:
        """How much is remembered of turns about an RFP, as far as `forget_rfp` forgets it."""
        query = select(func.count()).select_from(memories).where(*_told_of_rfp(team, rfp_id))
        return int((await self._tx.execute(query)).scalar_one())

    async def forget_rfp(self, team: str, rfp_id: str) -> None:
        """Forget what was told in turns about an RFP. How tools did stays: it holds no words, and names no RFP."""
        await self._tx.execute(delete(memories).where(*_told_of_rfp(team, rfp_id)))

    async def prune(self, before: float, limit: int = 10_000) -> int:
        """Forget what is from before a moment (seconds since 1970), at most `limit`; returns how many."""
        old = select(memories.c.id).where(memories.c.created_at < datetime.fromtimestamp(before, UTC)).limit(limit)
        return (await self._tx.execute(delete(memories).where(memories.c.id.in_(old)))).rowcount


def _told_of_rfp(team: str, rfp_id: str) -> tuple[ColumnElement[bool], ...]:
    row = memories.c
    return row.team == team, row.rfp_id == rfp_id, row.kind != MemoryKind.PROCEDURAL
