"""Brings a team's documents up to date with folders, files and lists of addresses: stores new and
changed ones, deletes removed ones, and keeps the stored text of unreadable ones.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path, PurePosixPath

from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.knowledge.documents import (
    MAX_FILE_BYTES,
    UnreadableSource,
    parse_document,
    split_document,
    too_large,
)
from threadline.knowledge.languages import ENGLISH
from threadline.knowledge.model import Chunk, Document, normalise_source
from threadline.knowledge.store import KnowledgeStore, StoredSource
from threadline.models.embeddings import Embedder

SUFFIXES = (".md", ".markdown", ".txt")
"""Files of a folder with another suffix are skipped, and counted."""
LIST = ".urls"
"""Suffix of a list of addresses, one a line. Empty lines and lines that begin with # are
skipped.
"""
_EDITION = b"4\n"
"""Part of each hash. Raise it when documents are split or cut into words in another way, so that
each document is stored again.
"""

Fetch = Callable[[str], Awaitable[bytes]]
"""Reads a web page as Markdown. Raises `UnreadableSource`."""


class SourceOutcome(StrEnum):
    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REMOVED = "removed"
    REFUSED = "refused"


OnProgress = Callable[[int, str, SourceOutcome], None]
"""Called after each source with the number of all sources."""


@dataclass(frozen=True)
class DocumentSource:
    """A file or page that may be a document. `read` raises `UnreadableSource` if it is none."""

    source: str
    root: str
    read: Callable[[], Awaitable[bytes]]


@dataclass(frozen=True)
class CollectedSources:
    """The sources under a command's paths. `roots` are the folders and lists: stored documents
    that are missing from them are deleted. `skipped` counts the folders' files of other kinds by
    their suffix.
    """

    files: Sequence[DocumentSource]
    roots: Sequence[str]
    skipped: Counter[str] = field(default_factory=Counter)


@dataclass
class IngestReport:
    """The result of an ingest. `refusals` has a sentence for each refused file, `notices` one for
    each ignored value of front matter. `embedding_error` is the reason for missing vectors.
    """

    counts: Counter[SourceOutcome] = field(default_factory=Counter)
    notices: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    embedding_error: str = ""


async def ingest(
    database: Database,
    team: str,
    sources: CollectedSources,
    embedder: Embedder | None,
    on_progress: OnProgress,
    *,
    forget_all: bool = False,
    language: str = ENGLISH,
) -> IngestReport:
    """Store the sources, each in its own transaction, so that a second run continues after an
    abort.

    Args:
        embedder: None for no vectors. After `Transient` this run stops using it, and the next run
            adds the missing vectors.
        forget_all: also delete the documents of a folder or list that is empty now. By default
            they are kept, as the folder may only be away.
        language: the text search configuration of documents without `lang`.

    Raises:
        Transient: the database cannot be reached.
    """
    report = IngestReport()
    optional = _OptionalEmbedder(embedder, report)

    def finish(source: str, outcome: SourceOutcome) -> None:
        report.counts[outcome] += 1
        on_progress(len(sources.files), source, outcome)

    async with database.begin() as tx:
        stored = await KnowledgeStore(tx).sources(team)
    refused = set[str]()
    for file in sources.files:
        known = stored.get(file.source)
        try:
            outcome, notices = await _ingest_file(database, team, file, known, optional, language)
            report.notices += notices
        except UnreadableSource as error:
            report.refusals.append(str(error))
            refused.add(file.source)
            outcome = SourceOutcome.REFUSED
        finish(file.source, outcome)
    of_unreadable_lists = {
        source for source, each in stored.items() if each.ingest_root in refused
    }
    kept = {file.source for file in sources.files} | of_unreadable_lists
    for root in sources.roots:
        if not forget_all and _is_emptied(root, sources, stored):
            report.refusals.append(_emptied(root))
            finish(root, SourceOutcome.REFUSED)
            continue
        async with database.begin() as tx:
            removed = await KnowledgeStore(tx).delete_missing(team, root, kept)
        for source in removed:
            report.removed.append(source)
            finish(source, SourceOutcome.REMOVED)
    return report


def _emptied(root: str) -> str:
    return (
        f"{root} has no documents now. The earlier ones are kept, in case it is missing by "
        "mistake. Give --forget-all to delete them."
    )


def _is_emptied(root: str, sources: CollectedSources, stored: Mapping[str, StoredSource]) -> bool:
    """Tell whether a folder or list that had documents has none now."""
    had_some = any(_is_within(each.ingest_root, root) for each in stored.values())
    has_some = any(_is_within(file.root, root) for file in sources.files)
    return had_some and not has_some


async def _ingest_file(
    database: Database,
    team: str,
    file: DocumentSource,
    stored: StoredSource | None,
    embedder: "_OptionalEmbedder",
    language: str,
) -> tuple[SourceOutcome, Sequence[str]]:
    content = await file.read()
    content_hash = hashlib.sha256(_EDITION + language.encode() + b"\n" + content).hexdigest()
    model = embedder.model
    if model is None:
        model = stored.model if stored else ""
    if stored == StoredSource(file.root, content_hash, model):
        return SourceOutcome.UNCHANGED, ()
    parsed = await asyncio.to_thread(parse_document, file.source, content, language)
    document = parsed.document
    chunks = await asyncio.to_thread(split_document, document)
    model, vectors = await embedder.embed(document, chunks)
    async with database.begin() as tx:
        await KnowledgeStore(tx).save(
            team, document, chunks, StoredSource(file.root, content_hash, model), vectors
        )
    return SourceOutcome.CHANGED if stored else SourceOutcome.NEW, parsed.notices


def _is_within(root: str, folder: str) -> bool:
    """Return whether a root is within a folder, as in `KnowledgeStore.delete_missing`: a list
    within a folder belongs to the folder.
    """
    return f"{root}/".startswith(f"{folder}/")


class _OptionalEmbedder:
    """Embeds documents until the model fails with `Transient`. A failure is reported, and its
    document is found by words only.
    """

    def __init__(self, embedder: Embedder | None, report: IngestReport) -> None:
        self._embedder = embedder
        self._report = report

    @property
    def model(self) -> str | None:
        """Name of the model; None where no vectors are made, so that stored ones stay."""
        return self._embedder.model if self._embedder else None

    async def embed(
        self, document: Document, chunks: Sequence[Chunk]
    ) -> tuple[str, Sequence[Sequence[float]]]:
        texts = [f"{document.title}\n{each.section}\n{each.text}" for each in chunks]
        try:
            if self._embedder:
                return self._embedder.model, await self._embedder.embed(texts)
        except Permanent as error:  # the model refuses this document, and may accept the next
            self._report.embedding_error = str(error)
        except Transient as error:
            self._report.embedding_error = str(error)
            self._embedder = None
        return "", ()


def collect_sources(paths: Sequence[Path], fetch: Fetch) -> CollectedSources:
    """Return the files and pages under the paths, in order, each source once. A file's source is
    its folder and its name.

    Raises:
        Permanent: a path does not exist, its name is not UTF-8, or two folders have the same name.
    """
    files: dict[str, DocumentSource] = {}
    roots: dict[str, Path] = {}
    skipped = Counter[str]()
    for path in paths:
        name = _name(path)
        if roots.setdefault(name, path.resolve()) != path.resolve():
            raise Permanent(
                f"{path} and {roots[name]} are both called {name}: rename one, or ingest "
                "them as one folder."
            )
        for file in _under(path, name, fetch):
            files.setdefault(file.source, file)
        skipped.update(_skipped(path))
    whole = [name for name, path in roots.items() if path.is_dir() or path.suffix.lower() == LIST]
    return CollectedSources(list(files.values()), whole, skipped)


def _name(path: Path) -> str:
    """Return a folder's own name, without its location; for a file, the given path."""
    plain = not path.is_absolute() and ".." not in path.parts
    if path.is_dir():
        name = path.resolve().name
    elif path.exists():
        name = PurePosixPath(path).as_posix() if plain else path.name
    else:
        raise Permanent(
            f"There is no {path}: name a folder, a Markdown file, or a list of addresses "
            f"(*{LIST})."
        )
    if (escaped := _escaped(name)) != name:
        raise Permanent(f"The name of {escaped} is not UTF-8: rename it.")
    return normalise_source(name)


