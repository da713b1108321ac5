"""LostPosts: posts that Slack shows and a restored database does not know. The rule is in
`basis.py`.
"""

import re
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from threadline.errors import Permanent
from threadline.slack.client import SlackClient
from threadline.slack.model import Thread
from threadline.threads.basis import Basis, LostPost, find_made, lost_post
from threadline.threads.contract import LOOK_BACK
from threadline.threads.installation_store import RestoreWindow

MAX_PLACES = 500
"""Threads whose lost posts are kept in memory."""

_CASE_NUMBER = re.compile(r"BUG-[0-9]{1,15}")

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class LostPosts:
    """Searches Slack for posts that a restored database does not know. Without a `window` it finds
    none.

    Each thread is read once: all posts of a window exist when its restore is noticed.
    """

    slack: SlackClient
    window: RestoreWindow | None = None
    _known: OrderedDict[tuple[str, str | None], Sequence[LostPost]] = field(
        default_factory=OrderedDict
    )

    @property
    def active_window(self) -> RestoreWindow | None:
        """The window, for as long as events of its time may still be handled."""
        window = self.window
        return window if window and time.time() < window.noticed_at + LOOK_BACK else None

    async def find(
        self, basis: Basis, key: str, channel: str, thread_ts: str | None, part: int
    ) -> str:
        """Return the `ts` of the message that already shows a part of a post; empty where the part
        must be sent.

        Raises:
            Transient: Slack could not be read.
        """
        window = self.active_window
        causes = [*(basis.asked or basis.read), thread_ts or "0"]
        if window is None or max(map(float, causes)) > window.newest:
            return ""
        shown = await self._posts(window, channel, thread_ts)
        in_channel = thread_ts is None
        made = find_made(shown, basis, key, part, in_channel=in_channel)
        if made:
            _log.info("lost_post_found", key=key, part=part, channel=channel, ts=made)
        return made

    def is_other(self, basis: Basis, ts: str, payload: Mapping[str, Any]) -> bool:
        """Return whether a post in Slack with the same key is another one, from the time that was
        lost.
        """
        window = self.active_window
        if window is None or float(ts) > window.newest:
            return False
        return str(payload.get("read") or "") != basis.metadata(1, 1)["read"]

    async def case_number(self, thread: Thread) -> str:
        """Return the number of a thread's lost case, from the keys of the bot's first posts in it;
        empty for none.
        """
        window = self.active_window
        if window is None or not window.holds(float(thread.ts)):
            return ""
        shown = await self._posts(window, thread.channel, thread.ts)
        keys = (each.key.partition(":")[0] for each in shown if each.subject == thread.key)
        return next((key for key in keys if _CASE_NUMBER.fullmatch(key)), "")

    async def _posts(
        self, window: RestoreWindow, channel: str, thread_ts: str | None
    ) -> Sequence[LostPost]:
        place = (channel, thread_ts)
        if place not in self._known:
            self._known[place] = await self._read(window, channel, thread_ts)
        self._known.move_to_end(place)
        while len(self._known) > MAX_PLACES:
            self._known.popitem(last=False)
        return self._known[place]

    async def _read(
        self, window: RestoreWindow, channel: str, thread_ts: str | None
    ) -> Sequence[LostPost]:
        try:
            shown = [
                each async for each in self.slack.own_posts(channel, thread_ts, window.oldest)
            ]
        except Permanent as refused:  # the bot may post in places that it may not read
            _log.warning("lost_posts_unreadable", channel=channel, reason=str(refused))
            return ()
        found = (lost_post(ts, payload) for ts, payload in shown)
        return tuple(each for each in found if each)
