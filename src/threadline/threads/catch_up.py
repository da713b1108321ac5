"""The catch-up: what Slack has given up delivering is found in its history, and signalled as if it had arrived."""

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import structlog
from temporalio import activity

from threadline.db.engine import Database, Transaction
from threadline.errors import NotDone, Permanent
from threadline.slack.history import History, RawMessage
from threadline.threads.catch_up_store import CatchUpStore, CatchUpThread, FollowedChannel, RootState
from threadline.threads.comparison import (
    MissedEvent,
    ThreadDifference,
    ThreadSource,
    compare,
    is_direct,
    mentions_user,
)
from threadline.threads.contract import (
    LOOK_BACK,
    SETTLE_TIME,
    CatchUpActivities,
    CatchUpPlan,
    ChannelRead,
    ComparisonResult,
    Handled,
    HistoryWindow,
    LookScope,
    PageRequest,
    PlanRequest,
)

DEEP_INTERVAL = 86_400.0
"""Seconds: so often every active thread is compared, also when no gateway was away."""
MAX_MEMBER_CHANNELS = 40
"""Channels that one pass reads of those in which people may talk with the bot because it is there: less than a minute
of Slack's rate, unless it is deep. They take turns, whichever was read longest ago."""
MAX_FAILED_CHANNELS = 5
"""Of these, channels that could not be read the last time: they keep no other from its turn."""
MAX_UNCHANGED = 20
"""Threads without a sign of change that a shallow pass compares: an edited reply leaves no sign on its root.

As many of cases as of conversations.
"""
MAX_CONVERSATIONS = 500
"""Conversations without a sign of change that a deep pass compares, the last active: ten minutes of Slack's rate."""
BATCH_SIZE = 10
"""Threads that one activity compares, with the others of their owners."""
MAX_ATTEMPTS = 5
"""Attempts at a thread that fails: then it waits for the next pass, and the others do not wait for it."""
_BEFORE_LAST_PASS = 900.0
"""Seconds before the end of the last pass: so much earlier it may have asked where the bot is."""

_log = structlog.get_logger(__name__)