def _under(path: Path, name: str, fetch: Fetch) -> Iterator[DocumentSource]:
    if not path.is_dir():
        yield from _of_file(path, name, path.parent, name, fetch)
        return
    for each in _files_within(path):
        if each.suffix.lower() in (*SUFFIXES, LIST):
            inside = each.relative_to(path).as_posix()
            yield from _of_file(each, f"{name}/{inside}", path, name, fetch)


def _files_within(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder, in order, without hidden ones."""
    for each in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in each.relative_to(folder).parts)
        if not hidden and each.is_file():
            yield each


def _skipped(path: Path) -> Iterator[str]:
    """Yield the suffix of each skipped file of a folder."""
    if path.is_dir():
        suffixes = (_escaped(each.suffix.lower()) for each in _files_within(path))
        yield from (each for each in suffixes if each not in (*SUFFIXES, LIST))


def _of_file(
    path: Path, source: str, folder: Path, root: str, fetch: Fetch
) -> Iterator[DocumentSource]:
    if (escaped := _escaped(source)) != source:
        yield _refused(escaped, root, f"The name of {escaped} is not UTF-8: rename it.")
        return
    source = normalise_source(source)
    if path.suffix.lower() != LIST:
        yield DocumentSource(
            source, root, partial(asyncio.to_thread, _content, path, source, folder)
        )
        return
    try:
        lines = map(str.strip, _content(path, source, folder).decode("utf-8-sig").splitlines())
    except (UnicodeDecodeError, UnreadableSource) as error:
        why = str(error)
        if isinstance(error, UnicodeDecodeError):
            why = f"The list {source} cannot be read: it is not UTF-8 at byte {error.start}."
        yield _refused(source, root, f"{why} The documents that came with it are kept.")
        return
    for address in lines:
        if address and not address.startswith("#"):
            yield DocumentSource(normalise_source(address), source, partial(fetch, address))


def _escaped(name: str) -> str:
    """Return the name with an escape for each byte that is not UTF-8, which Postgres and terminals
    refuse.
    """
    return name.encode("utf-8", "backslashreplace").decode()


def _refused(source: str, root: str, why: str) -> DocumentSource:
    async def read() -> bytes:
        raise UnreadableSource(why)

    return DocumentSource(source, root, read)


def _content(path: Path, source: str, folder: Path) -> bytes:
    """Return the file's bytes. A link that leads out of the folder is refused, so that no other
    file can be shown.
    """
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise UnreadableSource(
                f"{source} is a link to a file outside its folder: put the file itself there."
            )
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UnreadableSource(f"{source} cannot be read: {error.strerror or error}.") from error
    if len(content) > MAX_FILE_BYTES:
        raise too_large(source)
    return content
