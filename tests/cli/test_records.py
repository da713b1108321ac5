"""`threadline records` on a real database: a file becomes projects and resources, and a project is locked."""

from decimal import Decimal
from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.postgres import database, database_url, postgres
from threadline.db.engine import Database

__all__ = ["database", "database_url", "postgres"]

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
        ("EUR", "Euro", "'Euro' is no currency"),
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


def test_what_is_not_there_is_said(run: Command) -> None:
    assert "There is nothing yet" in run("list").stdout
    assert "there is no project 'Atlantis'" in run("lock", "Atlantis").stderr
    assert "nowhere.toml cannot be read" in run("load", "nowhere.toml").stderr
