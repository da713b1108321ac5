"""HandoverStore and HandoverAnswerStore: turns that were given to a person, and what people wrote under their cards."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import Row, Select, and_, exists, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert

from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.store.conversation import ConversationStore, in_thread
from threadline.conversations.tables import conversations
from threadline.db.engine import Store, Transaction
from threadline.decisions.model import DecisionOutcome
from threadline.decisions.reports import JudgedDecision
from threadline.decisions.store import DecisionStore, round_of
from threadline.handovers.model import Handover
from threadline.handovers.reply import WAITING, HandoverAnswer, Intent, ReplyState, next_state
from threadline.handovers.tables import handover_answers, handovers
from threadline.slack.model import FileRef, Thread
from threadline.slack.text import quotes_in, with_forwarded
from threadline.threads.message_table import MessageTable, log_quarantined, seconds
from threadline.threads.model import IncomingMessage, MessageKind
from threadline.threads.phrases import THUMBS

_row, _answer = handovers.c, handover_answers.c

_ASKER_MESSAGES = text("""
SELECT message_id, slack_ts, sender_id, message_text, forwarded, files, redacted_at IS NOT NULL AS deleted,
       edited_at IS NOT NULL AS edited
FROM conversation_messages
WHERE conversation_id = :id AND turn = :turn AND message_type IN ('message', 'stop')
  AND (message_text ~ '\\S' OR forwarded <> '' OR files <> '[]' OR redacted_at IS NOT NULL)
ORDER BY said_at, id
""")


@dataclass(frozen=True)
class HandoverMessage:
    """A message in the asker's thread as it reads now, with what its author forwards; a deleted one has no text."""

    message_id: str
    user_id: str
    text: str
    files: tuple[FileRef, ...]
    deleted: bool
    edited: bool
    ts: str


class HandoverStore(Store):
    """Whatever changes a handover holds its conversation's row until the transaction ends."""

    async def open(self, thread: Thread, turn: int, user_id: str) -> None:
        """Give a turn to a person, unless a person has the thread already, or the turn was given before."""
        row = await ConversationStore(self._tx).lock(thread)
        if not await self.open_for(thread):
            new = insert(handovers).values(conversation_id=row.id, turn=turn, user_id=user_id)
            await self._tx.execute(new.on_conflict_do_nothing())

    async def get(self, ref: ConversationTurn) -> Handover | None:
        return await self._one(_HANDOVERS.where(in_thread(ref.thread), _row.turn == ref.turn))

    async def open_for(self, thread: Thread) -> Handover | None:
        """The thread's handover that nobody has closed."""
        return await self._one(_HANDOVERS.where(in_thread(thread), _row.closed_at.is_(None)))

    async def open_page(self, after: int, limit: int) -> list[Handover]:
        """Handovers that are open or still have a reply to post, in the order of their ids, after the id `after`."""
        mine = and_(_answer.conversation_id == _row.conversation_id, _answer.turn == _row.turn)
        has_replies = exists().where(mine, _answer.reply_state.in_(WAITING))
        page = _HANDOVERS.where(or_(_row.closed_at.is_(None), has_replies), _row.conversation_id > after)
        page = page.order_by(None).order_by(_row.conversation_id).limit(limit)
        return [_handover(each) for each in await self._tx.execute(page)]

    async def list_for(self, thread: Thread) -> list[Handover]:
        """All of a thread's, the newest first."""
        return [_handover(each) for each in await self._tx.execute(_HANDOVERS.where(in_thread(thread)))]

    async def set_card(self, ref: ConversationTurn, channel: str, card_ts: str) -> None:
        await self._write(ref, channel=channel, card_ts=card_ts)

    async def take(self, ref: ConversationTurn, user_id: str) -> Handover | None:
        """Record who takes it; the first one counts, unless it is closed. The turn's decision is then taken over."""
        row = await ConversationStore(self._tx).lock(ref.thread)
        free = (_row.taken_by == "", _row.closed_at.is_(None))
        await self._write(ref, *free, taken_by=user_id, taken_at=datetime.now(UTC))
        taken = await self.get(ref)
        if taken and taken.taken_by:
            await DecisionStore(self._tx).mark_taken_over(row.id, ref.turn)
        return taken

    async def close(self, ref: ConversationTurn, user_id: str, at: float = 0.0) -> Handover | None:
        """Record who closes it; the first one counts. `at`: of the press, in seconds since 1970; 0 for now."""
        closed_at = datetime.fromtimestamp(at, UTC) if at else datetime.now(UTC)
        await self._write(ref, _row.closed_at.is_(None), closed_by=user_id, closed_at=closed_at)
        return await self.get(ref)

    async def record_reminder(self, ref: ConversationTurn, number: int) -> None:
        await self._write(ref, _row.reminded < number, reminded=number)

    async def asker_messages(self, thread: Thread, turn: int) -> list[HandoverMessage]:
        """What people wrote that a turn has taken up."""
        row = await ConversationStore(self._tx).lock(thread)
        found = await self._tx.execute(_ASKER_MESSAGES, {"id": row.id, "turn": turn})
        return [_message(each) for each in found]

    async def _one(self, query: Select[Any]) -> Handover | None:
        row = (await self._tx.execute(query.limit(1))).first()
        return _handover(row) if row else None

    async def _write(self, ref: ConversationTurn, *where: Any, **values: Any) -> None:
        row = await ConversationStore(self._tx).lock(ref.thread)
        mine = (_row.conversation_id == row.id, _row.turn == ref.turn, *where)
        await self._tx.execute(update(handovers).where(*mine).values(**values))


