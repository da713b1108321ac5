"""What there is to ingest under the paths of a command: files of folders, single files, and lists of addresses."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from threadline.errors import Permanent
from threadline.knowledge.documents import LARGEST_FILE, UnreadableDocument, too_large
from threadline.knowledge.model import source_of

SUFFIXES = (".md", ".markdown", ".txt")
"""Of files that are documents; others of a folder are passed over."""
LIST = ".urls"
"""Of files that list addresses, one a line; empty lines and those that begin with # say nothing."""

_KEPT = "What came with it is kept."

Fetch = Callable[[str], Awaitable[bytes]]
"""Reads an address as Markdown. Raises `UnreadableDocument`."""


@dataclass(frozen=True)
class Candidate:
    """What may be a document; `read` raises `UnreadableDocument` where it is none."""

    source: str
    root: str
    read: Callable[[], Awaitable[bytes]]


@dataclass(frozen=True)
class Gathered:
    """`roots`: folders and lists that were looked through whole; what came with them and is gone can be forgotten."""

    candidates: Sequence[Candidate]
    roots: Sequence[str]


def gather(paths: Sequence[Path], fetch: Fetch) -> Gathered:
    """What is under the paths, in order, each source once. A document is called by its folder's name and its own.

    Raises:
        Permanent: a path is not there, its name is no UTF-8, or two folders are called the same.
    """
    candidates: dict[str, Candidate] = {}
    roots: dict[str, Path] = {}
    for path in paths:
        name = _name(path)
        if roots.setdefault(name, path.resolve()) != path.resolve():
            raise Permanent(
                f"{path} and {roots[name]} are both called {name}: rename one, or ingest them as one folder."
            )
        for each in _under(path, name, fetch):
            candidates.setdefault(each.source, each)
    whole = [name for name, path in roots.items() if path.is_dir() or path.suffix.lower() == LIST]
    return Gathered(list(candidates.values()), whole)


def _name(path: Path) -> str:
    """A folder is called as it is, wherever it lies; a file with the folders that it is named with."""
    plain = not path.is_absolute() and ".." not in path.parts
    if path.is_dir():
        name = path.resolve().name
    elif path.exists():
        name = PurePosixPath(path).as_posix() if plain else path.name
    else:
        raise Permanent(f"There is no {path}: name a folder, a Markdown file, or a list of addresses (*{LIST}).")
    if (shown := _shown(name)) != name:
        raise Permanent(f"The name of {shown} is not UTF-8: rename it.")
    return source_of(name)


def _under(path: Path, name: str, fetch: Fetch) -> Iterator[Candidate]:
    if not path.is_dir():
        yield from _of_file(path, name, path.parent, name, fetch)
        return
    for each in sorted(path.rglob("*")):
        inside = each.relative_to(path)
        hidden = any(part.startswith(".") for part in inside.parts)
        if not hidden and each.is_file() and each.suffix.lower() in (*SUFFIXES, LIST):
            yield from _of_file(each, f"{name}/{inside.as_posix()}", path, name, fetch)


def _of_file(path: Path, source: str, folder: Path, root: str, fetch: Fetch) -> Iterator[Candidate]:
    if (shown := _shown(source)) != source:
        yield _refused(shown, root, f"The name of {shown} is not UTF-8: rename it.")
        return
    source = source_of(source)
    if path.suffix.lower() != LIST:
        yield Candidate(source, root, partial(_read, path, source, folder))
        return
    try:
        addresses = _addresses(_content(path, source, folder))
    except UnicodeDecodeError as error:
        why = f"The list {source} cannot be read: it is not UTF-8 at byte {error.start}. {_KEPT}"
        yield _refused(source, root, why)
        return
    except UnreadableDocument as error:
        yield _refused(source, root, f"{error} {_KEPT}")
        return
    for address in addresses:
        yield Candidate(source_of(address), source, partial(fetch, address))


def _shown(name: str) -> str:
    """The name with an escape for each byte that is no UTF-8, which neither Postgres nor a terminal takes."""
    return name.encode("utf-8", "backslashreplace").decode()


def _refused(source: str, root: str, why: str) -> Candidate:
    async def read() -> bytes:
        raise UnreadableDocument(why)

    return Candidate(source, root, read)


def _addresses(content: bytes) -> list[str]:
    lines = map(str.strip, content.decode("utf-8-sig").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


async def _read(path: Path, source: str, folder: Path) -> bytes:
    return _content(path, source, folder)


def _content(path: Path, source: str, folder: Path) -> bytes:
    """No more than a document may have; a link that leads out of the folder is refused."""
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise UnreadableDocument(f"{source} is a link to a file outside its folder: put the file itself there.")
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise UnreadableDocument(f"{source} cannot be read: {error.strerror or error}.") from error
    if len(content) > LARGEST_FILE:
        raise too_large(source)
    return content
