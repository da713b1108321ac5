"""What a thread is about: one record of each kind, such as the project it works on."""

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.tool_tables import thread_bindings
from threadline.domain.addressing import Thread


class Bindings:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def bind(self, thread: Thread, kind: str, record_id: str, user_id: str) -> None:
        """Somebody has named the record: it replaces what the thread was about. Safe to repeat."""
        row = {"record_id": record_id, "bound_by": user_id}
        named = insert(thread_bindings).values(**_place(thread), kind=kind, **row)
        place = [thread_bindings.c[name] for name in (*_place(thread), "kind")]
        await self._connection.execute(
            named.on_conflict_do_update(index_elements=place, set_={**row, "bound_at": func.now()})
        )

    async def bind_first(self, thread: Thread, kind: str, record_id: str, user_id: str) -> str:
        """A record was opened: the thread is about it if it was about none; returns which one it is about."""
        row = {"kind": kind, "record_id": record_id, "bound_by": user_id}
        opened = insert(thread_bindings).values(**_place(thread), **row).on_conflict_do_nothing()
        new = (await self._connection.execute(opened.returning(thread_bindings.c.record_id))).scalar_one_or_none()
        return new or (await self.of(thread))[kind]

    async def of(self, thread: Thread) -> dict[str, str]:
        """The records that a thread is about, by kind."""
        row = thread_bindings.c
        here = (row.team == thread.team, row.channel == thread.channel, row.thread_ts == thread.ts)
        rows = await self._connection.execute(select(row.kind, row.record_id).where(*here))
        return {each.kind: each.record_id for each in rows}


def _place(thread: Thread) -> dict[str, str]:
    return {"team": thread.team, "channel": thread.channel, "thread_ts": thread.ts}
