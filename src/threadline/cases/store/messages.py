"""CaseMessageStore: what people wrote in a case, what the bot posted there, and the files of both. It decides who may
open a case, what wants a turn, and what closes the case."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

from sqlalchemy import func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from threadline.cases.model import (
    REPORT,
    START_REASONS,
    Action,
    CaseRecord,
    CaseSnapshot,
    CaseStatus,
    ConversationPage,
    Reason,
    case_owner,
    entry_of,
    may_start_turn,
)
from threadline.cases.report import ParsedReport, parse_bug_report
from threadline.cases.store.case import ACTOR, SPOKEN, Case, CaseStore
from threadline.cases.tables import attachments, bug_conversations, cases
from threadline.db.engine import Store, Transaction
from threadline.errors import Permanent
from threadline.slack.model import Thread, clean_text, is_app_id
from threadline.slack.text import without_headings
from threadline.threads import phrases
from threadline.threads.basis import MAX_READ, Basis
from threadline.threads.message_table import MessageTable, distinct, seconds
from threadline.threads.model import IncomingMessage, MessageKind, SenderType, message_id
from threadline.threads.store import Quarantine, ThreadStore

_BEFORE_OPENING = func.extract("epoch", func.now()) - 900
"""What was said earlier in the thread of a case that is opened now is not compared with Slack."""
MESSAGES = MessageTable(bug_conversations, "bug_id", attachments)

_KEEP_TITLE = text("""
INSERT INTO removed_content (bug_id, message_id, record, record_key, kept)
SELECT c.bug_id, r.message_id, 'cases', c.bug_id, jsonb_build_object('title', c.title)
FROM cases c JOIN removed_content r ON r.bug_id = c.bug_id AND r.record = 'bug_conversations'
JOIN bug_conversations o ON o.bug_id = c.bug_id AND o.message_id = r.message_id AND o.message_type = 'report'
WHERE c.bug_id = :bug_id AND r.message_id = ANY(:originals)
ON CONFLICT DO NOTHING
""")
_RESTORE_TITLE = text("""
UPDATE cases c SET title = r.kept ->> 'title', rev = c.rev + 1
FROM removed_content r
WHERE c.bug_id = :bug_id AND r.bug_id = c.bug_id AND r.message_id = :message_id AND r.record = 'cases'
""")
_FORGET_TITLE = text("""
UPDATE cases c SET title = 'Report deleted by its author', rev = c.rev + 1
FROM bug_conversations o
WHERE c.bug_id = :bug_id AND o.bug_id = c.bug_id AND o.message_type = 'report' AND o.redacted_at IS NOT NULL
  AND o.message_id = ANY(:originals)
""")
"""The title was taken from the report's first sentence."""
_CLOSED_AGAIN = text("""
UPDATE bug_conversations c SET wants_turn = true
WHERE c.bug_id = :bug_id AND c.message_type = 'close' AND NOT c.wants_turn AND c.turn IS NULL
  AND EXISTS (SELECT FROM bug_conversations m
              WHERE m.bug_id = c.bug_id AND m.wants_turn AND m.turn IS NULL AND m.said_at < c.said_at)
""")
"""After the end a close says nothing, unless it takes back what was about to reopen the case."""
_LAST_CLOSE = text("""
SELECT max(said_at) FROM bug_conversations WHERE bug_id = :bug_id AND message_type = 'close' AND turn = 0
""")
"""When that close was said which has ended the case: its ending takes the turn 0 for what it answers."""
_OVERTAKEN = text("""
UPDATE bug_conversations c SET wants_turn = false
WHERE c.bug_id = :bug_id AND c.message_type = 'close' AND c.wants_turn AND c.turn IS NULL
  AND EXISTS (SELECT FROM bug_conversations m
              WHERE m.bug_id = c.bug_id AND m.wants_turn AND m.turn IS NOT NULL AND m.message_type <> 'close'
                AND m.sender_type IN ('reporter', 'operator') AND m.said_at > c.said_at)
""")
"""A close that comes when a turn already has what was said after it closes nothing: it was taken back."""
_ENTRIES = text("""
SELECT * FROM agent_conversations
WHERE bug_id = :bug_id AND message_type <> 'edit' AND (said_at, id) > (:said_at, :id)
ORDER BY said_at, id LIMIT :limit
""")
_OPEN_NUMBERED = text("""
INSERT INTO cases (id, team, channel, thread_ts, reporter_id) OVERRIDING SYSTEM VALUE
VALUES (:id, :team, :channel, :thread_ts, :reporter_id) ON CONFLICT DO NOTHING RETURNING *
""")
"""The case had this number before the database was restored from a backup, and people know it by that."""
_NEWEST = text(f"""
SELECT m.slack_ts FROM bug_conversations m
WHERE m.bug_id = :bug_id AND {SPOKEN} ORDER BY m.said_at DESC LIMIT {MAX_READ}
""")  # noqa: S608 - all parts are written here
_REPORT = text("""
SELECT * FROM agent_conversations
WHERE bug_id = :bug_id AND sender_type = 'reporter' AND message_type IN ('report', 'message')
ORDER BY message_type = 'report' DESC, said_at, id LIMIT 1
""")


