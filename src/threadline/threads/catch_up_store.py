"""How far each followed channel and thread was compared with what is stored, and what was sent again."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import Update, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.threads.tables import channel_marks, followed_threads, refused_messages, resent_messages, threads

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
                 WHERE t.channel = m.channel AND t.thread_ts = CAST(:thread_ts AS text)
                   AND t.kind LIKE 'case:%')) AS wanted
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
WHERE t.channel = :channel AND t.kind LIKE 'case:%' AND t.thread_ts ~ '^[0-9]{1,12}[.][0-9]{6}$'
  AND t.thread_ts::numeric > CAST(:oldest AS numeric) AND t.thread_ts::numeric < CAST(:latest AS numeric)
ON CONFLICT (channel, thread_ts) DO UPDATE SET shown = excluded.shown, due = f.due OR f.compared <> excluded.shown
WHERE f.seen_at < :seen_at
""")
_DUE = text("""
UPDATE followed_threads f SET due = true
FROM (SELECT channel, thread_ts FROM followed_threads
      WHERE channel = ANY(:channels) AND active_at > :active_since AND NOT due AND shown <> :gone
      ORDER BY compared_at LIMIT :count) oldest
WHERE f.channel = oldest.channel AND f.thread_ts = oldest.thread_ts
""")
_OLD_ROOTS_DUE = text("""
INSERT INTO followed_threads AS f (channel, thread_ts, said_at, active_at, shown, seen_at, due)
SELECT t.channel, t.thread_ts, t.thread_ts::numeric, t.thread_ts::numeric, '', 0, true
FROM threads t JOIN cases c USING (workflow_id) JOIN channel_marks m ON m.channel = t.channel
WHERE c.status <> 'resolved' AND t.thread_ts ~ '^[0-9]{1,12}[.][0-9]{6}$'
  AND t.thread_ts::numeric <= CAST(:active_since AS numeric)
ON CONFLICT (channel, thread_ts) DO UPDATE SET due = true WHERE f.shown <> :gone
""")
"""A shallow look does not read as far back as their roots, on which alone a channel shows that something was said."""
_BATCH = text("""
WITH due AS (
    SELECT f.*, m.installed_at, k.bug_id, v.id AS talk
    FROM followed_threads f
    LEFT JOIN channel_marks m ON m.channel = f.channel
    LEFT JOIN threads t ON t.team = :team AND t.channel = f.channel AND t.thread_ts = f.thread_ts
    LEFT JOIN cases k ON k.workflow_id = t.workflow_id
    LEFT JOIN conversations v
        ON v.team = :team AND v.channel = f.channel AND v.thread_ts = f.thread_ts AND v.stored > 0
    WHERE f.due AND f.compared_at <> :began AND coalesce(m.error = '', v.id IS NOT NULL)
      AND (f.channel <> ALL(:cases)) = :talk
), first AS (SELECT * FROM due ORDER BY active_at, channel, thread_ts LIMIT :count)
SELECT d.channel, d.thread_ts, d.shown, coalesce(d.bug_id, '') AS bug_id, coalesce(c.reporter_id, '') AS reporter_id,
       least(d.installed_at, extract(epoch FROM c.created_at) - 900, said.since - 900) AS floor, said.since
FROM due d LEFT JOIN cases c ON c.bug_id = d.bug_id
LEFT JOIN LATERAL (SELECT min(s.said_at) AS since FROM conversation_messages s WHERE s.conversation_id = d.talk) said
    ON true
WHERE (d.channel, d.thread_ts) IN (SELECT channel, thread_ts FROM first)
   OR d.bug_id IN (SELECT bug_id FROM first)
ORDER BY d.active_at, d.channel, d.thread_ts
""")
"""The threads of one case come together, so that what was said in them is sent in its order.

The floor is the moment of installation, or for an older case the time a quarter of an hour before it was opened, and
for a conversation before the first that is known of it.
"""
_COUNT = text("""
SELECT count(*) FROM followed_threads f
LEFT JOIN channel_marks m ON m.channel = f.channel
LEFT JOIN conversations v
    ON v.team = :team AND v.channel = f.channel AND v.thread_ts = f.thread_ts AND v.stored > 0
WHERE f.due AND f.compared_at <> :began AND coalesce(m.error = '', v.id IS NOT NULL)
  AND (f.channel <> ALL(:cases)) = :talk
""")
_UNFOLLOW = text("""
DELETE FROM followed_threads f
WHERE f.channel <> ALL(:channels)
  AND NOT EXISTS (
      SELECT FROM conversations v WHERE v.channel = f.channel AND v.thread_ts = f.thread_ts AND v.stored > 0)
""")
"""A conversation's thread is followed wherever it is."""
_RESENT = text("""
INSERT INTO resent_messages AS r (message_id, times) SELECT unnest(CAST(:ids AS text[])), 1
ON CONFLICT (message_id) DO UPDATE SET times = r.times + 1, last_at = now()
""")
_UNSTORED = text("""
SELECT r.message_id FROM resent_messages r
WHERE r.times >= :times AND NOT EXISTS (SELECT FROM bug_conversations m WHERE m.message_id = r.message_id)
  AND NOT EXISTS (SELECT FROM conversation_messages s WHERE s.message_id = r.message_id)
  AND NOT EXISTS (SELECT FROM handover_answers a WHERE a.message_id = r.message_id)
ORDER BY r.last_at DESC LIMIT :limit
""")

