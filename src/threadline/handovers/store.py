"""HandoverAnswerStore: the messages under the cards of handovers. AskerMessageStore: the messages
in the asker's thread, as a card shows them.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Row, func, select, text, update

from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.model.handover import Handover
from threadline.conversations.store.conversation import ConversationStore
from threadline.db.engine import Store
from threadline.handovers.reply import WAITING, HandoverAnswer, Intent, ReplyState, next_state
from threadline.handovers.tables import handover_answers
from threadline.slack.model import FileRef, Thread
from threadline.slack.text import quotes_in, with_forwarded
from threadline.threads.message_table import MessageTable, log_quarantined, seconds
from threadline.threads.model import IncomingMessage, MessageKind

ANSWERS = MessageTable(handover_answers, "conversation_id")
_answer = handover_answers.c

_CLEAR_OLD_EDITS = text("""
UPDATE handover_answers a SET message_text = '', forwarded = '', as_written = '', files = '[]'
WHERE a.conversation_id = :id AND a.message_type = 'edit' AND a.correction_of = :original
  AND EXISTS (
    SELECT FROM handover_answers n
    WHERE n.conversation_id = :id AND n.message_type = 'edit' AND n.correction_of = :original
      AND n.version > a.version)
""")
"""Clears the text of all but the newest edit of a message."""

_CLAIM_DUE = text("""
WITH waiting AS (
    SELECT message_id,
           reply_state = 'sending' OR NOT bool_or(reply_state = 'sending') OVER () AS is_next,
           bool_and(reply_state = 'sending' OR coalesce(send_at <= now(), false)) OVER (
               ORDER BY said_at, message_id) AS due
    FROM handover_answers
    WHERE conversation_id = :id AND turn = :turn AND reply_state IN ('held', 'sending')
)
UPDATE handover_answers a SET reply_state = 'sending'
FROM waiting
WHERE a.conversation_id = :id AND a.message_id = waiting.message_id
  AND waiting.due AND waiting.is_next
RETURNING a.message_id, a.said_at
""")
"""Claims the due replies. A reply waits for earlier ones, which keeps their order. It also waits
for replies that an earlier try has claimed: a press of Undo may wait for that try.
"""

_SEND_IN = text("""
SELECT CASE WHEN reply_state = 'sending' THEN 0
            WHEN send_at IS NOT NULL THEN greatest(0, extract(epoch FROM send_at - now())) END
FROM handover_answers
WHERE conversation_id = :id AND turn = :turn AND reply_state IN ('held', 'sending')
ORDER BY said_at, message_id LIMIT 1
""")

_UNFINISHED = text("""
SELECT h.conversation_id, h.turn, c.team, c.channel, c.thread_ts
FROM handovers h JOIN conversations c ON c.id = h.conversation_id
WHERE h.conversation_id > :after AND (h.closed_at IS NULL OR EXISTS (
    SELECT FROM handover_answers a
    WHERE a.conversation_id = h.conversation_id AND a.turn = h.turn
      AND a.reply_state IN ('held', 'sending')))
