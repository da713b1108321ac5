"""CaseMessageStore: people's messages in a case, the bot's posts there, and the files of both. It
decides who may open a case; `cases/effects.py` decides the effect of each message.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlalchemy import func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from threadline.cases.effects import CaseFacts, as_stored, effect_of, is_spoken
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
from threadline.cases.store.case import ACTOR, Case, CaseStore, refreshed
from threadline.cases.tables import attachments, bug_conversations, cases
from threadline.db.engine import Store, Transaction
from threadline.errors import Permanent
from threadline.slack.model import Thread, clean_text
from threadline.slack.text import without_headings
from threadline.threads.basis import MAX_READ, Basis
from threadline.threads.message_table import MessageTable, distinct, seconds
from threadline.threads.model import IncomingMessage, MessageKind, SenderType, message_id
from threadline.threads.store import Quarantine, ThreadStore

_BEFORE_OPENING = func.extract("epoch", func.now()) - 900
"""Start of the comparison with Slack for a case that is opened now; earlier messages are left out.
"""
MESSAGES = MessageTable(bug_conversations, "bug_id", attachments)

_KEEP_TITLE = text("""
INSERT INTO removed_content (bug_id, message_id, record, record_key, kept)
SELECT c.bug_id, r.message_id, 'cases', c.bug_id,
       jsonb_build_object('title', c.title, 'words', c.title_words)
FROM cases c JOIN removed_content r ON r.bug_id = c.bug_id AND r.record = 'bug_conversations'
JOIN bug_conversations o
  ON o.bug_id = c.bug_id AND o.message_id = r.message_id AND o.message_type = 'report'
WHERE c.bug_id = :bug_id AND r.message_id = ANY(:originals)
ON CONFLICT DO NOTHING
""")
_RESTORE_TITLE = text("""
UPDATE cases c
SET title = r.kept ->> 'title', rev = c.rev + 1,
    title_words = ARRAY(SELECT jsonb_array_elements_text(r.kept -> 'words'))
FROM removed_content r
WHERE c.bug_id = :bug_id AND r.bug_id = c.bug_id
  AND r.message_id = :message_id AND r.record = 'cases'
""")
_FORGET_TITLE = text("""
UPDATE cases c
SET title = 'Report deleted by its author', title_words = '{}', rev = c.rev + 1
FROM bug_conversations o
WHERE c.bug_id = :bug_id AND o.bug_id = c.bug_id
  AND o.message_type = 'report' AND o.redacted_at IS NOT NULL
  AND o.message_id = ANY(:originals)
""")
"""Removes the title with the report, whose first sentence it was."""
_CLOSED_AGAIN = text("""
UPDATE bug_conversations c SET wants_turn = true, closes = true
WHERE c.bug_id = :bug_id AND c.message_type = 'close' AND NOT c.wants_turn AND c.turn IS NULL
  AND EXISTS (SELECT FROM bug_conversations m
              WHERE m.bug_id = c.bug_id AND m.wants_turn AND m.turn IS NULL
                AND m.said_at < c.said_at)
""")
"""After the end a close has no effect, unless it withdraws a message that would reopen the case.
"""
_LAST_CLOSE = text("""
SELECT max(said_at) FROM bug_conversations
WHERE bug_id = :bug_id AND message_type = 'close' AND turn = 0
""")
"""Time of the close that ended the case.

The end sets turn 0 on the messages that it answers.
"""
_OVERTAKEN = text("""
UPDATE bug_conversations c SET wants_turn = false, closes = NULL
WHERE c.bug_id = :bug_id AND c.closes AND c.turn IS NULL
  AND EXISTS (SELECT FROM bug_conversations m
              WHERE m.bug_id = c.bug_id AND NOT m.closes AND m.turn IS NOT NULL
                AND m.said_at > c.said_at)
