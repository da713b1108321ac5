"""What happened to requests, as JSON. The database refuses to change or to delete any of it."""

from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.values import storable
from threadline.rfps import audit_columns as chronicle
from threadline.rfps import rfp_lookup as rfp_row
from threadline.rfps.journal_entries import LONGEST_TYPE, MOST_PAYLOAD, EntryRefused, Event, NewEvent
from threadline.rfps.json_documents import flaw
from threadline.rfps.tables import events
from threadline.tools.model import Author, Change
from threadline.tools.operation_store import Operations

_EVENT = TypeAdapter(Event)


class Events:
    """An event belongs to its request's team."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._operations = Operations(connection)

    async def append(self, change: Change, rfp_id: str, new: NewEvent, author: Author) -> Event:
        """Log it, once for each operation, for ever.

        Raises:
            RfpNotFound, EntryRefused, RateExceeded: nothing was logged; the message says why.
        """
        event_type = " ".join(storable(new.event_type).split())
        if not event_type or len(event_type) > LONGEST_TYPE:
            raise EntryRefused(f"an event needs a type of at most {LONGEST_TYPE} characters")
        if fault := flaw(new.payload, MOST_PAYLOAD):
            raise EntryRefused(f"an event's payload {fault}: nothing was logged")
        rfp_id = rfp_row.plain(rfp_id)

        async def act() -> Event:
            await rfp_row.rfp(self._connection, change.team, rfp_id)
            await self._operations.spend(change, f"events:{rfp_id}")
            what = {"event_type": event_type, "payload": new.payload}
            row = chronicle.row(change, rfp_id, author) | what
            await self._connection.execute(insert(events).values(row).on_conflict_do_nothing())
            query = select(events).where(*chronicle.of_operation(events, change))
            return _event((await self._connection.execute(query)).one())

        return await self._operations.once(change, "event_append", rfp_id, _EVENT, act)

    async def of(self, team: str, rfp_id: str, limit: int = 20, before: int | None = None) -> list[Event]:
        """A request's events, the newest first; `before` an event's id, for those that are older."""
        query = chronicle.newest(events, team, rfp_id, limit, before)
        return [_event(row) for row in await self._connection.execute(query)]

    async def of_turn(self, team: str, correlation_id: str) -> list[Event]:
        """What one turn logged, in its order."""
        query = chronicle.of_correlation(events, team, correlation_id)
        return [_event(row) for row in await self._connection.execute(query)]


def _event(row: Row[Any]) -> Event:
    author = Author(row.user_id, row.correlation_id)
    return Event(row.id, row.rfp_id, row.event_type, row.payload, author, row.channel, row.thread_ts, row.at)
