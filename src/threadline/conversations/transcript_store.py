"""What the model reads of a conversation: added to at its end, each entry once, in the order in which it is read."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Row, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.conversations import conversation_row
from threadline.conversations import message_codec as message_body
from threadline.conversations.tables import conversations, transcript
from threadline.db.values import storable_key
from threadline.models.model import Message
from threadline.slack.model import Thread

DELETED = "(deleted by its author)"
"""Stands where a person's words stood."""


@dataclass(frozen=True)
class Placed:
    """A message of the transcript. `place` counts from 1; `key` says what it is, `turn` and `step` when it came."""

    place: int
    key: str
    turn: int
    step: int
    message: Message


@dataclass(frozen=True)
class Transcript:
    """`summary` tells of what came before `messages`, up to the place `summary_until`; empty when that is 0."""

    summary: str = ""
    summary_until: int = 0
    messages: tuple[Placed, ...] = ()


class TranscriptStore:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def append(self, thread: Thread, turn: int, step: int, entries: Sequence[tuple[str, Message]]) -> int:
        """Add messages at the end, each under its key, in their order; what a key has stood for first, stands.

        Returns:
            how many are new.

        Raises:
            ConversationNotFound: nothing is stored in this thread.
        """
        conversation = await conversation_row.locked(self._connection, thread)
        bodies: dict[str, str] = {}
        for key, message in entries:
            bodies.setdefault(storable_key(key), message_body.written(message))
        row = transcript.c
        mine = row.conversation_id == conversation.id
        query = select(row.key).where(mine, row.key.in_(list(bodies)))
        known = set((await self._connection.execute(query)).scalars())
        last = (await self._connection.execute(select(func.max(row.place)).where(mine))).scalar_one() or 0
        given = {"conversation_id": conversation.id, "turn": turn, "step": step}
        new = [{"key": key, "body": body, **given} for key, body in bodies.items() if key not in known]
        if new:
            rows = [{"place": place, **each} for place, each in enumerate(new, start=last + 1)]
            await self._connection.execute(insert(transcript).values(rows))
        return len(new)

    async def at(self, thread: Thread, key: str) -> Message | None:
        """The message under a key; None when there is none."""
        query = select(transcript.c.body).join(conversations, conversations.c.id == transcript.c.conversation_id)
        found = query.where(conversation_row.here(thread), transcript.c.key == storable_key(key))
        body = (await self._connection.execute(found)).scalar_one_or_none()
        return None if body is None else message_body.read(body)

    async def read(self, thread: Thread, *, since: int = 0) -> Transcript:
        """All that no summary tells yet, in order, from a place on; nothing when the thread has no conversation."""
        where = conversation_row.here(thread)
        query = select(conversations.c.id, conversations.c.summary, conversations.c.summary_until).where(where)
        told = (await self._connection.execute(query)).one_or_none()
        if told is None:
            return Transcript()
        row = transcript.c
        after = select(transcript).where(row.conversation_id == told.id, row.place > told.summary_until)
        rows = await self._connection.execute(after.where(row.place >= since).order_by(row.place))
        return Transcript(told.summary, told.summary_until, tuple(_placed(each) for each in rows))

    async def of_turn(self, thread: Thread, turn: int) -> tuple[Placed, ...]:
        """What a turn has brought, in order, whether a summary tells it or not."""
        query = select(transcript).join(conversations, conversations.c.id == transcript.c.conversation_id)
        mine = query.where(conversation_row.here(thread), transcript.c.turn == turn).order_by(transcript.c.place)
        return tuple(_placed(each) for each in await self._connection.execute(mine))

    async def rewrite(self, thread: Thread, key: str, content: str) -> None:
        """Put other words under a key, if it is there. A summary that may tell of the old ones is given up."""
        conversation = await conversation_row.locked(self._connection, thread)
        await _rewrite(self._connection, conversation.id, [storable_key(key)], content)

    async def summarise(self, thread: Thread, summary: str, until: int) -> None:
        """From now on `summary` stands for everything up to the place `until`. One that tells less changes nothing."""
        row = conversations.c
        further = update(conversations).where(conversation_row.here(thread), row.summary_until < until)
        await self._connection.execute(further.values(summary=summary, summary_until=until))


def _placed(row: Row[Any]) -> Placed:
    return Placed(row.place, row.key, row.turn, row.step, message_body.read(row.body))


async def forget_words(connection: AsyncConnection, conversation_id: int, message_ids: Collection[str]) -> None:
    """Take what people have deleted out of the transcript. A summary that may tell of it is given up, to be made anew.

    Args:
        message_ids: of messages and of edits, taken up or not.
    """
    await _rewrite(connection, conversation_id, [storable_key(f"u:{each}") for each in message_ids], DELETED)


async def _rewrite(connection: AsyncConnection, conversation_id: int, keys: Collection[str], content: str) -> None:
    row = transcript.c
    mine = row.conversation_id == conversation_id
    found = (await connection.execute(select(row.place, row.body).where(mine, row.key.in_(keys)))).all()
    for place, body in found:
        message = replace(message_body.read(body), content=content, opaque="")  # which says it in the old words
        at = update(transcript).where(mine, row.place == place)
        await connection.execute(at.values(body=message_body.written(message)))
    if found:
        told = conversations.c.summary_until >= min(place for place, _ in found)
        void = update(conversations).where(conversations.c.id == conversation_id, told)
        await connection.execute(void.values(summary="", summary_until=0))
