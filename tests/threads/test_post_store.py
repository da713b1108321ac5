"""The ledger of posts: one sender for each key. The ledger in memory keeps the same contract."""

import asyncio
from dataclasses import replace

import pytest

from tests.slack.ledger import MemoryLedger
from tests.support.case_store import Scene
from threadline.cases.model import Reason
from threadline.cases.sla import SlaEventKind
from threadline.threads.outbox_posts import Claim, Post, PostLedger
from threadline.threads.post_ledger import PostLedger as StoredLedger

NOW, LEASE = 1_700_000_000.25, 45.0
LATER = NOW + 2 * LEASE
POST = Post("BUG-1:1:findings", "C1", None, (), case="BUG-1", kind="findings")
KEY = POST.key


@pytest.fixture
async def stored(scene: Scene) -> PostLedger:
    await scene.opened()
    return StoredLedger(scene.database, Claim)


@pytest.fixture(params=["stored", "memory"])
def ledger(request: pytest.FixtureRequest, stored: PostLedger) -> PostLedger:
    return stored if request.param == "stored" else MemoryLedger()


async def test_of_many_claims_at_once_one_may_send(ledger: PostLedger) -> None:
    for number in range(3):  # the first time connections are opened one after the other
        post = replace(POST, key=f"BUG-1:{number}:findings")
        claims = await asyncio.gather(*(ledger.claim(post, NOW, LEASE) for _ in range(8)))
        assert sorted(claim.state for claim in claims) == ["busy"] * 7 + ["send"]
        assert {claim.claimed_at for claim in claims} == {NOW}


async def test_claim_that_was_left_lets_others_look_when_its_lease_ends(ledger: PostLedger) -> None:
    await ledger.claim(POST, NOW, LEASE)
    assert await ledger.claim(POST, NOW + LEASE - 1, LEASE) == Claim("busy", claimed_at=NOW)
    assert await ledger.claim(POST, NOW + LEASE, LEASE) == Claim("look", claimed_at=NOW)


async def test_of_two_who_looked_one_sends(ledger: PostLedger) -> None:
    await ledger.claim(POST, NOW, LEASE)
    await ledger.release(KEY, NOW)
    assert (await ledger.claim(POST, LATER, LEASE)).state == "send"
    await ledger.release(KEY, NOW)
    assert (await ledger.claim(POST, LATER + 1, LEASE)).state == "busy"


async def test_what_was_posted_stays_posted(ledger: PostLedger) -> None:
    await ledger.claim(POST, NOW, LEASE)
    await ledger.done(KEY, "17.1")
    await ledger.done(KEY, "17.2")
    await ledger.release(KEY, NOW)
    assert await ledger.claim(POST, NOW + 1000, LEASE) == Claim("done", "17.1", NOW)


async def test_reminder_is_refused_once_its_case_is_resolved_but_not_forgotten(
    scene: Scene, stored: PostLedger
) -> None:
    first = Post("BUG-1:sla:1:1", "C1", None, (), case="BUG-1", kind=SlaEventKind.ACKNOWLEDGE_BREACH)
    await stored.claim(first, NOW, LEASE)
    await stored.done(first.key, "17.1")
    await scene.end(Reason.OPERATOR_RESOLVED)
    assert (await stored.claim(first, NOW, LEASE)).state == "done"
    second = Post("BUG-1:sla:1:2", "C1", None, (), case="BUG-1", kind=SlaEventKind.DAILY_REMINDER)
    assert (await stored.claim(second, NOW, LEASE)).state == "refused"
    assert (await stored.claim(POST, NOW, LEASE)).state == "send", "how the case ended is still told"
    async with scene.database.begin() as work:
        assert [await work.posts.ts_of(key) for key in (first.key, second.key)] == ["17.1", None]