def _message(row: Row[Any]) -> HandoverMessage:
    files = tuple(FileRef(**file) for file in row.files)
    shown = with_forwarded(row.message_text, row.forwarded)
    return HandoverMessage(row.message_id, row.sender_id, shown, files, row.deleted, row.edited, row.slack_ts)


_HANDOVERS = (
    select(handovers, conversations.c.team, conversations.c.channel.label("home"), conversations.c.thread_ts)
    .join(conversations)
    .order_by(_row.turn.desc())
)


def _handover(row: Row[Any]) -> Handover:
    return Handover(
        row.conversation_id,
        ConversationTurn(Thread(row.team, row.home, row.thread_ts), row.turn),
        *(row.user_id, row.channel, row.card_ts, row.taken_by, row.closed_by),
        row.closed_at.timestamp() if row.closed_at else 0.0,
        row.reminded,
    )


# -- Messages under a card ----------------------------------------------------------------------------------------


ANSWERS = MessageTable(handover_answers, "conversation_id")

_CLEAR_OLD_EDITS = text("""
UPDATE handover_answers a SET message_text = '', forwarded = '', as_written = '', files = '[]'
WHERE a.conversation_id = :id AND a.message_type = 'edit' AND a.correction_of = :original AND EXISTS (
    SELECT FROM handover_answers n
    WHERE n.conversation_id = :id AND n.message_type = 'edit' AND n.correction_of = :original AND n.version > a.version)
""")
"""Keeps no older words of what somebody has edited."""

_CLAIM_DUE = text("""
WITH waiting AS (
    SELECT message_id, reply_state = 'sending' OR NOT bool_or(reply_state = 'sending') OVER () AS is_next,
           bool_and(reply_state = 'sending' OR coalesce(send_at <= now(), false)) OVER (
               ORDER BY said_at, message_id) AS due
    FROM handover_answers
    WHERE conversation_id = :id AND turn = :turn AND reply_state IN ('held', 'sending')
)
UPDATE handover_answers a SET reply_state = 'sending'
FROM waiting WHERE a.conversation_id = :id AND a.message_id = waiting.message_id AND waiting.due AND waiting.is_next
RETURNING a.message_id, a.said_at
""")
"""A reply waits for those before it, so that their order stays. It also waits for those that an earlier try has taken:
a press of Undo may wait for that try."""

_SEND_IN = text("""
SELECT CASE WHEN reply_state = 'sending' THEN 0
            WHEN send_at IS NOT NULL THEN greatest(0, extract(epoch FROM send_at - now())) END
FROM handover_answers
WHERE conversation_id = :id AND turn = :turn AND reply_state IN ('held', 'sending')
ORDER BY said_at, message_id LIMIT 1
""")


@dataclass(frozen=True)
class StoredAnswer:
    """`answer`: the message, or the one that it corrects. `is_new`: it was not stored before this call."""

    answer: HandoverAnswer
    is_new: bool


