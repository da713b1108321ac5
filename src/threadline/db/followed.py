"""How far each followed channel and thread was compared with what is stored, and what was sent again."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.tables import channel_marks, followed_threads, resent_messages, threads

GONE = "gone"
"""What is shown of a thread whose root Slack does not have any more."""

_SHOW = text("""
INSERT INTO followed_threads AS f (channel, thread_ts, said_at, active_at, shown, compared, seen_at, due)
SELECT n.channel, CAST(:thread_ts AS text), CAST(:said_at AS numeric), CAST(:active_at AS numeric),
       CAST(:shown AS text), CASE WHEN n.wanted THEN '' ELSE CAST(:shown AS text) END,
       CAST(:seen_at AS double precision), n.wanted
FROM (SELECT m.channel, CAST(:active_at AS numeric) > CAST(:since AS numeric)
             AND (CAST(:active_at AS numeric) > m.installed_at OR EXISTS (
                 SELECT FROM threads t
                 WHERE t.channel = m.channel AND t.thread_ts = CAST(:thread_ts AS text))) AS wanted
      FROM channel_marks m WHERE m.channel = :channel) n
ON CONFLICT (channel, thread_ts) DO UPDATE SET
    active_at = greatest(f.active_at, excluded.active_at), shown = excluded.shown, seen_at = excluded.seen_at,
    due = f.due OR f.compared <> excluded.shown
""")
_MISS = text("""
INSERT INTO followed_threads AS f (channel, thread_ts, said_at, active_at, shown, seen_at, due)
SELECT t.channel, t.thread_ts, t.thread_ts::numeric, t.thread_ts::numeric, CAST(:gone AS text),
       CAST(:seen_at AS double precision), true
FROM threads t
WHERE t.channel = :channel AND t.thread_ts ~ '^[0-9]{1,12}[.][0-9]{6}$'
  AND t.thread_ts::numeric > CAST(:oldest AS numeric) AND t.thread_ts::numeric < CAST(:latest AS numeric)
ON CONFLICT (channel, thread_ts) DO UPDATE SET shown = excluded.shown, due = f.due OR f.compared <> excluded.shown
WHERE f.seen_at < :seen_at
""")
_ALL_DUE = text("UPDATE followed_threads SET due = true WHERE active_at > :active_since AND NOT due AND shown <> :gone")
_SOME_DUE = text("""
UPDATE followed_threads f SET due = true
FROM (SELECT channel, thread_ts FROM followed_threads WHERE active_at > :active_since AND NOT due AND shown <> :gone
      ORDER BY compared_at LIMIT :count) oldest
WHERE f.channel = oldest.channel AND f.thread_ts = oldest.thread_ts
""")
_BATCH = text("""
WITH due AS (
    SELECT f.*, t.bug_id FROM followed_threads f
    LEFT JOIN threads t ON t.team = :team AND t.channel = f.channel AND t.thread_ts = f.thread_ts
    WHERE f.due
), first AS (SELECT * FROM due ORDER BY active_at, channel, thread_ts LIMIT :count)
SELECT d.channel, d.thread_ts, d.shown, coalesce(d.bug_id, '') AS bug_id, coalesce(c.reporter_id, '') AS reporter_id,
       least(m.installed_at, extract(epoch FROM c.created_at) - 900) AS floor
FROM due d JOIN channel_marks m ON m.channel = d.channel LEFT JOIN cases c ON c.bug_id = d.bug_id
WHERE (d.channel, d.thread_ts) IN (SELECT channel, thread_ts FROM first)
   OR d.bug_id IN (SELECT bug_id FROM first)
ORDER BY d.active_at, d.channel, d.thread_ts
""")
"""The threads of one case come together, so that what was said in them is sent in its order.

