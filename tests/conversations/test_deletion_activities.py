"""Somebody deletes a message while a tool reads the thread: the tool's result is not kept."""

from collections.abc import Awaitable, Callable
from datetime import datetime

import pytest

from tests.support.conversation_activities import ConversationActivityScene, Make, make_talk
from tests.support.role_fakes import with_roles
from threadline.conversations.contract import ActRequest
from threadline.conversations.model.conversation import Execution
from threadline.conversations.prompt import TurnNote
from threadline.conversations.store.transcript import REMOVED, TranscriptStore
from threadline.conversations.thread_tool import TOOLS, ThreadPart, ThreadReader
from threadline.models.model import Message, Role, ToolCall
from threadline.slack.client import SlackMessage
from threadline.slack.model import Thread
from threadline.tools.context import Services
from threadline.tools.model import ToolStatus
from threadline.tools.registry import ToolRegistry
from threadline_devstack.slack.identity import REPORTER

__all__ = ["make_talk"]

SECRET = "the client pays two millions"
CALL = ToolCall("call_1", "slack_get_thread", "{}")
Happening = Callable[[], Awaitable[None]]


class Reader(ThreadReader):
    """Slack returns the messages; `meanwhile` happens before the caller gets them."""

    def __init__(self) -> None:
        self.said = SECRET
        self.meanwhile: list[Happening] = []

    async def read(self, thread: Thread, since: datetime | None, limit: int) -> ThreadPart:
        said = self.said
        if self.meanwhile:
            await self.meanwhile.pop()()
        return ThreadPart([SlackMessage("1772445600.000100", said, user=REPORTER)])


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
async def talk(make_talk: Make, reader: Reader) -> ConversationActivityScene:
    """A turn whose model has called the tool that reads the thread."""
    made = make_talk(
        with_model=False,
        registry=ToolRegistry(TOOLS),
        services=with_roles(Services()).with_service(ThreadReader, reader),
    )
    asked = made.message("what was said here?")
    await made.said(asked)
    await made.begin()
    note = TurnNote(1, made.at, REPORTER, "Rita", asked.id).message()
    reply = Message(Role.ASSISTANT, "", (CALL,))
    async with made.database.begin() as tx:
        await TranscriptStore(tx).append(made.thread, 1, 1, [("c:1", note), ("a:1:1", reply)])
    return made


async def read(talk: ConversationActivityScene) -> Execution:
    (done,) = await talk.run(talk.activities.act, ActRequest(talk.thread, 1, 1, (CALL,)))
    return done


async def kept(talk: ConversationActivityScene) -> tuple[str, str | None]:
    """The content of the call in the transcript, and its data on record, which never include the
    text.
    """
    (row,) = await talk.rows("SELECT result->>'data' AS data FROM agent_tool_executions")
    return next(
        message.content for key, message in await talk.transcript() if key.startswith("t:")
    ), row["data"]


async def test_result_read_during_a_deletion_is_stored_nowhere(
    talk: ConversationActivityScene, reader: Reader
) -> None:
    async def delete() -> None:
        await talk.said(talk.deletion(talk.message("")))

    reader.meanwhile = [delete]
    for _ in range(2):  # the result was lost, so the call is repeated
        assert (await read(talk)).status is ToolStatus.OK
        assert await kept(talk) == (REMOVED, None)


async def test_earlier_deletion_removes_nothing(talk: ConversationActivityScene) -> None:
    await talk.said(talk.deletion(talk.message("")))
    await read(talk)
    shown, on_record = await kept(talk)
    assert SECRET in shown
    assert on_record is None


async def test_repeated_call_shows_the_remaining_messages(
    talk: ConversationActivityScene, reader: Reader
) -> None:
    """As if the transcript had been lost, and the deletion came before the next attempt."""
    await read(talk)
    async with talk.database.begin() as tx:
        await tx.exec_driver_sql("DELETE FROM transcript_entries WHERE key LIKE 't:%'")
    await talk.said(talk.deletion(talk.message("")))
    reader.said = "(deleted)"
    await read(talk)
    shown, on_record = await kept(talk)
    assert on_record is None
    assert SECRET not in shown