class HandoverAnswerStore(Store):
    """The catch-up compares Slack with it."""

    async def store(self, handover: Handover, message: IncomingMessage) -> StoredAnswer | None:
        """Store a message, bring what it corrects to its newest wording, and decide what becomes of the reply.

        `message` contains no secret. The order in which a message and its corrections arrive does not matter, and a
        second call with the same message decides nothing. What cannot be read goes into quarantine.

        Returns:
            The message or the one that it corrects; None if nothing is left to do for it, or what it corrects is not
            stored.
        """
        ref = handover.ref
        row = await ConversationStore(self._tx).lock(ref.thread)
        if await self.shown_ids([message.id]):
            return None
        original = message.correction_of or message.id
        before = await self._find(row.id, original)
        stored = await ANSWERS.store(self._tx, ref.thread, row.id, 0, [message], partial(_columns, ref.turn))
        log_quarantined(ref.thread, stored.quarantined)
        await self._tx.execute(_CLEAR_OLD_EDITS, {"id": row.id, "original": original})
        after = await self._find(row.id, original)
        if after is None:
            return None
        if stored.new and not _reads_alike(before, after):
            after = await self._decide(row.id, handover, after, message)
        return StoredAnswer(after, bool(stored.new))

    async def get(self, ref: ConversationTurn, message_id: str) -> HandoverAnswer | None:
        conversation = await ConversationStore(self._tx).find_id(ref.thread)
        return await self._find(conversation, message_id) if conversation else None

    async def waiting(self, ref: ConversationTurn) -> list[HandoverAnswer]:
        """Replies that are held or on their way, in the order in which they were written."""
        conversation = await ConversationStore(self._tx).find_id(ref.thread)
        mine = (_answer.conversation_id == conversation, _answer.turn == ref.turn, _answer.reply_state.in_(WAITING))
        found = select(handover_answers).where(*mine).order_by(_answer.said_at, _answer.message_id)
        return [_answer_of(row) for row in await self._tx.execute(found)]

    async def is_first_of(self, ref: ConversationTurn, user_id: str) -> bool:
        """Whether a user has written one message under the card so far that is meant for colleagues."""
        conversation = await ConversationStore(self._tx).find_id(ref.thread)
        mine = (_answer.conversation_id == conversation, _answer.turn == ref.turn, _answer.sender_id == user_id)
        internal = (_answer.message_type == MessageKind.MESSAGE, _answer.reply_state == ReplyState.INTERNAL)
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
        held = (_answer.conversation_id == row.id, _answer.turn == ref.turn, _answer.reply_state == ReplyState.HELD)
        await self._tx.execute(update(handover_answers).where(*held).values(send_at=func.now()))

    async def undo(self, ref: ConversationTurn, message_id: str, user_id: str) -> HandoverAnswer | None:
        """Withdraw a reply if it is still held. Returns it as it is then; None if it is not stored."""
        held = _answer.reply_state == ReplyState.HELD
        await self._write(ref, message_id, held, reply_state=ReplyState.UNDONE, undone_by=user_id)
        return await self.get(ref, message_id)

    async def claim_due(self, ref: ConversationTurn) -> list[str]:
        """Take the replies whose time to undo them is over; from now on Undo comes too late. Returns their ids in
        order. Those that an earlier call took and did not settle come alone, and the others with a later call."""
        row = await ConversationStore(self._tx).lock(ref.thread)
        claimed = list(await self._tx.execute(_CLAIM_DUE, {"id": row.id, "turn": ref.turn}))
        return [each.message_id for each in sorted(claimed, key=lambda each: (each.said_at, each.message_id))]

    async def send_in(self, ref: ConversationTurn) -> float | None:
        """Seconds until the next reply is due; None if none is held, or if it is not shown yet."""
        conversation = await ConversationStore(self._tx).find_id(ref.thread)
        seconds_left = (await self._tx.execute(_SEND_IN, {"id": conversation, "turn": ref.turn})).scalar_one_or_none()
        return None if seconds_left is None else float(seconds_left)

    async def settle(self, ref: ConversationTurn, message_id: str, state: ReplyState) -> None:
        """Record what became of a reply that was on its way."""
        await self._write(ref, message_id, _answer.reply_state == ReplyState.SENDING, reply_state=state)

    async def restore(self, conversation_id: int, original: str) -> None:
        """Bring back an answer whose deletion was inferred. What was taken out of the asker's thread stays out."""
        row = await ConversationStore(self._tx).lock(await ConversationStore(self._tx).thread_of(conversation_id))
        await ANSWERS.restore(self._tx, row.id, original)

    async def mark_shown(self, ref: ConversationTurn, message_id: str) -> None:
        """Record that a message needs nothing more: it is shown where it belongs, or there is nothing to show."""
        await self._write(ref, message_id, shown_at=func.now())

    async def ids_under_card(self, ref: ConversationTurn) -> set[str]:
        """The messages that were written under this card; others are under the thread's other cards."""
        conversation = await ConversationStore(self._tx).find_id(ref.thread)
        mine = select(_answer.message_id).where(_answer.conversation_id == conversation, _answer.turn == ref.turn)
        return set((await self._tx.execute(mine)).scalars())

    async def shown_ids(self, ids: Collection[str]) -> set[str]:
        """Which of these messages need nothing more, of any handover."""
        shown = select(_answer.message_id).where(_answer.message_id.in_(ids), _answer.shown_at.is_not(None))
        return set((await self._tx.execute(shown)).scalars())

    async def _decide(
        self, conversation: int, handover: Handover, answer: HandoverAnswer, event: IncomingMessage
    ) -> HandoverAnswer:
        """Record what a message becomes by an event that changed its wording; a held reply is held anew."""
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

    async def _write(self, ref: ConversationTurn, message_id: str, *where: Any, **values: Any) -> None:
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
    return answer.text, quotes_in(answer.forwarded), answer.as_written, answer.files, answer.deleted


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


