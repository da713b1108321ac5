"""A bare mirror of each repository, cloned once a machine and fetched when it is old or lacks a commit."""

import re
import time
from collections.abc import Mapping
from pathlib import Path

import structlog

from threadline.errors import Permanent, Transient
from threadline.forge import locks
from threadline.forge.git import NETWORK_SECONDS, Git
from threadline.forge.remotes import Remote

_log = structlog.get_logger(__name__)

MAX_AGE = 60.0
"""Seconds for which a fetched mirror counts as fresh."""

COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DEFAULT = "refs/threadline/default"
_GC = ("gc.auto=6700", "gc.autoPackLimit=50", "gc.autoDetach=false", "gc.pruneExpire=never")


class Mirrors:
    """Mirrors under `root`, one `<name>.git` for each of `repositories` (name → URL or path)."""

    def __init__(self, root: Path, repositories: Mapping[str, str], git: Git) -> None:
        self._root = root.resolve()
        self._remotes = {name: Remote.parse(url) for name, url in repositories.items()}
        self._git = git
        self._heads: dict[str, tuple[int, str]] = {}
        """What each default branch led to, and the stamp of the fetch that it was read after."""

    def path(self, name: str) -> Path:
        return self._root / f"{name}.git"

    async def commit(self, name: str, wanted: str | None = None) -> str:
        """Make sure that the mirror holds a commit, and return its id.

        Args:
            name: the repository.
            wanted: the commit's full id; the head of the default branch, at most `MAX_AGE` old, when left out.

        Raises:
            Permanent: the repository cannot be cloned, or has no such commit.
            Transient: it cannot be reached now.
        """
        if wanted is None:
            return await self._head(name)
        if not COMMIT.fullmatch(wanted):
            raise Permanent(f"{wanted!r} is not a commit id of {name}: give all of its hexadecimal digits")
        if not await self._has(name, wanted):
            # Another machine may have seen it first, so a mirror that is fresh by the clock is fetched too.
            await self._refresh(name, 0)
        if not await self._has(name, wanted):
            raise Permanent(
                f"{name} no longer has commit {wanted[:12]}, from which this case started: "
                "its history was rewritten, so open a new case"
            )
        return wanted

    async def _has(self, name: str, commit: str) -> bool:
        if not (self.path(name) / "HEAD").exists():
            return False
        found = await self._git.run(
            "cat-file", "-e", f"{commit}^{{commit}}", git_dir=self.path(name), accept=(0, 1, 128)
        )
        return found.code == 0

    async def _head(self, name: str) -> str:
        fetched = await self._refresh(name, MAX_AGE)
        known, head = self._heads.get(name, (0, ""))
        if known != fetched:
            resolved = await self._git.run("rev-parse", "--verify", f"{_DEFAULT}^{{commit}}", git_dir=self.path(name))
            head = resolved.text
            self._heads[name] = fetched, head
        return head

    async def _refresh(self, name: str, max_age: float) -> int:
        """Returns the stamp of the newest fetch."""
        message = f"another process has been fetching {name} for too long: try again later"
        async with locks.file_lock(self._root / f"{name}.lock", wait=NETWORK_SECONDS, message=message):
            stamp = self._root / f"{name}.fetched"
            if not (stamp.exists() and time.time() - stamp.stat().st_mtime < max_age and self.path(name).exists()):
                await self._fetch(name)
                stamp.touch()
            return stamp.stat().st_mtime_ns

    async def _fetch(self, name: str) -> None:
        mirror, remote = self.path(name), self._remotes[name]
        await self._git.init(mirror)
        _drop_stale_locks(mirror)
        refs = ("+refs/heads/*:refs/heads/*", f"+HEAD:{_DEFAULT}")
        await self._git.run(
            *("fetch", "--quiet", "--no-tags", "--prune", "--no-write-fetch-head", "--", remote.url, *refs),
            git_dir=mirror,
            remote=remote,
            failure=f"could not clone {name} from {remote.url}: {{reason}}; check THREADLINE_REPO",
        )
        # Keeps every object: a case may have started from a commit that no branch leads to any more.
        try:
            await self._git.run(
                *(part for one in _GC for part in ("-c", one)), "gc", "--auto", "--quiet", git_dir=mirror
            )
        except (Permanent, Transient) as error:  # housekeeping of a big repository must not keep its cases waiting
            _log.warning("mirror_gc_failed", repository=name, reason=str(error))


def _drop_stale_locks(mirror: Path) -> None:
    """Remove what a killed fetch left: only fetches write here, one at a time, so no lock can be alive now."""
    for lock in (*mirror.glob("*.lock"), *(mirror / "refs").rglob("*.lock")):
        lock.unlink(missing_ok=True)
