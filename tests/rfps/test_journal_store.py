"""The journal and the log of events: written once for each call, and never changed or deleted by anybody."""

import asyncio

import pytest
from sqlalchemy import text

from tests.support.recording import AUTHOR, create, explained
from tests.support.tool_store import NOW, THREAD, change
from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Rate, RateExceeded
from threadline.errors import OnRecord
from threadline.rfps.journal_entries import EntryKind, EntryRefused, Event, JournalEntry, NewEntry, NewEvent
from threadline.rfps.model import RfpNotFound
from threadline.tools.author import Author

ID = "rfp_abc123"
TABLES = ("journal_entries", "events")


@pytest.fixture(autouse=True)
async def rfp(database: Database) -> None:
    await create(database, rfp_id=ID)


async def note(
    database: Database, words: str = "Called the client.", call_id: str = "j1", **more: object
) -> JournalEntry:
    kind, author = EntryKind.DECISION, more.pop("author", AUTHOR)
    assert isinstance(author, Author)
    async with database.begin() as work:
        return await work.journal.append(change(call_id, **more), ID, NewEntry(words, kind), author)  # type: ignore[arg-type]


async def log(database: Database, new: NewEvent, call_id: str = "e1", rfp_id: str = ID) -> Event:
    async with database.begin() as work:
        return await work.events.append(change(call_id), rfp_id, new, AUTHOR)


async def test_an_entry_is_written_once_for_each_call_and_says_whose_it_is(database: Database) -> None:
    entry = await note(database, " Called\x00 the client. ")
    assert await note(database, " Called\x00 the client. ") == entry
    assert (entry.text, entry.kind, entry.author) == ("Called the client.", EntryKind.DECISION, AUTHOR)
    assert (entry.channel, entry.thread_ts, entry.at.timestamp()) == (THREAD.channel, THREAD.ts, NOW)
    async with database.begin() as work:
        assert await work.journal.of("T1", ID) == [entry]
        assert await work.journal.of("T2", ID) == []
        assert await work.journal.of_turn("T1", "corr-1") == [entry]
        assert await work.journal.of_turn("T1", "corr-2") == []


async def test_an_event_is_logged_once_for_each_call_and_says_whose_it_is(database: Database) -> None:
    new = NewEvent(" proposal\nsent ", {"pages": 12, "to": "a\x00b", "nothing": None})
    event = await log(database, new)
    assert await log(database, new) == event
    assert (event.event_type, event.payload) == ("proposal sent", {"pages": 12, "to": "ab", "nothing": None})
    assert (event.author, event.channel, event.at.timestamp()) == (AUTHOR, THREAD.channel, NOW)
    async with database.begin() as work:
        assert await work.events.of("T1", ID) == [event]
        assert await work.events.of("T2", ID) == []
        assert await work.events.of_turn("T1", "corr-1") == [event]


async def test_of_many_that_make_the_same_call_at_once_one_writes(database: Database) -> None:
    entries = await asyncio.gather(*(note(database) for _ in range(10)))
    events = await asyncio.gather(*(log(database, NewEvent("sent", {})) for _ in range(10)))
    assert len({each.id for each in entries}) == len({each.id for each in events}) == 1
    async with database.begin() as work:
        assert len(await work.journal.of("T1", ID)) == len(await work.events.of("T1", ID)) == 1


async def test_a_call_that_the_operations_have_forgotten_still_writes_once(database: Database) -> None:
    entry, event = await note(database), await log(database, NewEvent("sent", {}))
    async with database.begin() as work:
        assert await work.operations.prune(NOW + 1) == 3
    assert await note(database) == entry
    assert await log(database, NewEvent("sent", {})) == event


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {} SET user_id = 'U2'",
        "UPDATE {} SET user_id = 'U2' WHERE false",
        "DELETE FROM {}",
        "DELETE FROM {} WHERE false",
        "TRUNCATE {}",
        "TRUNCATE rfps CASCADE",
        "INSERT INTO {0} SELECT * FROM {0} ON CONFLICT (team, operation_key) DO UPDATE SET user_id = 'U2'",
        "MERGE INTO {0} a USING {0} b ON a.id = b.id WHEN MATCHED THEN DELETE",
        "SET LOCAL session_replication_role = replica; UPDATE {} SET user_id = 'U2'",
    ],
)
async def test_the_owner_neither_changes_nor_deletes_what_was_written(
    database: Database, table: str, statement: str
) -> None:
    entry, event = await note(database), await log(database, NewEvent("sent", {}))
    run = statement.format(table).replace(
        "INSERT INTO " + table, "INSERT INTO " + table + " OVERRIDING SYSTEM VALUE", 1
    )

    async def attempt() -> None:
        async with database.begin() as work:
            for each in run.split("; "):
                await work.connection.execute(text(each))

    with pytest.raises(OnRecord, match="only grows: nothing in it is changed or deleted"):
        await attempt()
    async with database.begin() as work:
        assert await work.journal.of("T1", ID) == [entry]
        assert await work.events.of("T1", ID) == [event]


