"""The conversation's row is locked once in a transaction, and again only after the rollback of a
savepoint released it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.support.conversation_store import THREAD, StoredConversation, mention, other, talk
from tests.support.patience import patient
from threadline.conversations.store.conversation import ConversationStore
from threadline.db.engine import savepoint

__all__ = ["other", "talk"]


@contextmanager
def locks(connection: AsyncConnection) -> Iterator[list[str]]:
    """The statements of a connection that lock rows."""
    found: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        found.extend([statement] if "FOR NO KEY UPDATE" in statement else [])

    event.listen(connection.sync_connection, "before_cursor_execute", note)
    yield found
    event.remove(connection.sync_connection, "before_cursor_execute", note)


async def test_row_is_locked_once_and_read_as_it_was_changed(talk: StoredConversation) -> None:
    await talk.hear(mention(0))
    async with talk.database.begin() as tx:
        with locks(tx) as found:
            before = await ConversationStore(tx).lock(THREAD)
            await ConversationStore(tx).change(THREAD, question="Which?")
            after = await ConversationStore(tx).lock(THREAD)
        assert (len(found), after.rev, after.question) == (1, before.rev + 1, "Which?")
    async with talk.database.begin() as tx:
        with locks(tx) as found:
            assert (await ConversationStore(tx).lock(THREAD)).question == "Which?"
        assert len(found) == 1, "another transaction"


async def test_row_is_locked_again_once_a_savepoint_was_rolled_back(
    talk: StoredConversation, other: StoredConversation
) -> None:
    await talk.hear(mention(0))
    async with talk.database.begin() as tx:
        with suppress(ZeroDivisionError):
            async with savepoint(tx):
                async with savepoint(tx):
                    await ConversationStore(tx).change(THREAD, question="Which?")
                with locks(tx) as found:
                    await ConversationStore(tx).lock(THREAD)
                assert not found, "its lock is kept with its savepoint"
                raise ZeroDivisionError
        await asyncio.wait_for(other.hear(mention(1)), patient(10))
        assert (await ConversationStore(tx).lock(THREAD)).question == ""


async def test_author_of_the_root_with_characters_that_postgres_refuses_is_no_fault(
    talk: StoredConversation,
) -> None:
    await talk.hear(replace(mention(0), root_author_id="U\x00B\ud800"))
    async with talk.database.begin() as tx:
        assert (await ConversationStore(tx).lock(THREAD)).first_author
