"""HandoverStore and HandoverAnswerStore: turns that were given to a person, and what was written under their cards."""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Numeric, Row, Select, and_, cast, literal, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert

from threadline.conversations import conversation_row
from threadline.conversations.tables import conversations
from threadline.db.engine import Transaction
from threadline.decisions.model import DecisionOutcome, Thresholds
from threadline.decisions.reports import JudgedDecision
from threadline.decisions.store import DecisionStore, decision_of, factors_of, judgement_of
from threadline.handovers.model import Handover, HandoverRef
from threadline.handovers.tables import handover_answers, handovers
from threadline.slack.model import FileRef, Thread
from threadline.threads.message_table import StoredMessage, seconds
from threadline.threads.model import IncomingMessage, MessageKind, SenderType
from threadline.threads.phrases import THUMBS

_CORRECTIONS = (MessageKind.EDIT, MessageKind.DELETION)
_row, _answer = handovers.c, handover_answers.c

_ASKER_MESSAGES = text("""
SELECT message_id, sender_id, message_text, files, redacted_at IS NOT NULL AS deleted,
       edited_at IS NOT NULL AS edited
FROM conversation_messages
WHERE conversation_id = :id AND turn = :turn AND message_type IN ('message', 'stop')
  AND (message_text ~ '\\S' OR files <> '[]' OR redacted_at IS NOT NULL)
ORDER BY said_at, id
""")


@dataclass(frozen=True)
class AskerMessage:
    """What somebody wrote in the asker's thread, as it reads now; of a deleted one nothing is left to read."""

    message_id: str
    user_id: str
    text: str
    files: tuple[FileRef, ...]
    deleted: bool
    edited: bool


class HandoverStore:
    """Whatever changes a handover holds its conversation's row until the transaction ends."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    async def open(self, thread: Thread, turn: int, user_id: str) -> bool:
        """Give a turn to a person, unless a person has the thread already, or the turn was given before.

        Returns:
            whether it is new.
        """
        row = await conversation_row.locked(self._tx, thread)
        if await self.open_for(thread):
            return False
        new = insert(handovers).values(conversation_id=row.id, turn=turn, user_id=user_id)
        made = await self._tx.execute(new.on_conflict_do_nothing().returning(_row.turn))
        return made.first() is not None

    async def get(self, ref: HandoverRef) -> Handover | None:
        return await self._one(_HANDOVERS.where(conversation_row.here(ref.thread), _row.turn == ref.turn))

    async def open_for(self, thread: Thread) -> Handover | None:
        """The thread's handover that nobody has closed."""
        return await self._one(_HANDOVERS.where(conversation_row.here(thread), _row.closed_at.is_(None)))

    async def open_page(self, after: int, limit: int) -> list[Handover]:
        """Those that nobody has closed, in the order of their ids, from the one behind `after` on."""
        page = _HANDOVERS.where(_row.closed_at.is_(None), _row.conversation_id > after)
        page = page.order_by(None).order_by(_row.conversation_id).limit(limit)
        return [_handover(each) for each in await self._tx.execute(page)]

    async def list_for(self, thread: Thread) -> list[Handover]:
        """All of a thread's, the newest first."""
        return [_handover(each) for each in await self._tx.execute(_HANDOVERS.where(conversation_row.here(thread)))]

    async def by_card(self, card: Thread) -> Handover | None:
        """The one whose card is the root of this thread."""
        here = (conversations.c.team == card.team, _row.channel == card.channel, _row.card_ts == card.ts)
        return await self._one(_HANDOVERS.where(*here))

    async def set_card(self, ref: HandoverRef, channel: str, card_ts: str) -> None:
        await self._write(ref, channel=channel, card_ts=card_ts)

    async def take(self, ref: HandoverRef, user_id: str) -> Handover | None:
        """Whoever is first has it, unless it is closed. A person has then taken the turn's decision over."""
        row = await conversation_row.locked(self._tx, ref.thread)
        free = (_row.taken_by == "", _row.closed_at.is_(None))
        await self._write(ref, *free, taken_by=user_id, taken_at=datetime.now(UTC))
        taken = await self.get(ref)
        if taken and taken.taken_by:
            await DecisionStore(self._tx).mark_taken_over(row.id, ref.turn)
        return taken

    async def close(self, ref: HandoverRef, user_id: str, at: float = 0.0) -> Handover | None:
        """Whoever is first has closed it.

        Args:
            at: when the button was pressed, in seconds since 1970; 0 for now.
        """
        closed_at = datetime.fromtimestamp(at, UTC) if at else datetime.now(UTC)
        await self._write(ref, _row.closed_at.is_(None), closed_by=user_id, closed_at=closed_at)
        return await self.get(ref)

    async def record_reminder(self, ref: HandoverRef, number: int) -> None:
        """People were reminded for the `number`th time."""
        await self._write(ref, _row.reminded < number, reminded=number)

    async def asker_messages(self, thread: Thread, turn: int) -> list[AskerMessage]:
        """What people wrote that a turn has taken up."""
        row = await conversation_row.locked(self._tx, thread)
        found = await self._tx.execute(_ASKER_MESSAGES, {"id": row.id, "turn": turn})
        return [
            AskerMessage(
                each.message_id,
                each.sender_id,
                each.message_text,
                tuple(FileRef(**file) for file in each.files),
                each.deleted,
                each.edited,
            )
            for each in found
        ]

    async def _one(self, query: Select[Any]) -> Handover | None:
        row = (await self._tx.execute(query.limit(1))).first()
        return _handover(row) if row else None

    async def _write(self, ref: HandoverRef, *where: Any, **values: Any) -> None:
        row = await conversation_row.locked(self._tx, ref.thread)
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
        HandoverRef(Thread(row.team, row.home, row.thread_ts), row.turn),
        row.user_id,
        row.channel,
        row.card_ts,
        row.taken_by,
        row.closed_by,
        row.closed_at.timestamp() if row.closed_at else 0.0,
        row.reminded,
    )


