"""The table of posts: one sender for each key."""

import asyncio

import pytest
from sqlalchemy import text

from tests.support.slack import Clock
from threadline.db.engine import Database, Transaction
from threadline.threads.store import PostClaim, PostStore

KEY = "BUG-1:1:findings"


async def claim(database: Database, key: str = KEY) -> PostClaim:
    async with database.begin() as tx:
        return await PostStore(tx).claim(key, "C1", None)


async def claim_anew(database: Database, claimed_at: float) -> PostClaim:
    async with database.begin() as tx:
        return await PostStore(tx).claim_anew(KEY, claimed_at)


async def posted(database: Database, ts: str) -> None:
    async with database.begin() as tx:
        await PostStore(tx).record_posted(KEY, ts)


async def release(database: Database, claimed_at: float) -> None:
    async with database.begin() as tx:
        await PostStore(tx).release(KEY, claimed_at)


async def never(tx: Transaction) -> bool:
    return False


async def test_one_of_many_concurrent_claims_may_send(database: Database) -> None:
    for number in range(3):  # the first round opens the connections one after the other
        claims = await asyncio.gather(
            *(claim(database, f"BUG-1:{number}:findings") for _ in range(8))
        )
        assert sorted(claim.state for claim in claims) == ["ours"] + ["pending"] * 7
        assert len({claim.claimed_at for claim in claims}) == 1


async def test_claim_that_was_left_keeps_its_moment_and_grows_old_by_the_databases_clock(
    database: Database, clock: Clock
) -> None:
    async with database.begin() as tx:
        before = await tx.scalar(text("SELECT extract(epoch FROM clock_timestamp())::float8"))
        claimed = await PostStore(tx).claim(KEY, "C1", None)
        after = await tx.scalar(text("SELECT extract(epoch FROM clock_timestamp())::float8"))
    assert before <= claimed.claimed_at <= after
    clock.now += 90
    left = await claim(database)
    assert left == PostClaim("pending", claimed_at=claimed.claimed_at)
    assert left.age == pytest.approx(90, abs=5)


async def test_one_of_many_concurrent_searches_leads_to_a_send(database: Database) -> None:
    before = await claim(database)
    claims = await asyncio.gather(*(claim_anew(database, before.claimed_at) for _ in range(8)))
    assert sorted(claim.state for claim in claims) == ["ours"] + ["pending"] * 7
    [claimed_at] = {claim.claimed_at for claim in claims}
    assert claimed_at > before.claimed_at
    await release(database, before.claimed_at)
    assert (await claim(database)).state == "pending", "another attempt held it by then"


async def test_claim_that_was_released_or_posted_meanwhile_is_not_taken_over(
    database: Database,
) -> None:
    first = await claim(database)
    await release(database, first.claimed_at)
    assert (await claim_anew(database, first.claimed_at)).state == "pending"
    second = await claim(database)
    await posted(database, "17.1")
    assert await claim_anew(database, second.claimed_at) == PostClaim(
        "posted", "17.1", second.claimed_at
    )


async def test_posted_key_stays_posted(database: Database) -> None:
    claimed = await claim(database)
    await posted(database, "17.1")
    await posted(database, "17.2")
    await release(database, claimed.claimed_at)
    assert await claim(database) == PostClaim("posted", "17.1", claimed.claimed_at)


async def test_post_is_unrecorded_until_the_record_is_made(database: Database) -> None:
    at = (await claim(database)).claimed_at
    for _ in range(2):
        async with database.begin() as tx:
            await PostStore(tx).record_unfinished(KEY, "17.1")
        assert await claim(database) == PostClaim("unrecorded", "17.1", at)
    await posted(database, "17.2")
    async with database.begin() as tx:
        await PostStore(tx).record_unfinished(KEY, "17.3")
    assert await claim(database) == PostClaim("posted", "17.1", at), "the first write wins"


@pytest.mark.parametrize("already", [False, True])
async def test_invalid_post_is_not_claimed_but_stays_posted(
    database: Database, already: bool
) -> None:
    at = 0.0
    if already:
        at = (await claim(database)).claimed_at
        await posted(database, "17.1")
    async with database.begin() as tx:
        known = await PostStore(tx).claim(KEY, "C1", None, never)
    assert known == (PostClaim("posted", "17.1", at) if already else PostClaim("invalid"))


@pytest.mark.parametrize("already", [False, True])
async def test_invalid_post_is_not_claimed_again(database: Database, already: bool) -> None:
    at = (await claim(database)).claimed_at
    if already:
        await posted(database, "17.1")
    async with database.begin() as tx:
        known = await PostStore(tx).claim_anew(KEY, at, never)
    assert known == (PostClaim("posted", "17.1", at) if already else PostClaim("invalid"))
    assert (await claim(database)).state == ("posted" if already else "ours")