_OF_CASES = threads.c.kind.startswith("case:")

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
    """`bug_id` and `reporter_id` are empty for a thread without a case; `floor`: what is older is left alone.

    `since`: when the first was said that is stored of a conversation there; None without one.
    """

    channel: str
    thread_ts: str
    shown: str
    bug_id: str
    reporter_id: str
    floor: Decimal
    since: Decimal | None = None


class Followed:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def install(self, channels: Collection[str], now: float, *, alone: bool = True) -> None:
        """Remember when each channel was first followed; the first word stands. `alone`: no other is followed."""
        if channels:
            if alone:
                await self._unfollow(channels)
            rows = [{"channel": channel, "installed_at": Decimal(f"{now:.6f}"), "error": ""} for channel in channels]
            await self._connection.execute(insert(channel_marks).values(rows).on_conflict_do_nothing())

    async def _unfollow(self, channels: Collection[str]) -> None:
        """Forget the other channels: one that is followed again later begins anew, with nothing older than that."""
        await self._connection.execute(_UNFOLLOW, {"channels": list(channels)})
        await self._connection.execute(delete(channel_marks).where(channel_marks.c.channel.not_in(channels)))

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
        query = select(func.min(threads.c.thread_ts)).where(threads.c.channel == channel, _OF_CASES)
        return (await self._connection.execute(query)).scalar_one_or_none() or ""

    async def are_known(self, channel: str, roots: Collection[str]) -> set[str]:
        """Which of these roots begin a thread of a case."""
        query = select(threads.c.thread_ts).where(
            threads.c.channel == channel, threads.c.thread_ts.in_(roots), _OF_CASES
        )
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

    async def choose(self, channels: Collection[str], active_since: float, *, count: int | None) -> None:
        """Make threads of these channels due that show no change: those compared longest ago, `count` of them, or all.

        With them, whatever their number, open cases' threads with a root from before `active_since`.
        """
        which = {"active_since": active_since, "gone": GONE}
        await self._connection.execute(_OLD_ROOTS_DUE, {**which, "active_since": Decimal(f"{active_since:.6f}")})
        await self._connection.execute(_DUE, {**which, "channels": list(channels), "count": count})

    async def due(self, team: str, count: int, began: float, cases: Collection[str], *, talk: bool) -> list[DueThread]:
        """The due threads that were active first, with the others of their cases, but for what this look has seen.

        `cases`: channels whose threads are cases'; `talk`: all but those.
        """
        which = {"team": team, "count": count, "began": began, "cases": list(cases), "talk": talk}
        rows = await self._connection.execute(_BATCH, which)
        return [DueThread(**row) for row in rows.mappings()]

    async def count_due(self, team: str, began: float, cases: Collection[str], *, talk: bool) -> int:
        """How many threads the look that began then has before it, in channels that can be read; see `due`."""
        which = {"team": team, "began": began, "cases": list(cases), "talk": talk}
        return int((await self._connection.execute(_COUNT, which)).scalar_one())

    async def compared(self, thread: DueThread, began: float, *, again: bool = False) -> None:
        """A look has compared a thread as it was shown; one that has changed since is due again at the next look.

        `again`: so it is in any case.
        """
        done = {"compared": thread.shown, "compared_at": began, "due": again, "error": ""}
        await self._connection.execute(_row_of(thread).values(done))

    async def not_compared(self, thread: DueThread, began: float, error: str) -> None:
        """A look had to leave a thread out, which stays due."""
        await self._connection.execute(_row_of(thread).values(compared_at=began, error=error))

    async def troubled(self, active_since: float, limit: int = 10) -> list[tuple[str, str, str]]:
        """Threads that the last look at them had to leave out: channel, root and why."""
        row = followed_threads.c
        query = select(row.channel, row.thread_ts, row.error).where(row.error != "", row.active_at > active_since)
        found = await self._connection.execute(query.order_by(row.active_at.desc()).limit(limit))
        return [(channel, root, error) for channel, root, error in found]

    async def refuse(self, message_id: str) -> None:
        """Somebody who may not have a say wrote it; whoever they become later, it stays unsaid."""
        await self._connection.execute(insert(refused_messages).values(message_id=message_id).on_conflict_do_nothing())

    async def refused(self, ids: Collection[str]) -> set[str]:
        """Which of these messages were refused."""
        query = select(refused_messages.c.message_id).where(refused_messages.c.message_id.in_(ids))
        return set((await self._connection.execute(query)).scalars())

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
        await self._connection.execute(delete(refused_messages).where(refused_messages.c.refused_at < old))
        row = followed_threads.c
        of_a_case = select(threads).where(threads.c.channel == row.channel, threads.c.thread_ts == row.thread_ts)
        stale = delete(followed_threads).where(row.active_at < before, ~of_a_case.exists())
        await self._connection.execute(stale)


def _row_of(thread: DueThread) -> Update:
    row = followed_threads.c
    return update(followed_threads).where(row.channel == thread.channel, row.thread_ts == thread.thread_ts)
