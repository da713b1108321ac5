"""CatchUpStore: how far each channel and thread was compared with Slack, and which messages were
signalled again.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Update, delete, func, literal, select, text, true, update
from sqlalchemy.dialects.postgresql import insert

from threadline.db.engine import Query, Store, Transaction
from threadline.threads.contract import LookScope
from threadline.threads.model import ThreadOwner
from threadline.threads.tables import (
    catch_up_channels,
    catch_up_messages,
    catch_up_threads,
    threads,
)

GONE = "gone"
"""The state of a root that Slack no longer has."""

MAX_SENDS = 3
"""Sends after which a message that is still not stored is not signalled again: a person must look.
"""
MAX_COUNTED = 1000
"""Most due threads that are counted: a pass shows their number before each batch, and ends at 0.
"""

_RECORD_PAGE = text("""
INSERT INTO catch_up_threads AS f
    (team, channel, thread_ts, active_at, root_state, compared_state, seen_at, is_due)
SELECT n.team, n.channel, CAST(:thread_ts AS text), CAST(:active_at AS numeric),
       CAST(:state AS text), CASE WHEN n.wanted THEN '' ELSE CAST(:state AS text) END,
       CAST(:seen_at AS double precision), n.wanted
FROM (SELECT c.team, c.channel, CAST(:active_at AS numeric) > CAST(:since AS numeric)
             AND (CAST(:active_at AS numeric) > c.installed_at OR EXISTS (
                 SELECT FROM threads t
                 WHERE t.team = c.team AND t.channel = c.channel
                   AND t.thread_ts = CAST(:thread_ts AS text))) AS wanted
      FROM catch_up_channels c WHERE c.team = :team AND c.channel = :channel) n
ON CONFLICT (team, channel, thread_ts) DO UPDATE SET
    active_at = greatest(f.active_at, excluded.active_at), root_state = excluded.root_state,
    seen_at = excluded.seen_at, is_due = f.is_due OR f.compared_state <> excluded.root_state
""")
_RECORD_MISSING_ROOTS = text("""
INSERT INTO catch_up_threads AS f
    (team, channel, thread_ts, active_at, root_state, seen_at, is_due)
SELECT t.team, t.channel, t.thread_ts, t.thread_ts::numeric, CAST(:gone AS text),
       CAST(:seen_at AS double precision), true
FROM threads t
WHERE t.team = :team AND t.channel = :channel AND t.thread_ts ~ '^[0-9]{1,12}[.][0-9]{6}$'
  AND t.thread_ts::numeric > CAST(:oldest AS numeric)
  AND t.thread_ts::numeric < CAST(:latest AS numeric)
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
            WHERE a.team = o.team AND a.channel = o.channel AND a.thread_ts = o.thread_ts
              AND a.verdict = 'doubted'))
        AND (o.channel = ANY(:case_channels)) = :of_cases
        AND (:of_cases OR split_part(t.kind, ':', 1) = ANY(:everywhere))
      ORDER BY CASE WHEN :newest THEN -o.active_at ELSE o.compared_at END LIMIT :count) chosen
WHERE f.team = chosen.team AND f.channel = chosen.channel AND f.thread_ts = chosen.thread_ts
""")
_NEXT_BATCH = text("""
WITH due AS NOT MATERIALIZED (
    SELECT f.team, f.channel, f.thread_ts, f.root_state, f.active_at, t.workflow_id, t.kind,
           coalesce(t.author_id, '') AS author_id,
           least(c.installed_at, t.compare_from) AS compare_from, t.first_message_at
    FROM catch_up_threads f
    LEFT JOIN catch_up_channels c USING (team, channel)
    LEFT JOIN threads t USING (team, channel, thread_ts)
    WHERE f.team = :team AND f.is_due AND f.compared_at <> :began
      AND coalesce(c.error = '', split_part(t.kind, ':', 1) = ANY(:everywhere))
      AND (f.channel = ANY(:case_channels)) = :of_cases
), first AS MATERIALIZED (
    SELECT * FROM due ORDER BY active_at, channel, thread_ts LIMIT :count
)
SELECT * FROM first
UNION SELECT * FROM due WHERE workflow_id = ANY(ARRAY(SELECT workflow_id FROM first))
ORDER BY active_at, channel, thread_ts
""")
"""The threads of one workflow come together, so that their messages are signalled in order.

