"""What a conversation holds of its own thread as a tool has read it in Slack, whoever wrote there."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.conversations import conversation_row
from threadline.conversations import message_codec as message_body
from threadline.conversations.tables import conversation_messages, conversations, transcript
from threadline.db.values import storable_key
from threadline.slack.model import Thread
from threadline.threads.model import MessageKind, turn_id

TOOLS = ("slack.get.thread", "slack_get_thread")
"""The tool's own name, and its name as providers write it."""
GONE = "(something of it was deleted by its author: read the thread again to see what is left)"

_CALLED = select(transcript.c.turn, transcript.c.step, transcript.c.body).where(
    transcript.c.key.startswith("a:"), transcript.c.body.regexp_match("slack[._]get[._]thread")
)


async def deletions(connection: AsyncConnection, thread: Thread) -> int:
    """How often something was deleted in a thread, as far as is known; -1 once it is forgotten.

    The conversation's row is held, so that it stays so until the transaction ends.
    """
    row = await conversation_row.lock(connection, thread)
    if row is None or not row.stored:
        return -1 if row else 0
    said = conversation_messages.c
    each = select(func.count()).where(said.conversation_id == row.id, said.message_type == MessageKind.DELETION)
    return int((await connection.execute(each)).scalar_one())


async def forget(connection: AsyncConnection, thread: Thread, conversation_id: int) -> list[str]:
    """Take out what was read of a thread in which something was deleted: which words those were, nobody knows any more.

    A summary that may tell of it is given up, to be made anew. The tool may be asked again.

    Returns:
        the keys of the turns that had read it.
    """
    mine = transcript.c.conversation_id == conversation_id
    asked = [
        storable_key(f"t:{turn}:{step}:{call.id}")
        for turn, step, body in await connection.execute(_CALLED.where(mine))
        for call in message_body.read(body).calls
        if call.name in TOOLS
    ]
    rows = await connection.execute(select(transcript).where(mine, transcript.c.key.in_(asked)))
    read = [(each.place, each.turn, message_body.read(each.body)) for each in rows]
    found = [each for each in read if each[2].content != GONE]
    for place, _, message in found:
        at = update(transcript).where(mine, transcript.c.place == place)
        await connection.execute(at.values(body=message_body.written(replace(message, content=GONE))))
    await _void(connection, conversation_id, [place for place, _, _ in found])
    return [turn_id(thread, turn) for turn in sorted({turn for _, turn, _ in found})]


async def _void(connection: AsyncConnection, conversation_id: int, places: Sequence[int]) -> None:
    if places:
        told = conversations.c.summary_until >= min(places)
        void = update(conversations).where(conversations.c.id == conversation_id, told)
        await connection.execute(void.values(summary="", summary_until=0))
