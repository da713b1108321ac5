"""CatchUpStore: how far each channel and thread was compared with Slack, and what was signalled again."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Update, delete, func, literal, select, text, true, update
from sqlalchemy.dialects.postgresql import insert

from threadline.db.engine import Query, Store, Transaction
from threadline.threads.contract import LookScope
from threadline.threads.model import ThreadOwner
from threadline.threads.tables import catch_up_channels, catch_up_messages, catch_up_threads, threads

GONE = "gone"
"""The state of a root that Slack does not have any more."""

MAX_SENDS = 3
"""A message that was signalled so often and is not stored will not be by the next time: people must look."""
MAX_COUNTED = 1000
"""Due threads that are counted at most: a pass shows their number before each batch, and ends at 0."""

_RECORD_PAGE = text("""
INSERT INTO catch_up_threads AS f (team, channel, thread_ts, active_at, root_state, compared_state, seen_at, is_due)
SELECT n.team, n.channel, CAST(:thread_ts AS text), CAST(:active_at AS numeric), CAST(:state AS text),
       CASE WHEN n.wanted THEN '' ELSE CAST(:state AS text) END, CAST(:seen_at AS double precision), n.wanted
FROM (SELECT c.team, c.channel, CAST(:active_at AS numeric) > CAST(:since AS numeric)
             AND (CAST(:active_at AS numeric) > c.installed_at OR EXISTS (
                 SELECT FROM threads t
                 WHERE t.team = c.team AND t.channel = c.channel AND t.thread_ts = CAST(:thread_ts AS text))) AS wanted
      FROM catch_up_channels c WHERE c.team = :team AND c.channel = :channel) n
ON CONFLICT (team, channel, thread_ts) DO UPDATE SET
    active_at = greatest(f.active_at, excluded.active_at), root_state = excluded.root_state,
    seen_at = excluded.seen_at, is_due = f.is_due OR f.compared_state <> excluded.root_state
""")
_RECORD_MISSING_ROOTS = text("""
INSERT INTO catch_up_threads AS f (team, channel, thread_ts, active_at, root_state, seen_at, is_due)
SELECT t.team, t.channel, t.thread_ts, t.thread_ts::numeric, CAST(:gone AS text),
       CAST(:seen_at AS double precision), true
FROM threads t
WHERE t.team = :team AND t.channel = :channel AND t.thread_ts ~ '^[0-9]{1,12}[.][0-9]{6}$'
  AND t.thread_ts::numeric > CAST(:oldest AS numeric) AND t.thread_ts::numeric < CAST(:latest AS numeric)
ON CONFLICT (team, channel, thread_ts) DO UPDATE SET
    root_state = excluded.root_state, is_due = f.is_due OR f.compared_state <> excluded.root_state
WHERE f.seen_at < :seen_at
""")
_SELECT_UNCHANGED = text("""
UPDATE catch_up_threads f SET is_due = true
FROM (SELECT o.team, o.channel, o.thread_ts
      FROM catch_up_threads o LEFT JOIN threads t USING (team, channel, thread_ts)
      WHERE o.team = :team AND o.active_at > :since AND NOT o.is_due
        AND (o.root_state <> :gone OR EXISTS (
            SELECT FROM catch_up_absences a
            WHERE a.team = o.team AND a.channel = o.channel AND a.thread_ts = o.thread_ts AND a.verdict = 'doubted'))
        AND (o.channel = ANY(:case_channels)) = :of_cases
        AND (:of_cases OR split_part(t.kind, ':', 1) = ANY(:everywhere))
      ORDER BY CASE WHEN :newest THEN -o.active_at ELSE o.compared_at END LIMIT :count) chosen
WHERE f.team = chosen.team AND f.channel = chosen.channel AND f.thread_ts = chosen.thread_ts
""")
_DUE = """
SELECT f.team, f.channel, f.thread_ts, f.root_state, f.active_at, t.workflow_id, t.kind,
       coalesce(t.author_id, '') AS author_id, least(c.installed_at, t.compare_from) AS compare_from,
       t.first_message_at
FROM catch_up_threads f
LEFT JOIN catch_up_channels c USING (team, channel)
LEFT JOIN threads t USING (team, channel, thread_ts)
WHERE f.team = :team AND f.is_due AND f.compared_at <> :began
  AND coalesce(c.error = '', split_part(t.kind, ':', 1) = ANY(:everywhere))
  AND (f.channel = ANY(:case_channels)) = :of_cases