Due threads before the batch's end that the query excludes (the other scope, unreadable channels)
are skipped, and no row after the end is read: there may be thousands of batches. `compare_from`
excludes messages from before the channel was followed and from before the owner began.
"""
_COUNT_DUE = text("""
SELECT count(*) FROM (
    SELECT FROM catch_up_threads f
    LEFT JOIN catch_up_channels c USING (team, channel)
    LEFT JOIN threads t USING (team, channel, thread_ts)
    WHERE f.team = :team AND f.is_due AND f.compared_at <> :began
      AND coalesce(c.error = '', split_part(t.kind, ':', 1) = ANY(:everywhere))
      AND (f.channel = ANY(:case_channels)) = :of_cases
    LIMIT :most) due
""")
"""Counts the threads that `_NEXT_BATCH` would return in all its batches, up to a limit."""
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
    SELECT FROM threads t
    WHERE t.team = f.team AND t.channel = f.channel AND t.thread_ts = f.thread_ts)
""")


@dataclass(frozen=True)
class FollowedChannel:
    """A channel whose history is compared. `installed_at`, `read_at` and `deep_read_at` are
    seconds since 1970, 0 for never; `error` is the reason why it cannot be read.
    """

    channel: str
    installed_at: float
    read_at: float
    deep_read_at: float
    error: str


@dataclass(frozen=True)
class CatchUpThread:
    """A thread to compare. Times are seconds since 1970.

    - `owner`: None for a thread without one so far;
    - `author_id`: the author of the root, where the registry knows it;
    - `compare_from`: older messages are left alone;
    - `first_message_at`: the time of a conversation's first stored message.
    """

    team: str
    channel: str
    thread_ts: str
    root_state: str
    owner: ThreadOwner | None
    author_id: str
    compare_from: Decimal
    first_message_at: Decimal | None = None


