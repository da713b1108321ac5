"""Storing a batch: each message once, corrections in any order of arrival, and nothing held up by a bad row."""

import contextlib
import hashlib
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db import case_row, failures
from threadline.db.quarantine import Quarantine
from threadline.db.tables import attachments, bug_conversations, cases, threads
from threadline.domain import messages, phrases
from threadline.domain.addressing import Thread, bug_workflow_id
from threadline.domain.bug import CaseStatus, Marks, Reason
from threadline.domain.messages import IncomingMessage

_DELETE = text("""
UPDATE bug_conversations o SET message_text = '', redacted_at = now()
FROM bug_conversations d
WHERE d.bug_id = :bug_id AND d.message_type = 'deletion' AND d.correction_of = ANY(:originals)
  AND o.bug_id = d.bug_id AND o.redacted_at IS NULL
  AND (o.message_id = d.correction_of OR o.message_type = 'edit' AND o.correction_of = d.correction_of)
""")
_DELETE_FILES = text("""
UPDATE attachments a SET content = NULL, error = 'deleted by its author'
FROM bug_conversations d
WHERE d.bug_id = :bug_id AND d.message_type = 'deletion' AND d.correction_of = ANY(:originals)
  AND a.bug_id = d.bug_id AND a.message_id = d.correction_of
""")
_EDIT = text("""
UPDATE bug_conversations o SET message_text = e.message_text, edited_at = to_timestamp(e.version::double precision)
FROM (SELECT DISTINCT ON (correction_of) * FROM bug_conversations
      WHERE bug_id = :bug_id AND message_type = 'edit' AND correction_of = ANY(:originals)
      ORDER BY correction_of, version DESC, seq DESC) e
WHERE o.bug_id = e.bug_id AND o.message_id = e.correction_of AND o.redacted_at IS NULL
  AND o.message_type NOT IN ('edit', 'deletion')
""")
_FORGET_TITLE = text("""
UPDATE cases c SET title = 'Report deleted by its author', rev = c.rev + 1
FROM bug_conversations o
WHERE c.bug_id = :bug_id AND o.bug_id = c.bug_id AND o.message_type = 'report' AND o.redacted_at IS NOT NULL
  AND o.message_id = ANY(:originals)
""")
"""The title was taken from the report's first sentence."""
_CORRECTED = text("""
SELECT EXISTS (SELECT FROM bug_conversations WHERE bug_id = :bug_id AND correction_of = ANY(:originals)
               AND correction_of <> '')
""")
"""Whether anything stored corrects one of these; the condition on the empty string is the index's own."""
_CLOSED_AGAIN = text("""
UPDATE bug_conversations c SET wakes = true
WHERE c.bug_id = :bug_id AND c.message_type = 'close' AND NOT c.wakes AND c.turn IS NULL
  AND EXISTS (SELECT FROM bug_conversations m
              WHERE m.bug_id = c.bug_id AND m.wakes AND m.turn IS NULL AND m.said_at < c.said_at)
""")
"""After the end a close says nothing, unless it takes back what was about to reopen the case."""
_LAST_CLOSE = text("""
SELECT max(said_at) FROM bug_conversations WHERE bug_id = :bug_id AND message_type = 'close' AND turn = 0
""")
"""When that close was said which has ended the case: its ending takes the turn 0 for what it answers."""
_OVERTAKEN = text("""
UPDATE bug_conversations c SET wakes = false
WHERE c.bug_id = :bug_id AND c.message_type = 'close' AND c.wakes AND c.turn IS NULL
  AND EXISTS (SELECT FROM bug_conversations m
              WHERE m.bug_id = c.bug_id AND m.wakes AND m.turn IS NOT NULL AND m.message_type <> 'close'
                AND m.sender_type IN ('reporter', 'operator') AND m.said_at > c.said_at)
""")
"""A close that comes when a turn already has what was said after it closes nothing: it was taken back."""


@dataclass(frozen=True)
class Flushed:
    """`quarantined`: ids of the messages that are in quarantine since."""

    marks: Marks
    quarantined: list[str]


