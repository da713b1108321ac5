"""ThreadStore: owners of threads. ThreadBindingStore: records that threads are about. PostStore:
posts and their claims. Quarantine: messages that could not be read or stored.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Double,
    Table,
    cast,
    delete,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from threadline.db.engine import Store, Transaction
from threadline.slack.model import Thread, clean_text
from threadline.threads.model import IncomingMessage, ThreadOwner
from threadline.threads.tables import posts, quarantine, thread_bindings, threads


class ThreadStore(Store):
    """The registry of threads: one row for each thread that belongs to a workflow."""

    async def owner(self, thread: Thread) -> ThreadOwner | None:
        """Return the owner of a thread; None without one so far. The gateway's one indexed
        read.
        """
        query = select(threads.c.workflow_id, threads.c.kind).where(_in(thread, threads))
        row = (await self._tx.execute(query)).one_or_none()
        return ThreadOwner(row.workflow_id, row.kind) if row else None

    async def roots(self, workflow_id: str, channel: str) -> list[str]:
        query = select(threads.c.thread_ts).where(
            threads.c.workflow_id == workflow_id, threads.c.channel == channel
        )
        return list((await self._tx.execute(query.order_by(threads.c.thread_ts))).scalars())

    async def register(
        self,
        owner: ThreadOwner,
        channel: str,
        thread_ts: str,
        *,
        author_id: str = "",
        compare_from: Decimal | ColumnElement[Any] = Decimal(0),
        first_message_at: Decimal | None = None,
    ) -> None:
        """Register the owner of a thread. First write wins, so this is idempotent. Only a
        conversation takes over a thread: people call the bot in one of a case's threads only once
        its channel is no longer a channel of cases.

        Args:
            author_id: the author of the root, kept for when Slack no longer has it; empty for a
                root of the bot's.
            compare_from: seconds since 1970; earlier messages do not belong to the owner.
            first_message_at: the time of a conversation's first stored message.
        """
        place = {"team": owner.thread.team, "channel": channel, "thread_ts": thread_ts}
        more = {
            "author_id": author_id,
            "compare_from": compare_from,
            "first_message_at": first_message_at,
        }
        row = {**place, **vars(owner), **more}
        new = insert(threads).values(row)
        if owner.kind == "conversation":
            new = new.on_conflict_do_update(
                index_elements=[*place], set_=row, where=threads.c.kind != owner.kind
            )
        else:
            new = new.on_conflict_do_nothing()
        await self._tx.execute(new)


def _in(thread: Thread, table: Table) -> ColumnElement[bool]:
    row = table.c
    return (
        (row.team == thread.team) & (row.channel == thread.channel) & (row.thread_ts == thread.ts)
    )


ClaimState = Literal["ours", "pending", "posted", "unrecorded", "invalid"]
"""See `PostClaim`."""


@dataclass(frozen=True)
class PostClaim:
    """The state of a key when an attempt claims it.

    - `ours`: no other attempt has claimed it; this attempt has it since `claimed_at`;
    - `pending`: another attempt has it since `claimed_at`, without an end so far, so the post may
      be in Slack;
    - `posted`: the post is in Slack, as `ts`;
    - `unrecorded`: the post is in Slack, as `ts`, and recording the rest failed;
    - `invalid`: the post is out of date.

    `age` is the seconds since `claimed_at`. `asked_at` is the time of the claim by the process's
    rising clock.
    """

    state: ClaimState
    ts: str = ""
    claimed_at: float = 0.0
    age: float = field(default=0.0, compare=False)
    asked_at: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class PostInDoubt:
    """A post whose `claim` is pending."""

    key: str
    channel: str
    thread_ts: str | None
    claim: PostClaim


class ThreadBindingStore(Store):
    """The records that a thread is about: one of each kind, such as the project it works on."""

    async def bind(self, thread: Thread, kind: str, record_id: str, user_id: str) -> str | None:
        """Bind a thread to the record that a person has named. It replaces the bound record.
        Idempotent.

        Returns:
            The record that was bound before, which may be the same; None without one.
        """
        row = {"record_id": record_id, "bound_by": user_id}
        if await self._bind_new(thread, kind, row):
            return None
        here = (_in(thread, thread_bindings), thread_bindings.c.kind == kind)
        # Locked, so that each of two concurrent changes returns the record that it replaced.
        query = select(thread_bindings.c.record_id).where(*here).with_for_update()
        before = (await self._tx.execute(query)).scalar_one()
        await self._tx.execute(
            update(thread_bindings).where(*here).values(**row, bound_at=func.now())
        )
        return str(before)

    async def bind_first(self, thread: Thread, kind: str, record_id: str, user_id: str) -> str:
        """Bind a thread to a new record, unless it is bound already; returns the bound record."""
        if await self._bind_new(thread, kind, {"record_id": record_id, "bound_by": user_id}):
            return record_id
        return (await self.of(thread))[kind]

    async def of(self, thread: Thread) -> dict[str, str]:
        """Return the records that a thread is about, by kind."""
        row = thread_bindings.c
        rows = await self._tx.execute(
            select(row.kind, row.record_id).where(_in(thread, thread_bindings))
        )
        return {each.kind: each.record_id for each in rows}

    async def threads_of(
        self, team: str, kind: str, record_id: str, limit: int = 20
    ) -> list[Thread]:
        """Return the threads that are about a record, the last bound first."""
        row = thread_bindings.c
        query = select(row.channel, row.thread_ts).where(
            row.team == team, row.kind == kind, row.record_id == record_id
        )
        rows = await self._tx.execute(query.order_by(row.bound_at.desc()).limit(limit))
        return [Thread(team, each.channel, each.thread_ts) for each in rows]

    async def _bind_new(self, thread: Thread, kind: str, row: dict[str, str]) -> bool:
        place = {"team": thread.team, "channel": thread.channel, "thread_ts": thread.ts}
        new = insert(thread_bindings).values(**place, kind=kind, **row).on_conflict_do_nothing()
        return (await self._tx.execute(new.returning(thread_bindings.c.kind))).first() is not None


ValidIf = Callable[[Transaction], Awaitable[bool]]
POSTGRES_CLOCK = cast(func.extract("epoch", func.clock_timestamp()), Double)


class PostStore(Store):
    """The table of posts. Times are seconds since 1970 by Postgres's clock alone, since the
    workers' clocks differ.
    """

    async def claim(
        self, key: str, channel: str, thread_ts: str | None, valid_if: ValidIf | None = None
    ) -> PostClaim:
        """Take the right to send a post, unless another attempt has it. A posted key stays
        valid.
        """
        if valid_if:
            if known := await self._known(key):
                return known
            if not await valid_if(self._tx):
                return PostClaim("invalid")
        row = {
            "key": key,
            "channel": channel,
            "thread_ts": thread_ts,
            "claimed_at": POSTGRES_CLOCK,
        }
        new = insert(posts).values(row).on_conflict_do_nothing().returning(posts.c.claimed_at)
        claimed_at = (await self._tx.execute(new)).scalar()
        if claimed_at is not None:
            return PostClaim("ours", claimed_at=claimed_at)
        # Without a row it was released in between.
        return await self._known(key) or await self.claim(key, channel, thread_ts)

    async def claim_anew(
        self, key: str, claimed_at: float, valid_if: ValidIf | None = None
    ) -> PostClaim:
        """Take over the claim of that moment, or renew the caller's own, in one statement: only
        one of several attempts may send.
        """
        if valid_if and not await valid_if(self._tx):
            await self.release(key, claimed_at)
            return await self._known(key) or PostClaim("invalid")
        anew = update(posts).where(*_open(key, claimed_at)).values(claimed_at=POSTGRES_CLOCK)
        if (
            now := (await self._tx.execute(anew.returning(posts.c.claimed_at))).scalar()
        ) is not None:
            return PostClaim("ours", claimed_at=now)
        return await self._known(key) or PostClaim("pending", claimed_at=claimed_at)

    async def pending(self, grace: float, horizon: float, limit: int) -> list[tuple[str, str]]:
        """Return the key and channel of posts that were claimed between `horizon` and `grace`
        seconds ago and are not known to be in Slack, oldest first.
        """
        age = POSTGRES_CLOCK - posts.c.claimed_at
        late = select(posts.c.key, posts.c.channel).where(
            posts.c.ts.is_(None), age > grace, age < horizon
        )
        return [
            (row.key, row.channel)
            for row in await self._tx.execute(late.order_by(posts.c.claimed_at).limit(limit))
        ]

    async def in_doubt(self, key_prefix: str) -> list[PostInDoubt]:
        """Return the posts whose keys have this prefix and whose claims are pending, oldest
        first.
        """
        row = posts.c
        columns = (
            row.key,
            row.channel,
            row.thread_ts,
            row.claimed_at,
            (POSTGRES_CLOCK - row.claimed_at).label("age"),
        )
        pending = select(*columns).where(
            row.ts.is_(None), row.key.startswith(key_prefix, autoescape=True)
        )
        return [
            PostInDoubt(
                each.key,
                each.channel,
                each.thread_ts,
                PostClaim("pending", "", each.claimed_at, each.age),
            )
            for each in await self._tx.execute(pending.order_by(row.claimed_at))
        ]

    async def record_posted(self, key: str, ts: str) -> None:
        """Record that the post is in Slack as `ts`, no matter which attempt sent it. First write
        wins. The caller records the rest of the post in the same transaction.
        """
        known = {"ts": func.coalesce(posts.c.ts, ts), "record_due": False}
        await self._tx.execute(update(posts).where(posts.c.key == key).values(known))

    async def record_unfinished(self, key: str, ts: str) -> None:
        """Record that the post is in Slack as `ts`, with the rest still to be recorded. Changes
        nothing when the post is recorded already, such as by a commit whose answer was lost.
        """
        unknown = (posts.c.key == key, posts.c.ts.is_(None))
        await self._tx.execute(update(posts).where(*unknown).values(ts=ts, record_due=True))

    async def release(self, key: str, claimed_at: float) -> None:
        """Release the claim of that moment; changes nothing when another attempt has claimed it
        since, or it is posted.
        """
        await self._tx.execute(delete(posts).where(*_open(key, claimed_at)))

    async def ts_of(self, key: str) -> str | None:
        """Return the `ts` of a post; None when it was not sent."""
        return (
            await self._tx.execute(select(posts.c.ts).where(posts.c.key == key))
        ).scalar_one_or_none()

    async def part_timestamps(self, key: str) -> list[str]:
        """Return the `ts` of each message of a post, in order; empty while there is none."""
        parts = list[str]()
        while ts := await self.ts_of(f"{key}#{len(parts) + 1}" if parts else key):
            parts.append(ts)
        return parts

    async def sent_under(self, prefix: str, channel: str, thread_ts: str) -> dict[str, str]:
        """Return the `ts` of posts in a thread by key, for keys of handovers with this prefix."""
        row = posts.c
        here = (
            row.channel == channel,
            row.thread_ts == thread_ts,
            row.key.like(literal_column("'handover:%'")),
        )
        query = select(row.key, row.ts).where(
            *here, row.ts.is_not(None), func.starts_with(row.key, prefix)
        )
        return {each.key: each.ts for each in await self._tx.execute(query)}

    async def age_of(self, key: str) -> float:
        """Return the seconds since a post was claimed; 0 when it was not."""
        query = select(POSTGRES_CLOCK - posts.c.claimed_at).where(posts.c.key == key)
        return float((await self._tx.execute(query)).scalar_one_or_none() or 0.0)

    async def _known(self, key: str) -> PostClaim | None:
        row = posts.c
        query = select(
            row.ts, row.record_due, row.claimed_at, POSTGRES_CLOCK - row.claimed_at
        ).where(row.key == key)
        known = (await self._tx.execute(query)).one_or_none()
        if known is None:
            return None
        ts, record_due, claimed_at, age = known
        if ts is None:
            return PostClaim("pending", claimed_at=claimed_at, age=age)
        return PostClaim("unrecorded" if record_due else "posted", ts, claimed_at, age)


def _open(key: str, claimed_at: float) -> tuple[ColumnElement[bool], ...]:
    return posts.c.key == key, posts.c.ts.is_(None), posts.c.claimed_at == claimed_at


@dataclass(frozen=True)
class QuarantinedMessage:
    """A message in quarantine. `error` is the database's error, where it refused the message."""

    thread: Thread
    message_id: str
    text: str
    error: str
    at: datetime


