"""MentionHints: messages whose mention Slack tells of, fetched in case their own events do not come.

Slack sends `app_mention` beside a `message` event, and alone where the bot was invited by its mention or where an edit
mentions it: https://docs.slack.dev/reference/events/app_mention. It carries no files, so the message itself is read and
takes the route of any message. One that came by its own event too is stored once, by its id.

A hint is lost with the process; then the catch-up finds the message.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import structlog

from threadline.errors import Permanent, Transient
from threadline.slack.fields import string_field
from threadline.slack.history import RawMessage
from threadline.slack.model import Thread
from threadline.threads.comparison import posted_event
from threadline.threads.contract import Handled

PAUSES = (2.0, 10.0, 30.0)
"""Seconds before each attempt: the message's own event usually comes first, and the bot may join a moment later."""
MOST = 50
"""Hints that wait at the same time; of further ones the catch-up finds the messages."""

Route = Callable[[Mapping[str, Any]], Awaitable[Handled]]
_log = structlog.stdlib.get_logger(__name__)


class MessageSource(Protocol):
    async def message(self, channel: str, ts: str) -> RawMessage | None: ...


class StoredMessages(Protocol):
    async def thread_of_message(self, team: str, channel: str, ts: str) -> Thread | None: ...


class MentionHints:
    """Follows hints in the background: no event waits for Slack.

    Args:
        team: our workspace.
        history: reads a message.
        stored: knows the messages of conversations.
        route: takes an event as Slack would have delivered it.
    """

    def __init__(
        self,
        team: str,
        history: MessageSource,
        stored: StoredMessages,
        route: Route,
        pauses: tuple[float, ...] = PAUSES,
    ) -> None:
        self._team = team
        self._history = history
        self._stored = stored
        self._route = route
        self._pauses = pauses
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, body: Mapping[str, Any]) -> None:
        """Follow the `app_mention` in a delivery."""
        event = body.get("event")
        if not isinstance(event, Mapping):
            return
        channel, ts = string_field(event, "channel"), string_field(event, "ts")
        if not channel or not ts or len(self._tasks) >= MOST:
            return
        task = asyncio.create_task(self._follow(channel, ts, string_field(event, "parent_user_id")))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, channel: str, ts: str, parent_user: str) -> None:
        for pause in self._pauses:
            await asyncio.sleep(pause)
            try:
                if await self._deliver(channel, ts, parent_user):
                    return
            except (Permanent, Transient) as error:
                _log.info("mention_not_followed", channel=channel, ts=ts, reason=str(error))
            except Exception:  # noqa: BLE001 - whatever is wrong, the catch-up finds the message
                _log.exception("mention_not_followed", channel=channel, ts=ts)

    async def _deliver(self, channel: str, ts: str, parent_user: str) -> bool:
        """Route the message unless it is stored. Returns whether nothing is left to do."""
        if await self._stored.thread_of_message(self._team, channel, ts):
            return True
        message = await self._history.message(channel, ts)
        if message is None:
            return False
        parent = string_field(message, "parent_user_id") or parent_user
        handled = await self._route(posted_event(self._team, channel, message, parent).body)
        _log.info("mention_followed", channel=channel, ts=ts, outcome=handled.outcome)
        return True
