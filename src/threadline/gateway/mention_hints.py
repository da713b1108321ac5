"""MentionHints: messages that an `app_mention` names, fetched in case their own events do not
come.

Slack sends `app_mention` beside a `message` event, and without one where the bot was invited by
its mention or where an edit mentions it: https://docs.slack.dev/reference/events/app_mention. It
carries no files, so the message itself is read and takes the route of any message. A message or an
edit that also came by its own event is stored once, by its id.

A hint is lost with the process; the catch-up then finds the message.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from threadline.errors import Permanent, Transient
from threadline.slack.fields import string_field
from threadline.slack.history import RawMessage
from threadline.slack.model import Thread
from threadline.threads.comparison import MissedEvent, edited_event, posted_event
from threadline.threads.contract import Handled
from threadline.threads.message_table import StoredMessage
from threadline.threads.model import MessageKind, message_id

PAUSES = (2.0, 10.0, 30.0)
"""Seconds before each attempt: the message's own event usually comes first, and the bot may join a
moment later.
"""
MOST = 50
"""Maximum of concurrent hints; the catch-up finds the messages of further ones."""


@dataclass(frozen=True)
class _Hint:
    """The message that an `app_mention` names. `version`: the `ts` of its edit; empty for none."""

    channel: str
    ts: str
    parent_user: str
    version: str


Route = Callable[[Mapping[str, Any]], Awaitable[Handled]]
_log = structlog.stdlib.get_logger(__name__)


class MessageSource(Protocol):
    async def message(self, channel: str, ts: str) -> RawMessage | None: ...


class StoredMessages(Protocol):
    async def thread_of_message(self, team: str, channel: str, ts: str) -> Thread | None: ...

    async def has_edit(self, team: str, channel: str, ts: str, version: str) -> bool: ...


class MentionHints:
    """Follows hints in the background; no event waits for Slack.

    Args:
        team: our workspace.
        history: reads a message.
        stored: looks up the messages of conversations.
        route: accepts an event in the form in which Slack would have delivered it.
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
        channel = string_field(event, "channel")
        ts = string_field(event, "ts")
        if not channel or not ts or len(self._tasks) >= MOST:
            return
        edited = event.get("edited")
        version = string_field(edited, "ts") if isinstance(edited, Mapping) else ""
        task = asyncio.create_task(
            self._follow(_Hint(channel, ts, string_field(event, "parent_user_id"), version))
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, hint: _Hint) -> None:
        for pause in self._pauses:
            await asyncio.sleep(pause)
            try:
                if await self._deliver(hint):
                    return
            except (Permanent, Transient) as error:
                _log.info(
                    "mention_not_followed", channel=hint.channel, ts=hint.ts, reason=str(error)
                )
            except Exception:  # noqa: BLE001 - on any error the catch-up finds the message
                _log.exception("mention_not_followed", channel=hint.channel, ts=hint.ts)

    async def _deliver(self, hint: _Hint) -> bool:
        """Route the message, or its edit, unless that is stored. Return whether the hint is
        done.
        """
        place = (self._team, hint.channel, hint.ts)
        is_known = await self._stored.thread_of_message(*place) is not None
        if is_known and not (
            hint.version and not await self._stored.has_edit(*place, hint.version)
        ):
            return True
        message = await self._history.message(hint.channel, hint.ts)
        if message is None:
            return False
        handled = await self._route(self._event_of(hint, message, is_known=is_known).body)
        _log.info("mention_followed", channel=hint.channel, ts=hint.ts, outcome=handled.outcome)
        return True

    def _event_of(self, hint: _Hint, message: RawMessage, *, is_known: bool) -> MissedEvent:
        parent = string_field(message, "parent_user_id") or hint.parent_user
        if not (is_known and message.get("edited")):
            return posted_event(self._team, hint.channel, message, parent)
        author = string_field(message, "user")
        identity = message_id(self._team, hint.channel, hint.ts)
        before = StoredMessage(
            identity, MessageKind.MESSAGE, author, "", "", hint.channel, hint.ts
        )
        return edited_event(self._team, hint.channel, message, parent, before)