# -- Answers under a card ------------------------------------------------------------------------------------------


class HandoverAnswerStore:
    """What people wrote under cards and needs nothing more: it was said to who asks, or there was nothing to say.

    The catch-up compares Slack with it.
    """

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    async def newest_wording(self, ref: HandoverRef, message: IncomingMessage) -> IncomingMessage | None:
        """A message by what is stored of its corrections, whichever of them came first.

        Returns:
            an original in its newest wording, and a correction as it is; None where nothing is to be done: the message
            is stored, it is deleted, or a newer edit is stored.
        """
        if message.id in await self.find(ref, [message.id]):
            return None
        about = message.correction_of if message.kind in _CORRECTIONS else message.id
        stored = select(handover_answers).join(conversations).where(_of(ref), _answer.correction_of == about)
        newest_first = ((_answer.message_type == MessageKind.DELETION).desc(), _answer.version.desc())
        query = stored.where(_answer.message_type.in_(_CORRECTIONS)).order_by(*newest_first).limit(1)
        newest = (await self._tx.execute(query)).one_or_none()
        if newest is None or message.kind == MessageKind.DELETION:
            return message
        if newest.message_type == MessageKind.DELETION:
            return None
        if message.kind == MessageKind.EDIT:
            return message if _version(message) >= newest.version else None
        files = tuple(FileRef(**each) for each in newest.files)
        return replace(message, text=newest.message_text, files=files or message.files)

    async def store(self, ref: HandoverRef, message: IncomingMessage) -> None:
        """A message is dealt with. The newest edit of it wins; of what is deleted no words are stored.

        Args:
            message: without secrets; what is stored stays as it was first.
        """
        conversation = await conversation_row.locked(self._tx, ref.thread)
        now = await self.newest_wording(ref, message)
        row = {
            "conversation_id": conversation.id,
            "message_id": message.id,
            "turn": ref.turn,
            "message_type": message.kind,
            "sender_id": message.sender_id,
            "channel": message.channel,
            "slack_ts": message.ts,
            "correction_of": message.correction_of,
            "version": _version(message),
            "deleted": now is None and message.kind not in _CORRECTIONS,
            **_content(None if message.kind == MessageKind.DELETION else now),
        }
        await self._tx.execute(insert(handover_answers).values(row).on_conflict_do_nothing())
        if now and message.kind in _CORRECTIONS:
            await self._correct(conversation.id, now)

    async def find(self, ref: HandoverRef, ids: Collection[str]) -> dict[str, StoredMessage]:
        """Which of these messages are stored, by id, with whatever corrects them."""
        which = or_(_answer.message_id.in_(ids), _answer.correction_of.in_(ids))
        return {each.message_id: each for each in await self._messages(_MESSAGES.where(_of(ref), which))}

    async def between(self, ref: HandoverRef, oldest: Decimal, latest: Decimal) -> list[StoredMessage]:
        """What people wrote between two moments (seconds since 1970, both exclusive) and have not deleted."""
        at = cast(_answer.slack_ts, Numeric)
        there = and_(_answer.message_type == MessageKind.MESSAGE, ~_answer.deleted, at > oldest, at < latest)
        return await self._messages(_MESSAGES.where(_of(ref), there))

    async def stored_ids(self, ids: Collection[str]) -> set[str]:
        """Which of these messages are stored, of whichever handover."""
        stored = select(_answer.message_id).where(_answer.message_id.in_(ids))
        return set((await self._tx.execute(stored)).scalars())

    async def _correct(self, conversation_id: int, newest: IncomingMessage) -> None:
        """Of what it corrects no older words are kept."""
        change = update(handover_answers).where(_answer.conversation_id == conversation_id)
        original = _answer.message_id == newest.correction_of
        edits = and_(_answer.message_type == MessageKind.EDIT, _answer.correction_of == newest.correction_of)
        older = change.where(edits, _answer.message_id != newest.id)
        await self._tx.execute(older.values(_content(None)))
        if newest.kind == MessageKind.DELETION:
            await self._tx.execute(change.where(original).values(deleted=True, **_content(None)))
        else:
            await self._tx.execute(change.where(original, ~_answer.deleted).values(_content(newest)))

    async def _messages(self, query: Select[tuple[str, str, str, str, str, str, str]]) -> list[StoredMessage]:
        return [StoredMessage(**row) for row in (await self._tx.execute(query)).mappings()]


