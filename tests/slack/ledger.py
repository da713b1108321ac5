"""The ledger of posts in memory; tests/threads/test_post_store.py holds it to the contract."""

from collections.abc import Collection
from dataclasses import dataclass

from threadline.threads.outbox_posts import Claim, Post, PostLedger


@dataclass
class _Row:
    claimed_at: float
    lease_until: float
    ts: str = ""


class MemoryLedger(PostLedger):
    """`refused` holds the kinds that the case's status makes meaningless."""

    def __init__(self, refused: Collection[str] = ()) -> None:
        self.refused = set(refused)
        self.rows: dict[str, _Row] = {}

    async def claim(self, post: Post, now: float, lease_s: float) -> Claim:
        row = self.rows.get(post.key)
        if row and row.ts:
            return Claim("done", row.ts, row.claimed_at)
        if post.kind in self.refused:
            return Claim("refused")
        if row:
            return Claim("busy" if now < row.lease_until else "look", claimed_at=row.claimed_at)
        self.rows[post.key] = _Row(now, now + lease_s)
        return Claim("send", claimed_at=now)

    async def done(self, key: str, ts: str) -> None:
        self.rows[key].ts = self.rows[key].ts or ts

    async def release(self, key: str, claimed_at: float) -> None:
        row = self.rows.get(key)
        if row and not row.ts and row.claimed_at == claimed_at:
            del self.rows[key]
