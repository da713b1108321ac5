"""`threadline records` on a real database: a file becomes projects, resources, RFPs and people; a project is locked."""

from decimal import Decimal
from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.support.tool_store import change
from threadline.db.engine import Database
from threadline.tools.author import Author

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
capacity = 16
"""


@pytest.fixture
def run(database_url: str, tmp_path: Path) -> Command:
    return Command("records", database_url, tmp_path)


async def test_a_file_makes_projects_and_resources_and_says_new_rates(run: Command, database: Database) -> None:
    (run.folder / "records.toml").write_text(FILE, encoding="utf-8")
    loaded = run("load", "records.toml")
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert run("list").stdout.splitlines() == [
        "PRJ-1: Web shop, EUR",
        "Meeting room: 09:00 to 17:00 Europe/Berlin, Monday, Tuesday, Wednesday, Thursday, Friday",
    ]
    (run.folder / "records.toml").write_text(FILE.replace("800", "810"), encoding="utf-8")
    assert run("load", "records.toml").returncode == 0
    async with database.begin() as work:
        roles = await work.estimates.roles("T1", "PRJ-1")
        assert {role.name: role.day_rate for role in roles} == {"designer": Decimal(810), "developer": Decimal("900.5")}
        assert await work.estimates.projects("T2") == []


def test_a_locked_project_is_shown_so_and_keeps_its_rates_until_it_is_unlocked(run: Command) -> None:
    (run.folder / "records.toml").write_text(FILE, encoding="utf-8")
    run("load", "records.toml")
    assert run("lock", "web shop").stdout == "PRJ-1 (Web shop) is locked.\n"
    assert "PRJ-1: Web shop, EUR, locked" in run("list").stdout
    assert run("load", "records.toml").returncode == 0, "nothing in it would change"
    (run.folder / "records.toml").write_text(FILE.replace("800", "810"), encoding="utf-8")
    refused = run("load", "records.toml")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1)
    assert "PRJ-1 (Web shop) is locked" in refused.stderr
    assert run("unlock", "PRJ-1").stdout == "PRJ-1 (Web shop) can be changed.\n"
    assert run("load", "records.toml").returncode == 0


@pytest.mark.parametrize(
    ("changed", "to", "said"),
    [
        ("Europe/Berlin", "Europe/Nowhere", "there is no time zone 'Europe/Nowhere'"),
        ("EUR", "Euro", "'Euro' is not a currency"),
        ("800", "-1", "a day rate must be a number from 0"),
        ("opens = 09:00:00", "opens = 18:00:00", "Meeting room must open before it closes"),
        ("currency", "curency", "project.0.currency"),
        ("[[project]]", "[[project]", "cannot be read as TOML"),
    ],
)
async def test_of_a_file_with_a_fault_nothing_is_kept_and_the_fault_is_named(
    run: Command, database: Database, changed: str, to: str, said: str
) -> None:
    (run.folder / "records.toml").write_text(FILE.replace(changed, to), encoding="utf-8")
    refused = run("load", "records.toml")
    assert refused.returncode == 1
    assert said in refused.stderr
    async with database.begin() as work:
        assert await work.estimates.projects("T1") == []
        assert await work.appointments.resources("T1") == []


async def test_a_file_makes_rfps_with_their_states_and_people(run: Command, database: Database) -> None:
    (run.folder / "records.toml").write_text(PROPOSALS, encoding="utf-8")
    loaded = run("load", "records.toml")
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert "RFPs: 2 new, 0 there before" in loaded.stdout
    async with database.begin() as work:
        first, crane = await work.rfps.listed("T1")
        assert crane.title == "Crane"
        state = await work.opportunities.ensure_state_exists("T1", first.rfp_id)
        assert (state.document["status"], state.document["due_date"]) == ("proposal_submitted", "2026-03-31")
        assert await work.rfps.listed("T2") == []
    assert run("list").stdout.splitlines() == [
        "rfp_abc123: Website relaunch, Acme, proposal submitted, due 2026-03-31, Ida",
        f"{crane.rfp_id}: Crane, new",
        "Ida (U7): Bid writer, 16 hours a week, can tenders, law",
    ]


async def test_loaded_again_rfps_stay_as_threads_have_made_them_and_people_are_as_the_file_says(
    run: Command, database: Database
) -> None:
    (run.folder / "records.toml").write_text(PROPOSALS, encoding="utf-8")
    run("load", "records.toml")
    before = run("list").stdout
    assert "RFPs: 0 new, 2 there before" in run("load", "records.toml").stdout
    assert run("list").stdout == before
    async with database.begin() as work:
        await work.opportunities.patch(change(), "rfp_abc123", {"status": "won"}, 1, Author("U1", "c"))
    (run.folder / "records.toml").write_text(PROPOSALS.replace("= 16", "= 20"), encoding="utf-8")
    assert run("load", "records.toml").returncode == 0
    assert "rfp_abc123: Website relaunch, Acme, won, due 2026-03-31, Ida" in run("list").stdout
    assert "20 hours a week" in run("list").stdout


@pytest.mark.parametrize(
    ("changed", "to", "said"),
    [
        ("rfp_abc123", "rfp 7", "'rfp 7' is not an RFP id"),
        ('"Proposal submitted"', '"asleep"', "'asleep' is not an RFP status: use one of new, in_progress"),
        ('"Crane"', '""', "an RFP needs a title"),
        ("2026-03-31", '"soon"', "rfp.0.due_date"),
        ("capacity = 16", "capacity = 200", "the capacity of Ida must be a number of hours a week"),
        ('name = "Ida"', 'name = " "', "needs a Slack user id and a name"),
        ("skills =", "skill =", "member.0.skill"),
    ],
)
async def test_of_proposals_with_a_fault_nothing_is_kept_and_the_fault_is_named(
    run: Command, database: Database, changed: str, to: str, said: str
) -> None:
    (run.folder / "records.toml").write_text(FILE + PROPOSALS.replace(changed, to), encoding="utf-8")
    refused = run("load", "records.toml")
    assert (refused.returncode, said in refused.stderr) == (1, True), refused.stderr
    async with database.begin() as work:
        assert await work.estimates.projects("T1") == []
        assert await work.rfps.listed("T1") == []
        assert await work.team.listed("T1") == []


async def test_a_deleted_rfp_does_not_come_back_by_its_id(run: Command, database: Database) -> None:
    (run.folder / "records.toml").write_text(PROPOSALS, encoding="utf-8")
    run("load", "records.toml")
    async with database.begin() as work:
        await work.rfps.delete("T1", "rfp_abc123")
    assert "rfp_abc123 was deleted" in run("load", "records.toml").stderr


def test_what_is_not_there_is_said(run: Command) -> None:
    assert "There is nothing yet" in run("list").stdout
    assert "there is no project 'Atlantis'" in run("lock", "Atlantis").stderr
    assert "nowhere.toml cannot be read" in run("load", "nowhere.toml").stderr
