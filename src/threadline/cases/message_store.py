"""Storing a batch of a case: who may open it, what wakes it, and what closes it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from sqlalchemy import func, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.cases import case_row
from threadline.cases.model import REPORT, CaseStatus, Marks, Reason, case_owner
from threadline.cases.tables import attachments, bug_conversations, cases
from threadline.slack.model import Thread
from threadline.threads import messages, phrases
from threadline.threads.message_table import Columns, MessageTable, distinct, seconds
from threadline.threads.messages import IncomingMessage
from threadline.threads.store import Quarantine, ThreadStore

_BEFORE_OPENING = func.extract("epoch", func.now()) - 900
"""What was said earlier in the thread of a case that is opened now is not compared with Slack."""
MESSAGES = MessageTable(bug_conversations, "bug_id", attachments)

_FORGET_TITLE = text("""
UPDATE cases c SET title = 'Report deleted by its author', rev = c.rev + 1
FROM bug_conversations o
WHERE c.bug_id = :bug_id AND o.bug_id = c.bug_id AND o.message_type = 'report' AND o.redacted_at IS NOT NULL
  AND o.message_id = ANY(:originals)
""")
"""The title was taken from the report's first sentence."""
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
    each_once = distinct(batch)
    case = await case_row.lock_by_thread(connection, thread) or await _open(connection, thread, each_once)
    if case is None:
        unreadable = [(each, "") for each in each_once if each.kind == messages.QUARANTINED]
        return Flushed(Marks(), await Quarantine(connection).keep(thread, unreadable))
    addressed = [message for each in each_once if (message := _addressed(each, case.reporter_id))]
    columns = _columns(case, await _closed_until(connection, case))
    stored = await MESSAGES.store(connection, thread, case.bug_id, case.stored, addressed, columns)
    if stored.corrected:
        await connection.execute(_FORGET_TITLE, {"bug_id": case.bug_id, "originals": stored.corrected})
    if any(message.kind == messages.CLOSE for message in stored.new):
        await connection.execute(_OVERTAKEN, {"bug_id": case.bug_id})
    if case.status == CaseStatus.RESOLVED:
        await connection.execute(_CLOSED_AGAIN, {"bug_id": case.bug_id})
    await case_row.write(connection, case.bug_id, stored=case.stored + len(stored.new))
    return Flushed(await case_row.marks(connection, case.bug_id), stored.quarantined)


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
        owner = case_owner(thread, REPORT)
        await ThreadStore(connection).register(
            owner, thread.channel, thread.ts, author_id=reporter, compare_from=_BEFORE_OPENING
        )
    return await case_row.lock_by_thread(connection, thread)


def _addressed(message: IncomingMessage, reporter_id: str) -> IncomingMessage | None:
    """The message with its sender known; None for a third party's, which is nobody's business here."""
    if message.kind == messages.QUARANTINED or message.sender_type != messages.UNKNOWN:
        return message
    if reporter_id and message.sender_id == reporter_id:
        return replace(message, sender_type=messages.REPORTER)
    return None


async def _closed_until(connection: AsyncConnection, case: case_row.Case) -> Decimal:
    """What was said until then a close has answered, also when it arrives after it."""
    if case.status != CaseStatus.RESOLVED:
        return Decimal(-1)
    return (await connection.execute(_LAST_CLOSE, {"bug_id": case.bug_id})).scalar_one() or Decimal(-1)


def _columns(case: case_row.Case, closed: Decimal) -> Columns:
    """`closed`: what was said until then is answered."""

    def of(message: IncomingMessage) -> dict[str, object]:
        answered = seconds(message.ts) <= closed
        wakes = not answered and _wakes(message, CaseStatus(case.status))
        return {"turn": 0 if answered else None, "wakes": wakes}

    return of


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
