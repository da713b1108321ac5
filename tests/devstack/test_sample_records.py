"""The sample records: created once, complete, and left alone afterwards."""

from decimal import Decimal

import pytest

from tests.support.estimates import details_of
from threadline.appointments.store import AppointmentStore
from threadline.db.engine import Database
from threadline.estimates.model import ProjectLocked, ProjectRole, stale_quotes
from threadline.estimates.store import EstimateStore
from threadline.knowledge.model import SearchQuery
from threadline.knowledge.search import search
from threadline.knowledge.store import KnowledgeStore
from threadline.rfps.store import RfpStore, TeamMemberStore
from threadline_devstack.sample_records import load_sample_records

PROJECT = "Web shop"
LOCKED_PROJECT = "Mobile app"


async def test_sample_records_are_whole_and_of_one_team(
    database: Database, database_url: str
) -> None:
    await load_sample_records(database_url, "T1")
    async with database.begin() as tx:
        assert await EstimateStore(tx).projects("T2") == []
        details = await details_of(tx, "T1", PROJECT)
        assert (details.project.project_id, len(details.roles), len(details.items)) == (
            "PRJ-1",
            3,
            3,
        )
        assert details.quotes[0].totals.total == Decimal("14165.46")
        assert stale_quotes(details) == []
        assert (await EstimateStore(tx).project("T1", LOCKED_PROJECT)).locked
        assert sorted(each.name for each in await AppointmentStore(tx).resources("T1")) == [
            "Meeting room",
            "Support engineer",
        ]
    found = await search(
        database, None, SearchQuery("T1", "When does the money of a refund go back?")
    )
    first = found.passages[0]
    assert (first.title, first.section) == ("Refund policy", "When money goes back")
    assert (first.source, first.text[:10]) == ("handbook/refunds.md", "A customer")


async def test_sample_rfps_have_states_journals_and_people_to_answer_them(
    database: Database, database_url: str
) -> None:
    await load_sample_records(database_url, "T1")
    async with database.begin() as tx:
        found = await RfpStore(tx).listed("T1", open_only=True)
        assert [each.rfp_id for each in found] == ["rfp_tix456", "rfp_xyz789", "rfp_abc123"]
        related = await RfpStore(tx).related("T1", "rfp_abc123", found[2])
        assert [each.rfp_id for each in related] == ["rfp_xyz789"]
        for each in found:
            state = await RfpStore(tx).ensure_state_exists("T1", each.rfp_id)
            assert (state.version, state.document["title"]) == (1, each.title)
            assert len(await RfpStore(tx).journal("T1", each.rfp_id)) == 1
        members = await TeamMemberStore(tx).listed("T1")
        assert len(members) == 3
        assert {each.owner for each in found} <= {each.name for each in members}
        await RfpStore(tx).delete("T1", "rfp_tix456")
        await TeamMemberStore(tx).forget("T1", members[0].user_id)
    await load_sample_records(database_url, "T1")
    async with database.begin() as tx:
        assert [each.rfp_id for each in await RfpStore(tx).listed("T1")] == [
            "rfp_xyz789",
            "rfp_abc123",
        ]
        assert len(await TeamMemberStore(tx).listed("T1")) == 2


async def test_loading_sample_records_again_keeps_changes_of_people(
    database: Database, database_url: str
) -> None:
    await load_sample_records(database_url, "T1")
    async with database.begin() as tx:
        await EstimateStore(tx).save_role("T1", "PRJ-1", ProjectRole("designer", Decimal(1000)))
        await EstimateStore(tx).set_locked("T1", "PRJ-1", locked=True)
        await KnowledgeStore(tx).delete("T1", "handbook/refunds.md")
        before = [await details_of(tx, "T1", name) for name in (PROJECT, LOCKED_PROJECT)]
    await load_sample_records(database_url, "T1")
    async with database.begin() as tx:
        assert [await details_of(tx, "T1", name) for name in (PROJECT, LOCKED_PROJECT)] == before
        assert len(await KnowledgeStore(tx).documents("T1")) == 4
        with pytest.raises(ProjectLocked):
            await EstimateStore(tx).save_role("T1", "PRJ-1", ProjectRole("designer", Decimal(1)))
