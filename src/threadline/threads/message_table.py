"""MessageTable: stores the messages of a thread, each once, in any order of arrival.

Cases and conversations have one table each, with the same columns. The differences, such as who
may open a case or which message wants a turn, are in `cases/store/messages.py` and
`conversations/store/messages.py`.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlalchemy import Table, TextClause, literal_column, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError

from threadline.db.engine import Transaction, savepoint
from threadline.db.errors import first_line, is_value_refused
from threadline.db.words import stored_words
from threadline.privacy.redaction import redact
from threadline.slack.formatting import redact_files
from threadline.slack.model import Thread, clean_text
from threadline.threads.model import IncomingMessage, MessageKind, message_id, quarantined_message
from threadline.threads.store import Quarantine

_KEEP = """
INSERT INTO removed_content ({owner}, message_id, record, record_key, kept)
SELECT o.{owner}, d.correction_of, '{table}', o.message_id,
       jsonb_build_object('text', o.message_text, 'forwarded', o.forwarded {kept})
FROM {table} d, {table} o
WHERE {inferred} AND o.{owner} = d.{owner} AND o.redacted_at IS NULL
  AND (o.message_id = d.correction_of
       OR o.message_type = 'edit' AND o.correction_of = d.correction_of)
ON CONFLICT DO NOTHING
"""
_KEEP_FILES = """
INSERT INTO removed_content ({owner}, message_id, record, record_key, kept, content)
SELECT a.{owner}, d.correction_of, '{files}', CAST(a.id AS text),
       jsonb_build_object('error', a.error), a.content
FROM {table} d, {files} a
WHERE {inferred} AND a.{owner} = d.{owner} AND a.message_id = d.correction_of
  AND a.error <> 'deleted by its author'
ON CONFLICT DO NOTHING
"""
_KEPT_FILES = ", 'files', o.files"
_RESTORED_FILES = ", files = r.kept -> 'files'"
_BROUGHT_FILES = (
    "files = CASE WHEN e.files = '[]' AND NOT e.files_removed THEN o.files ELSE e.files END,"
)
_KEPT_TURN = ", 'wants_turn', o.wants_turn"
_RESTORED_TURN = ", wants_turn = CAST(r.kept ->> 'wants_turn' AS boolean)"
_KEPT_WORDS = ", 'words', o.words"
_RESTORED_WORDS = ", words = ARRAY(SELECT jsonb_array_elements_text(r.kept -> 'words'))"
_INFERRED = """
d.{owner} = :owner AND d.message_type = 'deletion' AND d.correction_of = ANY(:originals)
AND d.message_id LIKE '%\\:absent' AND NOT EXISTS (
    SELECT FROM {table} s
    WHERE s.{owner} = d.{owner} AND s.message_type = 'deletion'
      AND s.correction_of = d.correction_of AND s.message_id NOT LIKE '%\\:absent')
"""
"""An inferred deletion that Slack has not confirmed: copies of the removed content are kept for a
time.
"""
_PURGE = """
DELETE FROM removed_content r
USING {table} d
WHERE d.{owner} = :owner AND d.message_type = 'deletion' AND d.correction_of = ANY(:originals)
  AND d.message_id NOT LIKE '%\\:absent' AND r.{owner} = d.{owner}
  AND r.message_id = d.correction_of
"""
"""A deletion that Slack confirms leaves no copy, including one that an inferred deletion kept
before.
"""
_RESTORE = """
UPDATE {table} o
SET message_text = r.kept ->> 'text', forwarded = r.kept ->> 'forwarded', redacted_at = NULL
    {restored}
FROM removed_content r
WHERE r.{owner} = :owner AND r.message_id = :message_id AND r.record = '{table}'
  AND o.{owner} = r.{owner} AND o.message_id = r.record_key
"""
_RESTORE_FILES = """
UPDATE {files} a SET content = r.content, error = r.kept ->> 'error'
FROM removed_content r
WHERE r.{owner} = :owner AND r.message_id = :message_id AND r.record = '{files}'
  AND a.{owner} = r.{owner} AND CAST(a.id AS text) = r.record_key
