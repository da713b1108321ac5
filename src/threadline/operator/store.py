"""What the operator remembers of earlier turns, found by the words of a question."""

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, delete, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.text_search import any_word, words_shared
from threadline.db.values import storable, storable_key
from threadline.operator.model.memory import Memory, MemoryKind, NewMemory, keys_of_facts
from threadline.operator.tables import memories

LONGEST_CUE, LONGEST_TEXT = 1_000, 4_000
"""Characters; the rest is cut off."""

_ASKED = any_word(":question")
_RECALL = text(f"""
WITH found AS (
    SELECT m.kind, m.cue, m.text, m.error_class, m.user_id, m.rfp_id, m.at, row_number() OVER (
        PARTITION BY m.kind
        ORDER BY {words_shared("m.words", ":question")} DESC, ts_rank(m.words, {_ASKED}, 1) DESC, m.at DESC, m.id DESC
        ) AS place
    FROM memories m
    WHERE m.words @@ {_ASKED} AND m.team = :team AND m.kind = ANY(:kinds) AND m.channel IN ('', :channel)
      AND (CAST(:user_id AS text) = '' OR m.user_id = :user_id) AND (:with_failures OR m.error_class = '')
      AND (:with_successes OR m.kind <> 'procedural' OR m.error_class <> '')
)
SELECT * FROM found WHERE place <= :limit ORDER BY kind, place
""")  # noqa: S608 - both parts are written in this package
"""The more of the question's words a memory has, the sooner it comes; of those that are as good, the newest."""


class MemoryStore:
    """A memory belongs to its team: no other finds it."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def remember(self, team: str, new: NewMemory, key: str, now: float) -> None:
        """Keep it, once for each key and kind; without a text there is nothing to keep.

        Args:
            key: of what it tells, such as the turn's correlation id.
            now: seconds since 1970.
        """
        told = storable(new.text).strip()[:LONGEST_TEXT]
        if not told:
            return
        row = vars(new) | {"cue": storable(new.cue).strip()[:LONGEST_CUE], "text": told}
        when = datetime.fromtimestamp(now, UTC)
        kept = insert(memories).values(team=team, key=storable_key(key), at=when, **row)
        await self._connection.execute(kept.on_conflict_do_nothing())

    async def recall(
        self,
        team: str,
        question: str,
        kinds: Collection[MemoryKind] = tuple(MemoryKind),
        *,
        channel: str = "",
        user_id: str = "",
        with_failures: bool = True,
        with_successes: bool = True,
        limit: int = 5,
    ) -> dict[MemoryKind, list[Memory]]:
        """What has the question's words in it, the likest first, of each kind at most `limit`; all kinds in one query.

        Args:
            channel: where it will be told; what belongs to another channel is not recalled.
            user_id: whose memories alone are meant; empty for everybody's.
            with_failures: whether what failed is recalled as well.
            with_successes: whether the ways are recalled in which tools succeeded.
        """
        given = {
            "team": team,
            "question": storable(question),
            "kinds": list(kinds),
            "channel": storable(channel),
            "user_id": storable(user_id),
            "with_failures": with_failures,
            "with_successes": with_successes,
            "limit": limit,
        }
        recalled: dict[MemoryKind, list[Memory]] = {kind: [] for kind in kinds}
        for row in await self._connection.execute(_RECALL, given):
            recalled[MemoryKind(row.kind)].append(_memory(row))
        return recalled

    async def forget_said(self, team: str, keys: Collection[str]) -> int:
        """Forget what holds people's words, of what these keys tell; returns how much. How tools did stays."""
        row, known = memories.c, [storable_key(each) for key in keys for each in keys_of_facts(key)]
        said = (row.team == team, row.kind.in_((MemoryKind.EPISODIC, MemoryKind.SEMANTIC)), row.key.in_(known))
        return (await self._connection.execute(delete(memories).where(*said))).rowcount

    async def count_of_rfp(self, team: str, rfp_id: str) -> int:
        """How much is remembered of turns about an RFP, as far as `forget_rfp` forgets it."""
        query = select(func.count()).select_from(memories).where(*_told_of_rfp(team, rfp_id))
        return int((await self._connection.execute(query)).scalar_one())

    async def forget_rfp(self, team: str, rfp_id: str) -> None:
        """Forget what was told in turns about an RFP. How tools did stays: it holds no words, and names no RFP."""
        await self._connection.execute(delete(memories).where(*_told_of_rfp(team, rfp_id)))

    async def prune(self, before: float, limit: int = 10_000) -> int:
        """Forget what is from before a moment (seconds since 1970), at most `limit`; returns how many."""
        old = select(memories.c.id).where(memories.c.at < datetime.fromtimestamp(before, UTC)).limit(limit)
        return (await self._connection.execute(delete(memories).where(memories.c.id.in_(old)))).rowcount


def _told_of_rfp(team: str, rfp_id: str) -> tuple[ColumnElement[bool], ...]:
    row = memories.c
    return row.team == team, row.rfp_id == rfp_id, row.kind != MemoryKind.PROCEDURAL


def _memory(row: Row[Any]) -> Memory:
    return Memory(MemoryKind(row.kind), row.cue, row.text, row.error_class, row.user_id, row.rfp_id, row.at)
