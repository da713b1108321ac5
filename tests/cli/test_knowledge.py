"""`threadline knowledge` on a real database: files become documents, and are found again."""

from pathlib import Path

import pytest

from tests.cli.command import Command
from tests.postgres import database, database_url, postgres
from threadline.db.engine import Database

__all__ = ["database", "database_url", "postgres"]


@pytest.fixture
def run(database_url: str, tmp_path: Path) -> Command:
    return Command("knowledge", database_url, tmp_path)


async def test_files_are_added_listed_found_and_forgotten(run: Command, database: Database) -> None:
    (run.folder / "leave.md").write_text("# Days off\n\nAsk the office for a day off.\n", encoding="utf-8-sig")
    (run.folder / "opening-hours.txt").write_text("Open from nine to five.", encoding="utf-8")
    added = run("add", "leave.md", "opening-hours.txt")
    assert (added.returncode, added.stderr) == (0, "")
    assert run("list").stdout.splitlines() == [
        "leave.md: Days off (29 characters)",
        "opening-hours.txt: opening hours (23 characters)",
    ]
    async with database.begin() as work:
        [found] = await work.knowledge.passages("T1", "How do I get a day off?")
        assert found.text == "Ask the office for a day off."
        assert await work.knowledge.documents("T2") == []
    assert run("remove", "leave.md").returncode == 0
    again = run("remove", "leave.md")
    assert (again.returncode, len(again.stderr.splitlines())) == (1, 1)
    assert "There is no document from leave.md" in again.stderr


async def test_a_file_that_cannot_be_read_is_named_and_nothing_is_kept(run: Command, database: Database) -> None:
    (run.folder / "fine.md").write_text("Fine.", encoding="utf-8")
    (run.folder / "picture.png").write_bytes(b"\x89PNG\xff")
    for name in ("picture.png", "nowhere.md"):
        done = run("add", "fine.md", name)
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
        assert name in done.stderr
    async with database.begin() as work:
        assert await work.knowledge.documents("T1") == []