""")
"""A close is withdrawn when it arrives after a turn has taken a later message."""
_ENTRIES = text("""
SELECT * FROM agent_conversations
WHERE bug_id = :bug_id AND message_type <> 'edit' AND (said_at, id) > (:said_at, :id)
ORDER BY said_at, id LIMIT :limit
""")
_OPEN_NUMBERED = text("""
INSERT INTO cases (id, team, channel, thread_ts, reporter_id) OVERRIDING SYSTEM VALUE
VALUES (:id, :team, :channel, :thread_ts, :reporter_id) ON CONFLICT DO NOTHING RETURNING *
""")
"""Opens a case under its number from before a restore, by which people know it."""
_NEWEST = text("""
SELECT slack_ts FROM bug_conversations
WHERE bug_id = :bug_id AND spoken ORDER BY said_at DESC LIMIT :limit
""")
_REPORT = text("""
SELECT * FROM agent_conversations
WHERE bug_id = :bug_id AND sender_type = 'reporter' AND message_type IN ('report', 'message')
ORDER BY message_type = 'report' DESC, said_at, id LIMIT 1
""")


_AFTER_QUESTION = (CaseStatus.AWAITING_REPORTER, CaseStatus.INVESTIGATING)
"""Statuses in which the last question to the reporter may still be answered, in several
messages.
"""


@dataclass(frozen=True)
class Flushed:
    """The result of a flush.

    `quarantined`: ids of the messages that it put into quarantine. `turn_started`: it made the
    case `investigating`.
    """

    case: CaseSnapshot
    quarantined: Sequence[str] = ()
    turn_started: bool = False


class CaseMessageStore(Store):
    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._cases = CaseStore(tx)

    async def flush(
        self,
        thread: Thread,
        batch: Sequence[IncomingMessage],
        *,
        start_turn: bool = False,
        number: int = 0,
        silence_ends: float = 0.0,
    ) -> Flushed:
        """Store the messages that arrived in a thread; safe to repeat.

        A report, or a reporter's message, opens the thread's case. The snapshot is empty when the
        thread has no case and no message of the batch opens one.

        Args:
            thread: The thread of the report.
            batch: Messages; an id may occur twice, or be stored already.
            start_turn: Make the case `investigating` at once when a turn is due, which saves
                an activity. When the answer is lost, the next flush finds the step taken.
            number: The number of a case that is opened now; 0 for the next one.
            silence_ends: End of the wait for developers, in seconds since 1970, if somebody has
                written now; 0 leaves it as it is.
        """
        each_once = distinct(batch)
        case = await self._cases.lock_thread(thread) or await self._open(thread, each_once, number)
        if case is None:
            unreadable = [(each, "") for each in each_once if each.kind == MessageKind.QUARANTINED]
            return Flushed(CaseSnapshot(), await Quarantine(self._tx).keep(thread, unreadable))
        facts = await self._facts(case)
        in_case = [as_stored(each, facts) for each in each_once]
        stored = await MESSAGES.store(
            self._tx,
            thread,
            case.bug_id,
            case.message_count,
            [message for message in in_case if message],
            lambda message: vars(effect_of(message, facts)),
        )
        if stored.corrected:
            await self._forget_title(case.bug_id, stored.corrected)
        if any(message.kind == MessageKind.CLOSE for message in stored.new):
            await self._tx.execute(_OVERTAKEN, {"bug_id": case.bug_id})
        if case.status == CaseStatus.RESOLVED:
            await self._tx.execute(_CLOSED_AGAIN, {"bug_id": case.bug_id})
        snapshot = await self._cases.snapshot(case.bug_id)
        count = case.message_count + len(stored.new)
        starts = start_turn and may_start_turn(snapshot)
        is_new = snapshot.turn == 0 and snapshot.closings == 0 and not snapshot.title
        values: dict[str, Any] = {"message_count": count}
        if silence_ends and _breaks_silence(snapshot, stored.new):
            values["wait_until"] = silence_ends
        if is_new and (report := await self._parse_report(case.bug_id)):
            values |= vars(report)
        if starts:
            to = CaseStatus.INVESTIGATING
            reason = START_REASONS[snapshot.status]
            row = await self._cases.step(case, to, reason, ACTOR, **values)
        else:
            row = await self._cases.write(case.bug_id, **values)
        return Flushed(refreshed(snapshot, row), stored.quarantined, starts)

    async def restore(self, bug_id: str, original: str) -> None:
        """Restore a message whose deletion was inferred, with its files and the case's title."""
        case = await self._cases.lock(bug_id)
        await self._tx.execute(_RESTORE_TITLE, {"bug_id": case.bug_id, "message_id": original})
        await MESSAGES.restore(self._tx, case.bug_id, original)

    async def _forget_title(self, bug_id: str, corrected: Sequence[str]) -> None:
        """Remove the title of a deleted report; a deletion that was inferred may come back."""
        which = {"bug_id": bug_id, "originals": corrected}
        await self._tx.execute(_KEEP_TITLE, which)
        await self._tx.execute(_FORGET_TITLE, which)

    async def _open(
        self, thread: Thread, batch: Sequence[IncomingMessage], number: int
    ) -> Case | None:
        """Open the thread's case; None when no message of the batch may open one.

        A concurrent transaction may open it first.
        """
        reports = [message for message in batch if message.kind == MessageKind.REPORT]
        spoken = (MessageKind.MESSAGE, MessageKind.CLOSE)
        told = [
            each
            for each in batch
            if each.sender_type == SenderType.REPORTER and each.kind in spoken
        ]
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
        await self._cases.record_transition(
            case.bug_id, 1, None, CaseStatus.NEW, Reason.REPORTED, reporter
        )
        await ThreadStore(self._tx).register(
            case_owner(thread, REPORT),
            thread.channel,
            thread.ts,
            author_id=reporter,
            compare_from=_BEFORE_OPENING,
        )
        return case

    async def _facts(self, case: Case) -> CaseFacts:
        """Return the facts of a case on which the effect of its next messages depends."""
        status = CaseStatus(case.status)
        if status is CaseStatus.RESOLVED:
            closed = await self._tx.execute(_LAST_CLOSE, {"bug_id": case.bug_id})
            return CaseFacts(
                status, case.reporter_id, closed_until=closed.scalar_one() or Decimal(-1)
            )
        has_asked = case.last_action == Action.ASK_REPORTER and status in _AFTER_QUESTION
        return CaseFacts(status, case.reporter_id, has_asked)

    async def page(
        self, bug_id: str, cursor: str | None = None, limit: int = 50
    ) -> ConversationPage:
        """Return a page of the conversation in its present wording, oldest first, with the bot's
        posts.

        Raises:
            Permanent: No page returned this cursor.
        """
        said_at, identity = _parse_cursor(cursor)
        given = {"bug_id": bug_id, "said_at": said_at, "id": identity, "limit": limit + 1}
        rows = (await self._tx.execute(_ENTRIES, given)).mappings().all()
        shown = rows[:limit]  # the extra row only shows that there is more
        last = f"{shown[-1]['said_at']}/{shown[-1]['id']}" if len(rows) > limit and shown else None
        return ConversationPage([entry_of(row) for row in shown], last)

    async def _parse_report(self, bug_id: str) -> ParsedReport | None:
        """Parse title, severity and components by rule; None before a report. The agent replaces
        them later.
        """
        row = (await self._tx.execute(_REPORT, {"bug_id": bug_id})).one_or_none()
        if row is None:
            return None
        reported = (
            row.message_text if row.message_text.strip() else without_headings(row.forwarded)
        )
        return parse_bug_report(
            reported, [service.name for service in await self._cases.services()]
        )

    async def basis(self, case: CaseRecord, kind: str) -> Basis:
        """Return the basis of a post about people's messages: it answers the newest one."""
        newest = {"bug_id": case.bug_id, "limit": MAX_READ}
        read = tuple((await self._tx.execute(_NEWEST, newest)).scalars())
        return Basis(kind, case.thread.key, read[:1], read)

    async def last_close(self, bug_id: str) -> str:
        message = bug_conversations.c
        query = select(message.message_text).where(
            message.bug_id == bug_id, message.message_type == MessageKind.CLOSE
        )
        return (
            await self._tx.execute(query.order_by(message.said_at.desc()).limit(1))
        ).scalar_one_or_none() or ""

    async def record_bot_message(
        self, bug_id: str, kind: str, words: str, message: Thread
    ) -> None:
        """Store a post of the bot, once, so that history shows both sides.

        It starts no turn and has no `seq`. `message` is its place, in the form of a thread's root.
        """
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

    async def rewrite_bot_message(self, bug_id: str, message: Thread, words: str) -> None:
        """Replace the stored text of a post of the bot, which was replaced in Slack."""
        row = bug_conversations.c
        identity = message_id(message.team, message.channel, message.ts)
        mine = (
            row.bug_id == bug_id,
            row.message_id == identity,
            row.sender_type == SenderType.BOT,
        )
        changed = update(bug_conversations).where(*mine).values(message_text=clean_text(words))
        await self._tx.execute(changed)

    async def pending_files(self, bug_id: str) -> list[tuple[int, str]]:
        """Return the attachments that are neither stored nor given up: the row's id and Slack's
        file id.
        """
        file = attachments.c
        pending = (file.bug_id == bug_id, file.content.is_(None), file.error == "")
        query = select(file.id, file.file_id).where(*pending).order_by(file.id)
        return [(row.id, row.file_id) for row in await self._tx.execute(query)]

    async def store_file(self, identity: int, content: bytes) -> None:
        """Store a file's content, unless it was deleted during the download."""
        file = attachments.c
        await self._tx.execute(
            update(attachments)
            .where(file.id == identity, file.error == "")
            .values(content=content)
        )

    async def fail_file(self, identity: int, error: str) -> None:
        """Store the reason why a file cannot be fetched, which the agent reads."""
        file = attachments.c
        told = update(attachments).where(
            file.id == identity, file.content.is_(None), file.error == ""
        )
        await self._tx.execute(told.values(error=clean_text(error) or "it could not be fetched"))


def _breaks_silence(case: CaseSnapshot, messages: Sequence[IncomingMessage]) -> bool:
    """Return whether people have written in a case that waits for developers, also words that
    start no turn.
    """
    waits = case.status is CaseStatus.PENDING_VERIFICATION and case.wait_until > 0
    return waits and any(map(is_spoken, messages))


def _parse_cursor(cursor: str | None) -> tuple[Decimal, int]:
    """Return the moment and the row after which a page begins."""
    if not cursor:
        return Decimal(-1), 0
    said_at, _, identity = cursor.partition("/")
    try:
        return Decimal(said_at), int(identity)
    except (InvalidOperation, ValueError) as exc:
        raise Permanent(
            "this cursor is invalid: leave it out for the first page, or give the last "
            "page's next_cursor"
        ) from exc