_MESSAGES = select(
    _answer.message_id,
    _answer.message_type,
    _answer.sender_id,
    literal(SenderType.DEVELOPER).label("sender_type"),
    _answer.message_text,
    _answer.channel,
    _answer.slack_ts,
).join(conversations)


def _version(message: IncomingMessage) -> Decimal:
    return seconds(message.version) if message.version else Decimal(0)


def _content(message: IncomingMessage | None) -> dict[str, Any]:
    """The columns of what is to be read of a message; None: nothing."""
    if message is None:
        return {"message_text": "", "files": []}
    return {"message_text": message.text, "files": [asdict(file) for file in message.files]}


def _of(ref: HandoverRef) -> ColumnElement[bool]:
    return and_(conversation_row.here(ref.thread), _answer.turn == ref.turn)


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
    FROM thumbs t JOIN conversations c ON c.id = t.conversation_id
    JOIN LATERAL (SELECT substring(key FROM ':turn:([0-9]{1,9})(?:#[0-9]+)?$')::int AS turn FROM posts
                  WHERE channel = c.channel AND ts = t.message_ts AND key LIKE 'talk:%') p ON p.turn IS NOT NULL
    WHERE t.put
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
"""Of somebody's thumbs the last one that is there still counts. A thumb on what is no turn's answer counts nowhere.

A person to whom a turn was given answers under its card, from where it is said in the thread, or in the thread itself.
"""


async def judged_since(tx: Transaction, moment: datetime, team: str = "") -> list[JudgedDecision]:
    """Each turn's last decision since a moment, oldest first, with what came of it and what people thought of it.

    Args:
        team: the workspace's id; empty for all.
    """
    ups = [name for name, up in THUMBS.items() if up]
    return [_judged(row) for row in await tx.execute(_JUDGED, {"since": moment, "team": team, "ups": ups})]


def _judged(row: Row[Any]) -> JudgedDecision:
    return JudgedDecision(
        Thread(row.team, row.channel, row.thread_ts),
        row.turn,
        row.round,
        row.variant,
        row.prompt_version,
        decision_of(row),
        Thresholds(row.threshold_high, row.threshold_low),
        factors_of(row),
        judgement_of(row),
        DecisionOutcome(row.outcome) if row.outcome else None,
        row.thumbs_up,
        row.thumbs_down,
        row.cost_usd,
        row.decided_at,
        row.person_answered,
        row.closed,
    )
