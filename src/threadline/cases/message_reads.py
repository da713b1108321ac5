"""What people wrote in a case's threads, and what the bot answered: read in the order in which it was said."""

from collections.abc import Collection, Sequence
from decimal import Decimal

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.cases import conversation_pages as pages
from threadline.cases import message_store as intake
from threadline.cases.model import Marks
from threadline.cases.records import ConversationPage, Entry
from threadline.cases.tables import bug_conversations, cases
from threadline.slack.model import Thread
from threadline.threads import addressing, messages
from threadline.threads.message_table import StoredMessage, seconds
from threadline.threads.messages import IncomingMessage

_ENTRIES = text("""
SELECT * FROM agent_conversations
WHERE bug_id = :bug_id AND message_type <> 'edit' AND (said_at, id) > (:said_at, :id)
ORDER BY said_at, id LIMIT :limit
""")
_REPORT = text("""
SELECT * FROM agent_conversations
WHERE bug_id = :bug_id AND sender_type = 'reporter' AND message_type IN ('report', 'message')
ORDER BY message_type = 'report' DESC, said_at, id LIMIT 1
""")
_OF_REPORTER = text("""
SELECT message_text FROM bug_conversations WHERE bug_id = :bug_id AND sender_type = 'reporter' AND redacted_at IS NULL
UNION ALL SELECT f.name FROM attachments f JOIN bug_conversations m USING (bug_id, message_id)
WHERE f.bug_id = :bug_id AND m.sender_type = 'reporter'
""")


class Conversation:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.quarantined: list[str] = []
        """Ids of what `flush` put into quarantine, to be told to whoever runs the house once that is committed."""

    async def flush(self, thread: Thread, batch: Sequence[IncomingMessage]) -> Marks:
        """Store what arrived in a thread; a report, or a reporter's message, opens its case. Safe to repeat.

        Args:
            thread: the report's thread.
            batch: in any order; an id may occur twice, or be stored already.

        Returns:
            the case's marks; empty ones when the thread has no case and nothing in the batch opens one.
        """
        flushed = await intake.flush(self._connection, thread, batch)
        self.quarantined += flushed.quarantined
        return flushed.marks

    async def entries(self, bug_id: str, cursor: str | None = None, limit: int = 50) -> ConversationPage:
        """A page of the conversation as it reads now, oldest first, the bot's posts among it.

        Raises:
            Permanent: the cursor is none that a page named.
        """
        said_at, identity = pages.position(cursor)
        given = {"bug_id": bug_id, "said_at": said_at, "id": identity, "limit": limit + 1}
        rows = (await self._connection.execute(_ENTRIES, given)).mappings().all()
        return pages.page(rows, limit)

    async def report(self, bug_id: str) -> Entry | None:
        """What opened the case, as it reads now."""
        row = (await self._connection.execute(_REPORT, {"bug_id": bug_id})).mappings().one_or_none()
        return pages.entry(row) if row else None

    async def of_reporter(self, bug_id: str) -> str:
        """All that the reporter has written, with the names of what they attached."""
        return "\n".join((await self._connection.execute(_OF_REPORTER, {"bug_id": bug_id})).scalars())

    async def last_close(self, bug_id: str) -> str:
        """What was said when the case was last asked to be closed."""
        message = bug_conversations.c
        query = select(message.message_text).where(message.bug_id == bug_id, message.message_type == messages.CLOSE)
        said = (await self._connection.execute(query.order_by(message.said_at.desc()).limit(1))).scalar_one_or_none()
        return said or ""

    async def used_by(self, bug_id: str, turn: int) -> list[tuple[str, str]]:
        """(channel, ts) of each message that a turn used and that is still there to be marked."""
        message = bug_conversations.c
        query = select(message.channel, message.slack_ts).where(
            message.bug_id == bug_id,
            message.sender_type != messages.BOT,  # the index's own condition
            message.turn == turn,
            message.message_type.in_((messages.REPORT, messages.MESSAGE, messages.CLOSE)),
            message.redacted_at.is_(None),
        )
        return [(row.channel, row.slack_ts) for row in await self._connection.execute(query.order_by(message.seq))]

    async def developer_spoke_since(self, bug_id: str, moment: float) -> bool:
        """Whether a developer has written after `moment`, in seconds since 1970."""
        message = bug_conversations.c
        query = select(message.id).where(
            message.bug_id == bug_id,
            message.sender_type == messages.DEVELOPER,
            message.message_type.in_((messages.MESSAGE, messages.CLOSE)),
            message.said_at > moment,
        )
        return (await self._connection.execute(query.limit(1))).first() is not None

    async def stored(self, bug_id: str, ids: Collection[str]) -> dict[str, StoredMessage]:
        """Which of these messages are stored, by id, with whatever corrects them."""
        return await intake.MESSAGES.find(self._connection, bug_id, ids)

    async def said_in(
        self, bug_id: str, team: str, channel: str, oldest: Decimal, latest: Decimal
    ) -> list[StoredMessage]:
        """What people are stored to have said in a channel between two moments and not to have deleted."""
        return await intake.MESSAGES.between(self._connection, bug_id, team, channel, oldest, latest)

    async def record_bot_message(self, bug_id: str, kind: str, words: str, channel: str, ts: str) -> None:
        """Keep what the bot posted, once, so that history shows both sides. It wakes nothing and has no `seq`."""
        team = select(cases.c.team).where(cases.c.bug_id == bug_id)
        identity = addressing.message_id((await self._connection.execute(team)).scalar_one(), channel, ts)
        row = {
            "bug_id": bug_id,
            "message_id": identity,
            "sender_type": messages.BOT,
            "sender_id": "",
            "message_type": kind,
            "message_text": messages.clean(words),
            "channel": channel,
            "slack_ts": ts,
            "said_at": seconds(ts),
        }
        await self._connection.execute(insert(bug_conversations).values(row).on_conflict_do_nothing())
