"""The files an agent sees during one turn: an export of each repository, the kept changes, and
people's attachments.
"""

import asyncio
import re
import shutil
import unicodedata
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import structlog

from threadline.errors import Permanent, Transient
from threadline.forge import locks, remotes
from threadline.forge.git import Git
from threadline.forge.mirrors import Export, Mirrors
from threadline.investigator.store import AttachedFile
from threadline.threads.activity import repeating, run_to_end

ATTACHMENTS = "attachments"
OPEN_WAIT = 30.0
"""Seconds that a turn waits for an earlier attempt that still holds the case's workspace."""
_BUG_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_NAME_BYTES = 120

_log = structlog.get_logger(__name__)


class Workspace:
    """The folder of an open turn.

    `path` has one folder for each repository, and `attachments`; `base` is the commit of each
    repository by name.
    """

    def __init__(self, path: Path, base: Mapping[str, str], exports: Mapping[str, Export]) -> None:
        self.path = path
        self.base = base
        self._exports = exports

    async def diff(self) -> dict[str, str]:
        """Return the changes since `base` by repository, without the unchanged ones.

        See `Export.diff` for their form.
        """
        diffs = {name: await export.diff() for name, export in self._exports.items()}
        return {name: diff for name, diff in diffs.items() if diff}


class Workspaces:
    """All workspaces of a machine.

    Args:
        root: A directory of our own, with `mirrors`, `cases` and `scratch`.
        repositories: URLs or paths; the last part of each is its name in a workspace.
    """

    def __init__(self, root: Path, repositories: Sequence[str]) -> None:
        self._root = root.resolve()
        self._git = Git()
        self._repositories = remotes.repositories_by_name(repositories)
        self._mirrors = Mirrors(self._root / "mirrors", self._repositories, self._git)

    @asynccontextmanager
    async def open(
        self,
        bug_id: str,
        base: Mapping[str, str],
        diffs: Mapping[str, str],
        attachments: Sequence[AttachedFile] = (),
    ) -> AsyncIterator[Workspace]:
        """Create a case's workspace from scratch, and hold it.

        It is always at the same path, which the agent's session remembers.

        Args:
            bug_id: The case.
            base: The commit of each repository at the case's start; the default branch's head
                if missing.
            diffs: The kept changes, as `Workspace.diff` returned them.
            attachments: Files; those with a content are written under safe and unique names.

        Raises:
            Permanent: A repository cannot be cloned, or the changes do not fit it.
            Transient: Another attempt holds the workspace, or the network fails.
        """
        if lost := [
            name for name, diff in diffs.items() if diff and name not in self._repositories
        ]:
            raise Permanent(
                f"{bug_id} has changes to {', '.join(lost)}: add it to THREADLINE_REPO again"
            )
        async with self._held(bug_id, OPEN_WAIT):
            await run_to_end(asyncio.to_thread(self._reset, bug_id))
            exports = {}
            commits = {}
            for name in self._repositories:
                commits[name] = await self._mirrors.commit(name, base.get(name))
                tree = self._case(bug_id) / name
                scratch = self._scratch(bug_id) / name
                export = Export(self._git, self._mirrors.path(name), tree, scratch, commits[name])
                await export.write()
                if diff := diffs.get(name):
                    await export.apply(diff)
                exports[name] = export
            await run_to_end(
                asyncio.to_thread(_write, self._case(bug_id) / ATTACHMENTS, attachments)
            )
            yield Workspace(self._case(bug_id), commits, exports)

    async def remove(self, bug_id: str, wait: float = 5.0) -> None:
        """Delete a case's workspace, if there is one.

        Raises:
            Transient: An attempt holds it for longer than `wait` seconds.
        """
        async with self._held(bug_id, wait):
            await run_to_end(asyncio.to_thread(self._delete, bug_id))
            self._lock(bug_id).unlink(missing_ok=True)

    async def sweep(self, keep: Collection[str]) -> list[str]:
        """Delete every workspace that is not held and whose case is not in `keep`; return the
        cases.
        """
        cases = self._root / "cases"
        found = (
            {path.name.removesuffix(".lock") for path in cases.iterdir()}
            if cases.exists()
            else set()
        )
        swept = []
        for bug_id in sorted(found - set(keep)):
            try:
                await self.remove(bug_id, wait=0)
            except Transient:
                continue
            swept.append(bug_id)
        return swept

    def _held(self, bug_id: str, wait: float) -> AbstractAsyncContextManager[None]:
        message = f"another attempt still works in the workspace of {bug_id}: it must end first"
        return locks.file_lock(self._lock(bug_id), wait=wait, message=message)

    def _reset(self, bug_id: str) -> None:
        self._delete(bug_id)
        self._case(bug_id).mkdir(mode=0o700)
        self._scratch(bug_id).mkdir(mode=0o700, parents=True)

    def _delete(self, bug_id: str) -> None:
        for path in (self._case(bug_id), self._scratch(bug_id)):
            if path.exists():
                shutil.rmtree(path)

    def _case(self, bug_id: str) -> Path:
        if not _BUG_ID.fullmatch(bug_id):
            raise Permanent(f"{bug_id!r} is not a case id: write it like BUG-12")
        return self._root / "cases" / bug_id

    def _scratch(self, bug_id: str) -> Path:
        return self._root / "scratch" / bug_id

    def _lock(self, bug_id: str) -> Path:
        return self._case(bug_id).with_name(f"{bug_id}.lock")


def _write(folder: Path, attachments: Sequence[AttachedFile]) -> None:
    folder.mkdir()
    taken: set[str] = set()
    for attachment in attachments:
        if attachment.content is not None:
            with (folder / _unique(_safe(attachment.name), taken)).open("xb") as file:
                file.write(attachment.content)


def _safe(name: str) -> str:
    """Return a plain file name: no directories, no leading dot, nothing invisible, at most
    `_NAME_BYTES` bytes.
    """
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    plain = re.sub(r"[^\w.()+ -]", "_", last).strip(". ")
    stem = Path(plain).stem
    suffix = Path(plain).suffix[:16]
    return (
        stem.encode()[: _NAME_BYTES - 32].decode("utf-8", "ignore") + suffix if plain else "file"
    )


def _unique(name: str, taken: set[str]) -> str:
    path = Path(name)
    number = 1
    candidate = name
    # Compare without case, as some file systems do.
    while candidate.casefold() in taken:
        number += 1
        candidate = f"{path.stem}-{number}{path.suffix}"
    taken.add(candidate.casefold())
    return candidate


@asynccontextmanager
async def sweep_periodically(
    workspaces: Workspaces, open_cases: Callable[[], Awaitable[set[str]]], interval: float
) -> AsyncIterator[None]:
    """Remove the files of ended cases on this machine, at the start and every `interval` seconds.

    The cleanup of a case runs on one machine, and its turns may have run on several.
    """

    async def sweep() -> None:
        try:
            if swept := await workspaces.sweep(await open_cases()):
                _log.info("workspaces_swept", cases=swept)
        except (Permanent, Transient, OSError) as error:
            _log.warning("workspace_sweep_failed", reason=str(error))

    async with repeating(sweep, interval):
        yield