class LiveCatchUpActivities(CatchUpActivities):
    """What the catch-up's workflow does in one workspace.

    Args:
        handle: takes an event as Slack would have delivered it.
        sources: one for each kind of thread; the first of a scope has the threads that nobody owns yet.
        case_channels: by id, with whether only threads that the bot opened count there.
        conversation_channels: whose history is read for mentions; None for wherever the bot is.
        settle_time: seconds for which fresh messages are left to ordinary delivery.
    """

    def __init__(
        self,
        database: Database,
        history: History,
        handle: Callable[[Mapping[str, Any]], Awaitable[Handled]],
        sources: Sequence[ThreadSource],
        case_channels: Mapping[str, bool],
        *,
        team: str,
        bot_user_id: str,
        conversation_channels: Collection[str] | None = (),
        settle_time: float = SETTLE_TIME,
    ) -> None:
        self._database = database
        self._history = history
        self._handle = handle
        self._sources = sources
        self._case_channels = case_channels
        self._team = team
        self._bot_user_id = bot_user_id
        self._conversation_channels = conversation_channels
        self._settle_time = settle_time

    def _store(self, tx: Transaction) -> CatchUpStore:
        everywhere = [source.kind for source in self._sources if source.everywhere]
        return CatchUpStore(tx, self._team, self._case_channels, everywhere)

    @activity.defn
    async def plan_catch_up(self, request: PlanRequest) -> CatchUpPlan:
        now, deep = time.time(), request.deep
        async with self._database.begin() as tx:
            await self._store(tx).prune(now - 2 * LOOK_BACK)
        followed = await self._follow(now, request.followed)
        async with self._database.begin() as tx:
            roots = await self._store(tx).oldest_roots(self._case_channels)
        cases = [each for each in followed if each.channel in self._case_channels]
        always = cases if self._conversation_channels is None else followed
        deep = deep or any(now - each.deep_read_at > DEEP_INTERVAL for each in always if not each.error)
        conversations = [each for each in followed if each.channel not in self._case_channels]
        if self._conversation_channels is None:
            conversations = _take_turns(conversations)
        windows = history_windows(self._case_channels, roots, conversations, now, now - self._settle_time, deep=deep)
        return CatchUpPlan(now, deep, self._settle_time, windows)

    async def _follow(self, now: float, since: Mapping[str, float]) -> list[FollowedChannel]:
        """Every channel that is followed, those included that are new. `since`: where a gateway followed it before.

        A channel in which the bot is found counts from the last pass on: a first direct message, which was missed,
        makes its channel.
        """
        async with self._database.begin() as tx:
            store = self._store(tx)
            before = await store.channels()
            named = [*self._case_channels, *(self._conversation_channels or ())]
            for channel in since.keys() & set(named):
                await store.follow_channels([channel], min(now, since[channel]))
            await store.follow_channels(named, now)
            if self._conversation_channels is not None:
                await store.unfollow_others(named)
        found = await self._member_channels() if self._conversation_channels is None else None
        async with self._database.begin() as tx:
            store = self._store(tx)
            if found is not None:
                read = [each.read_at for each in before if each.channel in self._case_channels and not each.error]
                read = [at for at in read if at]
                await store.follow_channels(found, min(read) - _BEFORE_LAST_PASS if read else now)
                await store.unfollow_others([*self._case_channels, *found])
            return await store.channels()

    async def _member_channels(self) -> list[str] | None:
        """Where the bot is, but for the channels of cases; None when it may not ask, and then it reads what it knew."""
        try:
            return [channel for channel in await self._history.bot_channels() if channel not in self._case_channels]
        except Permanent as error:
            _log.error("bot_channels_unknown", reason=str(error), hint="Run `threadline doctor`.")
            return None

    @activity.defn
    async def read_history_page(self, request: PageRequest) -> str:
        window = request.window
        page, more = await self._history.channel_page(window.channel, window.oldest, request.latest)
        roots = [message for message in page if message.get("thread_ts") in (None, "", message["ts"])]
        async with self._database.begin() as tx:
            store = self._store(tx)
            known = await store.registered_roots(window.channel, [str(root["ts"]) for root in roots])
            shown = [_root_state(root) for root in roots if str(root["ts"]) in known or self._counts(window, root)]
            await store.record_page(window.channel, shown, request.began, request.began - LOOK_BACK)
            if more:
                return str(page[-1]["ts"])
            await store.record_missing_roots(window.channel, window.oldest, window.latest, request.began)
        return ""

    def _counts(self, window: HistoryWindow, root: RawMessage) -> bool:
        """Whether a thread that nobody owns yet may become somebody's; where people talk, a reply may be a mention."""
        if window.scope is LookScope.CONVERSATIONS:
            return bool(root.get("reply_count")) or is_direct(window.channel) or mentions_user(self._bot_user_id, root)
        if window.only_bot_threads:
            return root.get("user") == self._bot_user_id and bool(root.get("metadata"))
        return not root.get("bot_id")

    @activity.defn
    async def record_channel(self, read: ChannelRead) -> None:
        async with self._database.begin() as tx:
            await self._store(tx).record_read(read.channel, deep=read.deep, error=read.error)
        if read.error:
            _log.error("channel_unreadable", channel=read.channel, reason=read.error)

    @activity.defn
    async def select_threads(self, plan: CatchUpPlan) -> int:
        since = plan.began - LOOK_BACK
        count: int | None = MAX_UNCHANGED
        if plan.deep:
            count = None if plan.scope is LookScope.CASES else MAX_CONVERSATIONS
        async with self._database.begin() as tx:
            store = self._store(tx)
            for source in self._sources:
                if source.scope is plan.scope and (found := source.active_threads(self._team, since)) is not None:
                    await store.follow_threads(found, everywhere=source.everywhere, always_due=source.always_due)
            newest = plan.deep and plan.scope is LookScope.CONVERSATIONS
            await store.select_unchanged(plan.scope, since, count=count, newest=newest)
            return await store.count_due(plan.scope, plan.began)

    @activity.defn
    async def compare_threads(self, plan: CatchUpPlan) -> ComparisonResult:
        async with self._database.begin() as tx:
            batch = await self._store(tx).next_batch(plan.scope, BATCH_SIZE, plan.began)
        sent = 0
        for threads in _by_owner(batch):
            sent += await self._compare_owner(threads, plan)
        async with self._database.begin() as tx:
            left = await self._store(tx).count_due(plan.scope, plan.began)
        return ComparisonResult(left, sent)

    async def _compare_owner(self, threads: Sequence[CatchUpThread], plan: CatchUpPlan) -> int:
        """Compare what belongs together and signal what is missing in it; what was done is recorded at once."""
        found: dict[CatchUpThread, ThreadDifference] = {}
        for thread in threads:
            activity.heartbeat()
            try:
                found[thread] = await self._compare(thread, plan)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must not keep the others from being looked at
                if isinstance(error, Permanent) and plan.scope is LookScope.CONVERSATIONS:
                    # People take the bot out of channels: that it cannot read there any more is nobody's fault.
                    place = {"channel": thread.channel, "thread_ts": thread.thread_ts}
                    _log.info("conversation_unreachable", reason=str(error), **place)
                    found[thread] = ThreadDifference([])
                else:
                    await self._leave_out([thread], plan, error)
        try:
            sent = await self._send([event for difference in found.values() for event in difference.missing])
        except Exception as error:  # noqa: BLE001 - the same
            await self._leave_out(found, plan, error)
            return 0
        async with self._database.begin() as tx:
            for thread, difference in found.items():
                await self._store(tx).record_compared(thread, plan.began, again=difference.has_recent)
        return sent

    async def _compare(self, thread: CatchUpThread, plan: CatchUpPlan) -> ThreadDifference:
        oldest, latest = plan.began - LOOK_BACK, plan.began - plan.settle_time
        source = self._source_of(thread, plan.scope)
        return await compare(self._database, self._history, source, thread, self._bot_user_id, oldest, latest)

    def _source_of(self, thread: CatchUpThread, scope: LookScope) -> ThreadSource:
        if owner := thread.owner:
            return next(source for source in self._sources if source.kind == owner.feature)
        return next(source for source in self._sources if source.scope is scope)

    async def _leave_out(self, threads: Iterable[CatchUpThread], plan: CatchUpPlan, error: Exception) -> None:
        """Record what stands in the way of a thread, when it is the thread's own; until that is known, raise."""
        everybodys = isinstance(error, NotDone)  # Slack limits the rate, or cannot be reached
        if everybodys or (not isinstance(error, Permanent) and activity.info().attempt < MAX_ATTEMPTS):
            raise error
        for thread in threads:
            _log.error(
                "thread_comparison_failed", channel=thread.channel, thread_ts=thread.thread_ts, reason=str(error)
            )
            async with self._database.begin() as tx:
                why = str(error) or type(error).__name__
                await self._store(tx).record_failed(thread, plan.began, why)

    async def _send(self, missing: Sequence[MissedEvent]) -> int:
        """Signal what is missing, the oldest first; each is recorded, so that nothing is signalled for ever in vain.

        What its author may not say is recorded as well: it is not said later, when the author or the settings have
        changed.
        """
        once = {event.id: event for event in missing}  # two threads of an owner may both lack what was deleted
        if not once:
            return 0
        async with self._database.begin() as tx:
            known = await self._store(tx).send_state(once)
        sent = 0
        for event in sorted(once.values(), key=lambda event: event.at):
            activity.heartbeat()
            if event.id in known.refused:
                continue
            if event.id in known.unstored:
                _log.error("message_not_stored", message=event.id, hint="Run `threadline doctor`.")
                continue
            handled = await self._handle(event.body)
            if not (handled.signalled or handled.refused):
                continue
            async with self._database.begin() as tx:
                if handled.refused:
                    await self._store(tx).record_refused(event.id)
                else:
                    sent += 1
                    _log.info("message_caught_up", message=event.id)
                    await self._store(tx).record_sent(event.id)
        return sent


