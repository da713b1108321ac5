"""The ledger of posts: one sender for each key."""

import asyncio
from dataclasses import dataclass

from tests.support.case_store import Scene
from threadline.cases.model import Reason
from threadline.cases.sla import SlaEventKind
from threadline.threads.post_ledger import PostLedger
from threadline.threads.post_store import PostClaim

NOW, LEASE = 1_700_000_000.25, 45.0


@dataclass(frozen=True)
class Post:
    key: str = "BUG-1:1:findings"
    case: str = "BUG-1"
    kind: str = "findings"
    channel: str = "C1"
    thread_ts: str | None = None


REMINDER = Post(key="BUG-1:sla:1:1", kind=SlaEventKind.ACKNOWLEDGE_BREACH)


def ledger_of(scene: Scene) -> PostLedger[PostClaim]:
    return PostLedger(scene.database, PostClaim)


async def test_of_many_claims_at_once_one_may_send(scene: Scene) -> None:
    await scene.opened()
    ledger = ledger_of(scene)
    claims = await asyncio.gather(*(ledger.claim(Post(), NOW, LEASE) for _ in range(8)))
    assert sorted(claim.state for claim in claims) == ["busy"] * 7 + ["send"]
    assert {claim.claimed_at for claim in claims} == {NOW}


async def test_a_claim_that_was_left_lets_others_look_from_its_moment_on(scene: Scene) -> None:
    await scene.opened()
    ledger = ledger_of(scene)
    await ledger.claim(Post(), NOW, LEASE)
    assert await ledger.claim(Post(), NOW + LEASE - 1, LEASE) == PostClaim("busy", claimed_at=NOW)
    assert await ledger.claim(Post(), NOW + LEASE, LEASE) == PostClaim("look", claimed_at=NOW)


async def test_of_two_who_looked_one_sends(scene: Scene) -> None:
    await scene.opened()
    ledger = ledger_of(scene)
    await ledger.claim(Post(), NOW, LEASE)
    later = NOW + 2 * LEASE
    await ledger.release(Post().key, NOW)
    assert (await ledger.claim(Post(), later, LEASE)).state == "send"
    await ledger.release(Post().key, NOW)
    assert (await ledger.claim(Post(), later + 1, LEASE)).state == "busy"


async def test_what_was_posted_stays_posted(scene: Scene) -> None:
    await scene.opened()
    ledger = ledger_of(scene)
    await ledger.claim(Post(), NOW, LEASE)
    await ledger.done(Post().key, "17.1")
    await ledger.done(Post().key, "17.2")
    await ledger.release(Post().key, NOW)
    assert await ledger.claim(Post(), NOW + 1000, LEASE) == PostClaim("done", "17.1", NOW)
    async with scene.database.begin() as work:
        assert await work.posts.ts_of(Post().key) == "17.1"
        assert await work.posts.ts_of("another") is None


async def test_a_reminder_is_refused_once_its_case_is_resolved_but_not_forgotten(scene: Scene) -> None:
    await scene.opened()
    ledger = ledger_of(scene)
    await ledger.claim(REMINDER, NOW, LEASE)
    await ledger.done(REMINDER.key, "17.1")
    await scene.end(Reason.OPERATOR_RESOLVED)
    assert (await ledger.claim(REMINDER, NOW, LEASE)).state == "done"
    second = Post(key="BUG-1:sla:1:2", kind=SlaEventKind.DAILY_REMINDER)
    assert (await ledger.claim(second, NOW, LEASE)).state == "refused"
    assert (await ledger.claim(Post(), NOW, LEASE)).state == "send", "how the case ended is still told"
