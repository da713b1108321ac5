"""The catch-up: what Slack has given up delivering is found in its history, and signalled as if it had arrived."""

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import structlog
from temporalio import activity

from threadline.db.engine import Database
from threadline.errors import NotDone, Permanent
from threadline.slack.history import History
from threadline.threads.catch_up_comparison import Comparison, Difference
from threadline.threads.catch_up_contract import CatchUpActivities, Compared, LookPlan, PageRequest, Window, WindowDone
from threadline.threads.catch_up_events import MissedEvent, Raw, is_direct
from threadline.threads.catch_up_model import LOOK_BACK, QUIET, Passed
from threadline.threads.catch_up_store import DueThread, Shown
from threadline.threads.catch_up_stored import calls
from threadline.threads.catch_up_windows import Windows

HandOver = Callable[[Mapping[str, Any]], Awaitable[Passed]]
"""Takes an event as Slack would have delivered it."""

ROTATION = 20
"""Threads without a sign of change that a shallow look compares: an edited reply leaves no sign on its root.

As many of cases as of conversations.
"""
TALKS = 500
"""Conversations without a sign of change that a deep look compares, the last active: ten minutes of Slack's rate."""
BATCH = 10
"""Threads that one activity compares, with the others of their cases."""
PATIENCE = 5
"""Attempts at a thread that fails: then it waits for the next look, and the others do not wait for it."""

_log = structlog.get_logger(__name__)


