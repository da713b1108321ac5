"""The catch-up: what Slack has given up delivering is found in its history, and signalled as if it had arrived."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import structlog
from temporalio import activity

from threadline.activities.comparison import Comparison
from threadline.activities.missed_events import MissedEvent, Raw
from threadline.contracts.catch_up import CatchUpActivities, Compared, LookPlan, PageRequest, Window, WindowDone
from threadline.db.engine import Database
from threadline.db.followed import DueThread, Shown
from threadline.domain.catch_up import LOOK_BACK, QUIET
from threadline.domain.errors import Permanent
from threadline.slack.history import PAGE, History

HandOver = Callable[[Mapping[str, Any]], Awaitable[bool]]
"""Takes an event as Slack would have delivered it; says whether it was signalled, since most are nobody's business."""

DEEP_EVERY = 86_400.0
"""Seconds: so often every active thread is compared, also when no gateway was away."""
ROTATION = 20
"""Threads without a sign of change that a shallow look compares: an edited reply leaves no sign on its root."""
BATCH = 10
"""Threads that one activity compares; the worker's memory holds what is missing in them."""

_YOUNG = "young"
_log = structlog.get_logger(__name__)


class LiveCatchUpActivities(CatchUpActivities):
    """Args: `channels` by id, with whether only threads that the bot opened count there; `team` and
    `bot_user` are Slack's ids of the workspace and of the bot; `quiet` in seconds."""

    def __init__(
        self,
        database: Database,
        history: History,
        hand_over: HandOver,
        channels: Mapping[str, bool],
        *,
        team: str,
        bot_user: str,
        quiet: float = QUIET,
    ) -> None:
        self._database = database
        self._history = history
        self._hand_over = hand_over
        self._channels = channels
        self._team = team
        self._bot_user = bot_user
        self._quiet = quiet
        self._comparison = Comparison(database, history, team, bot_user)

    @activity.defn
    async def begin_look(self, deep: bool) -> LookPlan:
        now = time.time()
        async with self._database.begin() as work:
            await work.followed.install(list(self._channels), now)
            await work.followed.forget(now - 2 * LOOK_BACK)
            marks = [mark for mark in await work.followed.marks() if mark.channel in self._channels]
            roots = {channel: await work.followed.oldest_thread(channel) for channel in self._channels}
        deep = deep or any(now - mark.deep_at > DEEP_EVERY for mark in marks)
        windows = []
        for channel, by_bot in self._channels.items():
            oldest = now - LOOK_BACK
            if deep and roots[channel]:  # an old thread shows new replies on its root alone
                oldest = min(oldest, float(Decimal(roots[channel])) - 1)
            windows.append(Window(channel, by_bot, f"{oldest:.6f}", f"{now - self._quiet:.6f}"))
        return LookPlan(now, deep, self._quiet, windows)

    @activity.defn
    async def read_history(self, request: PageRequest) -> str:
        window = request.window
        page = await self._history.page(window.channel, window.oldest, request.latest)
        roots = [message for message in page if message.get("thread_ts") in (None, "", message["ts"])]
        async with self._database.begin() as work:
            known = await work.followed.are_known(window.channel, [str(root["ts"]) for root in roots])
            shown = [_shown(root) for root in roots if str(root["ts"]) in known or self._counts(window, root)]
            await work.followed.show(window.channel, shown, request.began, request.began - LOOK_BACK)
            if len(page) >= PAGE:
                return str(page[-1]["ts"])
            await work.followed.miss(window.channel, window.oldest, window.latest, request.began)
        return ""

    def _counts(self, window: Window, root: Raw) -> bool:
        """Whether a thread that belongs to no case yet may belong to one."""
        if window.by_bot:
            return root.get("user") == self._bot_user and bool(root.get("metadata"))
        return not root.get("bot_id")

    @activity.defn
    async def finish_channel(self, done: WindowDone) -> None:
        async with self._database.begin() as work:
            await work.followed.looked(done.window.channel, deep=done.deep, error=done.trouble)
        if done.trouble:
            _log.error("channel_not_caught_up", channel=done.window.channel, reason=done.trouble)

    @activity.defn
    async def choose_threads(self, plan: LookPlan) -> int:
        async with self._database.begin() as work:
            await work.followed.choose(plan.began - LOOK_BACK, count=None if plan.deep else ROTATION)
            return await work.followed.count_due()

    @activity.defn
    async def compare_threads(self, plan: LookPlan) -> Compared:
        async with self._database.begin() as work:
            batch = await work.followed.due(self._team, BATCH)
        missing: list[MissedEvent] = []
        states: dict[DueThread, tuple[str, str]] = {}
        for thread in batch:
            activity.heartbeat()
            try:
                found = await self._comparison.of(thread, plan.began - LOOK_BACK, plan.began - plan.quiet)
            except Permanent as error:  # of this thread alone: the others are not to wait for it
                _log.error("thread_not_compared", channel=thread.channel, thread_ts=thread.thread_ts, reason=str(error))
                states[thread] = (thread.shown, str(error))
                continue
            missing += found.missing
            states[thread] = (_YOUNG if found.young else thread.shown, "")
        sent = await self._send(missing)
        async with self._database.begin() as work:
            for thread, (state, trouble) in states.items():
                await work.followed.compared(thread, state, time.time(), trouble)
            return Compared(await work.followed.count_due(), sent)

    async def _send(self, missing: Sequence[MissedEvent]) -> int:
        """Signal what is missing, oldest first; each is noted, so that what is never stored is not sent for ever."""
        sent = 0
        async with self._database.begin() as work:
            in_vain = await work.followed.often_resent([event.id for event in missing])
        for event in sorted(missing, key=lambda event: event.at):
            activity.heartbeat()
            if event.id in in_vain:
                _log.error("message_never_stored", message=event.id, next="see `threadline doctor`")
            elif await self._hand_over(event.body):
                sent += 1
                _log.info("message_caught_up", message=event.id)
                async with self._database.begin() as work:
                    await work.followed.resent([event.id])
        return sent


def _shown(root: Raw) -> Shown:
    """What of a root changes when something is said, deleted or edited in it, and when that was."""
    ts, latest, replies = str(root["ts"]), str(root.get("latest_reply") or "0"), int(root.get("reply_count") or 0)
    edited = str((root.get("edited") or {}).get("ts") or "0")
    state = f"{replies}:{latest}:{edited}:{root.get('subtype') or ''}"
    return Shown(ts, str(max(Decimal(ts), Decimal(latest), Decimal(edited))), state)
