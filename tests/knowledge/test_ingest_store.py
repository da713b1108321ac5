"""Ingestion reads changed documents, deletes missing ones, and keeps unreadable ones."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.knowledge.documents import MAX_FILE_BYTES, UnreadableSource
from threadline.knowledge.ingest import IngestReport, SourceOutcome, collect_sources, ingest
from threadline.knowledge.model import Document
from threadline.knowledge.store import KnowledgeStore
from threadline.models.embeddings import Embedder


class Model(Embedder):
    """`error` is raised for texts that hold the words `of`."""

    def __init__(self, model: str, error: Exception | None = None, of: str = "") -> None:
        self.model = model
        self._error = error
        self._of = of
        self.texts = list[str]()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += texts
        if self._error and any(self._of in each for each in texts):
            raise self._error
        return [[1.0] for _ in texts]


PAGES = {"https://a.example/one": b"# One\n\nFirst.", "https://a.example/two": b"# Two\n\nSecond."}


async def fetch(address: str) -> bytes:
    if address not in PAGES:
        raise UnreadableSource(f"{address} is away.")
    return PAGES[address]


async def ingest_paths(
    database: Database, *paths: Path, embedder: Embedder | None = None, forget_all: bool = False
) -> IngestReport:
    sources = collect_sources(paths, fetch)
    return await ingest(database, "T1", sources, embedder, lambda *_: None, forget_all=forget_all)


async def documents(database: Database) -> dict[str, Document]:
    """The stored documents, by source."""
    async with database.begin() as tx:
        return {each.source: each for each in await KnowledgeStore(tx).documents("T1")}


async def models(database: Database) -> dict[str, str]:
    """The model whose vectors are stored, by source."""
    async with database.begin() as tx:
        return {
            source: each.model for source, each in (await KnowledgeStore(tx).sources("T1")).items()
        }


async def changes(database: Database) -> dict[str, datetime]:
    """The time of each document's last write, by source."""
    async with database.begin() as tx:
        rows = await tx.execute(text("SELECT source, updated_at FROM knowledge_documents"))
        return {row.source: row.updated_at for row in rows}


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    folder = tmp_path / "kb"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.md").write_text("A text.")
    (folder / "deep" / "b.markdown").write_text("Another.")
    (folder / "picture.png").write_bytes(b"\x89")
    (folder / ".hidden.md").write_text("No.")
    return folder


async def test_only_changed_documents_are_read_again(database: Database, kb: Path) -> None:
    assert (await ingest_paths(database, kb)).counts == {SourceOutcome.NEW: 2}
    before = await changes(database)
    assert sorted(before) == ["kb/a.md", "kb/deep/b.markdown"]
    (kb / "a.md").write_text("A new text.")
    assert (await ingest_paths(database, kb)).counts == {
        SourceOutcome.CHANGED: 1,
        SourceOutcome.UNCHANGED: 1,
    }
    after = await changes(database)
    assert [source for source in before if after[source] != before[source]] == ["kb/a.md"]
    assert (await documents(database))["kb/a.md"].body == "A new text."


async def test_documents_are_stored_again_in_another_default_language(
    database: Database, kb: Path
) -> None:
    async def in_language(language: str) -> IngestReport:
        sources = collect_sources([kb], fetch)
        return await ingest(database, "T1", sources, None, lambda *_: None, language=language)

    (kb / "a.md").write_text("---\nlang: fr\n---\nA text.")
    await in_language("english")
    assert (await in_language("german")).counts == {SourceOutcome.CHANGED: 2}
    assert (await in_language("german")).counts == {SourceOutcome.UNCHANGED: 2}
    languages = {source: each.language for source, each in (await documents(database)).items()}
    assert languages == {"kb/a.md": "french", "kb/deep/b.markdown": "german"}


async def test_foreign_front_matter_is_taken_with_a_notice(database: Database, kb: Path) -> None:
    (kb / "a.md").write_text("---\ntype: learn\n---\nA text.")
    report = await ingest_paths(database, kb)
    assert (report.counts, report.refusals) == ({SourceOutcome.NEW: 2}, [])
    assert [each.split(":")[0] for each in report.notices] == ["`type` of kb/a.md is 'learn'"]
    assert (await ingest_paths(database, kb)).notices == []


