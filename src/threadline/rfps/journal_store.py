"""What was written down about requests, in words. The database refuses to change or to delete any of it."""

from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.values import storable
from threadline.rfps import audit_columns as chronicle
from threadline.rfps import rfp_lookup as rfp_row
from threadline.rfps.journal_entries import LONGEST_ENTRY, EntryKind, EntryRefused, JournalEntry, NewEntry
from threadline.rfps.tables import journal_entries
from threadline.tools.model import Author, Change
from threadline.tools.operation_store import Operations

_ENTRY = TypeAdapter(JournalEntry)


class Journal:
    """An entry belongs to its request's team."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._operations = Operations(connection)

    async def append(self, change: Change, rfp_id: str, new: NewEntry, author: Author) -> JournalEntry:
        """Write it down, once for each operation, for ever.

        Raises:
            RfpNotFound, EntryRefused, RateExceeded: nothing was written; the message says why.
        """
        written = storable(new.text).strip()
        if not written:
            raise EntryRefused("a journal entry needs a text")
        if len(written) > LONGEST_ENTRY:
            raise EntryRefused(
                f"a journal entry has at most {LONGEST_ENTRY:,} characters, and this has {len(written):,}"
            )
        rfp_id = rfp_row.plain(rfp_id)

        async def act() -> JournalEntry:
            await rfp_row.rfp(self._connection, change.team, rfp_id)
            await self._operations.spend(change, f"journal:{rfp_id}")
            row = chronicle.row(change, rfp_id, author) | {"kind": new.kind, "text": written}
            await self._connection.execute(insert(journal_entries).values(row).on_conflict_do_nothing())
            query = select(journal_entries).where(*chronicle.of_operation(journal_entries, change))
            return _entry((await self._connection.execute(query)).one())

        return await self._operations.once(change, "journal_append", rfp_id, _ENTRY, act)

    async def of(self, team: str, rfp_id: str, limit: int = 20, before: int | None = None) -> list[JournalEntry]:
        """A request's entries, the newest first; `before` an entry's id, for those that are older."""
        query = chronicle.newest(journal_entries, team, rfp_id, limit, before)
        return [_entry(row) for row in await self._connection.execute(query)]

    async def of_turn(self, team: str, correlation_id: str) -> list[JournalEntry]:
        """What one turn wrote, in its order."""
        query = chronicle.of_correlation(journal_entries, team, correlation_id)
        return [_entry(row) for row in await self._connection.execute(query)]


def _entry(row: Row[Any]) -> JournalEntry:
    author = Author(row.user_id, row.correlation_id)
    kind = EntryKind(row.kind)
    return JournalEntry(row.id, row.rfp_id, kind, row.text, author, row.channel, row.thread_ts, row.at)
