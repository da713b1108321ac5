"""HandoverStore and HandoverAnswerStore: turns that were given to a person, and what was written under their cards."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, Select, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.store.conversation import ConversationStore, in_thread
from threadline.conversations.tables import conversations
from threadline.db.engine import Store, Transaction
from threadline.decisions.model import DecisionOutcome
from threadline.decisions.reports import JudgedDecision
from threadline.decisions.store import DecisionStore, round_of
from threadline.handovers.model import Handover
from threadline.handovers.tables import handover_answers, handovers
from threadline.slack.model import FileRef, Thread
from threadline.slack.text import with_forwarded
from threadline.threads.message_table import MessageTable, log_quarantined
from threadline.threads.model import IncomingMessage
from threadline.threads.phrases import THUMBS

_row, _answer = handovers.c, handover_answers.c

_ASKER_MESSAGES = text("""
SELECT message_id, sender_id, message_text, forwarded, files, redacted_at IS NOT NULL AS deleted,
       edited_at IS NOT NULL AS edited
FROM conversation_messages
WHERE conversation_id = :id AND turn = :turn AND message_type IN ('message', 'stop')
  AND (message_text ~ '\\S' OR forwarded <> '' OR files <> '[]' OR redacted_at IS NOT NULL)
ORDER BY said_at, id
""")


@dataclass(frozen=True)
class HandoverMessage:
    """What somebody wrote in the asker's thread or under the card, as it reads now, with what they forward; a deleted
    one has no text."""

    message_id: str
    user_id: str
    text: str
    files: tuple[FileRef, ...]
    deleted: bool
    edited: bool


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
        """Those that nobody has closed, in the order of their ids, from the one behind `after` on."""
        page = _HANDOVERS.where(_row.closed_at.is_(None), _row.conversation_id > after)
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
        return [_message(each, deleted=each.deleted, edited=each.edited) for each in found]

    async def _one(self, query: Select[Any]) -> Handover | None:
        row = (await self._tx.execute(query.limit(1))).first()
        return _handover(row) if row else None

    async def _write(self, ref: ConversationTurn, *where: Any, **values: Any) -> None:
        row = await ConversationStore(self._tx).lock(ref.thread)
        mine = (_row.conversation_id == row.id, _row.turn == ref.turn, *where)
        await self._tx.execute(update(handovers).where(*mine).values(**values))


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


# -- Answers under a card ------------------------------------------------------------------------------------------


_CLEAR_OLD_EDITS = text("""
UPDATE handover_answers a SET message_text = '', forwarded = '', files = '[]'
WHERE a.conversation_id = :id AND a.message_type = 'edit' AND a.correction_of = :original AND EXISTS (
    SELECT FROM handover_answers n
    WHERE n.conversation_id = :id AND n.message_type = 'edit' AND n.correction_of = :original AND n.version > a.version)
""")
"""Of what somebody has edited no older words are kept."""


class HandoverAnswerStore(Store):
    """What people wrote under cards. The catch-up compares Slack with it."""

    async def store(self, ref: ConversationTurn, message: IncomingMessage) -> HandoverMessage | None:
        """Store a message, which is without secrets, and bring what it corrects to its newest wording, whichever of
        them came first. What cannot be read goes into quarantine. Returns what is to be shown: the message, or the one
        that it corrects, as it reads now; None where it was shown before, or what it corrects is not stored."""
        row = await ConversationStore(self._tx).lock(ref.thread)
        if await self.shown_ids([message.id]):
            return None
        stored = await ANSWERS.store(self._tx, ref.thread, row.id, 0, [message], lambda _: {"turn": ref.turn})
        log_quarantined(ref.thread, stored.quarantined)
        original = message.correction_of or message.id
        await self._tx.execute(_CLEAR_OLD_EDITS, {"id": row.id, "original": original})
        mine = (_answer.conversation_id == row.id, _answer.message_id == original)
        found = (await self._tx.execute(select(handover_answers).where(*mine))).one_or_none()
        return _message(found, deleted=found.redacted_at is not None, edited=False) if found else None

    async def restore(self, conversation_id: int, original: str) -> None:
        """Bring back an answer whose deletion was inferred. What was taken out of the asker's thread stays out."""
        row = await ConversationStore(self._tx).lock(await ConversationStore(self._tx).thread_of(conversation_id))
        await ANSWERS.restore(self._tx, row.id, original)

    async def mark_shown(self, ref: ConversationTurn, message_id: str) -> None:
        """A message needs nothing more: it was said to who asks, or there was nothing to say."""
        row = await ConversationStore(self._tx).lock(ref.thread)
        mine = (_answer.conversation_id == row.id, _answer.message_id == message_id)
        await self._tx.execute(update(handover_answers).where(*mine).values(shown_at=func.now()))

    async def ids_under_card(self, ref: ConversationTurn) -> set[str]:
        """The messages that were written under this card; others are under the thread's other cards."""
        conversation = await ConversationStore(self._tx).find_id(ref.thread)
        mine = select(_answer.message_id).where(_answer.conversation_id == conversation, _answer.turn == ref.turn)
        return set((await self._tx.execute(mine)).scalars())

    async def shown_ids(self, ids: Collection[str]) -> set[str]:
        """Which of these messages need nothing more, of whichever handover."""
        shown = select(_answer.message_id).where(_answer.message_id.in_(ids), _answer.shown_at.is_not(None))
        return set((await self._tx.execute(shown)).scalars())


ANSWERS = MessageTable(handover_answers, "conversation_id")


def _message(row: Row[Any], *, deleted: bool, edited: bool) -> HandoverMessage:
    files = tuple(FileRef(**file) for file in row.files)
    shown = with_forwarded(row.message_text, row.forwarded)
    return HandoverMessage(row.message_id, row.sender_id, shown, files, deleted, edited)


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
