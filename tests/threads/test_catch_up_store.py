"""CatchUpStore: the catch-ups of two workspaces in one database do not meet."""

import time
from decimal import Decimal

from threadline.cases.model import REPORT, case_owner
from threadline.db.engine import Database
from threadline.slack.model import Thread
from threadline.threads.catch_up_store import MAX_SENDS, CatchUpStore
from threadline.threads.contract import LookScope
from threadline.threads.store import ThreadStore

CHANNEL, CASES = "C1", LookScope.CASES


async def test_workspaces_in_one_database_do_not_share_channels_threads_or_messages(database: Database) -> None:
    began = time.time()
    root, edited = f"{began - 100:.6f}", f"{began - 50:.6f}"
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

        assert [(each.channel, each.read_at, each.error) for each in await ours.channels()] == [(CHANNEL, 0, "")]
        [thread] = await ours.next_batch(CASES, 10, began)
        assert (thread.team, thread.thread_ts, thread.owner) == ("T1", root, None)
        await ours.record_compared(thread, began)
        await others.follow_channels([CHANNEL], began)
        await others.select_unchanged(CASES, began - 1000, count=None, newest=False)
        assert await ours.count_due(CASES, began + 1) == 0
        assert await ours.often_sent() == [f"T1:{CHANNEL}:{root}"]


async def test_earliest_installation_of_a_channel_stands_in_any_order(database: Database) -> None:
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
