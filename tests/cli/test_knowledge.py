"""`threadline knowledge` on a real database: folders and files become documents and are found."""

import os
from pathlib import Path

import pytest

from tests.cli.command import Command
from threadline.db.engine import Database
from threadline.knowledge.model import SearchQuery
from threadline.knowledge.search import search
from threadline.knowledge.store import KnowledgeStore


@pytest.fixture
def run(database_url: str, tmp_path: Path) -> Command:
    return Command("knowledge", database_url, tmp_path)


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8-sig")


async def test_folder_is_ingested_listed_updated_and_removed(
    run: Command, database: Database
) -> None:
    kb = run.folder / "kb"
    kb.mkdir()
    write(
        kb, leave="# Days off\n\nAsk the office for a day off.\n", hours="Open from nine to five."
    )
    write(
        kb,
        price=(
            "---\ntitle: Prices\ntype: pricing\nexpires: 2199-12-31\n---\n## Starter\n\n20 euros "
            "a month.\n"
        ),
    )
    first = run("ingest", "kb")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.splitlines() == ["3 new, 0 changed, 0 unchanged, 0 removed, 0 refused."]
    assert run("list").stdout.splitlines() == [
        "kb/hours.md: hours (product, 23 characters)",
        "kb/leave.md: Days off (product, 29 characters)",
        "kb/price.md: Prices (pricing, 29 characters, until 2199-12-31)",
    ]
    found = await search(database, None, SearchQuery("T1", "What does Starter cost a month?"))
    assert [(each.title, each.section) for each in found.passages] == [("Prices", "Starter")]
    (kb / "hours.md").unlink()
    write(
        kb,
        leave="# Days off\n\nAsk your lead for a day off.\n",
        broken="---\ntype: : :\n---\nText.\n",
    )
    again = run("ingest", "kb")
    assert again.returncode == 1
    gone, refused, summary = again.stdout.splitlines()
    assert gone == "kb/hours.md no longer exists and was forgotten."
    assert "The front matter of kb/broken.md is not valid YAML" in refused
    assert summary == "0 new, 1 changed, 1 unchanged, 1 removed, 1 refused."
    assert run("remove", "kb/leave.md").returncode == 0
    missing = run("remove", "kb/leave.md")
    assert (missing.returncode, len(missing.stderr.splitlines())) == (1, 1)
    assert "There is no document from kb/leave.md" in missing.stderr


async def test_skipped_files_of_a_folder_are_counted_by_kind(run: Command) -> None:
    kb = run.folder / "kb"
    (kb / "deep").mkdir(parents=True)
    write(kb, hours="Open from nine to five.")
    for name in ("a.pdf", "deep/B.PDF", "c.docx", "README", ".hidden.pdf", ".git"):
        (kb / name).write_bytes(b"%PDF")
    done = run("ingest", "kb")
    assert (done.returncode, done.stderr) == (0, "")
    skipped, summary = done.stdout.splitlines()
    assert skipped == (
        "4 files were skipped (2 .pdf, 1 without a suffix, 1 .docx): only Markdown and plain text "
        "are read. Save the text of a document as .md or .txt in the same folder, and run this "
        "again."
    )
    assert summary == "1 new, 0 changed, 0 unchanged, 0 removed, 0 refused."
    (kb / "a.pdf").rename(run.folder / "a.pdf")
    for name in ("deep/B.PDF", "c.docx"):
        (kb / name).unlink()
    [skipped, _] = run("ingest", "kb").stdout.splitlines()
    assert skipped.startswith("1 file was skipped (1 without a suffix): ")


async def test_foreign_front_matter_is_named_without_failing(run: Command) -> None:
    write(run.folder, fine="---\ntype: learn\n---\nFine.")
    done = run("ingest", "fine.md")
    assert done.returncode == 0
    notice, summary = done.stdout.splitlines()
    assert notice.startswith("`type` of fine.md is 'learn': taken as product")
    assert summary == "1 new, 0 changed, 0 unchanged, 0 removed, 0 refused."


async def test_missing_path_is_named_and_nothing_is_stored(
    run: Command, database: Database
) -> None:
    write(run.folder, fine="Fine.")
    done = run("ingest", "fine.md", "nowhere.md")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "There is no nowhere.md" in done.stderr
    async with database.begin() as tx:
        assert await KnowledgeStore(tx).documents("T1") == []


@pytest.mark.parametrize("name", ["two  blanks", "no\u00a0break", "a\u202fnarrow one"])
async def test_file_with_any_blanks_in_its_name_is_recognised(run: Command, name: str) -> None:
    kb = run.folder / "hand  book"
    kb.mkdir()
    write(kb, **{name: "Text."})
    assert run("ingest", "hand  book").stdout.splitlines() == [
        "1 new, 0 changed, 0 unchanged, 0 removed, 0 refused."
    ]
    assert run("ingest", "hand  book").stdout.splitlines() == [
        "0 new, 0 changed, 1 unchanged, 0 removed, 0 refused."
    ]
    assert run("remove", f"hand  book/{name}.md").returncode == 0


async def test_file_name_that_is_not_utf8_stops_no_other_file(run: Command) -> None:
    kb = run.folder / "kb"
    kb.mkdir()
    write(kb, fine="Text.", **{os.fsdecode(b"caf\xe9"): "Text."})
    done = run("ingest", "kb")
    assert done.returncode == 1
    refused, summary = done.stdout.splitlines()
    assert refused == "✗ The name of kb/caf\\udce9.md is not UTF-8: rename it."
    assert summary == "1 new, 0 changed, 0 unchanged, 0 removed, 1 refused."


async def test_emptied_folder_removes_documents_only_when_forced(run: Command) -> None:
    kb = run.folder / "kb"
    kb.mkdir()
    write(kb, fine="Text.")
    run("ingest", "kb")
    (kb / "fine.md").unlink()
    away = run("ingest", "kb")
    assert away.returncode == 1
    assert "kb has no documents now" in away.stdout
    meant = run("ingest", "--forget-all", "kb")
    assert (meant.returncode, meant.stdout.splitlines()[0]) == (
        0,
        "kb/fine.md no longer exists and was forgotten.",
    )