"""
_RETRACT = """
UPDATE {table} SET correction_of = ''
WHERE {owner} = :owner AND message_type = 'deletion' AND correction_of = :message_id
  AND message_id LIKE '%\\:absent'
"""
"""The inferred deletion stays stored, so that it is not stored again, and no longer deletes
anything.
"""
_DROP = """
DELETE FROM removed_content r
WHERE r.{owner} = :owner AND r.message_id = :message_id
  AND (r.record = '{table}'
       OR r.record NOT IN ('bug_conversations', 'conversation_messages', 'handover_answers'))
"""
_DELETE = """
UPDATE {table} o SET message_text = '', forwarded = '', {emptied} redacted_at = now()
FROM {table} d
WHERE d.{owner} = :owner AND d.message_type = 'deletion' AND d.correction_of = ANY(:originals)
  AND o.{owner} = d.{owner} AND o.redacted_at IS NULL
  AND (o.message_id = d.correction_of
       OR o.message_type = 'edit' AND o.correction_of = d.correction_of)
"""
_DELETE_FILES = """
UPDATE {files} a SET content = NULL, error = 'deleted by its author'
FROM {table} d
WHERE d.{owner} = :owner AND d.message_type = 'deletion' AND d.correction_of = ANY(:originals)
  AND a.{owner} = d.{owner} AND a.message_id = d.correction_of
"""
_EDIT = """
UPDATE {table} o SET message_text = e.message_text, forwarded = e.forwarded, {brought}
    edited_at = to_timestamp(e.version::double precision)
FROM (SELECT DISTINCT ON (correction_of) * FROM {table}
      WHERE {owner} = :owner AND message_type = 'edit' AND correction_of = ANY(:originals)
      ORDER BY correction_of, version DESC, seq DESC) e
WHERE o.{owner} = e.{owner} AND o.message_id = e.correction_of AND o.redacted_at IS NULL
  AND o.message_type NOT IN ('edit', 'deletion')
"""
_FIND = """
SELECT message_id, message_type, sender_id, sender_type, message_text, forwarded, channel,
       slack_ts {kept_files} {addressed}
FROM {table}
WHERE {owner} = :owner AND (message_id = ANY(:ids) OR correction_of = ANY(:ids))
"""
_CORRECTED = """EXISTS (
    SELECT FROM {table} c
    WHERE c.{owner} = {table}.{owner} AND c.correction_of = {table}.message_id
      AND c.correction_of <> '')"""
_BETWEEN = """
SELECT message_id, message_type, sender_id, sender_type, message_text, forwarded, channel, slack_ts
FROM {table}
WHERE {owner} = :owner AND channel = :channel AND sender_type <> 'bot' AND redacted_at IS NULL
  AND message_type IN ('report', 'message', 'close', 'stop')
  AND message_id = CAST(:prefix AS text) || slack_ts AND said_at > :oldest AND said_at < :latest
UNION ALL
SELECT DISTINCT ON (correction_of) correction_of, 'message', sender_id, sender_type,
       message_text, forwarded, channel, original.ts
FROM {table} e,
     LATERAL (SELECT substr(correction_of, length(CAST(:prefix AS text)) + 1) AS ts) original
WHERE {owner} = :owner AND channel = :channel AND message_type = 'edit' AND redacted_at IS NULL
  AND starts_with(correction_of, CAST(:prefix AS text)) AND original.ts ~ '^[0-9]+[.][0-9]+$'
  AND CAST(original.ts AS numeric) > :oldest AND CAST(original.ts AS numeric) < :latest
  AND NOT EXISTS (SELECT FROM {table} o
                  WHERE o.{owner} = e.{owner} AND o.message_id = e.correction_of)
"""
"""An edit may be the only delivered version of a message: it then represents the message, and goes
with it.

A stop sign is stored without being a message: its id is not made of its own timestamp.
"""
_LATEST = Decimal(10) ** 12

Columns = Callable[[IncomingMessage], dict[str, object]]
"""Returns the values of a row's columns that only this table has."""


