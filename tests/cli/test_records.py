"""`threadline records` on a real database: files are loaded, projects locked, RFPs and people
deleted.
"""

from decimal import Decimal
from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.support.recording import create, create_from
from tests.support.tool_store import NOW, THREAD, change
from threadline.appointments.store import AppointmentStore
from threadline.approvals.model import ApprovalRules, NewAction
from threadline.approvals.store import ApprovalStore
from threadline.db.engine import Database
from threadline.estimates.store import EstimateStore
from threadline.jobs.model import JobSchedule, NewJob
from threadline.jobs.store import JobStore
from threadline.operator.store import Memory, MemoryKind, MemoryStore
from threadline.rfps.model import FileText, TeamMember
from threadline.rfps.store import RfpStore, TeamMemberStore
from threadline.tools.model import Author, Risk

FILE = """
[[project]]
name = "Web shop"
currency = "EUR"
roles = {designer = 800, developer = 900.50}

[[resource]]
name = "Meeting room"
time_zone = "Europe/Berlin"
opens = 09:00:00
closes = 17:00:00
"""
PROPOSALS = """
[[rfp]]
id = "rfp_abc123"
title = "Website relaunch"
client = "Acme"
due_date = 2026-03-31
status = "Proposal submitted"
owner = "Ida"

[[rfp]]
title = "Crane"

[[member]]
user_id = "U7"
name = "Ida"
role = "Bid writer"
biography = "Ten years of tenders."
skills = ["tenders", "law"]
hours_per_week = 16
"""
AUTHOR = Author("U1", "c")
IDA = TeamMember(
    "U7", "Ida", "ida@example.com", "Bid writer", "Ten years of tenders.", ("tenders", "law"), 16
)


@pytest.fixture
def run(database_url: str, tmp_path: Path) -> Command:
    return Command("records", database_url, tmp_path)


def write(run: Command, text: str) -> None:
    (run.folder / "records.toml").write_text(text, encoding="utf-8")


async def test_reloaded_project_gets_the_new_rates(run: Command, database: Database) -> None:
    write(run, FILE)
    loaded = run("load", "records.toml")
    assert (loaded.returncode, loaded.stderr) == (0, "")
    project, resource = run("list").stdout.splitlines()
    assert project == "PRJ-1: Web shop, EUR"
    assert resource.startswith("Meeting room: 09:00 to 17:00 Europe/Berlin, Monday, Tuesday")
    write(run, FILE.replace("800", "810"))
    assert run("load", "records.toml").returncode == 0
    async with database.begin() as tx:
        roles = await EstimateStore(tx).roles("T1", "PRJ-1")
        assert {role.name: role.day_rate for role in roles} == {
            "designer": Decimal(810),
            "developer": Decimal("900.5"),
        }
        assert await EstimateStore(tx).projects("T2") == []


def test_locked_project_keeps_its_rates_until_it_is_unlocked(run: Command) -> None:
    write(run, FILE)
    run("load", "records.toml")
    assert "PRJ-1" in run("lock", "web shop").stdout
    assert "PRJ-1: Web shop, EUR, locked" in run("list").stdout
    assert run("load", "records.toml").returncode == 0, "nothing in it would change"
    write(run, FILE.replace("800", "810"))
    refused = run("load", "records.toml")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1)
    assert "PRJ-1 (Web shop) is locked" in refused.stderr
    assert "PRJ-1" in run("unlock", "PRJ-1").stdout
    assert run("load", "records.toml").returncode == 0