async def test_what_belongs_to_a_deleted_request_stays_and_nothing_is_added(database: Database) -> None:
    entry = await note(database)
    async with database.begin() as work:
        await work.rfps.delete("T1", ID)
        assert await work.journal.of("T1", ID) == [entry]
    assert await note(database) == entry, "a repeated call hears what was answered"
    with pytest.raises(RfpNotFound, match="was deleted"):
        await note(database, "later", "j2")
    with pytest.raises(RfpNotFound, match="was deleted"):
        await log(database, NewEvent("later", {}))


@pytest.mark.parametrize("words", ["", " \x00\n", "x" * 10_001])
async def test_an_entry_without_words_or_with_too_many_is_refused(database: Database, words: str) -> None:
    with pytest.raises(EntryRefused, match="a journal entry"):
        await note(database, words)
    assert await note(database, "The same call may be made again.")


@pytest.mark.parametrize(
    ("new", "says"),
    [
        (NewEvent("", {}), "needs a type"),
        (NewEvent("x" * 101, {}), "needs a type"),
        (NewEvent("sent", {"a": "x" * 1_000_000}), "the maximum is 64,000"),
        (NewEvent("sent", ["a"]), "must be a JSON object"),  # type: ignore[arg-type]
    ],
)
async def test_what_is_no_event_is_refused(database: Database, new: NewEvent, says: str) -> None:
    with pytest.raises(EntryRefused, match=says):
        await log(database, new)


async def test_nothing_is_written_about_what_is_not_there(database: Database) -> None:
    with pytest.raises(RfpNotFound, match="did you mean rfp_abc123"):
        await log(database, NewEvent("sent", {}), rfp_id="rfp_abc124")


async def test_the_newest_come_first_and_older_ones_on_further_pages(database: Database) -> None:
    written = [await note(database, f"n{number}", f"j{number}") for number in range(5)]
    async with database.begin() as work:
        first = await work.journal.of("T1", ID, 2)
        assert first == [written[4], written[3]]
        assert await work.journal.of("T1", ID.upper(), 9, before=first[-1].id) == written[2::-1]


async def test_a_journal_is_written_no_faster_than_its_rate(database: Database) -> None:
    rate = Rate(1, 60)
    await note(database, "a", "j1", rate=rate)
    with pytest.raises(RateExceeded):
        await note(database, "b", "j2", rate=rate)


async def test_lists_read_by_an_index(database: Database) -> None:
    many = """
    INSERT INTO {} (team, rfp_id, {}, user_id, correlation_id, channel, thread_ts, operation_key, at)
    SELECT 'T1', 'rfp_abc123', {}, 'U1', 'c' || n, 'C1', '1', 'k' || n, now() FROM generate_series(1, 20000) n
    """
    async with database.begin() as work:
        await work.connection.execute(text(many.format("journal_entries", "kind, text", "'note', 'x'")))
        await work.connection.execute(text(many.format("events", "event_type, payload", "'x', '{}'")))
        await work.connection.execute(text("ANALYZE journal_entries, events"))
    async with explained(database) as (work, asked):
        await work.journal.of("T1", ID, 20, before=10_000)
        await work.events.of("T1", ID)
        await work.journal.of_turn("T1", "c7")
        await work.events.of_turn("T1", "c7")
    assert len(asked.plans) == 4
    for plan in asked.plans:
        assert "Index Scan" in plan, plan
        assert "Sort" not in plan or "correlation" in plan, plan
