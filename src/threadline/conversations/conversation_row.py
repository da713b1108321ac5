"""The one row under whose lock everything of a conversation is written, and the marks that are read under it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, NestedTransaction, Row, and_, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.conversations.model.conversation import ConversationMarks, ConversationNotFound
from threadline.conversations.tables import conversations
from threadline.slack.model import Thread

Conversation = Row[Any]

_HELD = "threadline.conversations"
"""Under which a connection keeps the rows that its transaction has locked."""

WANTS = r"""
m.message_type = 'message' AND m.redacted_at IS NULL
AND (m.addressed OR m.message_text ~ '\S' OR m.files <> '[]')
"""
"""A message in which there is something to answer: an empty one too, if it is addressed."""
_MARKS = text("""
SELECT c.*, u.earliest IS NOT NULL AS turn_due,
       u.earliest IS NOT NULL AND (u.addressed OR u.calls_nobody AND NOT c.several) AS addressed_due,
       EXISTS (SELECT FROM conversation_messages s
               WHERE s.conversation_id = c.id AND s.message_type = 'stop' AND s.turn IS NULL
                 AND s.said_at > u.earliest) AS stop_due,
       ARRAY(SELECT t.turn FROM conversation_turns t
             WHERE t.conversation_id = c.id AND t.settled_at IS NOT NULL AND t.said_at IS NULL AND t.answer <> ''
             ORDER BY t.turn LIMIT 20) AS unsaid
FROM conversations c CROSS JOIN LATERAL (
    SELECT min(m.said_at) AS earliest, bool_or(m.addressed) AS addressed,
           bool_or(position('<@' IN m.message_text) = 0) AS calls_nobody
    FROM conversation_messages m
    WHERE m.conversation_id = c.id AND m.wants_turn AND (m.turn IS NULL OR m.turn > c.turn)
) u
WHERE c.team = :team AND c.channel = :channel AND c.thread_ts = :thread_ts AND c.stored > 0
""")
"""What was taken up by a turn counts as unused until that turn is settled.

The bot's own mention is not stored: one that is stored calls somebody else.
"""
_USE_STOPS = text(f"""
UPDATE conversation_messages s SET turn = c.turn, step = 0
FROM conversations c
WHERE c.id = :id AND s.conversation_id = c.id AND s.message_type = 'stop' AND s.turn IS NULL
  AND NOT EXISTS (
      SELECT FROM conversation_messages m
      WHERE m.conversation_id = c.id AND m.said_at < s.said_at AND (m.turn IS NULL OR m.turn > c.turn)
        AND (m.wants_turn OR m.verdict IS NULL AND {WANTS}))
""")  # noqa: S608 - both parts are written here
"""A word to stop is over when nothing that was said before it is open, or may come to be once it is judged."""

_DROP_QUESTION = text("""
UPDATE conversations c SET question = ''
WHERE c.id = :id AND c.question <> '' AND (
    SELECT t.user_id FROM conversation_turns t
    WHERE t.conversation_id = c.id AND t.settled_at IS NOT NULL AND t.kind <> 'silent'
    ORDER BY t.turn DESC LIMIT 1) = ANY(:users)
""")


@dataclass(frozen=True)
class _Held:
    """A row as the transaction that has locked it knows it. `savepoint`: within which, if any."""

    row: Conversation
    savepoint: NestedTransaction | None

    @property
    def valid(self) -> bool:
        """A savepoint that was rolled back has given its locks and changes back."""
        return self.savepoint is None or self.savepoint.is_active


async def lock(connection: AsyncConnection, thread: Thread) -> Conversation | None:
    """Wait for the conversation's row and hold it until the transaction ends; None when there is none.

    A transaction locks a row once: from then on nobody else changes it, and `write` returns what it changes.
    """
    held = _held(connection).get(thread)
    if held and held.valid:
        return held.row
    query = select(conversations).where(here(thread))
    row = (await connection.execute(query.with_for_update(key_share=True))).one_or_none()
    if row is not None:
        _hold(connection, row)
    return row


async def locked(connection: AsyncConnection, thread: Thread) -> Conversation:
    """As `lock`.

    Raises:
        ConversationNotFound: nobody has spoken to the bot in this thread.
    """
    row = await lock(connection, thread)
    if row is None:
        raise ConversationNotFound(f"there is no conversation in {thread.key}: speak to the bot there first")
    return row


async def opened(connection: AsyncConnection, thread: Thread) -> Conversation:
    """The locked row, made now if need be; another may be making it too."""
    where = {"team": thread.team, "channel": thread.channel, "thread_ts": thread.ts}
    await connection.execute(insert(conversations).values(where).on_conflict_do_nothing())
    return await locked(connection, thread)


async def id_of(connection: AsyncConnection, thread: Thread) -> int | None:
    """The row's id; None where nobody has spoken to the bot."""
    return (await connection.execute(select(conversations.c.id).where(here(thread)))).scalar_one_or_none()


def here(thread: Thread) -> ColumnElement[bool]:
    row = conversations.c
    return and_(row.team == thread.team, row.channel == thread.channel, row.thread_ts == thread.ts)


async def write(connection: AsyncConnection, conversation_id: int, **values: object) -> None:
    """Change the locked row, raising its revision by one."""
    now: dict[str, object] = {"rev": conversations.c.rev + 1, "last_at": func.now()}
    changed = update(conversations).where(conversations.c.id == conversation_id).values(now | values)
    _hold(connection, (await connection.execute(changed.returning(conversations))).one())


async def use_stops(connection: AsyncConnection, conversation_id: int) -> None:
    """Words to stop that have nothing to stop any more go to the last settled turn."""
    await connection.execute(_USE_STOPS, {"id": conversation_id})


async def drop_question(connection: AsyncConnection, conversation_id: int, users: Sequence[str]) -> None:
    """Some people said to stop: what one of them was asked last waits for nothing any more."""
    if users:
        await connection.execute(_DROP_QUESTION, {"id": conversation_id, "users": list(users)})
        _held(connection).clear()


async def marks(connection: AsyncConnection, thread: Thread) -> ConversationMarks:
    """What is known of the conversation, as this transaction sees it."""
    where = {"team": thread.team, "channel": thread.channel, "thread_ts": thread.ts}
    row = (await connection.execute(_MARKS, where)).one_or_none()
    if row is None:
        return ConversationMarks()
    return ConversationMarks(
        rev=row.rev,
        opened=True,
        stored=row.stored,
        turn=row.turn,
        turn_due=row.turn_due,
        addressed_due=row.addressed_due,
        stop_due=row.stop_due,
        unsaid=next(iter(row.unsaid), 0),
        unsaid_then=tuple(row.unsaid[1:]),
        question=row.question,
        cost_usd=row.cost_usd,
    )


def _held(connection: AsyncConnection) -> dict[Thread, _Held]:
    """The rows that the transaction under way has locked."""
    transaction, info = connection.sync_connection and connection.sync_connection.get_transaction(), connection.info
    if transaction is None or info.get(_HELD, (None,))[0] is not transaction:
        info[_HELD] = (transaction, {})
    held: dict[Thread, _Held] = info[_HELD][1]
    return held


def _hold(connection: AsyncConnection, row: Conversation) -> None:
    savepoint = connection.sync_connection.get_nested_transaction() if connection.sync_connection else None
    _held(connection)[Thread(row.team, row.channel, row.thread_ts)] = _Held(row, savepoint)