async def test_reloaded_rfps_stay_unchanged_and_people_change(
    run: Command, database: Database
) -> None:
    write(run, PROPOSALS)
    loaded = run("load", "records.toml")
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert "RFPs: 2 new, 0 existing" in loaded.stdout
    async with database.begin() as tx:
        first, crane = await RfpStore(tx).listed("T1")
        state = await RfpStore(tx).ensure_state_exists("T1", first.rfp_id)
        assert (state.document["status"], state.document["due_date"]) == (
            "proposal_submitted",
            "2026-03-31",
        )
        assert await RfpStore(tx).listed("T2") == []
    listed = [
        "rfp_abc123: Website relaunch, Acme, proposal submitted, due 2026-03-31, Ida",
        f"{crane.rfp_id}: Crane, new",
        "Ida (U7): Bid writer, 16 hours a week, can tenders, law",
    ]
    assert run("list").stdout.splitlines() == listed
    assert "RFPs: 0 new, 2 existing" in run("load", "records.toml").stdout
    assert run("list").stdout.splitlines() == listed
    async with database.begin() as tx:
        await RfpStore(tx).patch_state(change(), "rfp_abc123", {"status": "won"})
    write(run, PROPOSALS.replace("= 16", "= 20"))
    assert run("load", "records.toml").returncode == 0
    assert "rfp_abc123: Website relaunch, Acme, won, due 2026-03-31, Ida" in run("list").stdout
    assert "20 hours a week" in run("list").stdout


@pytest.mark.parametrize(
    ("changed", "to", "fault"),
    [
        ("Europe/Berlin", "Europe/Nowhere", "there is no time zone 'Europe/Nowhere'"),
        ("EUR", "Euro", "'Euro' is not a currency"),
        ("800", "-1", "a day rate must be a number from 0"),
        ("opens = 09:00:00", "opens = 18:00:00", "Meeting room must open before it closes"),
        ("currency", "curency", "project.0.currency"),
        ("[[project]]", "[[project]", "cannot be read as TOML"),
        ("rfp_abc123", "rfp 7", "'rfp 7' is not an RFP id"),
        ('"Proposal submitted"', '"asleep"', "'asleep' is not an RFP status"),
        ('"Crane"', '""', "an RFP needs a title"),
        ("2026-03-31", '"soon"', "rfp.0.due_date"),
        ("hours_per_week = 16", "hours_per_week = 200", "the hours per week of Ida"),
        ('name = "Ida"', 'name = " "', "needs a Slack user id and a name"),
    ],
)
async def test_file_with_a_fault_is_not_loaded_at_all(
    run: Command, database: Database, changed: str, to: str, fault: str
) -> None:
    write(run, (FILE + PROPOSALS).replace(changed, to))
    refused = run("load", "records.toml")
    assert (refused.returncode, fault in refused.stderr) == (1, True), refused.stderr
    async with database.begin() as tx:
        assert await EstimateStore(tx).projects("T1") == []
        assert await AppointmentStore(tx).resources("T1") == []
        assert await RfpStore(tx).listed("T1") == []
        assert await TeamMemberStore(tx).listed("T1") == []


async def test_rfp_is_loaded_though_another_team_has_its_id(
    run: Command, database: Database
) -> None:
    theirs = await create(database, team="T2", rfp_id="rfp_abc123", title="Bridge", client="City")
    write(run, PROPOSALS)
    loaded = run("load", "records.toml")
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert "RFPs: 2 new" in loaded.stdout
    assert "rfp_abc123: Website relaunch, Acme" in run("list").stdout
    async with database.begin() as tx:
        assert await RfpStore(tx).listed("T2") == [theirs]


async def test_deleted_rfp_cannot_be_loaded_by_its_id(run: Command, database: Database) -> None:
    write(run, PROPOSALS)
    run("load", "records.toml")
    async with database.begin() as tx:
        await RfpStore(tx).delete("T1", "rfp_abc123")
    assert "rfp_abc123 was deleted" in run("load", "records.toml").stderr


def test_unknown_project_or_file_is_named(run: Command) -> None:
    assert "There are no records yet" in run("list").stdout
    assert "there is no project 'Atlantis'" in run("lock", "Atlantis").stderr
    assert "nowhere.toml cannot be read" in run("load", "nowhere.toml").stderr


