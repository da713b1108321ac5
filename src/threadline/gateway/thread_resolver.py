"""Whose conversation an event belongs to, where the event alone does not say."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import Protocol, TypeVar

import structlog
from temporalio.client import Client, WorkflowExecutionStatus

from threadline.conversations.model.conversation import (
    CONVERSATION_WORKFLOW,
    conversation_workflow_id,
    thread_of_conversation,
)
from threadline.errors import Transient
from threadline.gateway.routes import Addressed, Ignored, IgnoreReason, Overheard, Placed, Sign, StopWord
from threadline.slack.model import Thread
from threadline.threads.model import IncomingMessage, MessageKind, ThreadOwner
from threadline.threads.workflow_client import WorkflowClient

PLACING = 1.0
"""Seconds for the read without which nobody knows whether an event is anybody's business; then Slack keeps it."""

BEGINNING = 600.0
"""Seconds after a thread's first message in which a conversation there may run that the database does not know yet.

People write in other threads all day, and Temporal is not asked about those. Whoever mentions the bot in an older
thread and adds a word before the mention is stored has the word found by the catch-up.
"""

_NEWEST = 5
"""Runs of a direct channel that are looked at for one which is not stored yet: it is the newest, or nearly."""

_T = TypeVar("_T")

_log = structlog.stdlib.get_logger(__name__)


class ThreadLookup(Protocol):
    async def owner(self, thread: Thread) -> ThreadOwner | None:
        """Whose thread it is; None when it is nobody's, or not yet."""
        ...

    async def thread_of_message(self, team: str, channel: str, ts: str) -> Thread | None:
        """The conversation that holds this message, a person's or the bot's; None when none does."""
        ...

    async def working_in(self, team: str, channel: str) -> Thread | None:
        """The conversation in a channel in which something waits for its answer, the last active; None without one."""
        ...


class Placing:
    """Asks the database, and Temporal where a conversation may have begun a moment ago: see `Dispatcher`."""

    def __init__(self, client: Client, threads: ThreadLookup) -> None:
        self._client = client
        self._threads = threads

    async def place(self, route: Placed | Sign | StopWord) -> Placed | Ignored:
        """The route, with the conversation that it belongs to, or ignored when it belongs to none.

        Raises:
            Transient: the database does not say.
        """
        match route:
            case StopWord(own, message):
                return await self._place_stop_word(own, message)
            case Overheard(own, message):
                thread = own if await self._is_followed(own, message.ts) else None
            case Sign(place, message):
                thread = await self._conversation_at(place, message.ts)
            case _:
                return route
        return Overheard(thread, message) if thread else Ignored(IgnoreReason.NOT_FOLLOWED)

    async def _place_stop_word(self, own: Thread, message: IncomingMessage) -> Placed | Ignored:
        """To the conversation at work beside it; what that has stored would else begin one when it is found again."""
        if await self._holding(own, message.ts):
            return Ignored(IgnoreReason.STORED)
        thread = await _in_time(self._threads.working_in(own.team, own.channel), own)
        thread = thread or await self._begun_beside(own)
        return Overheard(thread, message) if thread else Addressed(own, replace(message, kind=MessageKind.MESSAGE))

    async def _is_followed(self, thread: Thread, at: str) -> bool:
        return await self._is_stored(thread) or await self._is_beginning(thread, at)

    async def _is_stored(self, thread: Thread) -> bool:
        owner = await _in_time(self._threads.owner(thread), thread)
        return owner is not None and owner.feature == "conversation"

    async def _conversation_at(self, place: Thread, at: str) -> Thread | None:
        if found := await self._holding(place, place.ts):
            return found
        return place if await self._is_beginning(place, at) else None

    async def _holding(self, place: Thread, ts: str) -> Thread | None:
        return await _in_time(self._threads.thread_of_message(place.team, place.channel, ts), place)

    async def _is_beginning(self, thread: Thread, at: str) -> bool:
        """Whether a conversation runs there of which the database does not know yet: its mention is on its way.

        Somebody may add a word a second after the mention; a worker that is away may take minutes to store it. While
        Temporal does not say, nothing that people say among themselves is held up: if it was for the bot after all,
        the catch-up finds it.
        """
        if not _seconds(at) - _seconds(thread.ts) < BEGINNING:
            return False
        try:
            async with asyncio.timeout(PLACING):
                status = await WorkflowClient(self._client).status(conversation_workflow_id(thread))
        except Exception as exc:  # noqa: BLE001 - whatever Temporal says, the thread is followed by nobody that we know
            _log.warning("conversation_lookup_failed", thread=thread.key, error=type(exc).__name__)
            return False
        return status is WorkflowExecutionStatus.RUNNING

    async def _begun_beside(self, own: Thread) -> Thread | None:
        """The conversation of a direct channel that runs and is not stored yet: its request came a moment before."""
        channel = own.channel.replace("'", "")
        query = (
            f"WorkflowType = '{CONVERSATION_WORKFLOW}' AND CaseChannel = '{channel}' AND ExecutionStatus = 'Running'"
        )
        async for run in self._client.list_workflows(query, page_size=_NEWEST, limit=_NEWEST):
            thread = thread_of_conversation(run.id)
            if thread.team == own.team and not await self._is_stored(thread):
                return thread
        return None


async def _in_time(read: Awaitable[_T], place: Thread) -> _T:
    try:
        async with asyncio.timeout(PLACING):
            return await read
    except Exception as exc:
        raise Transient(
            f"The database lookup of {place.key} failed, so Slack will deliver the event again. If this continues, "
            "check that Postgres runs and that `threadline db upgrade` was run"
        ) from exc


def _seconds(ts: str) -> float:
    """Since 1970; what is no timestamp is of no time at all."""
    try:
        return float(ts)
    except ValueError:
        return float("nan")
