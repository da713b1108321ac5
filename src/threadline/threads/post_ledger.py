"""The ledger as the Slack side calls it: each answer is committed before anything is sent."""

from typing import Generic, Protocol, TypeVar

from threadline.db.engine import Database
from threadline.threads.post_store import ClaimState

Answer = TypeVar("Answer", covariant=True)


class ClaimedPost(Protocol):
    """What the ledger reads of a post; `case` is a bug's id."""

    @property
    def key(self) -> str: ...
    @property
    def case(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def channel(self) -> str: ...
    @property
    def thread_ts(self) -> str | None: ...


class Answering(Protocol[Answer]):
    def __call__(self, state: ClaimState, ts: str, claimed_at: float) -> Answer: ...


class PostLedger(Generic[Answer]):
    """`threadline.threads.post_store.Posts`, each call a transaction of its own.

    Args:
        answer: makes the caller's own value of a claim, since the Slack side and this one do not know each other:
            `PostLedger(database, threadline.threads.outbox_posts.Claim)`.
    """

    def __init__(self, database: Database, answer: Answering[Answer]) -> None:
        self._database = database
        self._answer = answer

    async def claim(self, post: ClaimedPost, now: float, lease_s: float) -> Answer:
        async with self._database.begin() as work:
            claim = await work.posts.claim(post.key, post.case, post.kind, post.channel, post.thread_ts, now, lease_s)
        return self._answer(claim.state, claim.ts, claim.claimed_at)

    async def done(self, key: str, ts: str) -> None:
        async with self._database.begin() as work:
            await work.posts.done(key, ts)

    async def release(self, key: str, claimed_at: float) -> None:
        async with self._database.begin() as work:
            await work.posts.release(key, claimed_at)