ORDER BY h.conversation_id FETCH FIRST :limit ROWS WITH TIES
""")
"""All unfinished handovers of a conversation are on the same page."""


@dataclass(frozen=True)
class UnfinishedHandover:
    """A handover whose workflow must run; `id` is that of its conversation."""

    id: int
    ref: ConversationTurn


@dataclass(frozen=True)
class StoredAnswer:
    """`answer`: the message, or the one that it corrects. `is_new`: this call stored it for the
    first time.
    """

    answer: HandoverAnswer
    is_new: bool


class HandoverAnswerStore(Store):
    """The messages under cards. The catch-up compares them with Slack."""

    async def store(self, handover: Handover, message: IncomingMessage) -> StoredAnswer | None:
        """Store a message, update its original to the newest wording, and decide the state of the
        reply.

        Messages and their corrections may arrive in any order, and a second call with the same
        message decides nothing. Unreadable messages go into quarantine.

        Args:
            handover: the handover of the card.
            message: without secrets.

        Returns:
            The message or the one that it corrects; None if it is complete already, or the
            original is not stored.
        """
        ref = handover.ref
        row = await ConversationStore(self._tx).lock(ref.thread)
        if await self.shown_ids([message.id]):
            return None
        original = message.correction_of or message.id
        before = await self._find(row.id, original)
        stored = await ANSWERS.store(
            self._tx, ref.thread, row.id, 0, [message], partial(_columns, ref.turn)
        )
        log_quarantined(ref.thread, stored.quarantined)
        await self._tx.execute(_CLEAR_OLD_EDITS, {"id": row.id, "original": original})
        after = await self._find(row.id, original)
        if after is None:
            return None
        if stored.new and not _reads_alike(before, after):
            after = await self._decide(row.id, handover, after, message)
        return StoredAnswer(after, bool(stored.new))

    async def unfinished_handovers(self, after: int, limit: int) -> list[UnfinishedHandover]:
        """Return the handovers that are open or still have a reply to post, in the order of their
        ids, after the id `after`.
        """
        page = await self._tx.execute(_UNFINISHED, {"after": after, "limit": limit})
        return [
            UnfinishedHandover(
                row.conversation_id,
                ConversationTurn(Thread(row.team, row.channel, row.thread_ts), row.turn),
            )
            for row in page
        ]

    async def get(self, ref: ConversationTurn, message_id: str) -> HandoverAnswer | None:
        conversation = await ConversationStore(self._tx).find_id(ref.thread)
        return await self._find(conversation, message_id) if conversation else None

    async def waiting(self, ref: ConversationTurn) -> list[HandoverAnswer]:
        """Return the replies that are held or being sent, in the order in which they were
        written.
        """
        conversation = await ConversationStore(self._tx).find_id(ref.thread)
        mine = (
            _answer.conversation_id == conversation,
            _answer.turn == ref.turn,
            _answer.reply_state.in_(WAITING),
        )
        found = select(handover_answers).where(*mine).order_by(_answer.said_at, _answer.message_id)
        return [_answer_of(row) for row in await self._tx.execute(found)]

    async def is_first_of(self, ref: ConversationTurn, user_id: str) -> bool:
        """Return whether a user has so far written exactly one internal message under the card."""
        conversation = await ConversationStore(self._tx).find_id(ref.thread)
        mine = (
            _answer.conversation_id == conversation,
            _answer.turn == ref.turn,
            _answer.sender_id == user_id,
        )
        internal = (
            _answer.message_type == MessageKind.MESSAGE,
            _answer.reply_state == ReplyState.INTERNAL,
        )
        written = select(func.count()).select_from(handover_answers).where(*mine, *internal)
        return (await self._tx.execute(written)).scalar_one() == 1

    async def start_hold(self, ref: ConversationTurn, message_id: str, hold: float) -> None:
        """Begin the seconds in which a held reply can be undone; first write wins."""
        ends = func.now() + func.make_interval(0, 0, 0, 0, 0, 0, hold)
        held = (_answer.reply_state == ReplyState.HELD, _answer.send_at.is_(None))
        await self._write(ref, message_id, *held, send_at=ends)

    async def end_holds(self, ref: ConversationTurn) -> None:
        """Make all held replies due."""
        row = await ConversationStore(self._tx).lock(ref.thread)
        held = (
            _answer.conversation_id == row.id,
            _answer.turn == ref.turn,
            _answer.reply_state == ReplyState.HELD,
        )
        await self._tx.execute(update(handover_answers).where(*held).values(send_at=func.now()))

    async def undo(
        self, ref: ConversationTurn, message_id: str, user_id: str
    ) -> HandoverAnswer | None:
        """Withdraw a reply if it is still held. Return it with its state after that; None if it is
        not stored.
        """
        held = _answer.reply_state == ReplyState.HELD
        await self._write(ref, message_id, held, reply_state=ReplyState.UNDONE, undone_by=user_id)
        return await self.get(ref, message_id)

    async def claim_due(self, ref: ConversationTurn) -> list[str]:
        """Claim the replies whose undo time is over; from then on Undo is too late. Return their
        ids in order. Replies that an earlier call claimed and did not settle are returned alone,
        and the others by a later call.
        """
        row = await ConversationStore(self._tx).lock(ref.thread)
        claimed = list(await self._tx.execute(_CLAIM_DUE, {"id": row.id, "turn": ref.turn}))
        return [
            each.message_id
            for each in sorted(claimed, key=lambda each: (each.said_at, each.message_id))
        ]

    async def send_in(self, ref: ConversationTurn) -> float | None:
        """Return the seconds until the next reply is due; None if none is held, or if it is not
        shown yet.
        """
        conversation = await ConversationStore(self._tx).find_id(ref.thread)
        seconds_left = (
            await self._tx.execute(_SEND_IN, {"id": conversation, "turn": ref.turn})
        ).scalar_one_or_none()
        return None if seconds_left is None else float(seconds_left)

    async def settle(self, ref: ConversationTurn, message_id: str, state: ReplyState) -> None:
        """Record the final state of a reply that was being sent."""
        await self._write(
            ref, message_id, _answer.reply_state == ReplyState.SENDING, reply_state=state
        )

    async def restore(self, conversation_id: int, original: str) -> None:
        """Restore an answer whose deletion was inferred. Text that was removed from the asker's
        thread is not restored there.
        """
        row = await ConversationStore(self._tx).lock(
            await ConversationStore(self._tx).thread_of(conversation_id)
        )
        await ANSWERS.restore(self._tx, row.id, original)

    async def mark_shown(self, ref: ConversationTurn, message_id: str) -> None:
        """Record that a message is complete: it is shown where it belongs, or there is nothing to
        show.
        """
        await self._write(ref, message_id, shown_at=func.now())

    async def ids_under_card(self, ref: ConversationTurn) -> set[str]:
        """Return the messages under this card, without those under the thread's other cards."""
        conversation = await ConversationStore(self._tx).find_id(ref.thread)
        mine = select(_answer.message_id).where(
            _answer.conversation_id == conversation, _answer.turn == ref.turn
        )
        return set((await self._tx.execute(mine)).scalars())

    async def shown_ids(self, ids: Collection[str]) -> set[str]:
        """Return the ids among these of messages that are complete, for any handover."""
        shown = select(_answer.message_id).where(
            _answer.message_id.in_(ids), _answer.shown_at.is_not(None)
        )
        return set((await self._tx.execute(shown)).scalars())

    async def _decide(
        self, conversation: int, handover: Handover, answer: HandoverAnswer, event: IncomingMessage
    ) -> HandoverAnswer:
        """Record the state of a message after an event that changed its wording; a held reply is
        held again from the start.
        """
        is_reply = answer.words(handover.user_id).intent is Intent.REPLY
        late = handover.closed_before(float(seconds(event.version or event.ts)))
        state = next_state(answer.state, is_reply=is_reply, deleted=answer.deleted, late=late)
        mine = (_answer.conversation_id == conversation, _answer.message_id == answer.message_id)
        values: dict[str, Any] = {"reply_state": state}
        if state is ReplyState.HELD:
            values |= {"send_at": None, "undone_by": ""}
        await self._tx.execute(update(handover_answers).where(*mine).values(**values))
        return await self._find(conversation, answer.message_id) or answer

    async def _find(self, conversation: int, message_id: str) -> HandoverAnswer | None:
        mine = (_answer.conversation_id == conversation, _answer.message_id == message_id)
        row = (await self._tx.execute(select(handover_answers).where(*mine))).one_or_none()
        return _answer_of(row) if row else None

    async def _write(
        self, ref: ConversationTurn, message_id: str, *where: Any, **values: Any
    ) -> None:
        row = await ConversationStore(self._tx).lock(ref.thread)
        mine = (_answer.conversation_id == row.id, _answer.message_id == message_id, *where)
        await self._tx.execute(update(handover_answers).where(*mine).values(**values))


