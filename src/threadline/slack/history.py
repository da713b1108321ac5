"""What Slack shows of a channel and of a thread, as raw JSON: for whoever must tell what it would have delivered."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from threadline.slack.client import Slack, messages_page
from threadline.slack.errors import calling

PAGE = 200
BURST, PER_SECOND = 30.0, 50 / 60
"""Slack allows fifty calls a minute of either method, and a few at once: https://docs.slack.dev/apis/web-api/rate-limits.

What it refuses all the same comes back as `Transient` with the pause that Slack names.
"""

Raw = Mapping[str, Any]


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
                self._left += 1  # the call is not made, and nobody else is to wait for it
                raise


class History:
    """Every method raises `Permanent` or `Transient`, translated by `slack.errors`."""

    def __init__(self, slack: Slack, limiter: RateLimiter | None = None) -> None:
        self._slack = slack
        self._limiter = limiter or RateLimiter()

    async def page(self, channel: str, oldest: str, latest: str) -> tuple[list[Raw], bool]:
        """What a channel itself shows between two moments, both exclusive: at most a page, the newest first.

        With it, whether older messages follow: Slack may show fewer than were asked for, or none, although there are.
        """
        fetch = partial(self._slack.client.conversations_history, channel=channel)
        shown, cursor, more = list[Raw](), None, True
        while more and not shown:
            await self._limiter.acquire()
            page = await messages_page(fetch, channel, oldest=oldest, latest=latest, limit=PAGE, cursor=cursor)
            shown, cursor = list(page.get("messages") or ()), _next_cursor(page)
            more = bool(cursor or (shown and page.get("has_more")))
        return shown, more

    async def channels(self) -> list[str]:
        """Every channel, group message and direct message that the bot is part of and nobody has archived."""
        found, cursor = list[str](), None
        while True:
            await self._limiter.acquire()
            async with calling("the list of its channels"):
                page = await self._slack.client.users_conversations(
                    types="public_channel,private_channel,mpim,im", exclude_archived=True, limit=PAGE, cursor=cursor
                )
            found += [str(channel["id"]) for channel in page.get("channels") or ()]
            cursor = (page.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                return found

    async def shows(self, channel: str, ts: str) -> bool:
        """Whether a message is there, in whichever thread: Slack finds a reply by its own timestamp."""
        fetch = partial(self._slack.client.conversations_replies, channel=channel, ts=ts)
        await self._limiter.acquire()
        page = await messages_page(fetch, channel, oldest=ts, latest=ts, inclusive=True, limit=2)
        found = page.get("messages") or ()
        return any(message.get("ts") == ts and message.get("subtype") != "tombstone" for message in found)

    async def thread(self, channel: str, root: str, oldest: str) -> AsyncGenerator[Raw, None]:
        """A thread's root, whatever its age, and its replies since `oldest`; nothing when the thread is gone."""
        fetch = partial(self._slack.client.conversations_replies, channel=channel, ts=root)
        seen, cursor = set[str](), None
        while True:
            await self._limiter.acquire()
            page = await messages_page(fetch, channel, oldest=oldest, limit=PAGE, cursor=cursor)
            for message in page.get("messages") or ():
                if message["ts"] not in seen:  # the root comes with every page
                    seen.add(message["ts"])
                    yield message
            cursor = _next_cursor(page)
            if not cursor:
                return


def _next_cursor(page: Raw) -> str | None:
    return (page.get("response_metadata") or {}).get("next_cursor") or None