async def test_rfp_is_deleted_only_with_yes_and_its_traces_are_listed(
    run: Command, database: Database
) -> None:
    rfp = (await create_from(database, "c1")).rfp
    async with database.begin() as tx:
        await RfpStore(tx).append_entry(change("j"), rfp.rfp_id, "A decision")
        await RfpStore(tx).bind(THREAD, rfp.rfp_id, "U1")
        fact = Memory(MemoryKind.SEMANTIC, "crane", "The crane is blue.", rfp_id=rfp.rfp_id)
        await MemoryStore(tx).remember("T1", [("turn-1", fact)], NOW)
        job = NewJob(
            job_type="deadline_reminder",
            arguments={},
            schedule=JobSchedule(cron="0 9 * * *", time_zone="UTC"),
            rfp_id=rfp.rfp_id,
        )
        await JobStore(tx).schedule(change("job"), job)
        action = NewAction({"tool": "jira_create", "arguments": {}}, Risk.MEDIUM, rfp.rfp_id)
        await ApprovalStore(tx).propose(change("action"), action, ApprovalRules(("U2",)))
    preview = run("delete", rfp.rfp_id)
    *told, hint = preview.stdout.splitlines()
    assert (preview.returncode, len(told)) == (0, 6)
    parts = [
        rfp.rfp_id,
        "version 1",
        "brief.pdf",
        "turns about it (1)",
        "journal (1)",
        "events (1)",
    ]
    for part in (*parts, f"{THREAD.channel}/{THREAD.ts}", "JOB-1", "ACT-1"):
        assert part in preview.stdout
    assert f"`threadline records delete {rfp.rfp_id} --yes`" in hint
    async with database.begin() as tx:
        assert await RfpStore(tx).part_of_text("T1", rfp.rfp_id, 0, 7) == FileText("A crane", 24)
        assert await MemoryStore(tx).count_of_rfp("T1", rfp.rfp_id) == 1
    done = run("delete", rfp.rfp_id, "--yes")
    assert (done.returncode, done.stdout.splitlines()[:-1]) == (0, told)
    assert "There are no records yet" in run("list").stdout
    async with database.begin() as tx:
        assert await MemoryStore(tx).count_of_rfp("T1", rfp.rfp_id) == 0
    for arguments in ((), ("--yes",)):
        again = run("delete", rfp.rfp_id, *arguments)
        assert (again.returncode, f"{rfp.rfp_id} was already deleted" in again.stdout) == (0, True)


async def test_unknown_rfp_is_not_deleted_and_the_nearest_id_is_named(
    run: Command, database: Database
) -> None:
    rfp = (await create_from(database, "c1")).rfp
    unlike = run("delete", "rfp_abc123", "--yes")
    assert (unlike.returncode, unlike.stdout, "rfp_abc123" in unlike.stderr) == (1, "", True)
    assert "did you mean" not in unlike.stderr
    near = run("delete", rfp.rfp_id[:-1], "--yes")
    assert (near.returncode, f"did you mean {rfp.rfp_id}?" in near.stderr) == (1, True)
    assert rfp.rfp_id in run("list").stdout


async def test_person_is_forgotten_only_with_yes(run: Command, database: Database) -> None:
    async with database.begin() as tx:
        await TeamMemberStore(tx).save("T1", IDA)
    preview = run("forget-person", "ida")
    *told, hint = preview.stdout.splitlines()
    assert (preview.returncode, len(told)) == (0, 3)
    for part in (
        "Ida (U7): Bid writer, 16 hours a week",
        "ida@example.com",
        "THREADLINE_MEMORY_DAYS",
    ):
        assert part in preview.stdout
    assert "`threadline records forget-person U7 --yes`" in hint
    done = run("forget-person", "U7", "--yes")
    assert (done.returncode, done.stdout.splitlines()[:-1]) == (0, told)
    async with database.begin() as tx:
        assert await TeamMemberStore(tx).listed("T1") == []
    again = run("forget-person", "U7", "--yes")
    assert (again.returncode, again.stdout) == (1, "")
    assert "no team member is called 'U7'" in again.stderr


async def test_ambiguous_name_forgets_no_person(run: Command, database: Database) -> None:
    async with database.begin() as tx:
        for each in (IDA, TeamMember("U8", "Bo Olsen"), TeamMember("U9", "bo olsen")):
            await TeamMemberStore(tx).save("T1", each)
    several = run("forget-person", "Bo Olsen", "--yes")
    assert (several.returncode, several.stdout) == (1, "")
    assert "give U8 or U9" in several.stderr
    assert "did you mean Ida (U7)?" in run("forget-person", "Idda", "--yes").stderr
    async with database.begin() as tx:
        assert len(await TeamMemberStore(tx).listed("T1")) == 3
