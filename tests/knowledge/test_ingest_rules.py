"""Ingestion reads what has changed, deletes what is gone, and keeps what it cannot read."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest

from threadline.errors import Permanent, Transient
from threadline.knowledge.documents import LARGEST_FILE, UnreadableDocument
from threadline.knowledge.gathering import gather
from threadline.knowledge.ingest import Ingestion, Known, Outcome, Report, Shelf, Volume
from threadline.models.embeddings import Embedder


class Memory(Shelf):
    def __init__(self) -> None:
        self.volumes: dict[str, Volume] = {}

    async def known(self) -> Mapping[str, Known]:
        return {name: Known(each.content_hash, each.root, each.model) for name, each in self.volumes.items()}

    async def put(self, volume: Volume) -> None:
        self.volumes[volume.document.source] = volume

    async def forget_others(self, root: str, sources: Collection[str]) -> Sequence[str]:
        under = [name for name, each in self.volumes.items() if f"{each.root}/".startswith(f"{root}/")]
        gone = sorted(set(under) - set(sources))
        for name in gone:
            del self.volumes[name]
        return gone


class Model(Embedder):
    """`error` is raised for what holds the words `of`."""

    def __init__(self, model: str, error: Exception | None = None, of: str = "") -> None:
        self._model, self._error, self._of, self.texts = model, error, of, list[str]()

    @property
    def model(self) -> str:
        return self._model

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += texts
        if self._error and any(self._of in each for each in texts):
            raise self._error
        return [[1.0] for _ in texts]


PAGES = {"https://a.example/one": b"# One\n\nFirst.", "https://a.example/two": b"# Two\n\nSecond."}


async def fetch(address: str) -> bytes:
    if address not in PAGES:
        raise UnreadableDocument(f"{address} is away.")
    return PAGES[address]


async def ingest(shelf: Memory, *paths: Path, embedder: Embedder | None = None, forget_all: bool = False) -> Report:
    ingestion = Ingestion(shelf, embedder, lambda _source, _outcome: None, forget_all=forget_all)
    return await ingestion.run(gather(paths, fetch))


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    folder = tmp_path / "kb"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.md").write_text("A text.")
    (folder / "deep" / "b.markdown").write_text("Another.")
    (folder / "picture.png").write_bytes(b"\x89")
    (folder / ".hidden.md").write_text("No.")
    return folder


async def test_only_changed_documents_are_read_again(kb: Path) -> None:
    shelf = Memory()
    assert (await ingest(shelf, kb)).tally == {Outcome.NEW: 2}
    before = dict(shelf.volumes)
    assert sorted(before) == ["kb/a.md", "kb/deep/b.markdown"]
    (kb / "a.md").write_text("A new text.")
    assert (await ingest(shelf, kb)).tally == {Outcome.CHANGED: 1, Outcome.UNCHANGED: 1}
    assert shelf.volumes["kb/deep/b.markdown"] is before["kb/deep/b.markdown"]
    assert shelf.volumes["kb/a.md"].document.body == "A new text."


async def test_missing_file_is_deleted_but_not_one_ingested_by_itself(kb: Path, tmp_path: Path) -> None:
    shelf, alone = Memory(), tmp_path / "alone.md"
    alone.write_text("Alone.")
    await ingest(shelf, kb, alone)
    (kb / "a.md").unlink()
    report = await ingest(shelf, kb)
    assert report.removed == ["kb/a.md"]
    assert sorted(shelf.volumes) == ["alone.md", "kb/deep/b.markdown"]


async def test_empty_folder_or_list_deletes_nothing_without_forget_all(kb: Path, tmp_path: Path) -> None:
    shelf, pages = Memory(), tmp_path / "pages.urls"
    pages.write_text("https://a.example/one\n")
    await ingest(shelf, kb, pages)
    for file in kb.rglob("*.m*"):
        file.unlink()
    pages.write_text("")
    report = await ingest(shelf, kb, pages)
    assert (report.tally, len(shelf.volumes)) == ({Outcome.REFUSED: 2}, 3)
    assert [each.split()[0] for each in report.refusals if "--forget-all" in each] == ["kb", "pages.urls"]
    assert (await ingest(shelf, kb, pages, forget_all=True)).tally == {Outcome.REMOVED: 3}
    assert (await ingest(shelf, kb, pages)).tally == {}


async def test_unreadable_file_is_named_and_its_old_text_kept(kb: Path) -> None:
    shelf = Memory()
    await ingest(shelf, kb)
    (kb / "a.md").write_bytes(b"\xff\xfe")
    (kb / "c.md").write_text("---\ntitle: [\n---\nText.")
    (kb / "d.txt").write_text("Fine.")
    report = await ingest(shelf, kb)
    assert report.tally == {Outcome.REFUSED: 2, Outcome.UNCHANGED: 1, Outcome.NEW: 1}
    assert [each.split()[0] for each in report.refusals] == ["kb/a.md", "The"]
    assert shelf.volumes["kb/a.md"].document.body == "A text."
    assert "kb/c.md" not in shelf.volumes


async def test_link_out_of_the_folder_is_not_followed(kb: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("Secret.")
    (kb / "link.md").symlink_to(tmp_path / "secret.md")
    report = await ingest(shelf := Memory(), kb)
    [refusal] = report.refusals
    assert refusal.startswith("kb/link.md is a link")
    assert "kb/link.md" not in shelf.volumes


async def test_list_that_is_a_link_out_of_the_folder_is_not_read(kb: Path, tmp_path: Path) -> None:
    shelf, pages = Memory(), kb / "pages.urls"
    pages.write_text("https://a.example/one\n")
    await ingest(shelf, kb)
    (tmp_path / "secret").write_text("password=1234\n")
    pages.unlink()
    pages.symlink_to(tmp_path / "secret")
    report = await ingest(shelf, kb)
    [refusal] = report.refusals
    assert refusal.startswith("kb/pages.urls is a link")
    assert "password" not in refusal
    assert "https://a.example/one" in shelf.volumes


async def test_too_large_list_is_refused_and_keeps_its_documents(kb: Path) -> None:
    shelf, pages = Memory(), kb / "pages.urls"
    pages.write_text("https://a.example/one\n")
    await ingest(shelf, kb)
    pages.write_bytes(b"#" * (LARGEST_FILE + 1))
    [refusal] = (await ingest(shelf, kb)).refusals
    assert refusal.startswith("kb/pages.urls is larger than 20 MB")
    assert "https://a.example/one" in shelf.volumes


async def test_list_of_addresses_is_followed_whatever_its_ending(tmp_path: Path) -> None:
    shelf, pages = Memory(), tmp_path / "PAGES.URLS"
    pages.write_text("# ours\nhttps://a.example/one\n\nhttps://a.example/two\nhttps://a.example/none\n")
    report = await ingest(shelf, pages)
    assert report.tally == {Outcome.NEW: 2, Outcome.REFUSED: 1}
    assert [each.document.title for each in shelf.volumes.values()] == ["One", "Two"]
    pages.write_text("https://a.example/one\n")
    assert (await ingest(shelf, pages)).removed == ["https://a.example/two"]


async def test_unreadable_list_keeps_its_documents(kb: Path, tmp_path: Path) -> None:
    shelf, within, alone = Memory(), kb / "pages.urls", tmp_path / "more.urls"
    within.write_text("https://a.example/one\n")
    alone.write_text("https://a.example/two\n")
    await ingest(shelf, kb, alone)
    within.write_bytes(b"\xff")
    alone.write_bytes(b"\xff")
    (kb / "a.md").unlink()
    report = await ingest(shelf, kb, alone, forget_all=True)
    assert report.tally == {Outcome.REFUSED: 2, Outcome.UNCHANGED: 1, Outcome.REMOVED: 1}
    assert "kb/pages.urls cannot be read" in report.refusals[0]
    assert sorted(shelf.volumes) == ["https://a.example/one", "https://a.example/two", "kb/deep/b.markdown"]


async def test_vectors_are_made_anew_for_another_model_only(kb: Path) -> None:
    shelf = Memory()
    await ingest(shelf, kb, embedder=Model("small"))
    assert (await ingest(shelf, kb, embedder=Model("small"))).tally == {Outcome.UNCHANGED: 2}
    assert (await ingest(shelf, kb)).tally == {Outcome.UNCHANGED: 2}
    assert (await ingest(shelf, kb, embedder=Model("large"))).tally == {Outcome.CHANGED: 2}
    assert {each.model for each in shelf.volumes.values()} == {"large"}


async def test_unavailable_embedder_is_asked_once_a_run(kb: Path) -> None:
    shelf, broken = Memory(), Model("small", Transient("It is down."))
    report = await ingest(shelf, kb, embedder=broken)
    assert (report.tally, report.by_words_alone) == ({Outcome.NEW: 2}, "It is down.")
    assert len(broken.texts) == 1
    assert (await ingest(shelf, kb, embedder=Model("small"))).tally == {Outcome.CHANGED: 2}


async def test_document_refused_by_the_embedder_affects_no_other(kb: Path) -> None:
    shelf, picky = Memory(), Model("small", Permanent("It refuses."), of="A text.")
    report = await ingest(shelf, kb, embedder=picky)
    assert (report.tally, report.by_words_alone) == ({Outcome.NEW: 2}, "It refuses.")
    assert {name: each.model for name, each in shelf.volumes.items()} == {"kb/a.md": "", "kb/deep/b.markdown": "small"}
    assert (await ingest(shelf, kb, embedder=Model("small"))).tally == {Outcome.CHANGED: 1, Outcome.UNCHANGED: 1}


def test_two_folders_of_one_name_are_refused(tmp_path: Path) -> None:
    for parent in ("x", "y"):
        (tmp_path / parent / "kb").mkdir(parents=True)
    with pytest.raises(Permanent, match="are both called kb"):
        gather([tmp_path / "x" / "kb", tmp_path / "y" / "kb"], fetch)