def history_windows(
    case_channels: Mapping[str, bool],
    oldest_roots: Mapping[str, str],
    others: Sequence[FollowedChannel],
    now: float,
    latest: float,
    *,
    deep: bool,
) -> list[HistoryWindow]:
    """How far back a pass reads in each channel.

    Args:
        case_channels: as in `LiveCatchUpActivities`.
        oldest_roots: the oldest registered thread of each of them that has one.
        others: channels in which people may talk with the bot.
        now: seconds since 1970.
        latest: until when.
    """
    until, windows = f"{latest:.6f}", list[HistoryWindow]()
    for channel, only_bot_threads in case_channels.items():
        oldest = now - LOOK_BACK
        if deep and channel in oldest_roots:  # an old thread shows new replies on its root alone
            oldest = min(oldest, float(Decimal(oldest_roots[channel])) - 1)
        windows.append(HistoryWindow(channel, f"{oldest:.6f}", until, LookScope.CASES, only_bot_threads))
    for each in others:
        oldest = now - LOOK_BACK
        if not deep:
            oldest = max(oldest, (each.read_at or each.installed_at) - DEEP_INTERVAL)
        windows.append(HistoryWindow(each.channel, f"{oldest:.6f}", until, LookScope.CONVERSATIONS))
    return windows


async def unstored_messages(tx: Transaction, team: str, sources: Sequence[ThreadSource], limit: int = 10) -> list[str]:
    """Messages that were signalled repeatedly and are not stored, the last first."""
    often = await CatchUpStore(tx, team).often_sent()
    stored = set[str]()
    for source in sources if often else ():
        stored |= await source.stored_ids(tx, often)
    return [each for each in often if each not in stored][:limit]


def _take_turns(channels: Sequence[FollowedChannel]) -> list[FollowedChannel]:
    """Whose turn it is to be read."""
    waiting = sorted(channels, key=lambda each: each.read_at)
    readable, failed = [each for each in waiting if not each.error], [each for each in waiting if each.error]
    return [*readable[:MAX_MEMBER_CHANNELS], *failed[:MAX_FAILED_CHANNELS]]


def _by_owner(threads: Sequence[CatchUpThread]) -> list[list[CatchUpThread]]:
    """The threads of one owner come together; one that nobody owns is by itself."""
    groups: dict[str, list[CatchUpThread]] = {}
    for thread in threads:
        key = thread.owner.workflow_id if thread.owner else f"{thread.channel}:{thread.thread_ts}"
        groups.setdefault(key, []).append(thread)
    return list(groups.values())


def _root_state(root: RawMessage) -> RootState:
    """What of a root changes when something is said, deleted or edited in it, and when that was."""
    ts, latest, replies = str(root["ts"]), str(root.get("latest_reply") or "0"), int(root.get("reply_count") or 0)
    edited = str((root.get("edited") or {}).get("ts") or "0")
    state = f"{replies}:{latest}:{edited}:{root.get('subtype') or ''}"
    return RootState(ts, str(max(Decimal(ts), Decimal(latest), Decimal(edited))), state)
