"""A conversation played on the real database: people's messages, the guards' verdicts, and the
ends of turns.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.case_store import REPORTER, STRANGER, THREAD, deletion, edit, identity, said, ts
from threadline.conversations.model.conversation import ConversationSnapshot, OutcomeKind, Refusal
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import ConversationBatch, MessageStore, TurnMessage
from threadline.conversations.store.transcript import Transcript, TranscriptStore
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Database
from threadline.errors import Transient
from threadline.models.model import Message, Role
from threadline.slack.model import Thread
from threadline.threads.model import IncomingMessage, MessageKind, SenderType

__all__ = ["REPORTER", "STRANGER", "THREAD", "deletion", "edit", "identity", "ts"]


def says(at: float, words: str = "any news", **more: Any) -> IncomingMessage:
    """A message `at` seconds after the thread's first one."""
    return said(
        at, words, by=SenderType.UNKNOWN, sender_id=more.pop("sender_id", REPORTER), **more
    )


def mention(at: float, words: str = "any news", **more: Any) -> IncomingMessage:
    return says(at, words, addressed=True, **more)


def stop(at: float, **more: Any) -> IncomingMessage:
    return says(at, "stop", kind=MessageKind.STOP, **more)


@dataclass(frozen=True)
class StoredBatch(ConversationBatch):
    """A batch with the thread's state after it, in which nothing is judged yet."""

    snapshot: ConversationSnapshot = field(default_factory=ConversationSnapshot)


class StoredConversation:
    def __init__(self, database: Database, thread: Thread = THREAD) -> None:
        self.database = database
        self.thread = thread

    async def store(self, *batch: IncomingMessage) -> StoredBatch:
        async with self.database.begin() as tx:
            stored = await MessageStore(tx).store(self.thread, batch)
            snapshot = ConversationSnapshot()
            if stored.exists:
                snapshot = await MessageStore(tx).judge(self.thread, {})
            return StoredBatch(**vars(stored), snapshot=snapshot)

    async def store_with_retries(self, *batch: IncomingMessage) -> StoredBatch:
        """Store messages as Temporal has it done: a busy database is asked again."""
        while True:
            try:
                return await self.store(*batch)
            except Transient:
                continue

    async def judge(self, verdicts: Mapping[str, Refusal | None]) -> ConversationSnapshot:
        async with self.database.begin() as tx:
            return await MessageStore(tx).judge(self.thread, verdicts)

    async def hear(self, *batch: IncomingMessage) -> ConversationSnapshot:
        """Store messages, and let the guards pass them."""
        stored = await self.store(*batch)
        if not stored.unjudged:
            return stored.snapshot
        return await self.judge({each.message_id: None for each in stored.unjudged})

    async def snapshot(self) -> ConversationSnapshot:
        async with self.database.begin() as tx:
            return await ConversationStore(tx).snapshot(self.thread)

    async def take_up(self, turn: int, step: int = 1) -> list[TurnMessage]:
        """Take messages up as `think` does: the transcript gets them in the same transaction."""
        async with self.database.begin() as tx:
            taken, _ = await MessageStore(tx).take_up(self.thread, turn, step)
            words = [
                (f"u:{each.message_id}", Message(Role.USER, each.text, author=each.author_id))
                for each in taken
            ]
            await TranscriptStore(tx).append(self.thread, turn, step, words)
            return taken

    async def settle(
        self,
        turn: int,
        answer: str = "Done.",
        kind: OutcomeKind = OutcomeKind.ANSWERED,
        question: str = "",
        user: str = REPORTER,
    ) -> ConversationSnapshot:
        async with self.database.begin() as tx:
            await TurnStore(tx).settle(
                self.thread, turn, kind, answer, user, model_calls=1, question=question
            )
            return await ConversationStore(tx).snapshot(self.thread)

    async def said(self, turn: int) -> ConversationSnapshot:
        async with self.database.begin() as tx:
            await TurnStore(tx).mark_posted(self.thread, turn)
            return await ConversationStore(tx).snapshot(self.thread)

    async def turn(self, turn: int, answer: str = "Done.", **more: Any) -> ConversationSnapshot:
        """Play a whole turn, and post its answer."""
        await self.take_up(turn)
        await self.settle(turn, answer, **more)
        return await self.said(turn)

    async def append(self, *entries: tuple[str, Message], turn: int = 1, step: int = 1) -> None:
        async with self.database.begin() as tx:
            await TranscriptStore(tx).append(self.thread, turn, step, entries)

    async def read(self) -> Transcript:
        async with self.database.begin() as tx:
            return await TranscriptStore(tx).read(self.thread)

    async def rows(self, query: str, **given: object) -> Sequence[Mapping[str, Any]]:
        """Run any query as the database's owner."""
        async with self.database.begin() as tx:
            return [dict(row) for row in (await tx.execute(text(query), given)).mappings()]

    async def do(self, statement: str, **given: object) -> None:
        async with self.database.begin() as tx:
            await tx.execute(text(statement), given)


def texts(taken: Sequence[TurnMessage]) -> list[str]:
    return [each.text for each in taken]


def flags(snapshot: ConversationSnapshot) -> tuple[bool, bool, bool]:
    """Return whether a turn is due, whether it addresses the bot, and whether a user said to
    stop.
    """
    return snapshot.turn_due, snapshot.addressed_due, snapshot.stop_due


@pytest.fixture
def talk(database: Database) -> StoredConversation:
    return StoredConversation(database)


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[StoredConversation]:
    """The same thread on another worker."""
    database = Database(database_url)
    yield StoredConversation(database)
    await database.dispose()
