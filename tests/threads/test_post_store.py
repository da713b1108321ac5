"""The table of posts: one sender for each key."""

import asyncio

import pytest

from threadline.db.engine import Database, Transaction
from threadline.threads.store import PostClaim, PostStore

NOW = 1_700_000_000.25
LATER = NOW + 90
KEY = "BUG-1:1:findings"


async def claim(database: Database, key: str = KEY, now: float = NOW) -> PostClaim:
    async with database.begin() as tx:
        return await PostStore(tx).claim(key, "C1", None, now)


async def posted(database: Database, ts: str) -> None:
    async with database.begin() as tx:
        await PostStore(tx).record_posted(KEY, ts)


async def release(database: Database, claimed_at: float) -> None:
    async with database.begin() as tx:
        await PostStore(tx).release(KEY, claimed_at)


async def test_of_many_claims_at_once_one_may_send(database: Database) -> None:
    for number in range(3):  # the first time connections are opened one after the other
        claims = await asyncio.gather(*(claim(database, f"BUG-1:{number}:findings") for _ in range(8)))
        assert sorted(claim.state for claim in claims) == ["ours"] + ["pending"] * 7
        assert {claim.claimed_at for claim in claims} == {NOW}


async def test_claim_that_was_left_keeps_its_moment(database: Database) -> None:
    await claim(database)
    assert await claim(database, now=LATER) == PostClaim("pending", claimed_at=NOW)


async def test_of_two_who_searched_one_sends(database: Database) -> None:
    await claim(database)
    await release(database, NOW)
    assert (await claim(database, now=LATER)).state == "ours"
    await release(database, NOW)
    assert (await claim(database, now=LATER + 1)).state == "pending"


async def test_what_was_posted_stays_posted(database: Database) -> None:
    await claim(database)
    await posted(database, "17.1")
    await posted(database, "17.2")
    await release(database, NOW)
    assert await claim(database, now=NOW + 1000) == PostClaim("posted", "17.1", NOW)


async def test_post_is_unrecorded_until_the_record_is_made(database: Database) -> None:
    await claim(database)
    for _ in range(2):
        async with database.begin() as tx:
            await PostStore(tx).record_unfinished(KEY, "17.1")
        assert await claim(database, now=LATER) == PostClaim("unrecorded", "17.1", NOW)
    await posted(database, "17.2")
    async with database.begin() as tx:
        await PostStore(tx).record_unfinished(KEY, "17.3")
    assert await claim(database, now=LATER) == PostClaim("posted", "17.1", NOW), "the first word stands"


@pytest.mark.parametrize("already", [False, True])
async def test_post_that_says_nothing_any_more_is_not_claimed_but_stays_posted(
    database: Database, already: bool
) -> None:
    async def never(tx: Transaction) -> bool:
        return False

    if already:
        await claim(database)
        await posted(database, "17.1")
    async with database.begin() as tx:
        known = await PostStore(tx).claim(KEY, "C1", None, NOW, never)
    assert known == (PostClaim("posted", "17.1", NOW) if already else PostClaim("invalid"))
