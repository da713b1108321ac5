"""Messages into their table: each once, corrections in any order of arrival, and nothing held up by a bad row."""

import contextlib
import hashlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal, InvalidOperation

from sqlalchemy import Table, TextClause, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db import errors as failures
from threadline.slack.model import FileRef
from threadline.threads import messages
from threadline.threads.messages import IncomingMessage

_CORRECTED = """
SELECT EXISTS (SELECT FROM {table} WHERE {owner} = :owner AND correction_of = ANY(:originals)
               AND correction_of <> '')
"""
"""Whether anything stored corrects one of these; the condition on the empty string is the index's own."""
_DELETE = """
UPDATE {table} o SET message_text = '', {emptied} redacted_at = now()
FROM {table} d
WHERE d.{owner} = :owner AND d.message_type = 'deletion' AND d.correction_of = ANY(:originals)
  AND o.{owner} = d.{owner} AND o.redacted_at IS NULL
  AND (o.message_id = d.correction_of OR o.message_type = 'edit' AND o.correction_of = d.correction_of)
"""
_DELETE_FILES = """
UPDATE {files} a SET content = NULL, error = 'deleted by its author'
FROM {table} d
WHERE d.{owner} = :owner AND d.message_type = 'deletion' AND d.correction_of = ANY(:originals)
  AND a.{owner} = d.{owner} AND a.message_id = d.correction_of
"""
_EDIT = """
UPDATE {table} o SET message_text = e.message_text, {brought} edited_at = to_timestamp(e.version::double precision)
FROM (SELECT DISTINCT ON (correction_of) * FROM {table}
      WHERE {owner} = :owner AND message_type = 'edit' AND correction_of = ANY(:originals)
      ORDER BY correction_of, version DESC, seq DESC) e
WHERE o.{owner} = e.{owner} AND o.message_id = e.correction_of AND o.redacted_at IS NULL
  AND o.message_type NOT IN ('edit', 'deletion')
"""
_ID_KEPT = 200
_LATEST = Decimal(10) ** 12

Columns = Callable[[IncomingMessage], dict[str, object]]
"""What a row has that only this table knows of."""


class Shelf:
    """A table of messages, and what keeps it in order.

    Args:
        table: its columns are named as those of `bug_conversations`.
        owner: the column that says whose a message is.
        files: the table of what is attached, with the same `owner`; without it, `table` has references in `files`.
    """

    def __init__(self, table: Table, owner: str, files: Table | None = None) -> None:
        self.table, self.owner, self.files = table, owner, files
        own = files is None
        names = {
            "table": table.name,
            "owner": owner,
            "files": "" if files is None else files.name,
            "emptied": "files = '[]'," if own else "",
            "brought": "files = CASE e.files WHEN '[]' THEN o.files ELSE e.files END," if own else "",
        }
        self.corrected = text(_CORRECTED.format(**names))
        steps = (_DELETE, _EDIT) if own else (_DELETE, _DELETE_FILES, _EDIT)
        self.corrections: list[TextClause] = [text(each.format(**names)) for each in steps]


class _KnownAlready(Exception):
    """Some of what was to be stored is stored; `others` are the ids of the rest. Numbers shall have no gaps."""

    def __init__(self, others: Collection[str]) -> None:
        super().__init__()
        self.others = others


def distinct(batch: Sequence[IncomingMessage]) -> list[IncomingMessage]:
    """Each id once, the first that came, in the order in which they were said."""
    return sorted({message.id: message for message in reversed(batch)}.values(), key=_order)


def _order(message: IncomingMessage) -> tuple[Decimal, str]:
    return seconds(message.ts), message.version


def seconds(ts: str) -> Decimal:
    """Slack's timestamp as a number; what cannot be read was said now, so that it is ordered behind what is known."""
    try:
        said = Decimal(ts)
    except InvalidOperation:
        said = Decimal("NaN")
    return said if said.is_finite() and 0 <= said < _LATEST else Decimal(str(round(time.time(), 6)))