_AFTER_QUESTION = (CaseStatus.AWAITING_REPORTER, CaseStatus.INVESTIGATING)
"""Statuses in which the last question to the reporter may still be answered, in several messages."""


@dataclass(frozen=True)
class Flushed:
    """`quarantined`: ids of the messages that are in quarantine since. `turn_started`: it is `investigating` since."""

    case: CaseSnapshot
    quarantined: Sequence[str] = ()
    turn_started: bool = False


class CaseMessageStore(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._cases = CaseStore(tx)

    async def flush(
        self, thread: Thread, batch: Sequence[IncomingMessage], *, start_turn: bool = False, number: int = 0
    ) -> Flushed:
        """Store what arrived in a thread; a report, or a reporter's message, opens its case. Safe to repeat. The
        snapshot is empty when the thread has no case and nothing in the batch opens one.

        `thread` is the report's. An id may occur twice in the batch, or be stored already. `start_turn` lets the case
        become `investigating` at once when a turn is due, which saves an activity; when the answer is lost, the next
        flush finds the step taken. `number`: that a case opened now is to have; 0 for the next one.
        """
        each_once = distinct(batch)
        case = await self._cases.lock_thread(thread) or await self._open(thread, each_once, number)
        if case is None:
            unreadable = [(each, "") for each in each_once if each.kind == MessageKind.QUARANTINED]
            return Flushed(CaseSnapshot(), await Quarantine(self._tx).keep(thread, unreadable))
        has_asked = case.last_action == Action.ASK_REPORTER and case.status in _AFTER_QUESTION
        addressed = [message for each in each_once if (message := _addressed(each, case.reporter_id, has_asked))]
        columns = partial(_columns, CaseStatus(case.status), await self._closed_until(case))
        stored = await MESSAGES.store(self._tx, thread, case.bug_id, case.message_count, addressed, columns)
        if stored.corrected:
            which = {"bug_id": case.bug_id, "originals": stored.corrected}
            await self._tx.execute(_KEEP_TITLE, which)
            await self._tx.execute(_FORGET_TITLE, which)
        if any(message.kind == MessageKind.CLOSE for message in stored.new):
            await self._tx.execute(_OVERTAKEN, {"bug_id": case.bug_id})
        if case.status == CaseStatus.RESOLVED:
            await self._tx.execute(_CLOSED_AGAIN, {"bug_id": case.bug_id})
        snapshot, count = await self._cases.snapshot(case.bug_id), case.message_count + len(stored.new)
        starts = start_turn and may_start_turn(snapshot)
        is_new = snapshot.turn == 0 and snapshot.closings == 0 and not snapshot.title
        values: dict[str, Any] = {"message_count": count}
        if is_new and (report := await self._parse_report(case.bug_id)):
            values |= vars(report)
            snapshot = replace(snapshot, title=report.title, severity=report.severity)
        if starts:
            to, reason = CaseStatus.INVESTIGATING, START_REASONS[snapshot.status]
            rev = await self._cases.step(case, to, reason, ACTOR, wait_until=0.0, **values)
            snapshot = replace(snapshot, status=to, wait_until=0.0)
        else:
            rev = await self._cases.write(case.bug_id, **values)
        return Flushed(replace(snapshot, rev=rev, message_count=count), stored.quarantined, starts)

    async def restore(self, bug_id: str, original: str) -> None:
        """Bring back a message whose deletion was inferred, with its files and the case's title."""
        case = await self._cases.lock(bug_id)
        await self._tx.execute(_RESTORE_TITLE, {"bug_id": case.bug_id, "message_id": original})
        await MESSAGES.restore(self._tx, case.bug_id, original)

    async def _open(self, thread: Thread, batch: Sequence[IncomingMessage], number: int) -> Case | None:
        """The thread's case, opened now; None when nothing in the batch may open one. Another may open it too."""
        reports = [message for message in batch if message.kind == MessageKind.REPORT]
        spoken = (MessageKind.MESSAGE, MessageKind.CLOSE)
        told = [each for each in batch if each.sender_type == SenderType.REPORTER and each.kind in spoken]
        opener = next(iter(reports + told), None)
        if opener is None:
            return None
        where = {"team": thread.team, "channel": thread.channel, "thread_ts": thread.ts}
        reporter = clean_text(opener.sender_id)
        case: Case | None = None
        if number:
            numbered = {**where, "reporter_id": reporter, "id": number}
            case = (await self._tx.execute(_OPEN_NUMBERED, numbered)).one_or_none()
        if case is None:
            opening = insert(cases).values(**where, reporter_id=reporter).on_conflict_do_nothing()
            case = (await self._tx.execute(opening.returning(cases))).one_or_none()
        if case is None:
            return await self._cases.lock_thread(thread)
        await self._cases.record_transition(case.bug_id, 1, None, CaseStatus.NEW, Reason.REPORTED, reporter)
        await ThreadStore(self._tx).register(
            case_owner(thread, REPORT), thread.channel, thread.ts, author_id=reporter, compare_from=_BEFORE_OPENING
        )
        return case

    async def _closed_until(self, case: Case) -> Decimal:
        """What was said until then a close has answered, also when it arrives after it."""
        if case.status != CaseStatus.RESOLVED:
            return Decimal(-1)
        return (await self._tx.execute(_LAST_CLOSE, {"bug_id": case.bug_id})).scalar_one() or Decimal(-1)

    async def page(self, bug_id: str, cursor: str | None = None, limit: int = 50) -> ConversationPage:
        """A page of the conversation as it reads now, oldest first, the bot's posts among it. Raises `Permanent` when
        the cursor is none that a page named."""
        said_at, identity = _parse_cursor(cursor)
        given = {"bug_id": bug_id, "said_at": said_at, "id": identity, "limit": limit + 1}
        rows = (await self._tx.execute(_ENTRIES, given)).mappings().all()
        shown = rows[:limit]  # the one too many only says that there is more
        last = f"{shown[-1]['said_at']}/{shown[-1]['id']}" if len(rows) > limit and shown else None
        return ConversationPage([entry_of(row) for row in shown], last)

    async def _parse_report(self, bug_id: str) -> ParsedReport | None:
        """Title, severity and components by rule, until the agent knows better; None before anything is reported."""
        row = (await self._tx.execute(_REPORT, {"bug_id": bug_id})).one_or_none()
        if row is None:
            return None
        reported = row.message_text if row.message_text.strip() else without_headings(row.forwarded)
        return parse_bug_report(reported, [service.name for service in await self._cases.services()])

    async def basis(self, case: CaseRecord, kind: str) -> Basis:
        """What a post rests on that tells of what people have written: it answers the newest message."""
        read = tuple((await self._tx.execute(_NEWEST, {"bug_id": case.bug_id})).scalars())
        return Basis(kind, case.thread.key, read[:1], read)

    async def last_close(self, bug_id: str) -> str:
        message = bug_conversations.c
        query = select(message.message_text).where(message.bug_id == bug_id, message.message_type == MessageKind.CLOSE)
        return (await self._tx.execute(query.order_by(message.said_at.desc()).limit(1))).scalar_one_or_none() or ""

    async def record_bot_message(self, bug_id: str, kind: str, words: str, message: Thread) -> None:
        """Keep what the bot posted, once, so that history shows both sides. It starts no turn and has no `seq`.
        `message` says where it is, as if it began a thread."""
        row = {
            "bug_id": bug_id,
            "message_id": message_id(message.team, message.channel, message.ts),
            "sender_type": SenderType.BOT,
            "sender_id": "",
            "message_type": kind,
            "message_text": clean_text(words),
            "channel": message.channel,
            "slack_ts": message.ts,
            "said_at": seconds(message.ts),
        }
        await self._tx.execute(insert(bug_conversations).values(row).on_conflict_do_nothing())

    async def pending_files(self, bug_id: str) -> list[tuple[int, str]]:
        """What was attached and is neither stored nor given up: the row's id and Slack's id of the file."""
        file = attachments.c
        pending = (file.bug_id == bug_id, file.content.is_(None), file.error == "")
        query = select(file.id, file.file_id).where(*pending).order_by(file.id)
        return [(row.id, row.file_id) for row in await self._tx.execute(query)]

    async def store_file(self, identity: int, content: bytes) -> None:
        """Keep a file's content, unless it was deleted while it was fetched."""
        file = attachments.c
        await self._tx.execute(update(attachments).where(file.id == identity, file.error == "").values(content=content))

    async def fail_file(self, identity: int, error: str) -> None:
        """The file cannot be had; the agent is told why, in words."""
        file = attachments.c
        told = update(attachments).where(file.id == identity, file.content.is_(None), file.error == "")
        await self._tx.execute(told.values(error=clean_text(error) or "it could not be fetched"))


def _parse_cursor(cursor: str | None) -> tuple[Decimal, int]:
    """Where a page begins: after this moment and row."""
    if not cursor:
        return Decimal(-1), 0
    said_at, _, identity = cursor.partition("/")
    try:
        return Decimal(said_at), int(identity)
    except (InvalidOperation, ValueError) as exc:
        raise Permanent(
            "this cursor is invalid: leave it out for the first page, or give the last page's next_cursor"
        ) from exc


def _addressed(message: IncomingMessage, reporter_id: str, has_asked: bool) -> IncomingMessage | None:
    """The message with its sender known; None for a third party's, which is nobody's business here. For an app that
    reported, anybody may answer: it cannot. `has_asked`: see `as_answer`."""
    if has_asked:
        message = as_answer(message)
    if message.kind == MessageKind.QUARANTINED or message.sender_type != SenderType.UNKNOWN:
        return message
    if reporter_id and (message.sender_id == reporter_id or is_app_id(reporter_id)):
        return replace(message, sender_type=SenderType.REPORTER)
    return None


def as_answer(message: IncomingMessage) -> IncomingMessage:
    """The message with a bare "cancel" for an answer, which the agent reads. An admin's close stays one."""
    if message.kind != MessageKind.CLOSE or message.sender_type == SenderType.ADMIN:
        return message
    if not phrases.is_bare_close(message.text):
        return message
    return replace(message, kind=MessageKind.MESSAGE)


def _columns(status: CaseStatus, closed: Decimal, message: IncomingMessage) -> dict[str, object]:
    """`closed`: what was said until then is answered."""
    answered = seconds(message.ts) <= closed
    return {"turn": 0 if answered else None, "wants_turn": not answered and _wants_turn(message, status)}


def _wants_turn(message: IncomingMessage, status: CaseStatus) -> bool:
    """Whether a message wants a turn. After the end, thanks and a late "never mind" do not reopen the case."""
    if message.kind not in (MessageKind.REPORT, MessageKind.MESSAGE, MessageKind.CLOSE):
        return False
    if status is not CaseStatus.RESOLVED:
        return True
    text, is_close = message.text, message.kind == MessageKind.CLOSE or phrases.is_close(message.text)
    return bool(message.files or message.forwarded) or not (
        is_close or phrases.is_thanks(text) or phrases.is_wordless(text)
    )
