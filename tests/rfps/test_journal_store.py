"""Journal entries and events: written once for each call, and never changed or deleted."""

import asyncio

import pytest
from sqlalchemy import text

from tests.support.recording import AUTHOR, create, explained
from tests.support.tool_store import NOW, THREAD, change
from threadline.db.engine import Database
from threadline.errors import AppendOnly
from threadline.rfps.model import (
    EntryKind,
    Event,
    JournalEntry,
    JsonObject,
    RfpNotFound,
    RfpRefused,
)
from threadline.rfps.store import RfpStore
from threadline.tools.model import CallIdReused

ID = "rfp_abc123"


@pytest.fixture(autouse=True)
async def rfp(database: Database) -> None:
    await create(database, rfp_id=ID)


async def note(
    database: Database, words: str = "Called the client.", call_id: str = "j1"
) -> JournalEntry:
    async with database.begin() as tx:
        return await RfpStore(tx).append_entry(change(call_id), ID, words, EntryKind.DECISION)


async def log(database: Database, event_type: str, payload: JsonObject) -> Event:
    async with database.begin() as tx:
        return await RfpStore(tx).append_event(change("e1"), ID, event_type, payload)


async def test_entry_is_written_once_with_its_author(database: Database) -> None:
    entry = await note(database, " Called\x00 the client. ")
    assert await note(database, " Called\x00 the client. ") == entry
    assert (entry.text, entry.kind, entry.author) == (
        "Called the client.",
        EntryKind.DECISION,
        AUTHOR,
    )
    assert entry.created_at.timestamp() == NOW
    async with database.begin() as tx:
        rows = await tx.exec_driver_sql("SELECT channel, thread_ts FROM journal_entries")
        assert [tuple(row) for row in rows] == [(THREAD.channel, THREAD.ts)]
        assert await RfpStore(tx).journal("T1", ID) == [entry]
        assert await RfpStore(tx).journal("T2", ID) == []
        assert await RfpStore(tx).journal_of_turn("T1", "corr-1") == [entry]
        assert await RfpStore(tx).journal_of_turn("T1", "corr-2") == []


async def test_event_is_logged_once_with_its_author(database: Database) -> None:
    new = (" proposal\nsent ", {"pages": 12, "to": "a\x00b", "nothing": None})
    event = await log(database, *new)
    assert await log(database, *new) == event
    assert (event.event_type, event.payload) == (
        "proposal sent",
        {"pages": 12, "to": "ab", "nothing": None},
    )
    assert (event.author, event.created_at.timestamp()) == (AUTHOR, NOW)
    async with database.begin() as tx:
        rows = await tx.exec_driver_sql("SELECT channel, thread_ts FROM events")
        assert [tuple(row) for row in rows] == [(THREAD.channel, THREAD.ts)]
        assert await RfpStore(tx).events("T1", ID) == [event]
        assert await RfpStore(tx).events("T2", ID) == []
        assert await RfpStore(tx).events_of_turn("T1", "corr-1") == [event]


async def test_same_call_at_once_writes_once(database: Database) -> None:
    entries = await asyncio.gather(*(note(database) for _ in range(10)))
    events = await asyncio.gather(*(log(database, "sent", {}) for _ in range(10)))
    assert len({each.id for each in entries}) == len({each.id for each in events}) == 1
    async with database.begin() as tx:
        assert (
            len(await RfpStore(tx).journal("T1", ID))
            == len(await RfpStore(tx).events("T1", ID))
            == 1
        )


async def test_call_of_another_rfp_with_the_same_key_is_refused(database: Database) -> None:
    await create(database, "other", rfp_id="rfp_xyz789")
    await note(database)
    with pytest.raises(CallIdReused):
        async with database.begin() as tx:
            await RfpStore(tx).append_entry(change("j1"), "rfp_xyz789", "x")


async def execute(database: Database, *statements: str) -> None:
    async with database.begin() as tx:
        for each in statements:
            await tx.execute(text(each))


@pytest.mark.parametrize("table", ["journal_entries", "events"])
async def test_owner_neither_changes_nor_deletes_written_entries(
    database: Database, table: str
) -> None:
    entry = await note(database)
    event = await log(database, "sent", {})
    for statement in (
        "UPDATE {} SET user_id = 'U2'",
        "UPDATE {} SET user_id = 'U2' WHERE false",
        "DELETE FROM {}",
        "DELETE FROM {} WHERE false",
        "TRUNCATE {}",
        "TRUNCATE rfps CASCADE",
        "INSERT INTO {0} OVERRIDING SYSTEM VALUE SELECT * FROM {0} "
        "ON CONFLICT (team, operation_key) DO UPDATE SET user_id = 'U2'",
        "MERGE INTO {0} a USING {0} b ON a.id = b.id WHEN MATCHED THEN DELETE",
        "SET LOCAL session_replication_role = replica; UPDATE {} SET user_id = 'U2'",
    ):
        with pytest.raises(AppendOnly):
            await execute(database, *statement.format(table).split("; "))
    async with database.begin() as tx:
        assert await RfpStore(tx).journal("T1", ID) == [entry]
        assert await RfpStore(tx).events("T1", ID) == [event]


async def test_deleted_rfp_keeps_its_journal_and_gets_no_new_entries(database: Database) -> None:
    entry = await note(database)
    async with database.begin() as tx:
        await RfpStore(tx).delete("T1", ID)
        assert await RfpStore(tx).journal("T1", ID) == [entry]
    assert await note(database) == entry, "a repeated call gets the first answer"
    with pytest.raises(RfpNotFound, match="was deleted"):
        await note(database, "later", "j2")
    with pytest.raises(RfpNotFound, match="was deleted"):
        await log(database, "later", {})


async def test_bad_entry_and_event_are_refused(database: Database) -> None:
    for words in (" \x00\n", "x" * 10_001):
        with pytest.raises(RfpRefused):
            await note(database, words)
    assert await note(database, "The same call may be made again.")
    for event_type in ("", "x" * 101):
        with pytest.raises(RfpRefused, match="needs a type"):
            await log(database, event_type, {})


async def test_newest_entries_come_first_in_pages(database: Database) -> None:
    written = [await note(database, f"n{number}", f"j{number}") for number in range(5)]
    async with database.begin() as tx:
        first = await RfpStore(tx).journal("T1", ID, 2)
        assert first == [written[4], written[3]]
        assert (
            await RfpStore(tx).journal("T1", ID.upper(), 9, before=first[-1].id) == written[2::-1]
        )


async def test_lists_use_an_index(database: Database) -> None:
    many = """
    INSERT INTO {} (
        team, rfp_id, {}, user_id, correlation_id, channel, thread_ts, operation_key, created_at
    )
    SELECT 'T1', 'rfp_abc123', {}, 'U1', 'c' || n, 'C1', '1', 'k' || n, now()
    FROM generate_series(1, 20000) n
    """
    async with database.begin() as tx:
        await tx.execute(text(many.format("journal_entries", "kind, text", "'note', 'x'")))
        await tx.execute(text(many.format("events", "event_type, payload", "'x', '{}'")))
        await tx.execute(text("ANALYZE journal_entries, events"))
    async with explained(database) as (tx, asked):
        await RfpStore(tx).journal("T1", ID, 20, before=10_000)
        await RfpStore(tx).events("T1", ID)
        await RfpStore(tx).journal_of_turn("T1", "c7")
        await RfpStore(tx).events_of_turn("T1", "c7")
    assert len(asked.plans) == 4
    for plan in asked.plans:
        assert "Index Scan" in plan, plan
        assert "Sort" not in plan or "correlation" in plan, plan