async def flush(connection: AsyncConnection, thread: Thread, batch: Sequence[IncomingMessage]) -> Flushed:
    """See `Conversation.flush`."""
    distinct = sorted({message.id: message for message in reversed(batch)}.values(), key=_order)
    case = await case_row.lock_by_thread(connection, thread) or await _open(connection, thread, distinct)
    if case is None:
        return Flushed(Marks(), await Quarantine(connection).keep(thread, distinct))
    addressed = [message for each in distinct if (message := _addressed(each, case.reporter_id))]
    stored = await _store(connection, case, addressed)
    await _correct(connection, case, stored)
    if any(message.kind == messages.CLOSE for message in stored):
        await connection.execute(_OVERTAKEN, {"bug_id": case.bug_id})
    if case.status == CaseStatus.RESOLVED:
        await connection.execute(_CLOSED_AGAIN, {"bug_id": case.bug_id})
    await case_row.write(connection, case.bug_id, stored=case.stored + len(stored))
    refused = [message.id for message in stored if message.kind == messages.QUARANTINED]
    return Flushed(await case_row.marks(connection, case.bug_id), refused)


def seconds(ts: str) -> Decimal:
    """Slack's timestamp as a number; what cannot be read was said now, so that it is ordered behind what is known."""
    try:
        said = Decimal(ts)
    except InvalidOperation:
        said = Decimal("NaN")
    return said if said.is_finite() and 0 <= said < _LATEST else Decimal(str(round(time.time(), 6)))


_LATEST = Decimal(10) ** 12


async def _open(connection: AsyncConnection, thread: Thread, batch: Sequence[IncomingMessage]) -> case_row.Case | None:
    """The thread's case, opened now; None when nothing in the batch may open one. Another may be opening it too."""
    reports = [message for message in batch if message.kind == messages.REPORT]
    told = [m for m in batch if m.sender_type == messages.REPORTER and m.kind in (messages.MESSAGE, messages.CLOSE)]
    opener = next(iter(reports + told), None)
    if opener is None:
        return None
    where = {"team": thread.team, "channel": thread.channel, "thread_ts": thread.ts}
    reporter = messages.clean(opener.sender_id)
    opening = insert(cases).values(**where, reporter_id=reporter).on_conflict_do_nothing()
    bug_id = (await connection.execute(opening.returning(cases.c.bug_id))).scalar_one_or_none()
    if bug_id:
        await case_row.record(connection, bug_id, 1, None, CaseStatus.NEW, Reason.REPORTED, reporter)
        place = insert(threads).values(**where, workflow_id=bug_workflow_id(thread), kind="report", bug_id=bug_id)
        await connection.execute(place)
    return await case_row.lock_by_thread(connection, thread)


def _order(message: IncomingMessage) -> tuple[Decimal, str]:
    return seconds(message.ts), message.version


def _addressed(message: IncomingMessage, reporter_id: str) -> IncomingMessage | None:
    """The message with its sender known; None for a third party's, which is nobody's business here."""
    if message.kind == messages.QUARANTINED or message.sender_type != messages.UNKNOWN:
        return message
    if reporter_id and message.sender_id == reporter_id:
        return replace(message, sender_type=messages.REPORTER)
    return None


async def _store(
    connection: AsyncConnection, case: case_row.Case, batch: Sequence[IncomingMessage]
) -> list[IncomingMessage]:
    """Returns what was not there. Nearly always that is all, in one statement, and nothing is asked before.

    When Postgres refuses a row, each goes in by itself, and the refused one into quarantine.
    """
    try:
        return await _insert(connection, case, 0, batch)
    except _KnownAlready as known:
        return await _insert(connection, case, 0, [message for message in batch if message.id in known.others])
    except DBAPIError as exc:
        if not failures.refuses_a_value(exc):
            raise
    kept: list[IncomingMessage] = []
    for message in batch:
        with contextlib.suppress(_KnownAlready):
            kept += await _one(connection, case, len(kept), message)
    return kept