class LiveCatchUpActivities(CatchUpActivities):
    """Args: `channels` of cases by id, with whether only threads that the bot opened count there; `team` and
    `bot_user` are Slack's ids of the workspace and of the bot; `talk` are the channels whose history is read for
    mentions, None for wherever the bot is; `quiet` in seconds."""

    def __init__(
        self,
        database: Database,
        history: History,
        hand_over: HandOver,
        channels: Mapping[str, bool],
        *,
        team: str,
        bot_user: str,
        talk: Collection[str] | None = (),
        quiet: float = QUIET,
    ) -> None:
        self._database = database
        self._history = history
        self._hand_over = hand_over
        self._channels = channels
        self._team = team
        self._bot_user = bot_user
        self._quiet = quiet
        self._windows = Windows(database, history, channels, talk)
        self._comparison = Comparison(database, history, team, bot_user, channels)

    @activity.defn
    async def begin_look(self, deep: bool) -> LookPlan:
        now = time.time()
        async with self._database.begin() as work:
            await work.followed.forget(now - 2 * LOOK_BACK)
        deep, windows = await self._windows.of(now, now - self._quiet, deep=deep)
        return LookPlan(now, deep, self._quiet, windows)

    @activity.defn
    async def read_history(self, request: PageRequest) -> str:
        window = request.window
        page, more = await self._history.page(window.channel, window.oldest, request.latest)
        roots = [message for message in page if message.get("thread_ts") in (None, "", message["ts"])]
        async with self._database.begin() as work:
            known = await work.followed.are_known(window.channel, [str(root["ts"]) for root in roots])
            shown = [_shown(root) for root in roots if str(root["ts"]) in known or self._counts(window, root)]
            await work.followed.show(window.channel, shown, request.began, request.began - LOOK_BACK)
            if more:
                return str(page[-1]["ts"])
            await work.followed.miss(window.channel, window.oldest, window.latest, request.began)
        return ""

    def _counts(self, window: Window, root: Raw) -> bool:
        """Whether a thread that is nobody's business yet may be some; where people talk, a reply may hold a mention."""
        if window.talk:
            return bool(root.get("reply_count")) or is_direct(window.channel) or calls(self._bot_user, root)
        if window.by_bot:
            return root.get("user") == self._bot_user and bool(root.get("metadata"))
        return not root.get("bot_id")

    @activity.defn
    async def finish_channel(self, done: WindowDone) -> None:
        async with self._database.begin() as work:
            await work.followed.looked(done.window.channel, deep=done.deep, error=done.trouble)
        if done.trouble:
            _log.error("channel_catch_up_failed", channel=done.window.channel, reason=done.trouble)

    @activity.defn
    async def choose_threads(self, plan: LookPlan) -> int:
        async with self._database.begin() as work:
            since = plan.began - LOOK_BACK
            if plan.talk:
                await work.talked.follow(self._team, since)
                most = TALKS if plan.deep else ROTATION
                await work.talked.choose(self._team, since, count=most, newest=plan.deep)
            else:
                await work.followed.choose(list(self._channels), since, count=None if plan.deep else ROTATION)
            return await work.followed.count_due(self._team, plan.began, self._channels, talk=plan.talk)

    @activity.defn
    async def compare_threads(self, plan: LookPlan) -> Compared:
        async with self._database.begin() as work:
            batch = await work.followed.due(self._team, BATCH, plan.began, self._channels, talk=plan.talk)
        sent = 0
        for threads in _by_case(batch):
            sent += await self._compare_case(threads, plan)
        async with self._database.begin() as work:
            left = await work.followed.count_due(self._team, plan.began, self._channels, talk=plan.talk)
        return Compared(left, sent)

    async def _compare_case(self, threads: Sequence[DueThread], plan: LookPlan) -> int:
        """Compare what belongs together and signal what is missing in it; what was done is noted at once."""
        found: dict[DueThread, Difference] = {}
        for thread in threads:
            activity.heartbeat()
            try:
                found[thread] = await self._comparison.of(thread, plan.began - LOOK_BACK, plan.began - plan.quiet)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not keep the others from being looked at
                if isinstance(error, Permanent) and self._comparison.is_talk(thread):
                    found[thread] = self._out_of_reach(thread, error)
                else:
                    await self._leave_out([thread], plan, error)
        try:
            sent = await self._send([event for difference in found.values() for event in difference.missing])
        except Exception as error:  # noqa: BLE001 - the same
            await self._leave_out(found, plan, error)
            return 0
        async with self._database.begin() as work:
            for thread, difference in found.items():
                await work.followed.compared(thread, plan.began, again=difference.young)
        return sent

    def _out_of_reach(self, thread: DueThread, error: Permanent) -> Difference:
        """People take the bot out of channels: what it talked about there is no trouble of the house's."""
        _log.info("conversation_unreachable", channel=thread.channel, thread_ts=thread.thread_ts, reason=str(error))
        return Difference([])

    async def _leave_out(self, threads: Iterable[DueThread], plan: LookPlan, error: Exception) -> None:
        """Note what stands in the way of a thread, when it is the thread's own trouble; until that is known, raise."""
        everybodys = isinstance(error, NotDone)  # Slack limits the rate, or cannot be reached
        if everybodys or (not isinstance(error, Permanent) and activity.info().attempt < PATIENCE):
            raise error
        for thread in threads:
            _log.error(
                "thread_comparison_failed", channel=thread.channel, thread_ts=thread.thread_ts, reason=str(error)
            )
            async with self._database.begin() as work:
                await work.followed.not_compared(thread, plan.began, str(error) or type(error).__name__)

    async def _send(self, missing: Sequence[MissedEvent]) -> int:
        """Signal what is missing, oldest first; each is noted, so that what is never stored is not sent for ever.

        What its author may not say is noted as well: it is not said later, when the author or the settings have
        changed.
        """
        sent, ids = 0, [event.id for event in missing]
        async with self._database.begin() as work:
            in_vain, refused = await work.followed.often_resent(ids), await work.followed.refused(ids)
        once = {event.id: event for event in missing}  # two threads of a case may both lack what was deleted
        for event in sorted(once.values(), key=lambda event: event.at):
            activity.heartbeat()
            if event.id in refused:
                continue
            if event.id in in_vain:
                _log.error("message_not_stored", message=event.id, hint="Run `threadline doctor`.")
                continue
            passed = await self._hand_over(event.body)
            async with self._database.begin() as work:
                if passed is Passed.SIGNALLED:
                    sent += 1
                    _log.info("message_caught_up", message=event.id)
                    await work.followed.resent([event.id])
                elif passed is Passed.REFUSED:
                    await work.followed.refuse(event.id)
        return sent


def _by_case(threads: Sequence[DueThread]) -> list[list[DueThread]]:
    """The threads of one case come together; one without a case is by itself."""
    groups: dict[str, list[DueThread]] = {}
    for thread in threads:
        groups.setdefault(thread.bug_id or f"{thread.channel}:{thread.thread_ts}", []).append(thread)
    return list(groups.values())


def _shown(root: Raw) -> Shown:
    """What of a root changes when something is said, deleted or edited in it, and when that was."""
    ts, latest, replies = str(root["ts"]), str(root.get("latest_reply") or "0"), int(root.get("reply_count") or 0)
    edited = str((root.get("edited") or {}).get("ts") or "0")
    state = f"{replies}:{latest}:{edited}:{root.get('subtype') or ''}"
    return Shown(ts, str(max(Decimal(ts), Decimal(latest), Decimal(edited))), state)