@dataclass(frozen=True)
class StoredMessage:
    """The stored fields of a message; edits and deletions have their own ids."""

    message_id: str
    message_type: str
    sender_id: str
    sender_type: str
    message_text: str
    channel: str
    slack_ts: str
    forwarded: str = ""
    files: Sequence[Mapping[str, Any]] = ()
    """The files that it shows, each with its `id`. Set only by `MessageTable.find`, in a table
    with its own `files` column.
    """
    addressed: bool = False
    """It was addressed to the bot. Set only by `MessageTable.find`, in a table with that
    column.
    """


@dataclass(frozen=True)
class StoredBatch:
    """The result of storing a batch.

    - `new`: messages that were not stored before, in order, without quarantined ones;
    - `corrected`: ids of messages that may have been corrected;
    - `quarantined`: ids of messages that went into quarantine now.
    """

    new: list[IncomingMessage]
    corrected: list[str]
    quarantined: list[str]


_Stored = tuple[list[IncomingMessage], list[tuple[IncomingMessage, str]], bool]
"""The stored messages, those that Postgres refused with the reason, and whether an earlier stored
message corrects one of the stored.
"""


class _StoredAlready(Exception):
    """Some of the messages were stored before; `others` are the ids of the rest. Numbers (`seq`)
    have no gaps.
    """

    def __init__(self, others: Collection[str]) -> None:
        super().__init__()
        self.others = others