@dataclass(frozen=True)
class Storing:
    """One batch on its way onto a shelf, under the lock of its owner's row.

    Args:
        owner: the id of whom the messages belong to.
        stored: the highest number (`seq`) that was given by now.
    """

    connection: AsyncConnection
    shelf: Shelf
    owner: object
    stored: int

    async def add(self, batch: Sequence[IncomingMessage], columns: Columns) -> list[IncomingMessage]:
        """Number and insert what is not stored yet. Nearly always that is all, in one statement, and nothing is asked.

        When Postgres refuses a row, each goes in by itself, and the refused one into quarantine.

        Returns:
            what was not there, with what is in quarantine in the form in which it is kept.
        """
        try:
            return await self._insert(0, batch, columns)
        except _KnownAlready as known:
            return await self._insert(0, [message for message in batch if message.id in known.others], columns)
        except DBAPIError as exc:
            if not failures.is_value_refused(exc):
                raise
        kept: list[IncomingMessage] = []
        for message in batch:
            with contextlib.suppress(_KnownAlready):
                kept += await self._one(len(kept), message, columns)
        return kept

    async def _one(self, before: int, message: IncomingMessage, columns: Columns) -> list[IncomingMessage]:
        try:
            return await self._insert(before, [message], columns)
        except DBAPIError as exc:
            if not failures.is_value_refused(exc):
                raise
            words = f"the database refused this message: {failures.first_line(exc)}"
            return await self._insert(before, [_quarantined(message)], columns, error=words)

    async def correct(self, stored: Sequence[IncomingMessage]) -> list[str]:
        """Bring originals to their present wording, whichever of the two came first; what is deleted stays deleted.

        Returns:
            the ids of messages that may have been corrected; empty when none was.
        """
        originals = sorted({message.correction_of or message.id for message in stored})
        which = {"owner": self.owner, "originals": originals}
        # Nearly always there is none, and the statements need not be made.
        if not originals or not (await self.connection.execute(self.shelf.corrected, which)).scalar_one():
            return []
        for correction in self.shelf.corrections:
            await self.connection.execute(correction, which)
        return originals

    async def _insert(
        self, before: int, fresh: Sequence[IncomingMessage], columns: Columns, *, error: str = ""
    ) -> list[IncomingMessage]:
        """All of them, or none. `before`: how many of this batch are stored already.

        Raises:
            _KnownAlready: one of them was there.
        """
        if not fresh:
            return []
        shelf = self.shelf
        first = self.stored + before + 1
        rows = [self._row(first + number, each, error) | columns(each) for number, each in enumerate(fresh)]
        files = [self._file_row(each, file) for each in fresh for file in each.files]
        new = insert(shelf.table).on_conflict_do_nothing(index_elements=[shelf.owner, "message_id"])
        async with self.connection.begin_nested():
            ids = await self.connection.execute(new.values(rows).returning(shelf.table.c.message_id))
            stored = set(ids.scalars())
            if len(stored) < len(fresh):
                raise _KnownAlready(stored)
            if shelf.files is not None and files:
                await self.connection.execute(insert(shelf.files).values(files).on_conflict_do_nothing())
        return list(fresh)

    def _row(self, seq: int, message: IncomingMessage, error: str) -> dict[str, object]:
        row: dict[str, object] = {
            self.shelf.owner: self.owner,
            "seq": seq,
            "message_id": message.id,
            "sender_type": message.sender_type,
            "sender_id": message.sender_id,
            "message_type": message.kind,
            "message_text": message.text,
            "channel": message.channel,
            "slack_ts": message.ts,
            "said_at": seconds(message.ts),
            "correction_of": message.correction_of,
            "version": seconds(message.version) if message.version else Decimal(0),
            "error": messages.clean(error),
        }
        return row if self.shelf.files is not None else row | {"files": [asdict(file) for file in message.files]}

    def _file_row(self, message: IncomingMessage, file: FileRef) -> dict[str, object]:
        """A file belongs to the message that shows it: an edit brings its original's files again, perhaps a new one."""
        return {
            self.shelf.owner: self.owner,
            "message_id": message.correction_of or message.id,
            "file_id": file.id,
            "name": file.name,
            "mimetype": file.mimetype,
            "size": file.size,
        }


def _quarantined(message: IncomingMessage) -> IncomingMessage:
    """The message in a form that any table takes, under an id that the same message gets again."""
    digest = hashlib.sha256(message.id.encode("utf-8", "backslashreplace")).hexdigest()[:16]
    return IncomingMessage(
        id=f"quarantine:{digest}",
        kind=messages.QUARANTINED,
        sender_type=messages.UNKNOWN,
        sender_id=messages.clean(message.sender_id)[:_ID_KEPT],
        text=messages.clean(message.text),
        channel=messages.clean(message.channel)[:_ID_KEPT],
        ts=messages.clean(message.ts)[:_ID_KEPT],
    )