The floor is the moment of installation, or for an older case the time a quarter of an hour before it was opened.
"""
_RESENT = text("""
INSERT INTO resent_messages AS r (message_id, times) SELECT unnest(CAST(:ids AS text[])), 1
ON CONFLICT (message_id) DO UPDATE SET times = r.times + 1, last_at = now()
""")
_UNSTORED = text("""
SELECT r.message_id FROM resent_messages r
WHERE r.times >= :times AND NOT EXISTS (SELECT FROM bug_conversations m WHERE m.message_id = r.message_id)
ORDER BY r.last_at DESC LIMIT :limit
""")

RESENDS = 3
"""A message that was sent so often and is not stored will not be by sending it again: people must look."""


@dataclass(frozen=True)
class ChannelMark:
    """`installed_at`, `looked_at` and `deep_at`: seconds since 1970, 0 for never; `error`: why it cannot be read."""

    channel: str
    installed_at: float
    looked_at: float
    deep_at: float
    error: str


@dataclass(frozen=True)
class Shown:
    """What Slack shows of a thread: when its root and its newest message were said, and a word for its state."""

    thread_ts: str
    active_at: str
    state: str


@dataclass(frozen=True)
class DueThread:
    """`bug_id` and `reporter_id` are empty for a thread without a case; `floor`: what is older is left alone."""

    channel: str
    thread_ts: str
    shown: str
    bug_id: str
    reporter_id: str
    floor: Decimal


class Followed:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def install(self, channels: Collection[str], now: float) -> None:
        """Remember when each channel was first followed; the first word stands."""
        if channels:
            rows = [{"channel": channel, "installed_at": Decimal(f"{now:.6f}"), "error": ""} for channel in channels]
            await self._connection.execute(insert(channel_marks).values(rows).on_conflict_do_nothing())

    async def marks(self) -> list[ChannelMark]:
        mark = channel_marks.c
        seconds = [func.coalesce(func.extract("epoch", moment), 0) for moment in (mark.looked_at, mark.deep_at)]
        query = select(mark.channel, mark.installed_at, *seconds, mark.error).order_by(mark.channel)
        return [
            ChannelMark(channel, float(installed), float(looked), float(deep), error)
            for channel, installed, looked, deep, error in await self._connection.execute(query)
        ]

    async def looked(self, channel: str, *, deep: bool, error: str = "") -> None:
        """A look at the channel has ended, or could not be taken."""
        mark = update(channel_marks).where(channel_marks.c.channel == channel)
        if error:
            await self._connection.execute(mark.values(error=error))
            return
        when = {"looked_at": func.now(), **({"deep_at": func.now()} if deep else {})}
        await self._connection.execute(mark.values(**when, error=""))

    async def oldest_thread(self, channel: str) -> str:
        """The oldest thread of a case in the channel; empty when it has none."""
        query = select(func.min(threads.c.thread_ts)).where(threads.c.channel == channel)
        return (await self._connection.execute(query)).scalar_one_or_none() or ""

    async def are_known(self, channel: str, roots: Collection[str]) -> set[str]:
        """Which of these roots begin a thread of a case."""
        query = select(threads.c.thread_ts).where(threads.c.channel == channel, threads.c.thread_ts.in_(roots))
        return set((await self._connection.execute(query)).scalars())

    async def show(self, channel: str, shown: Sequence[Shown], began: float, since: float) -> None:
        """Take in a page of a channel's history; a thread that differs from what was compared becomes due.

        Of one that is new here nothing can be missing when it has been quiet since before `since`, or belongs to no
        case and is older than the installation.
        """
        rows = [
            {
                "channel": channel,
                "thread_ts": each.thread_ts,
                "said_at": Decimal(each.thread_ts),
                "active_at": Decimal(each.active_at),
                "shown": each.state,
                "seen_at": began,
                "since": Decimal(f"{since:.6f}"),
            }
            for each in shown
        ]
        if rows:
            await self._connection.execute(_SHOW, rows)

    async def miss(self, channel: str, oldest: str, latest: str, began: float) -> None:
        """After the last page: threads of cases between the two that no page has shown are gone from the channel."""
        window = {"oldest": Decimal(oldest), "latest": Decimal(latest)}
        await self._connection.execute(_MISS, {"channel": channel, "seen_at": began, "gone": GONE, **window})

    async def choose(self, active_since: float, *, count: int | None) -> None:
        """Make threads due that show no change: those compared longest ago, `count` of them, or all."""
        which = {"active_since": active_since, "gone": GONE}
        if count is None:
            await self._connection.execute(_ALL_DUE, which)
        else:
            await self._connection.execute(_SOME_DUE, {**which, "count": count})

    async def due(self, team: str, count: int) -> list[DueThread]:
        """The due threads that were active first, with the others of their cases."""
        rows = await self._connection.execute(_BATCH, {"team": team, "count": count})
        return [DueThread(**row) for row in rows.mappings()]

    async def count_due(self) -> int:
        query = select(func.count()).select_from(followed_threads).where(followed_threads.c.due)
        return int((await self._connection.execute(query)).scalar_one())

    async def compared(self, thread: DueThread, as_of: str, now: float, error: str = "") -> None:
        """A thread was compared in the state `as_of`; one that has changed since is due again at the next look."""
        row = followed_threads.c
        which = update(followed_threads).where(row.channel == thread.channel, row.thread_ts == thread.thread_ts)
        await self._connection.execute(which.values(compared=as_of, compared_at=now, due=False, error=error))

    async def often_resent(self, ids: Collection[str]) -> set[str]:
        """Which of these messages were sent again so often that once more would not help."""
        sent = resent_messages.c
        query = select(sent.message_id).where(sent.message_id.in_(ids), sent.times >= RESENDS)
        return set((await self._connection.execute(query)).scalars())

    async def resent(self, ids: Collection[str]) -> None:
        if ids:
            await self._connection.execute(_RESENT, {"ids": sorted(set(ids))})

    async def never_stored(self, limit: int = 10) -> list[str]:
        """Messages that were sent again in vain."""
        return list((await self._connection.execute(_UNSTORED, {"times": RESENDS, "limit": limit})).scalars())

    async def forget(self, before: float) -> None:
        """Drop what was last of interest before a moment."""
        old = func.to_timestamp(before)
        await self._connection.execute(delete(resent_messages).where(resent_messages.c.last_at < old))
        row = followed_threads.c
        of_a_case = select(threads).where(threads.c.channel == row.channel, threads.c.thread_ts == row.thread_ts)
        stale = delete(followed_threads).where(row.active_at < before, ~row.due, ~of_a_case.exists())
        await self._connection.execute(stale)