class MessageTable:
    """One table of messages, with columns named as those of `bug_conversations`. A table that is
    searched has `words`, which change and go with the text.

    Args:
        owner: the column with the id of a message's owner.
        files: the table of attached files, with the same `owner`; without it, `table` has
            references in its column `files`.
    """

    def __init__(self, table: Table, owner: str, files: Table | None = None) -> None:
        self._table = table
        self._owner = owner
        self._files = files
        own = files is None
        # A deletion takes back the turn that a conversation's message wants; a case keeps it.
        has_turns = own and "wants_turn" in table.c
        has_order = "as_written" in table.c
        self._has_words = "words" in table.c
        has_words = self._has_words
        names = {
            "table": table.name,
            "owner": owner,
            "files": "" if files is None else files.name,
            "emptied": "files = '[]'," * own
            + "as_written = ''," * has_order
            + "words = '{}'," * has_words,
            "kept": _KEPT_FILES * own + _KEPT_TURN * has_turns + _KEPT_WORDS * has_words,
            "restored": _RESTORED_FILES * own
            + _RESTORED_TURN * has_turns
            + _RESTORED_WORDS * has_words,
            "kept_files": ", files" * own,
            "addressed": ", addressed" * ("addressed" in table.c),
            "brought": _BROUGHT_FILES * own
            + "as_written = e.as_written," * has_order
            + "words = e.words," * has_words,
        }
        names["inferred"] = _INFERRED.format(**names)
        if own:
            steps = [_KEEP, _DELETE, _PURGE, _EDIT]
            restores = [_RESTORE, _RETRACT, _DROP]
        else:
            steps = [_KEEP, _KEEP_FILES, _DELETE, _DELETE_FILES, _PURGE, _EDIT]
            restores = [_RESTORE, _RESTORE_FILES, _RETRACT, _DROP]
        self._corrections: list[TextClause] = [_statement(each, names) for each in steps]
        self._restores: list[TextClause] = [_statement(each, names) for each in restores]
        # Made once: compiling a statement for each batch takes longer than the insert.
        new = insert(table).on_conflict_do_nothing(index_elements=[owner, "message_id"])
        self._insert_new = new.returning(
            table.c.message_id, literal_column(_CORRECTED.format(**names))
        )
        self._find = text(_FIND.format(**names))
        self._between = text(_BETWEEN.format(**names))

    async def store(
        self,
        tx: Transaction,
        thread: Thread,
        owner_id: object,
        stored_count: int,
        batch: Sequence[IncomingMessage],
        columns: Columns,
    ) -> StoredBatch:
        """Number and insert the messages that are not stored yet, and apply corrections.

        The caller holds the lock of the owner's row. In most cases this takes one insert and one
        query. A row that Postgres refuses goes into quarantine, as does an unreadable signal; the
        others are stored.

        Args:
            thread: the owner's home thread, for the list of quarantined messages.
            stored_count: the highest number (`seq`) so far.
            batch: in order, each id once (`distinct`).
        """
        unreadable = [message for message in batch if message.kind == MessageKind.QUARANTINED]
        readable = [message for message in batch if message.kind != MessageKind.QUARANTINED]
        new, refused, corrected = await self._store_new(
            tx, owner_id, stored_count + 1, readable, columns
        )
        kept = await Quarantine(tx).keep(thread, [*((each, "") for each in unreadable), *refused])
        originals = _originals(new)
        if not (corrected or any(message.correction_of for message in new)):
            return StoredBatch(new, [], kept)  # the common case, without the statements below
        # In any order of original and correction; deleted content stays deleted.
        for correction in self._corrections:
            await tx.execute(correction, {"owner": owner_id, "originals": originals})
        return StoredBatch(new, originals, kept)

    async def restore(self, tx: Transaction, owner_id: object, original: str) -> None:
        """Restore the content that an inferred deletion removed: the message's text, its edits and
        its files.

        The caller holds the lock of the owner's row, and has restored all other content that was
        removed with the message: the copies are dropped here.
        """
        for statement in self._restores:
            await tx.execute(statement, {"owner": owner_id, "message_id": original})

    async def find(
        self, tx: Transaction, owner_id: object, ids: Collection[str]
    ) -> dict[str, StoredMessage]:
        """Return those of the messages that are stored, with their corrections, by id."""
        rows = await tx.execute(self._find, {"owner": owner_id, "ids": list(ids)})
        return {row["message_id"]: StoredMessage(**row) for row in rows.mappings()}

    async def between(
        self,
        tx: Transaction,
        owner_id: object,
        team: str,
        channel: str,
        oldest: Decimal,
        latest: Decimal,
    ) -> list[StoredMessage]:
        """Return the stored messages of people in a channel between two moments (exclusive),
        without deleted ones.
        """
        where = {"owner": owner_id, "channel": channel, "prefix": message_id(team, channel, "")}
        rows = await tx.execute(self._between, {**where, "oldest": oldest, "latest": latest})
        return [StoredMessage(**row) for row in rows.mappings()]

    async def stored_ids(self, tx: Transaction, ids: Collection[str]) -> set[str]:
        """Return the ids of those of the messages that are stored, for any owner."""
        column = self._table.c.message_id
        return set((await tx.execute(select(column).where(column.in_(list(ids))))).scalars())

    async def _store_new(
        self,
        tx: Transaction,
        owner_id: object,
        first: int,
        batch: Sequence[IncomingMessage],
        columns: Columns,
    ) -> _Stored:
        """Store all at once. Where some are stored already, store the others; where Postgres
        refuses a value, store one by one.
        """
        try:
            new, corrected = await self._insert(tx, owner_id, first, batch, columns)
        except _StoredAlready as known:
            batch = [message for message in batch if message.id in known.others]
            return await self._store_new(tx, owner_id, first, batch, columns)
        except DBAPIError as error:
            if not is_value_refused(error):
                raise
            if len(batch) == 1:
                refused_id = batch[0].id.encode("utf-8", "backslashreplace")
                kept = quarantined_message(batch[0].text, refused_id)
                return (
                    [],
                    [(kept, f"the database refused this message: {first_line(error)}")],
                    False,
                )
        else:
            return new, [], corrected
        stored = list[IncomingMessage]()
        refused = list[tuple[IncomingMessage, str]]()
        corrected = False
        for message in batch:
            new, bad, is_corrected = await self._store_new(
                tx, owner_id, first + len(stored), [message], columns
            )
            stored = [*stored, *new]
            refused = [*refused, *bad]
            corrected = corrected or is_corrected
        return stored, refused, corrected

    async def _insert(
        self,
        tx: Transaction,
        owner_id: object,
        first: int,
        batch: Sequence[IncomingMessage],
        columns: Columns,
    ) -> tuple[list[IncomingMessage], bool]:
        """Insert all messages, numbered from `first`, or none.

        Returns:
            The messages, and whether an earlier stored message corrects one of them.

        Raises:
            _StoredAlready: some are stored already.
        """
        if not batch:
            return [], False
        # Cutting the words of a long batch takes a second: in a thread, other activities go on.
        rows = await asyncio.to_thread(self._rows, owner_id, first, batch, columns)
        async with savepoint(tx):
            stored = dict(tuple(row) for row in await tx.execute(self._insert_new, rows))
            if len(stored) < len(batch):
                raise _StoredAlready(stored)
            # An edit lists its original's files again, perhaps with a new one: they belong to the
            # message that shows them.
            files = [
                {
                    "message_id": each.correction_of or each.id,
                    "file_id": file.id,
                    "name": file.name,
                }
                | {self._owner: owner_id, "mimetype": file.mimetype, "size": file.size}
                for each in batch
                for file in each.files
            ]
            if self._files is not None and files:
                await tx.execute(insert(self._files).on_conflict_do_nothing(), files)
        return list(batch), any(stored.values())

    def _rows(
        self, owner_id: object, first: int, batch: Sequence[IncomingMessage], columns: Columns
    ) -> list[dict[str, object]]:
        return [
            self._row(owner_id, seq, each) | columns(each) for seq, each in enumerate(batch, first)
        ]

    def _row(self, owner_id: object, seq: int, message: IncomingMessage) -> dict[str, object]:
        row: dict[str, object] = {
            self._owner: owner_id,
            "seq": seq,
            "message_id": message.id,
            "sender_type": message.sender_type,
            "sender_id": message.sender_id,
            "message_type": message.kind,
            "message_text": message.text,
            "forwarded": message.forwarded,
            "channel": message.channel,
            "slack_ts": message.ts,
            "said_at": seconds(message.ts),
            "correction_of": message.correction_of,
            "version": seconds(message.version) if message.version else Decimal(0),
        }
        if self._has_words:
            row["words"] = stored_words(message.text, message.forwarded)
        if self._files is not None:
            return row
        return row | {
            "files": [asdict(file) for file in message.files],
            "files_removed": message.files_removed,
        }