class Quarantine(Store):
    """Messages that could not be read, or that the database refused: kept, and listed for the
    admin.
    """

    async def keep(
        self, thread: Thread, refused: Sequence[tuple[IncomingMessage, str]]
    ) -> list[str]:
        """Keep messages of a thread, each with the reason. Idempotent. Returns the ids of new
        ones.
        """
        place = {"team": thread.team, "channel": thread.channel, "thread_ts": thread.ts}
        rows = [
            {
                **place,
                "message_id": message.id,
                "message_text": clean_text(message.text),
                "error": clean_text(error),
            }
            for message, error in refused
        ]
        if not rows:
            return []
        new = (
            insert(quarantine)
            .values(rows)
            .on_conflict_do_nothing()
            .returning(quarantine.c.message_id)
        )
        return list((await self._tx.execute(new)).scalars())

    async def messages(self, limit: int) -> list[QuarantinedMessage]:
        """Return messages, the newest first."""
        row = quarantine.c
        columns = (
            row.team,
            row.channel,
            row.thread_ts,
            row.message_id,
            row.message_text,
            row.error,
            row.created_at,
        )
        newest = select(*columns).order_by(row.created_at.desc(), row.message_id).limit(limit)
        return [
            QuarantinedMessage(Thread(*each[:3]), *each[3:])
            for each in await self._tx.execute(newest)
        ]

    async def count(self) -> tuple[int, datetime | None]:
        """Return the number of messages, and when the newest came."""
        row = (
            await self._tx.execute(select(func.count(), func.max(quarantine.c.created_at)))
        ).one()
        return row[0], row[1]

    async def prune(self, before: float, limit: int = 1000) -> int:
        """Delete messages older than a moment (seconds since 1970), at most `limit`; returns how
        many.
        """
        row = quarantine.c
        old = select(row.id).where(row.created_at < func.to_timestamp(before)).limit(limit)
        return len(
            (
                await self._tx.execute(delete(quarantine).where(row.id.in_(old)).returning(row.id))
            ).all()
        )
