"""The catch-up's activities: search Slack's history for messages that Slack failed to deliver, and
signal them as if they had arrived.
"""

import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal
from typing import Any

import structlog
from temporalio import activity

from threadline.db.engine import Database, Transaction
from threadline.errors import NotDone, Permanent
from threadline.slack.history import History, RawMessage
from threadline.threads import contract
from threadline.threads.absence_store import AbsenceStore
from threadline.threads.catch_up_store import CatchUpStore, CatchUpThread, FollowedChannel
from threadline.threads.comparison import (
    MissedEvent,
    ThreadSource,
    absent_event,
    deleted_event,
    edited_at,
    is_direct,
    may_speak,
    mentions_user,
    missing_event,
)
from threadline.threads.contract import CatchUpActivities, CatchUpPlan, LookScope
from threadline.threads.deletions import DeletionFinder
from threadline.threads.faults import InstallationFaults
from threadline.threads.message_table import StoredMessage
from threadline.threads.model import message_id
from threadline.threads.restored_ends import RestoredEnds

DEEP_INTERVAL = 86_400.0
"""Seconds between two passes that compare every active thread, also when no gateway was away."""
MAX_MEMBER_CHANNELS = 40
"""Channels without cases that a shallow pass reads when the bot follows every channel it is a
member of: less than a minute of Slack's rate. They take turns, least recently read first.
"""
MAX_FAILED_CHANNELS = 5
"""Further such channels whose last read failed, so that they take no turn from the others."""
MAX_UNCHANGED = 20
"""Threads of cases without a sign of change that a shallow pass compares, and as many
conversations: an edited reply leaves no sign on its root.
"""
MAX_CONVERSATIONS = 500
"""Conversations without a sign of change that a deep pass compares, the last active: ten minutes
of Slack's rate.
"""
BATCH_SIZE = 10
"""Threads that one activity compares, with the others of their owners."""
MAX_ATTEMPTS = 5
"""Attempts at a thread that fails. It then waits for the next pass, so that the other threads do
not wait for it.
"""
_BEFORE_LAST_PASS = 900.0
"""Seconds before the end of the last pass within which it may have listed the bot's channels."""

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class LiveCatchUpActivities(CatchUpActivities):
    """The activities of the catch-up's workflow in one workspace.

    Args:
        handle: takes an event as Slack would have delivered it.
        sources: one for each kind of thread; the first of a scope has the threads without an
            owner.
        case_channels: by id, with whether only threads that the bot opened count there.
        conversation_channels: channels whose history is searched for mentions; None for every
            channel of the bot.
        allowed_apps: ids of bots and apps whose messages count.
        settle_time: seconds for which fresh messages are left to ordinary delivery.
        faults: reports messages that Slack has forgotten to the admin.
        restored: finds ends of threads that a restored database does not know; None to skip them.
    """

    database: Database
    history: History
    handle: Callable[[Mapping[str, Any]], Awaitable[contract.Handled]]
    sources: Sequence[ThreadSource]
    case_channels: Mapping[str, bool]
    _: KW_ONLY
    team: str
    bot_user_id: str
    faults: InstallationFaults
    conversation_channels: Collection[str] | None = ()
    settle_time: float = contract.SETTLE_TIME
    allowed_apps: frozenset[str] = frozenset()
    restored: RestoredEnds | None = None

    def __post_init__(self) -> None:
        self._deletions = DeletionFinder(self.database, self.history, self.faults, self.team)

    def _store(self, tx: Transaction) -> CatchUpStore:
        everywhere = [source.kind for source in self.sources if source.everywhere]
        return CatchUpStore(tx, self.team, self.case_channels, everywhere)

    async def plan_catch_up(self, request: contract.PlanRequest) -> CatchUpPlan:
        now = time.time()
        await self._deletions.end_pass()
        followed, oldest_roots = await self._follow(now, request.followed)
        cases = [each for each in followed if each.channel in self.case_channels]
        conversations = [each for each in followed if each.channel not in self.case_channels]
        always = cases if self.conversation_channels is None else followed
        deep = request.deep or any(
            now - each.deep_read_at > DEEP_INTERVAL for each in always if not each.error
        )
        if self.conversation_channels is None:  # the channels take turns
            waiting = sorted(conversations, key=lambda each: each.read_at)
            readable = [each for each in waiting if not each.error]
            failed = [each for each in waiting if each.error]
            conversations = [*readable[:MAX_MEMBER_CHANNELS], *failed[:MAX_FAILED_CHANNELS]]
        until = now - self.settle_time
        windows = history_windows(
            self.case_channels, oldest_roots, conversations, now, until, deep=deep
        )
        return CatchUpPlan(now, deep, self.settle_time, windows)

    async def _follow(
        self, now: float, since: Mapping[str, float]
    ) -> tuple[list[FollowedChannel], dict[str, str]]:
        """Return every followed channel, new ones included, and the oldest thread of each case
        channel.

        A channel that is found to have the bot counts from the last pass on: a first direct
        message, which was missed, creates its channel. `since`: the time from which a gateway
        followed a channel, which may be earlier.
        """
        named = [*self.case_channels, *(self.conversation_channels or ())]
        async with self.database.begin() as tx:
            store = self._store(tx)
            await store.prune(now - 2 * contract.LOOK_BACK)
            await AbsenceStore(tx, self.team).prune(now, now - 2 * contract.LOOK_BACK)
            before = await store.channels()
            for channel in since.keys() & set(named):
                await store.follow_channels([channel], min(now, since[channel]))
            await store.follow_channels(named, now)
        found = await self._member_channels() if self.conversation_channels is None else []
        async with self.database.begin() as tx:
            store = self._store(tx)
            if found is not None:
                read = [
                    each.read_at
                    for each in before
                    if each.channel in self.case_channels and not each.error
                ]
                read = [at for at in read if at]
                await store.follow_channels(found, min(read) - _BEFORE_LAST_PASS if read else now)
                await store.unfollow_others([*named, *found])
            return await store.channels(), await store.oldest_roots(self.case_channels)

    async def _member_channels(self) -> list[str] | None:
        """Return the bot's channels without those of cases. Returns None when Slack refuses the
        list; the pass then reads the channels that it knows.
        """
        try:
            return [
                channel
                for channel in await self.history.bot_channels()
                if channel not in self.case_channels
            ]
        except Permanent as error:
            _log.error("bot_channels_unknown", reason=str(error), hint="Run `threadline doctor`.")
            return None

    async def read_history_page(self, request: contract.PageRequest) -> str:
        window = request.window
        page, more = await self.history.channel_page(window.channel, window.oldest, request.latest)
        roots = [
            message for message in page if message.get("thread_ts") in (None, "", message["ts"])
        ]
        async with self.database.begin() as tx:
            store = self._store(tx)
            known = await store.registered_roots(
                window.channel, [str(root["ts"]) for root in roots]
            )
            shown = [
                _root_state(root)
                for root in roots
                if str(root["ts"]) in known or self._counts(window, root)
            ]
            await store.record_page(
                window.channel, shown, request.began, request.began - contract.LOOK_BACK
            )
            if more:
                return str(page[-1]["ts"])
            await store.record_missing_roots(
                window.channel, window.oldest, window.latest, request.began
            )
        return ""

    def _counts(self, window: contract.HistoryWindow, root: RawMessage) -> bool:
        """Return whether a thread without an owner may get one. Among conversations every thread
        with replies counts, since a reply may be a mention.
        """
        if window.scope is LookScope.CONVERSATIONS:
            return (
                bool(root.get("reply_count"))
                or is_direct(window.channel)
                or mentions_user(self.bot_user_id, root)
                or any(each.begins(window.channel, root) for each in self.sources)
            )
        if window.only_bot_threads:
            return root.get("user") == self.bot_user_id and bool(root.get("metadata"))
        return may_speak(root, self.allowed_apps)

    async def record_channel(self, read: contract.ChannelRead) -> None:
        async with self.database.begin() as tx:
            await self._store(tx).record_read(read.channel, deep=read.deep, error=read.error)
        if read.error:
            _log.error("channel_unreadable", channel=read.channel, reason=read.error)

    async def select_threads(self, plan: CatchUpPlan) -> int:
        since = plan.began - contract.LOOK_BACK
        deep = None if plan.scope is LookScope.CASES else MAX_CONVERSATIONS
        count = deep if plan.deep else MAX_UNCHANGED
        async with self.database.begin() as tx:
            store = self._store(tx)
            for source in self.sources:
                if (
                    source.scope is plan.scope
                    and (found := source.active_threads(self.team, since)) is not None
                ):
                    await store.follow_threads(
                        found, everywhere=source.everywhere, always_due=source.always_due
                    )
            newest = plan.deep and plan.scope is LookScope.CONVERSATIONS
            await store.select_unchanged(plan.scope, since, count=count, newest=newest)
            return await store.count_due(plan.scope, plan.began)

    async def compare_threads(self, plan: CatchUpPlan) -> contract.ComparisonResult:
        async with self.database.begin() as tx:
            batch = await self._store(tx).next_batch(plan.scope, BATCH_SIZE, plan.began)
        groups: dict[str, list[CatchUpThread]] = {}
        # Threads of one owner form a group; a thread without an owner is a group of its own.
        for thread in batch:
            key = (
                thread.owner.workflow_id
                if thread.owner
                else f"{thread.channel}:{thread.thread_ts}"
            )
            groups.setdefault(key, []).append(thread)
        sent = 0
        for threads in groups.values():
            sent += await self._compare_owner(threads, plan)
        async with self.database.begin() as tx:
            left = await self._store(tx).count_due(plan.scope, plan.began)
        return contract.ComparisonResult(left, sent)

    async def _compare_owner(self, threads: Sequence[CatchUpThread], plan: CatchUpPlan) -> int:
        """Compare the threads of one owner, signal their missing messages, and record the progress
        at once.
        """
        missing = list[MissedEvent]()
        compared = dict[CatchUpThread, bool]()
        for thread in threads:
            try:
                found, compared[thread] = await self._compare(thread, plan)
                missing += found
            except Exception as error:  # noqa: BLE001 - the other threads must be compared
                if isinstance(error, Permanent) and plan.scope is LookScope.CONVERSATIONS:
                    # People remove the bot from channels: losing access to one is no error.
                    place = {"channel": thread.channel, "thread_ts": thread.thread_ts}
                    _log.info("conversation_unreachable", reason=str(error), **place)
                    compared[thread] = False
                else:
                    await self._leave_out([thread], plan, error)
        try:
            sent = await self._send(missing)
        except Exception as error:  # noqa: BLE001 - the other owners must be compared
            await self._leave_out(compared, plan, error)
            return 0
        async with self.database.begin() as tx:
            for thread, has_recent in compared.items():
                await self._store(tx).record_compared(thread, plan.began, again=has_recent)
        return sent

    async def _compare(
        self, thread: CatchUpThread, plan: CatchUpPlan
    ) -> tuple[list[MissedEvent], bool]:
        """Return the events of a thread that are not stored, and whether the next pass must
        compare it again because something was too recent.

        Events from before the pass looks back, or from before the thread's owner began, do not
        count.
        """
        owner = thread.owner
        scope = plan.scope
        source = next(
            each
            for each in self.sources
            if (each.kind == owner.feature if owner else each.scope is scope)
        )
        start = max(thread.compare_from, Decimal(f"{plan.began - contract.LOOK_BACK:.6f}"))
        end = Decimal(f"{plan.began - plan.settle_time:.6f}")
        # Read before Slack: a message that is stored in between must not look deleted.
        async with self.database.begin() as tx:
            said = await source.messages_between(tx, thread, start, end)
        whole = await self.history.read_thread(thread.channel, thread.thread_ts, f"{start:.6f}")
        listed = whole.messages
        author_id = self._root_author(thread, listed)
        in_time = [message for message in listed if start < Decimal(message["ts"]) < end]
        shown = [
            each
            for each in source.relevant(thread, author_id, in_time)
            if each.get("subtype") != "tombstone"
        ]
        stored: Mapping[str, StoredMessage] = {}
        if shown:
            ids = [
                message_id(thread.team, thread.channel, str(message["ts"])) for message in shown
            ]
            async with self.database.begin() as tx:
                stored = await source.find_messages(tx, thread, ids)
        parent = author_id or self.bot_user_id
        missing = [
            event
            for each in shown
            if (event := missing_event(source, thread, each, stored, parent, end))
        ]
        if self.restored:
            missing += await self.restored.find(source, thread, in_time)
        gone = await self._deletions.find(thread, said, whole, plan.began)
        missing += [
            deleted_event(thread.team, each, thread.thread_ts, parent) for each in gone.deleted
        ]
        missing += [
            absent_event(thread.team, each, thread.thread_ts, parent) for each in gone.inferred
        ]
        is_recent = any(
            Decimal(message["ts"]) >= end or edited_at(message) >= end for message in listed
        )
        return missing, is_recent or gone.waits

    def _root_author(self, thread: CatchUpThread, listed: Sequence[RawMessage]) -> str:
        """Return the author of the root. The registry knows it for a deleted root; an owned thread
        without an author has a root of the bot's.
        """
        root = next((message for message in listed if message["ts"] == thread.thread_ts), {})
        if root and root.get("subtype") != "tombstone":
            return str(root.get("user") or "")
        return thread.author_id or (self.bot_user_id if thread.owner else "")

    async def _leave_out(
        self, threads: Iterable[CatchUpThread], plan: CatchUpPlan, error: Exception
    ) -> None:
        """Record a thread's own error and leave the thread out; raise while the error may concern
        all threads.
        """
        everybodys = isinstance(error, NotDone)  # Slack limits the rate, or cannot be reached
        if everybodys or (
            not isinstance(error, Permanent) and activity.info().attempt < MAX_ATTEMPTS
        ):
            raise error
        for thread in threads:
            place = {"channel": thread.channel, "thread_ts": thread.thread_ts}
            _log.error("thread_comparison_failed", reason=str(error), **place)
            async with self.database.begin() as tx:
                await self._store(tx).record_failed(
                    thread, plan.began, str(error) or type(error).__name__
                )

    async def _send(self, missing: Sequence[MissedEvent]) -> int:
        """Signal the missing events, the oldest first; returns how many were signalled.

        Each send is recorded, so that an event which is never stored is not signalled without end.
        A refusal is recorded as well: the event is not signalled later, when the author or the
        settings have changed.
        """
        # Two threads of an owner may both lack the same deleted message.
        once = {event.id: event for event in missing}
        if not once:
            return 0
        async with self.database.begin() as tx:
            unstored, refused = await self._store(tx).send_state(once)
        sent = 0
        for event in sorted(once.values(), key=lambda event: event.at):
            if event.id in refused:
                continue
            if event.id in unstored:
                _log.error("message_not_stored", message=event.id, hint="Run `threadline doctor`.")
                continue
            if event.start and self.restored:
                handled = await self.restored.signal(event.start)
            else:
                handled = await self.handle(event.body)
            if not (handled.signalled or handled.refused):
                continue
            if handled.signalled:
                sent += 1
                _log.info("message_caught_up", message=event.id)
            async with self.database.begin() as tx:
                await self._store(tx).record_sent(event.id, refused=handled.refused)
        return sent


