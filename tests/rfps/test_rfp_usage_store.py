"""The records of an RFP, and the ones that its deletion leaves."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.recording import HASH, create, create_from, until_waited_for
from tests.support.tool_store import NOW, THREAD, change
from threadline.approvals.model import ApprovalRules, NewAction
from threadline.approvals.store import ApprovalStore
from threadline.db.engine import Database
from threadline.jobs.model import JobFilter, JobSchedule, NewJob
from threadline.jobs.store import JobStore
from threadline.operator.store import Memory, MemoryKind, MemoryStore
from threadline.rfps.model import RfpNotFound, RfpUsage
from threadline.rfps.store import RfpStore
from threadline.threads.store import ThreadBindingStore
from threadline.tools.model import Risk

ID = "rfp_abc123"


async def remember(database: Database, kind: MemoryKind, rfp_id: str, team: str = "T1") -> None:
    new = Memory(kind, "crane", f"A crane, {kind}.", "U1", rfp_id=rfp_id)
    async with database.begin() as tx:
        await MemoryStore(tx).remember(team, [(f"of {rfp_id}", new)], NOW)


async def rows(database: Database, query: str, **given: object) -> list[dict[str, Any]]:
    async with database.begin() as tx:
        return [dict(each._mapping) for each in await tx.execute(text(query), given)]


async def write(database: Database, rfp_id: str) -> None:
    """Write one record of each kind that an RFP may have."""
    for each in (MemoryKind.EPISODIC, MemoryKind.SEMANTIC, MemoryKind.PROCEDURAL):
        await remember(database, each, rfp_id)
    wait = NewAction({"tool": "jira_create", "arguments": {}}, Risk.MEDIUM, rfp_id)
    async with database.begin() as tx:
        await RfpStore(tx).append_entry(change("j"), rfp_id, "A decision")
        await RfpStore(tx).append_event(change("e"), rfp_id, "asked", {})
        await RfpStore(tx).bind(THREAD, rfp_id, "U1")
        job = NewJob(
            job_type="deadline_reminder",
            arguments={},
            schedule=JobSchedule(cron="0 9 * * *", time_zone="UTC"),
            rfp_id=rfp_id,
        )
        await JobStore(tx).schedule(change("job"), job)
        await ApprovalStore(tx).propose(change("act"), wait, ApprovalRules(("U2",)))


async def test_deletion_removes_text_state_and_memories(database: Database) -> None:
    rfp = (await create_from(database, "c1")).rfp
    other = await create(database, "c2", rfp_id=ID)
    await write(database, rfp.rfp_id)
    await remember(database, MemoryKind.EPISODIC, ID)
    async with database.begin() as tx:
        found = await RfpStore(tx).usage("T1", rfp.rfp_id.upper())
        assert found == RfpUsage(rfp, 24, 1, 1, 2)
        assert await RfpStore(tx).usage("T1", ID) == RfpUsage(other, 0, 1, 0, 0)
        assert await MemoryStore(tx).count_of_rfp("T1", rfp.rfp_id) == 2
        assert await ThreadBindingStore(tx).threads_of("T1", "rfp", rfp.rfp_id) == [THREAD]
        [job] = await JobStore(tx).search("T1", JobFilter(open_only=True, rfp_id=rfp.rfp_id))
        assert job.job_id == "JOB-1"
        assert await ApprovalStore(tx).undecided_about("T1", rfp.rfp_id) == ["ACT-1"]
        assert await ApprovalStore(tx).undecided_about("T2", rfp.rfp_id) == []
        assert await RfpStore(tx).delete("T1", rfp.rfp_id)
        await MemoryStore(tx).forget_rfp("T1", rfp.rfp_id)
        with pytest.raises(RfpNotFound, match="was deleted"):
            await RfpStore(tx).usage("T1", rfp.rfp_id)
        assert [each.text for each in await RfpStore(tx).journal("T1", rfp.rfp_id)] == [
            "A decision"
        ]
        assert len(await RfpStore(tx).events("T1", rfp.rfp_id)) == 2
        assert await ThreadBindingStore(tx).of(THREAD) == {"rfp": rfp.rfp_id}
    [kept] = await rows(database, "SELECT * FROM rfps WHERE rfp_id = :rfp_id", rfp_id=rfp.rfp_id)
    assert (kept["title"], kept["client"]) == (rfp.title, rfp.client)
    assert (kept["source_text"], kept["source_name"], kept["source_hash"]) == ("", "", None)
    assert kept["source_unread"] == []
    assert "crane" not in kept["search_vector"]
    assert [
        each["rfp_id"] for each in await rows(database, "SELECT rfp_id FROM opportunity_states")
    ] == [ID]
    left = await rows(database, "SELECT kind, rfp_id FROM memories ORDER BY id")
    assert [(each["kind"], each["rfp_id"]) for each in left] == [
        ("procedural", rfp.rfp_id),
        ("episodic", ID),
    ]


async def test_other_teams_see_and_delete_nothing(database: Database) -> None:
    await create(database, rfp_id=ID)
    await remember(database, MemoryKind.EPISODIC, ID)
    await remember(database, MemoryKind.EPISODIC, ID, team="T2")
    async with database.begin() as tx:
        with pytest.raises(RfpNotFound):
            await RfpStore(tx).usage("T2", ID)
        assert not await RfpStore(tx).delete("T2", ID)
        assert await MemoryStore(tx).count_of_rfp("T1", ID) == 1
        assert await RfpStore(tx).delete("T1", ID)
        await MemoryStore(tx).forget_rfp("T1", ID)
    assert await rows(database, "SELECT team FROM memories") == [{"team": "T2"}]


async def patch(database: Database, rfp_id: str = ID) -> None:
    async with database.begin() as tx:
        await RfpStore(tx).patch_state(change(f"p {rfp_id}"), rfp_id, {"status": "won"}, 1)


async def delete(database: Database, rfp_id: str = ID) -> bool:
    async with database.begin() as tx:
        return await RfpStore(tx).delete("T1", rfp_id)


async def ensure_state(database: Database) -> None:
    async with database.begin() as tx:
        await RfpStore(tx).ensure_state_exists("T1", ID)


@pytest.mark.parametrize("late", [patch, ensure_state])
async def test_state_is_not_written_after_a_deletion(
    database: Database, late: Callable[[Database], Awaitable[None]]
) -> None:
    await create(database, rfp_id=ID)
    if late is ensure_state:
        await rows(database, "DELETE FROM opportunity_states RETURNING *")
    async with database.begin() as tx:
        await RfpStore(tx).delete("T1", ID)
        waiting = asyncio.ensure_future(late(database))
        await until_waited_for(tx)
    with pytest.raises(RfpNotFound, match="was deleted"):
        await waiting
    assert await rows(database, "SELECT * FROM opportunity_states") == []


async def test_deletion_after_a_patch_leaves_no_state(database: Database) -> None:
    await create(database, rfp_id=ID)
    async with database.begin() as tx:
        await RfpStore(tx).patch_state(change("p"), ID, {"status": "won"}, 1)
        late = asyncio.create_task(delete(database))
        await until_waited_for(tx)
    assert await late
    assert await rows(database, "SELECT * FROM opportunity_states") == []


async def test_concurrent_patch_and_deletion_do_not_deadlock(database: Database) -> None:
    for number in range(5):
        rfp_id = (await create(database, f"c{number}", rfp_id=f"{ID}{number}")).rfp_id
        outcome, _ = await asyncio.gather(
            patch(database, rfp_id), delete(database, rfp_id), return_exceptions=True
        )
        assert outcome is None or isinstance(outcome, RfpNotFound)
    assert await rows(database, "SELECT * FROM opportunity_states") == []


async def test_rfp_of_the_same_file_starts_without_its_predecessors_records(
    database: Database,
) -> None:
    first = (await create_from(database, "c1")).rfp
    await write(database, first.rfp_id)
    async with database.begin() as tx:
        await RfpStore(tx).delete("T1", first.rfp_id)
    again = await create_from(database, "c2", HASH)
    assert again.new
    async with database.begin() as tx:
        assert await RfpStore(tx).usage("T1", again.rfp.rfp_id) == RfpUsage(again.rfp, 24, 1, 0, 0)
