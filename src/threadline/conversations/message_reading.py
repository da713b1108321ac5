"""What the model is to read of what people said: taken up once, for one call of it, as it reads by then."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.conversations import conversation_row
from threadline.conversations.transcript_store import DELETED
from threadline.slack.model import FileRef, Thread

_TAKE_UP = text("""
UPDATE conversation_messages SET turn = :turn, step = :step WHERE conversation_id = :id AND wants_turn AND turn IS NULL
  AND (CAST(:until AS bigint) IS NULL OR (said_at, seq) < (
      SELECT u.said_at, u.seq FROM conversation_messages u WHERE u.conversation_id = :id AND u.seq = :until))
""")
_TAKE_UP_EDITS = text("""
UPDATE conversation_messages e SET turn = :turn, step = :step
FROM conversation_messages o
WHERE e.conversation_id = :id AND e.message_type = 'edit' AND e.turn IS NULL
  AND o.conversation_id = e.conversation_id AND o.message_id = e.correction_of AND o.turn IS NOT NULL
""")
_AS_IT_READS = "m.message_id, m.sender_id, m.message_text, m.files, m.said_at, m.redacted_at, m.addressed"
_TAKEN_UP = f"""
SELECT {_AS_IT_READS}, '' AS corrects, m.seq, m.step
FROM conversation_messages m
WHERE m.conversation_id = :id AND m.turn = :turn AND m.message_type = 'message'
UNION ALL
SELECT e.message_id, o.sender_id, o.message_text, o.files, o.said_at, o.redacted_at, o.addressed, o.message_id, e.seq,
       e.step
FROM conversation_messages e JOIN conversation_messages o
     ON o.conversation_id = e.conversation_id AND o.message_id = e.correction_of
WHERE e.conversation_id = :id AND e.turn = :turn AND e.message_type = 'edit'
  AND (o.turn, o.step) < (e.turn, e.step) AND o.redacted_at IS NULL
  AND NOT EXISTS (SELECT FROM conversation_messages later
                  WHERE later.conversation_id = e.conversation_id AND later.message_type = 'edit'
                    AND later.correction_of = e.correction_of AND later.version > e.version)
"""  # noqa: S608 - both parts are written here
"""An edit is shown when its original was shown before; else the original has its wording."""
_TAKEN = text(f"SELECT * FROM ({_TAKEN_UP}) t WHERE t.step = :step ORDER BY said_at, seq")  # noqa: S608 - as above
_UNREAD = text(f"""
SELECT * FROM ({_TAKEN_UP}) t
WHERE NOT EXISTS (SELECT FROM transcript r WHERE r.conversation_id = :id AND r.key = 'u:' || t.message_id)
ORDER BY said_at, seq
""")  # noqa: S608 - as above
_UNUSED = text(f"""
SELECT {_AS_IT_READS}, '' AS corrects FROM conversation_messages m
WHERE m.conversation_id = :id AND m.wants_turn AND (m.turn IS NULL OR m.turn > :turn) ORDER BY m.said_at, m.seq
""")  # noqa: S608 - as above
_FRESH = text(f"""
SELECT {_AS_IT_READS}, '' AS corrects, m.seq FROM conversation_messages m
WHERE m.conversation_id = :id AND m.wants_turn AND m.turn IS NULL ORDER BY m.said_at, m.seq
""")  # noqa: S608 - as above
_ASKERS = text("""
SELECT * FROM (
    SELECT DISTINCT ON (m.sender_id) m.sender_id, m.message_id, m.addressed, m.said_at, m.seq
    FROM conversation_messages m
    WHERE m.conversation_id = :id AND m.turn = :turn AND m.step <= :step AND m.message_type = 'message'
    ORDER BY m.sender_id, m.addressed DESC, m.said_at DESC, m.seq DESC
) newest ORDER BY addressed, said_at, seq
""")
"""Who speaks to the bot comes after who only speaks."""


@dataclass(frozen=True)
class TakenUp:
    """A message for the model, as it reads now. `said_at`: seconds since 1970.

    `corrects` is empty, or the id of a message that the model has read before and whose new wording this is.
    """

    message_id: str
    author_id: str
    text: str
    files: tuple[FileRef, ...] = ()
    said_at: float = 0.0
    corrects: str = ""
    addressed: bool = False


@dataclass(frozen=True)
class Asker:
    """Somebody who wrote in a turn, and the last message of theirs in it: to the bot, if any was."""

    user_id: str
    message_id: str


Stays = Callable[[TakenUp], bool]
"""Whether a message is left for the next turn; what was said after it is left with it."""


async def take_up(
    connection: AsyncConnection, thread: Thread, turn: int, step: int, stays: Stays | None = None
) -> list[TakenUp]:
    """See `ConversationStore.take_up`."""
    row = await conversation_row.locked(connection, thread)
    which = {"id": row.id, "turn": turn, "step": step}
    if turn > row.turn and (turn, step) > (row.taken_turn, row.taken_step):
        await connection.execute(_TAKE_UP, which | {"until": await _first_to_stay(connection, row.id, stays)})
        await connection.execute(_TAKE_UP_EDITS, which)
        await conversation_row.write(connection, row.id, taken_turn=turn, taken_step=step)
    return [_taken(each) for each in await connection.execute(_TAKEN, which)]


async def _first_to_stay(connection: AsyncConnection, conversation_id: int, stays: Stays | None) -> int | None:
    if stays is None:
        return None
    fresh = (await connection.execute(_FRESH, {"id": conversation_id})).all()
    return next((each.seq for each in fresh if stays(_taken(each))), None)


async def open_step(connection: AsyncConnection, thread: Thread, turn: int, step: int) -> int:
    """See `ConversationStore.open_step`."""
    row = await conversation_row.locked(connection, thread)
    if turn <= row.turn:
        return 0
    return max(step, row.taken_step) if row.taken_turn == turn else step


async def unread(connection: AsyncConnection, thread: Thread, turn: int) -> list[TakenUp]:
    """See `ConversationStore.unread`."""
    row = await conversation_row.locked(connection, thread)
    return [_taken(each) for each in await connection.execute(_UNREAD, {"id": row.id, "turn": turn})]


async def unused(connection: AsyncConnection, thread: Thread) -> list[TakenUp]:
    """See `ConversationStore.unused`."""
    row = await conversation_row.locked(connection, thread)
    return [_taken(each) for each in await connection.execute(_UNUSED, {"id": row.id, "turn": row.turn})]


async def askers(connection: AsyncConnection, thread: Thread, turn: int, step: int) -> list[Asker]:
    """See `ConversationStore.askers`."""
    row = await conversation_row.locked(connection, thread)
    found = await connection.execute(_ASKERS, {"id": row.id, "turn": turn, "step": step})
    return [Asker(each.sender_id, each.message_id) for each in found]


def _taken(row: Row[Any]) -> TakenUp:
    return TakenUp(
        message_id=row.message_id,
        author_id=row.sender_id,
        text=DELETED if row.redacted_at else row.message_text,
        files=tuple(FileRef(**file) for file in row.files),
        said_at=float(row.said_at),
        corrects=row.corrects,
        addressed=row.addressed,
    )
