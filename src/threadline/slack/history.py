"""The messages of channels and threads in Slack's history, as raw JSON, for callers that need the
events which Slack would have delivered.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from threadline.slack.client import SlackClient, fetch_page, next_cursor, pages

PAGE = 200
BURST = 30.0
PER_SECOND = 50 / 60
"""Slack allows fifty calls a minute of either method, and a few at once
(https://docs.slack.dev/apis/web-api/rate-limits). A refused call raises `Transient` with the pause
that Slack names.
"""

RawMessage = Mapping[str, Any]
"""A message as Slack's history shows it:
https://docs.slack.dev/reference/methods/conversations.history.
"""


@dataclass(frozen=True)
class ListedThread:
    """The listed messages of a thread. `is_whole`: they include the root or its tombstone, and no
    page is missing at the end.
    """

    messages: Sequence[RawMessage]
    is_whole: bool


@dataclass
class RateLimiter:
    """Lets `BURST` calls through at once, then `PER_SECOND`."""

    clock: Callable[[], float] = time.monotonic
    _left: float = BURST
    _since: float = field(default=0.0)

    async def acquire(self) -> None:
        """Wait until a call may be made."""
        now = self.clock()
        self._left = min(BURST, self._left + (now - self._since) * PER_SECOND) - 1
        self._since = now
        if self._left < 0:
            try:
                await asyncio.sleep(-self._left / PER_SECOND)
            except asyncio.CancelledError:
                self._left += 1  # the call is not made: return its slot to the other callers
                raise


class History:
    """Every method raises `Permanent` or `Transient`, translated by `slack.errors`."""

    def __init__(self, slack: SlackClient) -> None:
        self._slack = slack
        self._limiter = RateLimiter()

    async def channel_page(
        self, channel: str, oldest: str, latest: str
    ) -> tuple[list[RawMessage], bool]:
        """Return the messages of a channel itself between two moments, both exclusive: at most a
        page, the newest first. The second value is whether older messages follow: Slack may return
        fewer than the limit, or none, although there are more.
        """
        fetch = partial(self._slack.client.conversations_history, channel=channel)
        async with aclosing(self._pages(fetch, channel, oldest=oldest, latest=latest)) as found:
            async for page in found:
                if shown := list(page.get("messages") or ()):
                    return shown, bool(next_cursor(page) or page.get("has_more"))
        return [], False

    async def bot_channels(self) -> list[str]:
        """Return every unarchived channel, group message and direct message of which the bot is a
        member.
        """
        fetch = self._slack.client.users_conversations
        which = "public_channel,private_channel,mpim,im"
        found = pages(
            fetch,
            "the list of its channels",
            self._limiter.acquire,
            types=which,
            exclude_archived=True,
            limit=PAGE,
        )
        return [
            str(channel["id"]) async for page in found for channel in page.get("channels") or ()
        ]

    async def exists(self, channel: str, ts: str) -> bool:
        """Return whether a message exists, in any thread."""
        return await self.message(channel, ts) is not None

    async def message(self, channel: str, ts: str) -> RawMessage | None:
        """Return a message of any thread, since Slack finds a reply by its own timestamp; None if
        it was deleted.
        """
        fetch = partial(self._slack.client.conversations_replies, channel=channel, ts=ts)
        await self._limiter.acquire()
        page = await fetch_page(
            fetch, f"channel {channel}", oldest=ts, latest=ts, inclusive=True, limit=2
        )
        found = (each for each in page.get("messages") or () if each.get("ts") == ts)
        return next((each for each in found if each.get("subtype") != "tombstone"), None)

    async def thread_messages(
        self, channel: str, root: str, oldest: str
    ) -> AsyncGenerator[RawMessage, None]:
        """Yield a thread's root, of any age, and its replies since `oldest`; empty if the thread
        was deleted.
        """
        fetch = partial(self._slack.client.conversations_replies, channel=channel, ts=root)
        seen = set[str]()
        async with aclosing(self._pages(fetch, channel, oldest=oldest)) as found:
            async for page in found:
                for message in page.get("messages") or ():
                    if message["ts"] not in seen:  # the root comes with every page
                        seen.add(message["ts"])
                        yield message

    async def read_thread(self, channel: str, root: str, oldest: str) -> ListedThread:
        """Return a thread as `thread_messages` yields it, and whether Slack showed all of it."""
        fetch = partial(self._slack.client.conversations_replies, channel=channel, ts=root)
        found: dict[str, RawMessage] = {}
        is_cut = False
        async with aclosing(self._pages(fetch, channel, oldest=oldest)) as pages_found:
            async for page in pages_found:
                found |= {str(message["ts"]): message for message in page.get("messages") or ()}
                is_cut = bool(page.get("has_more")) and not next_cursor(page)
        return ListedThread(list(found.values()), root in found and not is_cut)

    async def last_before(self, channel: str, ts: str) -> list[RawMessage]:
        """Return a page of the channel's own messages from before a moment, the newest first; may
        be empty.
        """
        return (await self.channel_page(channel, "0", ts))[0]

    async def last_after(self, channel: str, ts: str) -> list[RawMessage]:
        """Return a page of the newest messages of the channel itself from after a moment; may be
        empty.
        """
        return (await self.channel_page(channel, ts, ""))[0]

    def _pages(
        self, fetch: Callable[..., Any], channel: str, **window: Any
    ) -> AsyncGenerator[RawMessage, None]:
        window |= {"include_all_metadata": True, "limit": PAGE}
        return pages(fetch, f"channel {channel}", self._limiter.acquire, **window)