async def _one(
    connection: AsyncConnection, case: case_row.Case, before: int, message: IncomingMessage
) -> list[IncomingMessage]:
    try:
        return await _insert(connection, case, before, [message])
    except DBAPIError as exc:
        if not failures.refuses_a_value(exc):
            raise
        words = f"the database refused this message: {failures.words(exc)}"
        return await _insert(connection, case, before, [_quarantined(message)], error=words)


class _KnownAlready(Exception):
    """Some of what was to be stored is stored; `others` are the ids of the rest. Numbers shall have no gaps."""

    def __init__(self, others: Collection[str]) -> None:
        super().__init__()
        self.others = others


async def _insert(
    connection: AsyncConnection,
    case: case_row.Case,
    before: int,
    fresh: Sequence[IncomingMessage],
    *,
    error: str = "",
) -> list[IncomingMessage]:
    """Number and insert all of them, or none. `before`: how many of this batch are stored already.

    Raises:
        _KnownAlready: one of them was there.
    """
    if not fresh:
        return []
    closed = await _closed_until(connection, case)
    rows = [
        _row(case, closed, case.stored + before + number, message, error)
        for number, message in enumerate(fresh, start=1)
    ]
    files = [_file_row(case, message, file) for message in fresh for file in message.files]
    new = insert(bug_conversations).on_conflict_do_nothing(index_elements=["bug_id", "message_id"])
    async with connection.begin_nested():
        stored = set((await connection.execute(new.values(rows).returning(bug_conversations.c.message_id))).scalars())
        if len(stored) < len(fresh):
            raise _KnownAlready(stored)
        if files:
            await connection.execute(insert(attachments).values(files).on_conflict_do_nothing())
    return list(fresh)


async def _closed_until(connection: AsyncConnection, case: case_row.Case) -> Decimal:
    """What was said until then a close has answered, also when it arrives after it."""
    if case.status != CaseStatus.RESOLVED:
        return Decimal(-1)
    return (await connection.execute(_LAST_CLOSE, {"bug_id": case.bug_id})).scalar_one() or Decimal(-1)


def _row(case: case_row.Case, closed: Decimal, seq: int, message: IncomingMessage, error: str) -> dict[str, object]:
    answered = seconds(message.ts) <= closed
    return {
        "bug_id": case.bug_id,
        "seq": seq,
        "turn": 0 if answered else None,
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
        "wakes": not answered and _wakes(message, CaseStatus(case.status)),
        "error": messages.clean(error),
    }


def _file_row(case: case_row.Case, message: IncomingMessage, file: messages.FileRef) -> dict[str, object]:
    """A file belongs to the message that shows it: an edit brings its original's files again, and perhaps a new one."""
    return {
        "bug_id": case.bug_id,
        "message_id": message.correction_of or message.id,
        "file_id": file.id,
        "name": file.name,
        "mimetype": file.mimetype,
        "size": file.size,
    }


def _wakes(message: IncomingMessage, status: CaseStatus) -> bool:
    """Whether a message wants a turn. After the end, thanks and a late "never mind" do not reopen the case."""
    if message.kind not in (messages.REPORT, messages.MESSAGE, messages.CLOSE):
        return False
    if status is not CaseStatus.RESOLVED:
        return True
    polite = message.kind == messages.CLOSE or _is_polite(message.text)
    return bool(message.files) or not polite


def _is_polite(text: str) -> bool:
    return phrases.is_close(text) or phrases.is_thanks(text) or phrases.is_wordless(text)


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


_ID_KEPT = 200


async def _correct(connection: AsyncConnection, case: case_row.Case, stored: Sequence[IncomingMessage]) -> None:
    """Bring originals to their present wording, whichever of the two came first; what is deleted stays deleted."""
    originals = sorted({message.correction_of or message.id for message in stored})
    if not originals:
        return
    which = {"bug_id": case.bug_id, "originals": originals}
    # Nearly always there is none, and four statements need not be made.
    if (await connection.execute(_CORRECTED, which)).scalar_one():
        await connection.execute(_DELETE, which)
        await connection.execute(_DELETE_FILES, which)
        await connection.execute(_EDIT, which)
        await connection.execute(_FORGET_TITLE, which)
