"""What a thread is about: one record of each kind, such as the project it works on."""

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.slack.model import Thread
from threadline.threads.tables import thread_bindings


class Bindings:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def bind(self, thread: Thread, kind: str, record_id: str, user_id: str) -> str | None:
        """Somebody has named the record: it replaces what the thread was about. Safe to repeat.

        Returns:
            what it was about before, the same record too; None when it was about none.
        """
        row = {"record_id": record_id, "bound_by": user_id}
        if await self._bind_new(thread, kind, row):
            return None
        here = (*_in(thread), thread_bindings.c.kind == kind)
        # Held, so that of two who name another at once each hears what stood there in between.
        query = select(thread_bindings.c.record_id).where(*here).with_for_update()
        before = (await self._connection.execute(query)).scalar_one()
        await self._connection.execute(update(thread_bindings).where(*here).values(**row, bound_at=func.now()))
        return str(before)

    async def bind_first(self, thread: Thread, kind: str, record_id: str, user_id: str) -> str:
        """A record was opened: the thread is about it if it was about none; returns which one it is about."""
        if await self._bind_new(thread, kind, {"record_id": record_id, "bound_by": user_id}):
            return record_id
        return (await self.of(thread))[kind]

    async def of(self, thread: Thread) -> dict[str, str]:
        """The records that a thread is about, by kind."""
        row = thread_bindings.c
        rows = await self._connection.execute(select(row.kind, row.record_id).where(*_in(thread)))
        return {each.kind: each.record_id for each in rows}

    async def threads_of(self, team: str, kind: str, record_id: str, limit: int = 20) -> list[Thread]:
        """The threads that are about a record, the one that was bound last first."""
        row = thread_bindings.c
        query = select(row.channel, row.thread_ts).where(row.team == team, row.kind == kind, row.record_id == record_id)
        rows = await self._connection.execute(query.order_by(row.bound_at.desc()).limit(limit))
        return [Thread(team, each.channel, each.thread_ts) for each in rows]

    async def _bind_new(self, thread: Thread, kind: str, row: dict[str, str]) -> bool:
        place = {"team": thread.team, "channel": thread.channel, "thread_ts": thread.ts}
        new = insert(thread_bindings).values(**place, kind=kind, **row).on_conflict_do_nothing()
        return (await self._connection.execute(new.returning(thread_bindings.c.kind))).first() is not None


def _in(thread: Thread) -> tuple[ColumnElement[bool], ...]:
    row = thread_bindings.c
    return row.team == thread.team, row.channel == thread.channel, row.thread_ts == thread.ts
