"""HandoverStore: the turns that were handed over to a person."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, Select, select, update
from sqlalchemy.dialects.postgresql import insert

from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.model.handover import Handover
from threadline.conversations.store.conversation import ConversationStore, in_thread
from threadline.conversations.tables import conversations, handovers
from threadline.db.engine import Store
from threadline.decisions.store import DecisionStore
from threadline.slack.model import Thread

_row = handovers.c
_HANDOVERS = (
    select(
        handovers,
        conversations.c.team,
        conversations.c.channel.label("home"),
        conversations.c.thread_ts,
    )
    .join(conversations)
    .order_by(_row.turn.desc())
)


class HandoverStore(Store):
    """Handovers in the database. Every change of a handover holds its conversation's row until the
    transaction ends.
    """

    async def open(self, thread: Thread, turn: int, user_id: str) -> None:
        """Hand a turn over to a person, unless the thread has an open handover, or the turn was
        handed over before.
        """
        row = await ConversationStore(self._tx).lock(thread)
        if not await self.open_for(thread):
            new = insert(handovers).values(conversation_id=row.id, turn=turn, user_id=user_id)
            await self._tx.execute(new.on_conflict_do_nothing())

    async def get(self, ref: ConversationTurn) -> Handover | None:
        return await self._one(_HANDOVERS.where(in_thread(ref.thread), _row.turn == ref.turn))

    async def open_for(self, thread: Thread) -> Handover | None:
        """Return the thread's open handover."""
        return await self._one(_HANDOVERS.where(in_thread(thread), _row.closed_at.is_(None)))

    async def list_for(self, thread: Thread) -> list[Handover]:
        """Return all of a thread's handovers, the newest first."""
        return [
            _handover(each) for each in await self._tx.execute(_HANDOVERS.where(in_thread(thread)))
        ]

    async def set_card(self, ref: ConversationTurn, channel: str, card_ts: str) -> None:
        await self._write(ref, channel=channel, card_ts=card_ts)

    async def take(self, ref: ConversationTurn, user_id: str) -> Handover | None:
        """Record the person who takes it; first write wins, unless it is closed. Also mark the
        turn's decision as taken over.
        """
        row = await ConversationStore(self._tx).lock(ref.thread)
        free = (_row.taken_by == "", _row.closed_at.is_(None))
        await self._write(ref, *free, taken_by=user_id, taken_at=datetime.now(UTC))
        taken = await self.get(ref)
        if taken and taken.taken_by:
            await DecisionStore(self._tx).mark_taken_over(row.id, ref.turn)
        return taken

    async def close(self, ref: ConversationTurn, user_id: str, at: float = 0.0) -> Handover | None:
        """Record the person who closes it; first write wins. `at`: time of the press, in seconds
        since 1970; 0 for now.
        """
        closed_at = datetime.fromtimestamp(at, UTC) if at else datetime.now(UTC)
        await self._write(ref, _row.closed_at.is_(None), closed_by=user_id, closed_at=closed_at)
        return await self.get(ref)

    async def record_reminder(self, ref: ConversationTurn, number: int) -> None:
        await self._write(ref, _row.reminded < number, reminded=number)

    async def _one(self, query: Select[Any]) -> Handover | None:
        row = (await self._tx.execute(query.limit(1))).first()
        return _handover(row) if row else None

    async def _write(self, ref: ConversationTurn, *where: Any, **values: Any) -> None:
        row = await ConversationStore(self._tx).lock(ref.thread)
        mine = (_row.conversation_id == row.id, _row.turn == ref.turn, *where)
        await self._tx.execute(update(handovers).where(*mine).values(**values))


def _handover(row: Row[Any]) -> Handover:
    return Handover(
        row.conversation_id,
        ConversationTurn(Thread(row.team, row.home, row.thread_ts), row.turn),
        *(row.user_id, row.channel, row.card_ts, row.taken_by, row.closed_by),
        row.closed_at.timestamp() if row.closed_at else 0.0,
        row.reminded,
    )