def history_windows(
    case_channels: Mapping[str, bool],
    oldest_roots: Mapping[str, str],
    others: Sequence[FollowedChannel],
    now: float,
    latest: float,
    *,
    deep: bool,
) -> list[contract.HistoryWindow]:
    """Return the windows of history, until `latest`, that a pass reads in each channel. Times are
    in seconds since 1970.

    Args:
        case_channels: channels of cases, with whether only threads that the bot opened count
            there.
        oldest_roots: the oldest registered thread of each case channel.
        others: the other channels in which people may talk with the bot.
    """
    until = f"{latest:.6f}"
    windows = list[contract.HistoryWindow]()
    for channel, only_bot_threads in case_channels.items():
        oldest = now - contract.LOOK_BACK
        if deep and channel in oldest_roots:  # an old thread shows new replies on its root alone
            oldest = min(oldest, float(Decimal(oldest_roots[channel])) - 1)
        windows.append(
            contract.HistoryWindow(
                channel, f"{oldest:.6f}", until, LookScope.CASES, only_bot_threads
            )
        )
    for each in others:
        oldest = now - contract.LOOK_BACK
        if not deep:
            oldest = max(oldest, (each.read_at or each.installed_at) - DEEP_INTERVAL)
        windows.append(
            contract.HistoryWindow(each.channel, f"{oldest:.6f}", until, LookScope.CONVERSATIONS)
        )
    return windows


async def unstored_messages(
    tx: Transaction, team: str, sources: Sequence[ThreadSource], limit: int = 10
) -> list[str]:
    """Return the ids of messages that were signalled `MAX_SENDS` times and are not stored, the
    last first.
    """
    often = await CatchUpStore(tx, team).often_sent()
    stored = set[str]()
    for source in sources if often else ():
        stored |= await source.stored_ids(tx, often)
    return [each for each in often if each not in stored][:limit]


def _root_state(root: RawMessage) -> tuple[str, Decimal, str]:
    """Return a root's `ts`, the time of the last activity in its thread, and a text that changes
    with each activity.
    """
    ts = str(root["ts"])
    latest = str(root.get("latest_reply") or "0")
    replies = int(root.get("reply_count") or 0)
    edited = str((root.get("edited") or {}).get("ts") or "0")
    state = f"{replies}:{latest}:{edited}:{root.get('subtype') or ''}"
    return ts, max(Decimal(ts), Decimal(latest), Decimal(edited)), state
