"""Rate limits: one verdict per message, in any process and under concurrency."""

import asyncio
from collections import Counter

import pytest

from tests.support.tool_store import NOW, operation
from threadline.db.engine import Database
from threadline.db.rate_limits import Rate, RateLimits, RateVerdict

OK = RateVerdict.OK
FIRST = RateVerdict.THROTTLED_FIRST
SILENT = RateVerdict.THROTTLED


async def of_user(
    database: Database, message: str, now: float, *, user: str = "U1", team: str = "T1"
) -> RateVerdict:
    async with database.begin() as tx:
        return await RateLimits(tx).count_request(team, user, message, now)


async def allows(
    database: Database, call_id: str, now: float, record: str = "T1:project:PRJ-1"
) -> bool:
    async with database.begin() as tx:
        return await RateLimits(tx).allows_change(
            record, operation(call_id).key, now, Rate(2, 10.0)
        )


async def test_repeated_message_keeps_its_verdict(database: Database) -> None:
    said = [f"m{number}" for number in range(12)]
    verdicts = [await of_user(database, message, NOW) for message in said]
    assert verdicts == [*[OK] * 10, FIRST, SILENT]
    for later in (30, 10_000):
        assert [await of_user(database, message, NOW + later) for message in said] == verdicts


async def test_ten_of_many_messages_at_once_pass(database: Database, database_url: str) -> None:
    other = Database(database_url)
    try:
        asked = [
            of_user(each, f"m{n}", NOW + n / 100) for n in range(20) for each in (database, other)
        ]
        verdicts = await asyncio.gather(*asked)
    finally:
        await other.dispose()
    pairs = list(zip(verdicts[::2], verdicts[1::2], strict=True))
    assert all(one == two for one, two in pairs), "two workers get the same verdict on one message"
    assert verdicts.count(OK) == 20


async def test_ten_in_a_minute_pass_the_next_gets_a_notice_and_verdicts_stay(
    database: Database,
) -> None:
    for later in (0, 13, 61, 1_000):
        verdicts = [await of_user(database, f"m{n}", NOW + (later or n)) for n in range(15)]
        assert verdicts == [OK] * 10 + [FIRST] + [SILENT] * 4
    assert await of_user(database, "later", NOW + 75) is OK


async def test_minute_slides(database: Database) -> None:
    for n in range(10):
        assert await of_user(database, f"m{n}", NOW + n * 5) is OK
    assert await of_user(database, "refused", NOW + 59.9) is FIRST
    assert await of_user(database, "m10", NOW + 65) is OK, (
        "the two oldest no longer count, but one refused message does"
    )
    assert await of_user(database, "m11", NOW + 65.1) is SILENT, (
        "the user got the notice within this minute"
    )


async def test_refused_messages_count_and_a_new_minute_gets_a_new_notice(
    database: Database,
) -> None:
    verdicts = {n * 4: await of_user(database, f"m{n}", NOW + n * 4) for n in range(32)}
    assert [at for at, verdict in verdicts.items() if verdict is OK] == list(range(0, 40, 4))
    assert [at for at, verdict in verdicts.items() if verdict is FIRST] == [40, 100]


async def test_messages_of_one_person_do_not_count_for_another(database: Database) -> None:
    for n in range(10):
        await of_user(database, f"m{n}", NOW)
    assert await of_user(database, "other", NOW, user="U2") is OK
    assert await of_user(database, "elsewhere", NOW, team="T2") is OK
    assert await of_user(database, "m10", NOW) is FIRST


async def test_ten_of_many_messages_at_once_pass_and_one_gets_a_notice(
    database: Database, database_url: str
) -> None:
    other = Database(database_url)
    try:
        asked = [
            of_user(each, f"m{n}", NOW + n / 100) for n in range(40) for each in (database, other)
        ]
        verdicts = await asyncio.gather(*asked)
    finally:
        await other.dispose()
    assert verdicts[::2] == verdicts[1::2], "two workers get the same verdict on one message"
    assert Counter(verdicts[::2]) == {OK: 10, FIRST: 1, SILENT: 29}


async def test_clocks_that_differ_a_little_let_no_message_through(database: Database) -> None:
    for n in range(10):
        assert await of_user(database, f"m{n}", NOW + 1) is OK
    assert await of_user(database, "m10", NOW) is FIRST


async def test_changes_of_a_record_are_limited_and_refused_ones_do_not_count(
    database: Database,
) -> None:
    assert [await allows(database, f"c{n}", NOW + n) for n in range(4)] == [
        True,
        True,
        False,
        False,
    ]
    assert await allows(database, "c0", NOW + 4), "the same call was allowed before"
    assert await allows(database, "another", NOW, record="T1:project:PRJ-2")
    assert await allows(database, "c5", NOW + 10.5)
    assert not await allows(database, "c6", NOW + 10.6)


async def test_only_the_rate_of_many_changes_at_once_passes(database: Database) -> None:
    allowed = await asyncio.gather(*(allows(database, f"c{n}", NOW) for n in range(30)))
    assert allowed.count(True) == 2


@pytest.mark.parametrize("limit", [3, 100])
async def test_old_verdicts_are_forgotten_in_steps(database: Database, limit: int) -> None:
    for n in range(10):
        await of_user(database, f"m{n}", NOW + n)
    async with database.begin() as tx:
        removed = []
        while count := await RateLimits(tx).prune(NOW + 7, limit):
            removed.append(count)
    assert sum(removed) == 7
    assert max(removed) <= limit
    assert await of_user(database, "m9", NOW + 500) is OK
    assert [await of_user(database, f"n{n}", NOW + 10) for n in range(8)] == [OK] * 7 + [FIRST]


async def test_failed_transaction_stores_no_verdict(database: Database) -> None:
    async def fail() -> None:
        async with database.begin() as tx:
            assert await RateLimits(tx).count_request("T1", "U1", "m1", NOW) is OK
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    verdicts = [await of_user(database, f"n{number}", NOW + 1) for number in range(11)]
    assert verdicts == [*[OK] * 10, FIRST], "the first was not counted"