# -- What came of decisions ----------------------------------------------------------------------------------------


_JUDGED = text("""
WITH last AS (
    SELECT DISTINCT ON (d.conversation_id, d.turn) c.team, c.channel, c.thread_ts, d.*
    FROM decisions d JOIN conversations c ON c.id = d.conversation_id
    WHERE d.decided_at >= :since AND (:team = '' OR c.team = :team)
    ORDER BY d.conversation_id, d.turn, d.round DESC
), opinions AS (
    SELECT DISTINCT ON (t.conversation_id, p.turn, t.user_id)
           t.conversation_id, p.turn, split_part(t.reaction, '::', 1) = ANY(:ups) AS up
    FROM ratings t JOIN conversations c ON c.id = t.conversation_id
    JOIN LATERAL (SELECT substring(key FROM ':turn:([0-9]{1,9})(?:#[0-9]+)?$')::int AS turn FROM posts
                  WHERE channel = c.channel AND ts = t.message_ts AND key LIKE 'conversation:%') p ON p.turn IS NOT NULL
    WHERE t.active
    ORDER BY t.conversation_id, p.turn, t.user_id, t.at DESC
), counted AS (
    SELECT conversation_id, turn, count(*) FILTER (WHERE up) AS thumbs_up, count(*) FILTER (WHERE NOT up) AS thumbs_down
    FROM opinions GROUP BY conversation_id, turn
), replied AS (
    SELECT DISTINCT channel, thread_ts, substring(key FROM '^handover:(.+):answer:') AS ref
    FROM posts WHERE key LIKE 'handover:%:answer:%' AND ts IS NOT NULL
)
SELECT last.*, coalesce(counted.thumbs_up, 0) AS thumbs_up, coalesce(counted.thumbs_down, 0) AS thumbs_down,
       h.closed_at IS NOT NULL AS closed, r.ref IS NOT NULL OR EXISTS (
           SELECT FROM conversation_messages m
           WHERE m.conversation_id = last.conversation_id AND m.sender_id = h.taken_by AND h.taken_by <> h.user_id
             AND m.message_type = 'message' AND m.said_at > extract(epoch FROM h.opened_at)) AS person_answered
FROM last LEFT JOIN counted USING (conversation_id, turn) LEFT JOIN handovers h USING (conversation_id, turn)
LEFT JOIN replied r ON r.channel = last.channel AND r.thread_ts = last.thread_ts
                    AND r.ref = last.team || ':' || last.channel || ':' || last.thread_ts || ':' || last.turn
ORDER BY last.decided_at, last.conversation_id, last.turn
""")
"""Of somebody's thumbs the last one that is there still counts. A thumb on what is no turn's answer counts nowhere. A
person to whom a turn was given answers under its card, from where it is said in the thread, or in the thread itself."""


async def judged_since(tx: Transaction, moment: datetime, team: str = "") -> list[JudgedDecision]:
    """Each turn's last decision since a moment, oldest first, with what came of it; no `team`: of all workspaces."""
    ups = [name for name, up in THUMBS.items() if up]
    return [
        JudgedDecision(
            Thread(row.team, row.channel, row.thread_ts),
            row.turn,
            round_of(row),
            DecisionOutcome(row.outcome) if row.outcome else None,
            *(row.thumbs_up, row.thumbs_down, row.cost_usd, row.decided_at, row.person_answered, row.closed),
        )
        for row in await tx.execute(_JUDGED, {"since": moment, "team": team, "ups": ups})
    ]