def _statement(template: str, names: Mapping[str, str]) -> TextClause:
    return text(template.format(**names))


def _originals(batch: Sequence[IncomingMessage]) -> list[str]:
    return sorted({message.correction_of or message.id for message in batch})


def distinct(batch: Sequence[IncomingMessage]) -> list[IncomingMessage]:
    """Return each message id once, the first to arrive, in the order in which they were
    written.
    """
    once = {message.id: message for message in reversed(batch)}
    return sorted(once.values(), key=lambda message: (seconds(message.ts), message.version))


def seconds(ts: str) -> Decimal:
    """Return Slack's timestamp as a number. An unreadable one becomes the current time, so that it
    sorts after the known ones.
    """
    try:
        said = Decimal(ts)
    except InvalidOperation:
        said = Decimal("NaN")
    return (
        said if said.is_finite() and 0 <= said < _LATEST else Decimal(str(round(time.time(), 6)))
    )


def redact_message(message: IncomingMessage) -> IncomingMessage:
    """Return the message without secrets, for a signal that today's gateway did not send, or an
    unreadable one.
    """
    words = (message.text, message.forwarded, message.as_written)
    text, forwarded, as_written = (clean_text(redact(each)) for each in words)
    return replace(
        message,
        text=text,
        forwarded=forwarded,
        as_written=as_written,
        files=redact_files(message.files),
    )


def log_quarantined(thread: Thread, ids: Sequence[str], *, case: str = "") -> None:
    """Log one line for each unreadable message; its text stays in the database."""
    import structlog  # commands that only read do not need it

    for message in ids:
        structlog.get_logger(__name__).error(
            "message_quarantined",
            message=message,
            slack_thread=thread.key,
            case=case,
            hint="Nobody has answered this message. Run `threadline cases quarantine` to see it.",
        )