class CatchUpStore(Store):
    """The catch-up's tables for one workspace.

    Args:
        case_channels: all other channels are in `LookScope.CONVERSATIONS`.
        everywhere: kinds whose threads are compared also in channels that are not followed.
    """

    def __init__(
        self,
        tx: Transaction,
        team: str,
        case_channels: Collection[str] = (),
        everywhere: Collection[str] = (),
    ) -> None:
        super().__init__(tx)
        self._team = team
        self._case_channels = list(case_channels)
        self._everywhere = list(everywhere)

    async def follow_channels(self, channels: Collection[str], now: float) -> None:
        """Record when each channel was first followed. The earliest time wins, in any order of
        calls.
        """
        at = Decimal(f"{now:.6f}")
        rows = [
            {"team": self._team, "channel": each, "installed_at": at, "error": ""}
            for each in sorted(channels)
        ]
        if rows:
            new = insert(catch_up_channels).values(rows)
            row = catch_up_channels.c
            earlier = {"installed_at": func.least(row.installed_at, new.excluded.installed_at)}
            known = new.on_conflict_do_update(index_elements=[row.team, row.channel], set_=earlier)
            await self._tx.execute(known)

    async def unfollow_others(self, channels: Collection[str]) -> None:
        """Forget all other channels. A channel that is followed again later starts over, without
        older messages.
        """
        which = {"team": self._team, "channels": list(channels), "everywhere": self._everywhere}
        await self._tx.execute(_UNFOLLOW_THREADS, which)
        row = catch_up_channels.c
        others = delete(catch_up_channels).where(
            row.team == self._team, row.channel.not_in(list(channels))
        )
        await self._tx.execute(others)

    async def channels(self) -> list[FollowedChannel]:
        row = catch_up_channels.c
        times = [
            func.coalesce(func.extract("epoch", moment), 0)
            for moment in (row.read_at, row.deep_read_at)
        ]
        query = select(row.channel, row.installed_at, *times, row.error).where(
            row.team == self._team
        )
        return [
            FollowedChannel(channel, float(installed), float(read), float(deep), error)
            for channel, installed, read, deep, error in await self._tx.execute(
                query.order_by(row.channel)
            )
        ]

    async def record_read(self, channel: str, *, deep: bool, error: str = "") -> None:
        """Record that a channel was read to its end, or the error that prevented it."""
        row = catch_up_channels.c
        change = update(catch_up_channels).where(row.team == self._team, row.channel == channel)
        when = {"read_at": func.now(), **({"deep_read_at": func.now()} if deep else {})}
        await self._tx.execute(change.values(error=error, **({} if error else when)))

    async def oldest_roots(self, channels: Collection[str]) -> dict[str, str]:
        """Return the oldest registered thread of each channel that has one."""
        row = threads.c
        oldest = func.min(row.thread_ts).label("root")
        query = select(row.channel, oldest).where(
            row.team == self._team, row.channel.in_(list(channels))
        )
        return {
            found.channel: found.root
            for found in await self._tx.execute(query.group_by(row.channel))
        }

    async def registered_roots(self, channel: str, roots: Collection[str]) -> set[str]:
        """Return those of the roots whose thread has an owner."""
        row = threads.c
        these = (row.team == self._team, row.channel == channel, row.thread_ts.in_(list(roots)))
        return set((await self._tx.execute(select(row.thread_ts).where(*these))).scalars())

    async def record_page(
        self, channel: str, shown: Sequence[tuple[str, Decimal, str]], began: float, since: float
    ) -> None:
        """Record a page of a channel's history.

        A thread whose state differs from the compared one becomes due. A thread that is new here
        lacks nothing when it has been quiet since before `since`, or when it has no owner and is
        older than the installation.

        Args:
            shown: for each thread its root, the time of its last activity, and a text of its
                root's state.
        """
        page = {
            "team": self._team,
            "channel": channel,
            "seen_at": began,
            "since": Decimal(f"{since:.6f}"),
        }
        if shown:
            rows = [
                {**page, "thread_ts": root, "active_at": at, "state": state}
                for root, at, state in shown
            ]
            await self._tx.execute(_RECORD_PAGE, rows)

    async def record_missing_roots(
        self, channel: str, oldest: str, latest: str, began: float
    ) -> None:
        """Record, after the last page, that the registered threads of the window which no page has
        shown are gone from the channel.
        """
        window = {"channel": channel, "oldest": Decimal(oldest), "latest": Decimal(latest)}
        await self._tx.execute(
            _RECORD_MISSING_ROOTS, {"team": self._team, "seen_at": began, "gone": GONE, **window}
        )

    async def follow_threads(self, found: Query, *, everywhere: bool, always_due: bool) -> None:
        """Let these threads (`ThreadSource.active_threads`) be compared, although no channel's
        history shows their changes.

        Args:
            everywhere: includes channels that are not followed.
            always_due: makes them due even without activity since the last comparison.
        """
        active = found.subquery()
        row = catch_up_threads.c
        thread = (active.c.channel, active.c.thread_ts, active.c.active_at)
        query = select(literal(self._team), *thread, literal(""), literal(0.0), true())
        if not everywhere:
            followed = select(catch_up_channels.c.channel).where(
                catch_up_channels.c.team == self._team
            )
            query = query.where(active.c.channel.in_(followed))
        columns = ["team", "channel", "thread_ts", "active_at", "root_state", "seen_at", "is_due"]
        new = insert(catch_up_threads).from_select(columns, query)
        key = ["team", "channel", "thread_ts"]
        at = new.excluded.active_at
        changes: dict[str, Any] = {"is_due": true()}
        condition = row.root_state != GONE
        if not always_due:
            changes = {
                "active_at": func.greatest(row.active_at, at),
                "is_due": row.is_due | (at > row.compared_at),
            }
            condition = (row.active_at < at) | (~row.is_due & (at > row.compared_at))
        await self._tx.execute(
            new.on_conflict_do_update(index_elements=key, set_=changes, where=condition)
        )

    async def select_unchanged(
        self, scope: LookScope, since: float, *, count: int | None, newest: bool
    ) -> None:
        """Make `count` threads without a sign of change due (None: all): the last active, or those
        compared longest ago.

        Args:
            since: in seconds since 1970; threads that were last active before it are left alone.
            newest: selects the last active.
        """
        which = {"since": since, "gone": GONE, "count": count, "newest": newest}
        await self._tx.execute(_SELECT_UNCHANGED, self._scoped(scope) | which)

    async def next_batch(self, scope: LookScope, count: int, began: float) -> list[CatchUpThread]:
        """Return the due threads that were active first, with the others of their owners, except
        those that this pass has compared.
        """
        rows = await self._tx.execute(
            _NEXT_BATCH, self._scoped(scope) | {"count": count, "began": began}
        )
        found = []
        for row in rows.mappings():
            values = dict(row)
            workflow_id = values.pop("workflow_id")
            kind = values.pop("kind")
            _ = values.pop("active_at")
            found.append(
                CatchUpThread(
                    owner=ThreadOwner(workflow_id, kind) if workflow_id else None, **values
                )
            )
        return found

    async def count_due(self, scope: LookScope, began: float) -> int:
        """Count the readable threads that the pass that began at `began` has yet to compare, at
        most `MAX_COUNTED`.
        """
        return int(
            (
                await self._tx.execute(
                    _COUNT_DUE, self._scoped(scope) | {"began": began, "most": MAX_COUNTED}
                )
            ).scalar_one()
        )

    async def record_compared(
        self, thread: CatchUpThread, began: float, *, again: bool = False
    ) -> None:
        """Record that a pass compared a thread in a state of its root. A thread that has changed
        since stays due for the next pass; `again` keeps it due in any case.
        """
        done = {
            "compared_state": thread.root_state,
            "compared_at": began,
            "is_due": again,
            "error": "",
        }
        await self._tx.execute(_row_of(thread).values(done))

    async def record_failed(self, thread: CatchUpThread, began: float, error: str) -> None:
        """Record that a pass had to leave a thread out. It stays due."""
        await self._tx.execute(_row_of(thread).values(compared_at=began, error=error))

    async def failed_threads(self, since: float, limit: int = 10) -> list[tuple[str, str, str]]:
        """Return the threads that the last pass over them had to leave out: channel, root and
        error.
        """
        row = catch_up_threads.c
        left_out = (row.team == self._team, row.error != "", row.active_at > since)
        query = select(row.channel, row.thread_ts, row.error).where(*left_out)
        found = await self._tx.execute(query.order_by(row.active_at.desc()).limit(limit))
        return [(channel, root, error) for channel, root, error in found]

    async def send_state(self, ids: Collection[str]) -> tuple[set[str], set[str]]:
        """Return those of the messages that reached `MAX_SENDS`, and those that were refused."""
        row = catch_up_messages.c
        these = (row.team == self._team, row.message_id.in_(list(ids)))
        query = select(row.message_id, row.sends, row.refused).where(*these)
        known = list(await self._tx.execute(query))
        often = {each.message_id for each in known if each.sends >= MAX_SENDS}
        return often, {each.message_id for each in known if each.refused}

    async def record_sent(self, message_id: str, *, refused: bool = False) -> None:
        """Record that a message was signalled, or refused because its author may not take part. A
        refusal is final, even when the author's rights change later.
        """
        sends = 0 if refused else 1
        new = insert(catch_up_messages).values(
            team=self._team, message_id=message_id, sends=sends, refused=refused
        )
        row = catch_up_messages.c
        key = ["team", "message_id"]
        changes = (
            {"refused": true()} if refused else {"sends": row.sends + 1, "last_at": func.now()}
        )
        await self._tx.execute(new.on_conflict_do_update(index_elements=key, set_=changes))

    async def often_sent(self, limit: int = 1000) -> list[str]:
        """Return the ids of messages that reached `MAX_SENDS`, the last first, stored or not."""
        row = catch_up_messages.c
        query = select(row.message_id).where(row.team == self._team, row.sends >= MAX_SENDS)
        return list(
            (await self._tx.execute(query.order_by(row.last_at.desc()).limit(limit))).scalars()
        )

    async def prune(self, before: float) -> None:
        """Delete records whose last use was before a moment, in seconds since 1970."""
        row = catch_up_messages.c
        old = delete(catch_up_messages).where(
            row.team == self._team, row.last_at < func.to_timestamp(before)
        )
        await self._tx.execute(old)
        await self._tx.execute(_FORGET_THREADS, {"team": self._team, "before": before})

    def _scoped(self, scope: LookScope) -> dict[str, Any]:
        channels = {"case_channels": self._case_channels, "everywhere": self._everywhere}
        return {"team": self._team, "of_cases": scope is LookScope.CASES, **channels}


def _row_of(thread: CatchUpThread) -> Update:
    row = catch_up_threads.c
    here = (
        row.team == thread.team,
        row.channel == thread.channel,
        row.thread_ts == thread.thread_ts,
    )
    return update(catch_up_threads).where(*here)