def _columns(turn: int, message: IncomingMessage) -> dict[str, object]:
    return {"turn": turn, "as_written": message.as_written}


def _reads_alike(before: HandoverAnswer | None, after: HandoverAnswer) -> bool:
    if before is None:
        return False
    return _reading(before) == _reading(after)


def _reading(answer: HandoverAnswer) -> tuple[object, ...]:
    return (
        answer.text,
        quotes_in(answer.forwarded),
        answer.as_written,
        answer.files,
        answer.deleted,
    )


def _answer_of(row: Row[Any]) -> HandoverAnswer:
    return HandoverAnswer(
        row.message_id,
        row.sender_id,
        row.message_text,
        tuple(FileRef(**file) for file in row.files),
        deleted=row.redacted_at is not None,
        state=ReplyState(row.reply_state),
        undone_by=row.undone_by,
        is_shown_as_held=row.send_at is not None,
        forwarded=row.forwarded,
        ts=row.slack_ts,
        as_written=row.as_written,
    )


# -- Messages in the asker's thread


_ASKER_MESSAGES = text("""
SELECT message_id, slack_ts, sender_id, message_text, forwarded, files,
       redacted_at IS NOT NULL AS deleted, edited_at IS NOT NULL AS edited
FROM conversation_messages
WHERE conversation_id = :id AND turn = :turn AND message_type IN ('message', 'stop')
  AND (message_text ~ '\\S' OR forwarded <> '' OR files <> '[]' OR redacted_at IS NOT NULL)
ORDER BY said_at, id
""")


@dataclass(frozen=True)
class AskerMessage:
    """A message in the asker's thread with its current text and the texts that its author
    forwards; a deleted one has no text.
    """

    message_id: str
    user_id: str
    text: str
    files: tuple[FileRef, ...]
    deleted: bool
    edited: bool
    ts: str


class AskerMessageStore(Store):
    """The messages of people in a conversation's thread, by turn."""

    async def of_turn(self, ref: ConversationTurn) -> list[AskerMessage]:
        """Return the messages of a turn with their current text, in order."""
        row = await ConversationStore(self._tx).lock(ref.thread)
        found = await self._tx.execute(_ASKER_MESSAGES, {"id": row.id, "turn": ref.turn})
        return [_message(each) for each in found]


def _message(row: Row[Any]) -> AskerMessage:
    files = tuple(FileRef(**file) for file in row.files)
    shown = with_forwarded(row.message_text, row.forwarded)
    return AskerMessage(
        row.message_id, row.sender_id, shown, files, row.deleted, row.edited, row.slack_ts
    )