"""
_NEXT_BATCH = text(f"""
WITH first AS MATERIALIZED ({_DUE} ORDER BY f.active_at, f.channel, f.thread_ts LIMIT :count)
SELECT * FROM first UNION ({_DUE} AND t.workflow_id = ANY(ARRAY(SELECT workflow_id FROM first)))
ORDER BY active_at, channel, thread_ts
""")  # noqa: S608 - both parts are written here
"""The threads of one workflow come together, so that what was said in them is signalled in its order. Of the others
that are due those before its end are passed over (the other scope, channels that cannot be read), and none behind it
is read: there may be thousands of batches. Older than `compare_from` is what was said before the channel was followed,
and before its owner began."""
_COUNT_DUE = text(f"SELECT count(*) FROM ({_DUE} LIMIT {MAX_COUNTED}) due")  # noqa: S608 - all parts are written here
_UNFOLLOW_THREADS = text("""
DELETE FROM catch_up_threads f
WHERE f.team = :team AND f.channel <> ALL(:channels) AND NOT EXISTS (
    SELECT FROM threads t
    WHERE t.team = f.team AND t.channel = f.channel AND t.thread_ts = f.thread_ts
      AND split_part(t.kind, ':', 1) = ANY(:everywhere))
""")
_FORGET_THREADS = text("""
DELETE FROM catch_up_threads f
WHERE f.team = :team AND f.active_at < :before AND NOT EXISTS (
    SELECT FROM threads t WHERE t.team = f.team AND t.channel = f.channel AND t.thread_ts = f.thread_ts)
