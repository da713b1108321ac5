"""The ledger of posts: who may send what is claimed here before it is sent, so that each key is seen once in Slack."""

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import delete, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.cases.model import CaseStatus
from threadline.cases.sla import SlaEventKind
from threadline.cases.tables import cases
from threadline.threads.tables import slack_posts

ClaimState = Literal["send", "look", "done", "refused", "busy"]
_REMINDERS = frozenset(SlaEventKind)
"""Kinds of posts that say nothing any more once their case is resolved."""


@dataclass(frozen=True)
class PostClaim:
    """May this be sent?

    `send`: nobody has tried; it is ours, since `claimed_at`. `look`: somebody tried at `claimed_at`, and was not heard
    of before the lease ended, so it may be in Slack. `done`: it is there, as `ts`. `busy`: somebody else is at it.
    `refused`: a reminder about a case that is resolved.
    """

    state: ClaimState
    ts: str = ""
    claimed_at: float = 0.0


class Posts:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def claim(
        self, key: str, bug_id: str, kind: str, channel: str, thread_ts: str | None, now: float, lease_s: float
    ) -> PostClaim:
        """Take the right to send a post for `lease_s` seconds, if nobody has it.

        Args:
            now: seconds since 1970, by the clock that later claims are compared with.
        """
        known = await self._known(key, now)
        if known:
            return known
        if kind in _REMINDERS and await self._is_resolved(bug_id):
            return PostClaim("refused")
        row = {"key": key, "bug_id": bug_id or None, "kind": kind, "channel": channel, "thread_ts": thread_ts}
        new = insert(slack_posts).values(**row, claimed_at=now, lease_until=now + lease_s).on_conflict_do_nothing()
        if (await self._connection.execute(new.returning(slack_posts.c.key))).first():
            return PostClaim("send", claimed_at=now)
        return await self._known(key, now) or PostClaim("busy", claimed_at=now)

    async def done(self, key: str, ts: str) -> None:
        """The post is in Slack, as `ts`, whoever sent it; the first such word stands."""
        said = update(slack_posts).where(slack_posts.c.key == key, slack_posts.c.ts.is_(None)).values(ts=ts)
        await self._connection.execute(said)

    async def release(self, key: str, claimed_at: float) -> None:
        """Give the claim of that moment up; nothing happens when it is another's by now, or done."""
        post = slack_posts.c
        given_up = delete(slack_posts).where(post.key == key, post.ts.is_(None), post.claimed_at == claimed_at)
        await self._connection.execute(given_up)

    async def ts_of(self, key: str) -> str | None:
        """Where a post is; None when it was not sent."""
        query = select(slack_posts.c.ts).where(slack_posts.c.key == key)
        return (await self._connection.execute(query)).scalar_one_or_none()

    async def parts_of(self, key: str) -> list[str]:
        """Where each message is that a post has become, in order; empty while there is none."""
        parts = list[str]()
        while ts := await self.ts_of(f"{key}#{len(parts) + 1}" if parts else key):
            parts.append(ts)
        return parts

    async def _known(self, key: str, now: float) -> PostClaim | None:
        query = select(slack_posts.c.ts, slack_posts.c.claimed_at, slack_posts.c.lease_until)
        row = (await self._connection.execute(query.where(slack_posts.c.key == key))).one_or_none()
        if row is None:
            return None
        if row.ts is not None:
            return PostClaim("done", row.ts, row.claimed_at)
        return PostClaim("busy" if row.lease_until > now else "look", claimed_at=row.claimed_at)

    async def _is_resolved(self, bug_id: str) -> bool:
        query = select(cases.c.status).where(cases.c.bug_id == bug_id)
        return (await self._connection.execute(query)).scalar_one_or_none() == CaseStatus.RESOLVED