async def test_missing_file_is_deleted_but_not_one_ingested_by_itself(
    database: Database, kb: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "alone.md"
    alone.write_text("Alone.")
    await ingest_paths(database, kb, alone)
    (kb / "a.md").unlink()
    report = await ingest_paths(database, kb)
    assert report.removed == ["kb/a.md"]
    assert sorted(await documents(database)) == ["alone.md", "kb/deep/b.markdown"]


async def test_empty_folder_or_list_deletes_nothing_without_forget_all(
    database: Database, kb: Path, tmp_path: Path
) -> None:
    pages = tmp_path / "pages.urls"
    pages.write_text("https://a.example/one\n")
    await ingest_paths(database, kb, pages)
    for file in kb.rglob("*.m*"):
        file.unlink()
    pages.write_text("")
    report = await ingest_paths(database, kb, pages)
    assert (report.counts, len(await documents(database))) == ({SourceOutcome.REFUSED: 2}, 3)
    assert [each.split()[0] for each in report.refusals if "--forget-all" in each] == [
        "kb",
        "pages.urls",
    ]
    assert (await ingest_paths(database, kb, pages, forget_all=True)).counts == {
        SourceOutcome.REMOVED: 3
    }
    assert (await ingest_paths(database, kb, pages)).counts == {}


async def test_unreadable_file_is_named_and_its_old_text_kept(
    database: Database, kb: Path
) -> None:
    await ingest_paths(database, kb)
    (kb / "a.md").write_bytes(b"\xff\xfe")
    (kb / "c.md").write_text("---\ntitle: [\n---\nText.")
    (kb / "d.txt").write_text("Fine.")
    report = await ingest_paths(database, kb)
    assert report.counts == {
        SourceOutcome.REFUSED: 2,
        SourceOutcome.UNCHANGED: 1,
        SourceOutcome.NEW: 1,
    }
    assert [each.split()[0] for each in report.refusals] == ["kb/a.md", "The"]
    assert (await documents(database))["kb/a.md"].body == "A text."
    assert "kb/c.md" not in await documents(database)


async def test_link_out_of_the_folder_is_not_followed(
    database: Database, kb: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret.md").write_text("Secret.")
    (kb / "link.md").symlink_to(tmp_path / "secret.md")
    report = await ingest_paths(database, kb)
    [refusal] = report.refusals
    assert refusal.startswith("kb/link.md is a link")
    assert "kb/link.md" not in await documents(database)


async def test_list_that_is_a_link_out_of_the_folder_is_not_read(
    database: Database, kb: Path, tmp_path: Path
) -> None:
    pages = kb / "pages.urls"
    pages.write_text("https://a.example/one\n")
    await ingest_paths(database, kb)
    (tmp_path / "secret").write_text("password=1234\n")
    pages.unlink()
    pages.symlink_to(tmp_path / "secret")
    report = await ingest_paths(database, kb)
    [refusal] = report.refusals
    assert refusal.startswith("kb/pages.urls is a link")
    assert "password" not in refusal
    assert "https://a.example/one" in await documents(database)


async def test_too_large_list_is_refused_and_keeps_its_documents(
    database: Database, kb: Path
) -> None:
    pages = kb / "pages.urls"
    pages.write_text("https://a.example/one\n")
    await ingest_paths(database, kb)
    pages.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    [refusal] = (await ingest_paths(database, kb)).refusals
    assert refusal.startswith("kb/pages.urls is larger than 20 MB")
    assert "https://a.example/one" in await documents(database)


async def test_list_of_addresses_is_followed_with_any_ending(
    database: Database, tmp_path: Path
) -> None:
    pages = tmp_path / "PAGES.URLS"
    pages.write_text(
        "# ours\nhttps://a.example/one\n\nhttps://a.example/two\nhttps://a.example/none\n"
    )
    report = await ingest_paths(database, pages)
    assert report.counts == {SourceOutcome.NEW: 2, SourceOutcome.REFUSED: 1}
    assert [each.title for each in (await documents(database)).values()] == ["One", "Two"]
    pages.write_text("https://a.example/one\n")
    assert (await ingest_paths(database, pages)).removed == ["https://a.example/two"]


async def test_unreadable_list_keeps_its_documents(
    database: Database, kb: Path, tmp_path: Path
) -> None:
    within = kb / "pages.urls"
    alone = tmp_path / "more.urls"
    within.write_text("https://a.example/one\n")
    alone.write_text("https://a.example/two\n")
    await ingest_paths(database, kb, alone)
    within.write_bytes(b"\xff")
    alone.write_bytes(b"\xff")
    (kb / "a.md").unlink()
    report = await ingest_paths(database, kb, alone, forget_all=True)
    assert report.counts == {
        SourceOutcome.REFUSED: 2,
        SourceOutcome.UNCHANGED: 1,
        SourceOutcome.REMOVED: 1,
    }
    assert "kb/pages.urls cannot be read" in report.refusals[0]
    assert sorted(await documents(database)) == [
        "https://a.example/one",
        "https://a.example/two",
        "kb/deep/b.markdown",
    ]


async def test_vectors_are_made_again_for_another_model_only(database: Database, kb: Path) -> None:
    await ingest_paths(database, kb, embedder=Model("small"))
    assert (await ingest_paths(database, kb, embedder=Model("small"))).counts == {
        SourceOutcome.UNCHANGED: 2
    }
    assert (await ingest_paths(database, kb)).counts == {SourceOutcome.UNCHANGED: 2}
    assert (await ingest_paths(database, kb, embedder=Model("large"))).counts == {
        SourceOutcome.CHANGED: 2
    }
    assert set((await models(database)).values()) == {"large"}


async def test_unavailable_embedder_is_asked_once_a_run(database: Database, kb: Path) -> None:
    broken = Model("small", Transient("It is down."))
    report = await ingest_paths(database, kb, embedder=broken)
    assert (report.counts, report.embedding_error) == ({SourceOutcome.NEW: 2}, "It is down.")
    assert len(broken.texts) == 1
    assert (await ingest_paths(database, kb, embedder=Model("small"))).counts == {
        SourceOutcome.CHANGED: 2
    }


async def test_document_refused_by_the_embedder_affects_no_other(
    database: Database, kb: Path
) -> None:
    picky = Model("small", Permanent("It refuses."), of="A text.")
    report = await ingest_paths(database, kb, embedder=picky)
    assert (report.counts, report.embedding_error) == ({SourceOutcome.NEW: 2}, "It refuses.")
    assert await models(database) == {"kb/a.md": "", "kb/deep/b.markdown": "small"}
    assert (await ingest_paths(database, kb, embedder=Model("small"))).counts == {
        SourceOutcome.CHANGED: 1,
        SourceOutcome.UNCHANGED: 1,
    }


def test_two_folders_of_one_name_are_refused(tmp_path: Path) -> None:
    for parent in ("x", "y"):
        (tmp_path / parent / "kb").mkdir(parents=True)
    with pytest.raises(Permanent, match="are both called kb"):
        collect_sources([tmp_path / "x" / "kb", tmp_path / "y" / "kb"], fetch)
