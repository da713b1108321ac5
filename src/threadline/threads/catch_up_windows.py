"""Which channels a look at Slack's history reads, and how far back in each."""

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal

import structlog

from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.slack.history import History
from threadline.threads.catch_up_contract import Window
from threadline.threads.catch_up_model import LOOK_BACK
from threadline.threads.catch_up_store import ChannelMark

DEEP_EVERY = 86_400.0
"""Seconds: so often every active thread is compared, also when no gateway was away."""
LISTENED = 40
"""Channels that one look reads of those in which people may talk with the bot because it is there: less than a minute
of Slack's rate, unless it is deep. They take turns, whichever was read longest ago."""
TRIED_AGAIN = 5
"""Of these, channels that could not be read the last time: they keep no other from its turn."""
_BEFORE = 900.0
"""Seconds before the end of the last look: so much earlier it may have asked where the bot is."""

_log = structlog.get_logger(__name__)


class Windows:
    """Args: `channels` as in `LiveCatchUpActivities`; `talk` as well."""

    def __init__(
        self, database: Database, history: History, channels: Mapping[str, bool], talk: Collection[str] | None
    ) -> None:
        self._database = database
        self._history = history
        self._channels = channels
        self._talk = talk

    async def of(self, now: float, latest: float, *, deep: bool) -> tuple[bool, list[Window]]:
        """What a look reads that begins now, and whether it is a deep one: it was asked for, or there was none today.

        Args:
            now: seconds since 1970.
            latest: until when.
            deep: whether it was asked for.
        """
        marks = await self._marks(now)
        cases = [mark for mark in marks if mark.channel in self._channels]
        talk = [mark for mark in marks if mark.channel not in self._channels]
        always = cases if self._talk is None else marks
        deep = deep or any(now - mark.deep_at > DEEP_EVERY for mark in always if not mark.error)
        until = f"{latest:.6f}"
        async with self._database.begin() as work:
            roots = {channel: await work.followed.oldest_thread(channel) for channel in self._channels}
        windows = []
        for channel, by_bot in self._channels.items():
            oldest = now - LOOK_BACK
            if deep and roots[channel]:  # an old thread shows new replies on its root alone
                oldest = min(oldest, float(Decimal(roots[channel])) - 1)
            windows.append(Window(channel, by_bot, f"{oldest:.6f}", until))
        for mark in talk if self._talk is not None else _next(talk):
            oldest = now - LOOK_BACK
            if not deep:
                oldest = max(oldest, (mark.looked_at or mark.installed_at) - DEEP_EVERY)
            windows.append(Window(mark.channel, False, f"{oldest:.6f}", until, talk=True))
        return deep, windows

    async def _marks(self, now: float) -> list[ChannelMark]:
        """The marks of all that is followed, those made that are new.

        A channel in which the bot is found counts from the last look on: a first direct message, which was missed,
        makes its channel.
        """
        async with self._database.begin() as work:
            before = await work.followed.marks()
            await work.followed.install([*self._channels, *(self._talk or ())], now, alone=self._talk is not None)
        found = await self._members() if self._talk is None else None
        async with self._database.begin() as work:
            if found is not None:
                looked = [m.looked_at for m in before if m.channel in self._channels and m.looked_at and not m.error]
                since = min(looked) - _BEFORE if looked else now
                await work.followed.install([*self._channels, *found], since, alone=True)
            return await work.followed.marks()

    async def _members(self) -> list[str] | None:
        """Where the bot is, but for the channels of cases; None when it may not ask, and then it reads what it knew."""
        try:
            return [channel for channel in await self._history.channels() if channel not in self._channels]
        except Permanent as error:
            _log.error("bot_channels_unknown", reason=str(error), hint="Run `threadline doctor`.")
            return None


def _next(marks: Sequence[ChannelMark]) -> list[ChannelMark]:
    """Whose turn it is."""
    waiting = sorted(marks, key=lambda mark: mark.looked_at)
    well, ill = [mark for mark in waiting if not mark.error], [mark for mark in waiting if mark.error]
    return [*well[:LISTENED], *ill[:TRIED_AGAIN]]