""")


@dataclass(frozen=True)
class FollowedChannel:
    """`installed_at`, `read_at` and `deep_read_at`: seconds since 1970, 0 for never; `error`: why it cannot be read."""

    channel: str
    installed_at: float
    read_at: float
    deep_read_at: float
    error: str


@dataclass(frozen=True)
class CatchUpThread:
    """A thread to compare; times are seconds since 1970. `owner` is None for a thread that is nobody's yet.
    `author_id`: who wrote the root, where the registry knows it. `compare_from`: what is older is left alone.
    `first_message_at`: of what is stored of a conversation."""

    team: str
    channel: str
    thread_ts: str
    root_state: str
    owner: ThreadOwner | None
    author_id: str
    compare_from: Decimal
    first_message_at: Decimal | None = None


class CatchUpStore(Store):
    """The catch-up's tables for one workspace. All channels but `case_channels` are of `LookScope.CONVERSATIONS`;
    threads of the kinds in `everywhere` are compared also in channels which are not followed."""

    def __init__(
        self, tx: Transaction, team: str, case_channels: Collection[str] = (), everywhere: Collection[str] = ()
    ) -> None:
        super().__init__(tx)
        self._team = team
        self._case_channels = list(case_channels)
        self._everywhere = list(everywhere)

    async def follow_channels(self, channels: Collection[str], now: float) -> None:
        """Remember when each channel was first followed: the earliest moment stands, whichever arrives first."""
        at = Decimal(f"{now:.6f}")
        rows = [{"team": self._team, "channel": each, "installed_at": at, "error": ""} for each in sorted(channels)]
        if rows:
            new = insert(catch_up_channels).values(rows)
            row = catch_up_channels.c
            earlier = {"installed_at": func.least(row.installed_at, new.excluded.installed_at)}
            known = new.on_conflict_do_update(index_elements=[row.team, row.channel], set_=earlier)
            await self._tx.execute(known)

    async def unfollow_others(self, channels: Collection[str]) -> None:
        """Forget all other channels: one that is followed again later begins anew, with nothing older than that."""
        which = {"team": self._team, "channels": list(channels), "everywhere": self._everywhere}
        await self._tx.execute(_UNFOLLOW_THREADS, which)
        row = catch_up_channels.c
        others = delete(catch_up_channels).where(row.team == self._team, row.channel.not_in(list(channels)))
        await self._tx.execute(others)

    async def channels(self) -> list[FollowedChannel]:
        row = catch_up_channels.c
        times = [func.coalesce(func.extract("epoch", moment), 0) for moment in (row.read_at, row.deep_read_at)]
        query = select(row.channel, row.installed_at, *times, row.error).where(row.team == self._team)
        return [
            FollowedChannel(channel, float(installed), float(read), float(deep), error)
            for channel, installed, read, deep, error in await self._tx.execute(query.order_by(row.channel))
        ]

    async def record_read(self, channel: str, *, deep: bool, error: str = "") -> None:
        """A channel was read to its end, or could not be."""
        row = catch_up_channels.c
        change = update(catch_up_channels).where(row.team == self._team, row.channel == channel)
        when = {"read_at": func.now(), **({"deep_read_at": func.now()} if deep else {})}
        await self._tx.execute(change.values(error=error, **({} if error else when)))

    async def oldest_roots(self, channels: Collection[str]) -> dict[str, str]:
        """The oldest registered thread of each channel that has one."""
        row = threads.c
        oldest = func.min(row.thread_ts).label("root")
        query = select(row.channel, oldest).where(row.team == self._team, row.channel.in_(list(channels)))
        return {found.channel: found.root for found in await self._tx.execute(query.group_by(row.channel))}

    async def registered_roots(self, channel: str, roots: Collection[str]) -> set[str]:
        """Which of these roots begin a thread that has an owner."""
        row = threads.c
        these = (row.team == self._team, row.channel == channel, row.thread_ts.in_(list(roots)))
        return set((await self._tx.execute(select(row.thread_ts).where(*these))).scalars())

    async def record_page(
        self, channel: str, shown: Sequence[tuple[str, Decimal, str]], began: float, since: float
    ) -> None:
        """Record a page of a channel's history: of each thread its root, when something last happened in it, and a word
        for the state of its root. A thread that differs from what was compared becomes due. Of one that is new here
        nothing can be missing when it has been quiet since before `since`, or has no owner and is older than the
        installation."""
        page = {"team": self._team, "channel": channel, "seen_at": began, "since": Decimal(f"{since:.6f}")}
        if shown:
            rows = [{**page, "thread_ts": root, "active_at": at, "state": state} for root, at, state in shown]
            await self._tx.execute(_RECORD_PAGE, rows)

    async def record_missing_roots(self, channel: str, oldest: str, latest: str, began: float) -> None:
        """After the last page: registered threads between the two that no page has shown are gone from the channel."""
        window = {"channel": channel, "oldest": Decimal(oldest), "latest": Decimal(latest)}
        await self._tx.execute(_RECORD_MISSING_ROOTS, {"team": self._team, "seen_at": began, "gone": GONE, **window})

    async def follow_threads(self, found: Query, *, everywhere: bool, always_due: bool) -> None:
        """Let these threads (`ThreadSource.active_threads`) be compared, also where no channel's history shows that
        they have changed. `everywhere`: also in channels that are not followed. `always_due`: in any case, and not only
        when something has happened since they were compared."""
        active, row = found.subquery(), catch_up_threads.c
        thread = (active.c.channel, active.c.thread_ts, active.c.active_at)
        query = select(literal(self._team), *thread, literal(""), literal(0.0), true())
        if not everywhere:
            followed = select(catch_up_channels.c.channel).where(catch_up_channels.c.team == self._team)
            query = query.where(active.c.channel.in_(followed))
        columns = ["team", "channel", "thread_ts", "active_at", "root_state", "seen_at", "is_due"]
        new = insert(catch_up_threads).from_select(columns, query)
        key, at = ["team", "channel", "thread_ts"], new.excluded.active_at
        changes: dict[str, Any] = {"is_due": true()}
        condition = row.root_state != GONE
        if not always_due:
            changes = {"active_at": func.greatest(row.active_at, at), "is_due": row.is_due | (at > row.compared_at)}
            condition = (row.active_at < at) | (~row.is_due & (at > row.compared_at))
        await self._tx.execute(new.on_conflict_do_update(index_elements=key, set_=changes, where=condition))

    async def select_unchanged(self, scope: LookScope, since: float, *, count: int | None, newest: bool) -> None:
        """Make `count` threads (None: all) due that show no change: the last active, or those compared longest ago.
        Threads that were last active before `since` (seconds since 1970) are left alone."""
        which = {"since": since, "gone": GONE, "count": count, "newest": newest}
        await self._tx.execute(_SELECT_UNCHANGED, self._scoped(scope) | which)

    async def next_batch(self, scope: LookScope, count: int, began: float) -> list[CatchUpThread]:
        """The due threads that were active first, with the others of their owners, but for what this pass has seen."""
        rows = await self._tx.execute(_NEXT_BATCH, self._scoped(scope) | {"count": count, "began": began})
        found = []
        for row in rows.mappings():
            values = dict(row)
            workflow_id, kind, _ = values.pop("workflow_id"), values.pop("kind"), values.pop("active_at")
            found.append(CatchUpThread(owner=ThreadOwner(workflow_id, kind) if workflow_id else None, **values))
        return found

    async def count_due(self, scope: LookScope, began: float) -> int:
        """How many threads the pass that began then has before it, at most `MAX_COUNTED`, where it can read them."""
        return int((await self._tx.execute(_COUNT_DUE, self._scoped(scope) | {"began": began})).scalar_one())

    async def record_compared(self, thread: CatchUpThread, began: float, *, again: bool = False) -> None:
        """A pass has compared a thread in a state of its root; one that has changed since is due in the next pass;
        with `again` it is in any case."""
        done = {"compared_state": thread.root_state, "compared_at": began, "is_due": again, "error": ""}
        await self._tx.execute(_row_of(thread).values(done))

    async def record_failed(self, thread: CatchUpThread, began: float, error: str) -> None:
        """A pass had to leave a thread out, which stays due."""
        await self._tx.execute(_row_of(thread).values(compared_at=began, error=error))

    async def failed_threads(self, since: float, limit: int = 10) -> list[tuple[str, str, str]]:
        """Threads that the last pass over them had to leave out: channel, root and why."""
        row = catch_up_threads.c
        left_out = (row.team == self._team, row.error != "", row.active_at > since)
        query = select(row.channel, row.thread_ts, row.error).where(*left_out)
        found = await self._tx.execute(query.order_by(row.active_at.desc()).limit(limit))
        return [(channel, root, error) for channel, root, error in found]

    async def send_state(self, ids: Collection[str]) -> tuple[set[str], set[str]]:
        """Which of these messages were signalled so often that once more would not help, and whose were refused."""
        row = catch_up_messages.c
        these = (row.team == self._team, row.message_id.in_(list(ids)))
        query = select(row.message_id, row.sends, row.refused).where(*these)
        known = list(await self._tx.execute(query))
        often = {each.message_id for each in known if each.sends >= MAX_SENDS}
        return often, {each.message_id for each in known if each.refused}

    async def record_sent(self, message_id: str, *, refused: bool = False) -> None:
        """A message was signalled; or refused, since its author may not take part, whoever they become later."""
        sends = 0 if refused else 1
        new = insert(catch_up_messages).values(team=self._team, message_id=message_id, sends=sends, refused=refused)
        row, key = catch_up_messages.c, ["team", "message_id"]
        changes = {"refused": true()} if refused else {"sends": row.sends + 1, "last_at": func.now()}
        await self._tx.execute(new.on_conflict_do_update(index_elements=key, set_=changes))

    async def often_sent(self, limit: int = 1000) -> list[str]:
        """Messages that are not signalled once more, the last first, stored by now or not."""
        row = catch_up_messages.c
        query = select(row.message_id).where(row.team == self._team, row.sends >= MAX_SENDS)
        return list((await self._tx.execute(query.order_by(row.last_at.desc()).limit(limit))).scalars())

    async def prune(self, before: float) -> None:
        """Drop what was last of interest before a moment, in seconds since 1970."""
        row = catch_up_messages.c
        old = delete(catch_up_messages).where(row.team == self._team, row.last_at < func.to_timestamp(before))
        await self._tx.execute(old)
        await self._tx.execute(_FORGET_THREADS, {"team": self._team, "before": before})

    def _scoped(self, scope: LookScope) -> dict[str, Any]:
        channels = {"case_channels": self._case_channels, "everywhere": self._everywhere}
        return {"team": self._team, "of_cases": scope is LookScope.CASES, **channels}


def _row_of(thread: CatchUpThread) -> Update:
    row = catch_up_threads.c
    here = (row.team == thread.team, row.channel == thread.channel, row.thread_ts == thread.thread_ts)
    return update(catch_up_threads).where(*here)
