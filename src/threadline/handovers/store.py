"""Turns that were given to a person: where they are shown, who has taken them, and whether that is over."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, Select, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.conversations import conversation_row
from threadline.conversations.tables import conversations
from threadline.db.engine import Transaction
from threadline.decisions.model import DecisionOutcome, Thresholds
from threadline.decisions.reports import JudgedDecision
from threadline.decisions.store import DecisionStore, decision_of, factors_of, judgement_of
from threadline.handovers.model import HandoverRef
from threadline.handovers.tables import handovers
from threadline.slack.model import FileRef, Thread
from threadline.threads.phrases import THUMBS

_SAID = text("""
SELECT message_id, sender_id, message_text, files, redacted_at IS NOT NULL AS deleted,
       edited_at IS NOT NULL AS edited
FROM conversation_messages
WHERE conversation_id = :id AND turn = :turn AND message_type IN ('message', 'stop')
  AND (message_text ~ '\\S' OR files <> '[]' OR redacted_at IS NOT NULL)
ORDER BY said_at, id
""")


@dataclass(frozen=True)
class Handover:
    """`user_id`: who asked. `channel` and `card_ts` are empty until it is shown; `closed_by` while it is open.

    `closed_at`: when that was pressed, in seconds since 1970. `reminded`: how often people were.
    """

    ref: HandoverRef
    user_id: str
    channel: str = ""
    card_ts: str = ""
    taken_by: str = ""
    closed_by: str = ""
    closed_at: float = 0.0
    reminded: int = 0

    @property
    def open(self) -> bool:
        return not self.closed_by

    def closed_before(self, at: float) -> bool:
        """Whether it was over at a moment, in seconds since 1970: what was written until then counts, whenever it
        arrives."""
        return not self.open and self.closed_at <= at


@dataclass(frozen=True)
class OpenHandover:
    """One that nobody has closed; `id` is its place in the order of all."""

    id: int
    ref: HandoverRef


@dataclass(frozen=True)
class SaidMeanwhile:
    message_id: str
    user_id: str
    text: str
    files: tuple[FileRef, ...]
    deleted: bool
    edited: bool


class Handovers:
    """Whatever changes one holds its conversation's row until the transaction ends."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def open(self, thread: Thread, turn: int, user_id: str) -> bool:
        """Give a turn to a person; where the thread is with one already, or was given for this turn, nothing happens.

        Returns:
            whether it is new.
        """
        row = await conversation_row.locked(self._connection, thread)
        if await self.open_in(thread):
            return False
        new = insert(handovers).values(conversation_id=row.id, turn=turn, user_id=user_id)
        made = await self._connection.execute(new.on_conflict_do_nothing().returning(handovers.c.turn))
        return made.first() is not None

    async def of(self, ref: HandoverRef) -> Handover | None:
        return await self._one(_HANDOVERS.where(conversation_row.here(ref.thread), handovers.c.turn == ref.turn))

    async def open_in(self, thread: Thread) -> Handover | None:
        """The one that nobody has closed."""
        return await self._one(_HANDOVERS.where(conversation_row.here(thread), handovers.c.closed_at.is_(None)))

    async def open_after(self, after: int, limit: int) -> list[OpenHandover]:
        """A page of those that nobody has closed, in order: a conversation has one at most."""
        row = handovers.c
        query = _HANDOVERS.where(row.closed_at.is_(None), row.conversation_id > after)
        page = query.order_by(None).order_by(row.conversation_id).limit(limit)
        return [OpenHandover(each.conversation_id, _read(each).ref) for each in await self._connection.execute(page)]

    async def all_in(self, thread: Thread) -> list[Handover]:
        """The newest first, those that somebody has closed included."""
        rows = await self._connection.execute(_HANDOVERS.where(conversation_row.here(thread)))
        return [_read(each) for each in rows]

    async def at(self, place: Thread) -> Handover | None:
        """The one that is shown as the root of this thread."""
        here = (conversations.c.team == place.team, handovers.c.channel == place.channel)
        return await self._one(_HANDOVERS.where(*here, handovers.c.card_ts == place.ts))

    async def shown(self, ref: HandoverRef, channel: str, card_ts: str) -> None:
        await self._write(ref, channel=channel, card_ts=card_ts)

    async def take(self, ref: HandoverRef, user_id: str) -> Handover | None:
        """Whoever was first has it. What the decision came to is then known: a person has taken over."""
        row = await conversation_row.locked(self._connection, ref.thread)
        untaken = handovers.c.taken_by == ""
        await self._write(ref, untaken, taken_by=user_id, taken_at=_now())
        await DecisionStore(self._connection).mark_taken_over(row.id, ref.turn)
        return await self.of(ref)

    async def close(self, ref: HandoverRef, user_id: str, at: float = 0.0) -> Handover | None:
        """The first word stands. `at`: when it was said, in seconds since 1970; 0 for now."""
        closed_at = datetime.fromtimestamp(at, UTC) if at else _now()
        await self._write(ref, handovers.c.closed_at.is_(None), closed_by=user_id, closed_at=closed_at)
        return await self.of(ref)

    async def reminded(self, ref: HandoverRef, number: int) -> None:
        """People were reminded for the `number`th time."""
        await self._write(ref, handovers.c.reminded < number, reminded=number)

    async def said_in(self, thread: Thread, turn: int) -> list[SaidMeanwhile]:
        """What people wrote that a turn has taken up, as it reads now; of what was deleted nothing is left to read."""
        row = await conversation_row.locked(self._connection, thread)
        rows = await self._connection.execute(_SAID, {"id": row.id, "turn": turn})
        return [_said(each) for each in rows]

    async def _one(self, query: Select[Any]) -> Handover | None:
        rows: Sequence[Row[Any]] = (await self._connection.execute(query.limit(1))).all()
        return _read(rows[0]) if rows else None

    async def _write(self, ref: HandoverRef, *where: Any, **values: Any) -> None:
        row = await conversation_row.locked(self._connection, ref.thread)
        mine = (handovers.c.conversation_id == row.id, handovers.c.turn == ref.turn, *where)
        await self._connection.execute(update(handovers).where(*mine).values(**values))


_HANDOVERS = (
    select(handovers, conversations.c.team, conversations.c.channel.label("home"), conversations.c.thread_ts)
    .join(conversations)
    .order_by(handovers.c.turn.desc())
)


def _now() -> datetime:
    return datetime.now(UTC)


def _read(row: Row[Any]) -> Handover:
    ref = HandoverRef(Thread(row.team, row.home, row.thread_ts), row.turn)
    closed_at = row.closed_at.timestamp() if row.closed_at else 0.0
    return Handover(ref, row.user_id, row.channel, row.card_ts, row.taken_by, row.closed_by, closed_at, row.reminded)


def _said(row: Row[Any]) -> SaidMeanwhile:
    files = tuple(FileRef(**each) for each in row.files)
    return SaidMeanwhile(row.message_id, row.sender_id, row.message_text, files, row.deleted, row.edited)


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
