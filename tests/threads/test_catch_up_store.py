"""CatchUpStore: the catch-ups of two workspaces in one database do not meet, and a batch reads
only its own rows.
"""

import json
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import TextClause, text

from threadline.cases.model import REPORT, case_owner
from threadline.db.engine import Database
from threadline.slack.model import Thread
from threadline.threads import catch_up_store
from threadline.threads.catch_up_store import MAX_COUNTED, MAX_SENDS, CatchUpStore
from threadline.threads.contract import LookScope
from threadline.threads.store import ThreadStore

CHANNEL = "C1"
CASES = LookScope.CASES


async def test_workspaces_in_one_database_do_not_share_channels_threads_or_messages(
    database: Database,
) -> None:
    began = time.time()
    root = f"{began - 100:.6f}"
    edited = f"{began - 50:.6f}"
    async with database.begin() as tx:
        ours, others = (CatchUpStore(tx, team, [CHANNEL]) for team in ("T1", "T2"))
        await ours.follow_channels([CHANNEL], began - 200)
        await others.follow_channels([CHANNEL], began)
        await ours.record_page(CHANNEL, [(root, Decimal(edited), "1")], began, began - 1000)
        for _ in range(MAX_SENDS):
            await ours.record_sent(f"T1:{CHANNEL}:{root}")

        await others.record_read(CHANNEL, deep=True, error="the bot is not in this channel")
        await others.select_unchanged(CASES, began - 1000, count=None, newest=False)
        await others.record_missing_roots(CHANNEL, "0", edited, began + 1)
        assert await others.next_batch(CASES, 10, began) == []
        assert await others.often_sent() == []
        await others.prune(began + 1000)
        await others.unfollow_others([])

        assert [(each.channel, each.read_at, each.error) for each in await ours.channels()] == [
            (CHANNEL, 0, "")
        ]
        [thread] = await ours.next_batch(CASES, 10, began)
        assert (thread.team, thread.thread_ts, thread.owner) == ("T1", root, None)
        await ours.record_compared(thread, began)
        await others.follow_channels([CHANNEL], began)
        await others.select_unchanged(CASES, began - 1000, count=None, newest=False)
        assert await ours.count_due(CASES, began + 1) == 0
        assert await ours.often_sent() == [f"T1:{CHANNEL}:{root}"]


async def test_earliest_installation_of_a_channel_wins_in_any_order(database: Database) -> None:
    async with database.begin() as tx:
        store = CatchUpStore(tx, "T1")
        for moment in (200.0, 100.0, 300.0):
            await store.follow_channels([CHANNEL], moment)
        assert [each.installed_at for each in await store.channels()] == [100.0]


async def test_owner_in_another_workspace_does_not_own_a_thread(database: Database) -> None:
    began = time.time()
    root = f"{began - 100:.6f}"
    async with database.begin() as tx:
        theirs = case_owner(Thread("T2", CHANNEL, root), REPORT)
        await ThreadStore(tx).register(theirs, CHANNEL, root, compare_from=Decimal(0))
        ours = CatchUpStore(tx, "T1", [CHANNEL])
        await ours.follow_channels([CHANNEL], began)

        assert await ours.registered_roots(CHANNEL, [root]) == set()
        assert await ours.oldest_roots([CHANNEL]) == {}
        await ours.record_missing_roots(CHANNEL, "0", f"{began:.6f}", began)
        await ours.record_page(CHANNEL, [(root, Decimal(root), "1")], began, began - 1000)
        assert await ours.next_batch(CASES, 10, began) == [], "it is older than the installation"


_MANY_DUE = """
INSERT INTO catch_up_channels (team, channel, installed_at)
VALUES ('T1', 'C1', 0), ('T1', 'C2', 0);
INSERT INTO threads (team, channel, thread_ts, workflow_id, kind)
SELECT 'T1', 'C1', n::text, 'bug:' || n % 2000, 'case:report' FROM generate_series(1, 3000) n;
INSERT INTO catch_up_threads (team, channel, thread_ts, active_at, root_state, seen_at, is_due)
SELECT 'T1', channel, n::text, CASE WHEN n > 3000 THEN 0 ELSE n END, 'one', 0, true
FROM (SELECT 'C2' AS channel, generate_series(3001, 3020) AS n
      UNION ALL SELECT 'C1', generate_series(1, 3000)
      UNION ALL SELECT 'C2', generate_series(1, 3000)) each;
ANALYZE catch_up_channels, threads, catch_up_threads
"""
"""3,000 threads of 2,000 workflows are due, so half of the workflows have two. As many are due in
a channel of the other scope, and twenty before all of them.
"""


def rows_read(node: dict[str, Any]) -> Iterator[float]:
    """Return the rows of threads to compare that each scan of a plan has read, discarded ones
    included.
    """
    if node.get("Relation Name") == "catch_up_threads":
        removed = sum(
            node.get(f"Rows Removed by {why}", 0)
            for why in ("Filter", "Index Recheck", "Join Filter")
        )
        yield (node["Actual Rows"] + removed) * node["Actual Loops"]
    for each in node.get("Plans", ()):
        yield from rows_read(each)


async def test_batch_is_the_first_threads_with_the_others_of_their_owners(
    database: Database,
) -> None:
    async with database.begin() as tx:
        for statement in _MANY_DUE.split(";"):
            await tx.execute(text(statement))
        store = CatchUpStore(tx, "T1", [CHANNEL])
        batch = await store.next_batch(CASES, 10, 1.0)
        assert [each.thread_ts for each in batch] == [
            str(n) for n in (*range(1, 11), *range(2001, 2011))
        ]
        assert await store.count_due(CASES, 1.0) == MAX_COUNTED
        for each in batch:
            await store.record_compared(each, 1.0)
        assert [each.thread_ts for each in await store.next_batch(CASES, 1, 1.0)] == ["11", "2011"]


@pytest.mark.parametrize(
    ("asked", "limit", "most"),
    [
        (catch_up_store._NEXT_BATCH, {"count": 10}, 60),
        (catch_up_store._COUNT_DUE, {"most": MAX_COUNTED}, MAX_COUNTED + 20),
    ],
)
async def test_batch_reads_no_thread_that_is_not_in_it(
    database: Database, asked: TextClause, limit: dict[str, int], most: int
) -> None:
    """Otherwise a pass of thousands of batches would read every due thread in each. The batch
    skips the twenty of the other scope that come first, and those between.
    """
    async with database.begin() as tx:
        for statement in _MANY_DUE.split(";"):
            await tx.execute(text(statement))
        given = CatchUpStore(tx, "T1", [CHANNEL])._scoped(CASES) | {"began": 1.0} | limit
        plan = (
            await tx.execute(text("EXPLAIN (ANALYZE, FORMAT JSON) " + asked.text), given)
        ).scalar_one()[0]
    assert sum(rows_read(plan["Plan"])) <= most, json.dumps(plan, indent=1)
