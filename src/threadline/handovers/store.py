"""Turns that were given to a person: where they are shown, who has taken them, and whether that is over."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, Select, and_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.conversations import conversation_row
from threadline.conversations.tables import conversations
from threadline.decisions.model import Result
from threadline.decisions.tables import decisions
from threadline.handovers.model import HandoverRef
from threadline.handovers.tables import handovers
from threadline.slack.model import FileRef, Thread

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
        mine = and_(decisions.c.conversation_id == row.id, decisions.c.turn == ref.turn)
        await self._connection.execute(update(decisions).where(mine).values(outcome=Result.TAKEN_OVER.value))
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
