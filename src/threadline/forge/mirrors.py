"""Mirrors of repositories, and exports of their commits: plain files without a `.git`, and the
changes in them. A mirror is bare, cloned once per machine, and fetched when it is old or lacks a
commit.
"""

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from threadline.errors import INVESTIGATION, Mendable, Permanent, Transient
from threadline.forge import line_ends, locks
from threadline.forge.branches import UnusableRepository, look
from threadline.forge.git import NETWORK_SECONDS, DiskUnusable, Git, Output
from threadline.forge.line_ends import Text
from threadline.forge.patches import REGULAR
from threadline.forge.remotes import Remote

_log = structlog.get_logger(__name__)

MAX_AGE = 60.0
"""Seconds for which a fetched mirror counts as fresh."""

PATIENCE = 120.0
"""Seconds of a repository's outage after which it counts as a fault for the admin: networks have
short outages.
"""
SAME_FAULT = 900.0
"""Seconds between two failed fetches after which the second one starts a new outage."""

COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DEFAULT = "refs/threadline/default"
_GC = ("gc.auto=6700", "gc.autoPackLimit=50", "gc.autoDetach=false", "gc.pruneExpire=never")
# Symbolic links become small text files with their target, so no link in an export leads anywhere;
# and a tool that drops the executable bit changes nothing.
_PLAIN = ("-c", "core.symlinks=false", "-c", "core.fileMode=false")
_GITLINK = b"160000"


@dataclass
class Outage:
    """Consecutive failed fetches of one repository, in seconds of a clock."""

    since: float
    last: float


class Mirrors:
    """Mirrors under `root`, one `<name>.git` for each of `repositories` (name → URL or path).
    `clock` returns seconds.
    """

    def __init__(
        self,
        root: Path,
        repositories: Mapping[str, str],
        git: Git,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root.resolve()
        self._remotes = {name: Remote.parse(url) for name, url in repositories.items()}
        self._git = git
        self._heads: dict[str, tuple[int, str]] = {}
        """Fetch stamp and head of each default branch."""
        self._clock = clock
        self._outages: dict[str, Outage] = {}

    def path(self, name: str) -> Path:
        return self._root / f"{name}.git"

    async def commit(self, name: str, wanted: str | None = None) -> str:
        """Make sure that the mirror holds a commit.

        Args:
            name: of the repository.
            wanted: the full id; None for the head of the default branch, at most `MAX_AGE` old.

        Returns:
            The commit's full id.

        Raises:
            Permanent: the repository cannot be cloned, or has no such commit.
            Transient: the repository cannot be reached now.
        """
        if wanted is None:
            fetched = await self._refresh(name, MAX_AGE)
            known, head = self._heads.get(name, (0, ""))
            if known != fetched:
                branch = f"{_DEFAULT}^{{commit}}"
                head = (
                    await self._git.run("rev-parse", "--verify", branch, git_dir=self.path(name))
                ).text
                self._heads[name] = fetched, head
            return head
        if not COMMIT.fullmatch(wanted):
            raise Permanent(
                f"{wanted!r} is not a commit id of {name}: give all of its hexadecimal digits"
            )
        if not await self._has(name, wanted):
            # Another machine may know the commit already, so the mirror is fetched even if it is
            # fresh by the clock.
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
        return await self._answers(self.path(name), "cat-file", "-e", f"{commit}^{{commit}}")

    async def _answers(self, mirror: Path, *arguments: str) -> bool:
        return (await self._git.run(*arguments, git_dir=mirror, accept=(0, 1, 128))).code == 0

    async def _refresh(self, name: str, max_age: float) -> int:
        """Fetch the mirror if it is older than `max_age` seconds, and return the stamp of the
        newest fetch.
        """
        message = f"another process has been fetching {name} for too long: try again later"
        async with locks.file_lock(
            self._root / f"{name}.lock", wait=NETWORK_SECONDS, message=message
        ):
            stamp = self._root / f"{name}.fetched"
            if not (
                stamp.exists()
                and time.time() - stamp.stat().st_mtime < max_age
                and self.path(name).exists()
            ):
                await self._fetch(name)
                stamp.touch()
            return stamp.stat().st_mtime_ns

    async def _fetch(self, name: str) -> None:
        mirror = self.path(name)
        await self._git.init(mirror)
        # Locks of a killed fetch: only fetches write here, one at a time, so every lock is stale
        # now.
        for lock in (*mirror.glob("*.lock"), *(mirror / "refs").rglob("*.lock")):
            lock.unlink(missing_ok=True)
        try:
            await self._take_all(name)
        except DiskUnusable:
            raise
        except (Permanent, Transient) as error:
            _log.warning("repository_not_fetched", repository=name, reason=str(error))
            if isinstance(error, Permanent):
                await self._refuse_unusable(name)
            raise self._fetch_fault(name, lasting=isinstance(error, Permanent)) from error
        self._outages.pop(name, None)
        # gc keeps every object: a case may have started from a commit that no branch reaches now.
        # A failure is only logged, since cases must not wait for a big repository's housekeeping.
        try:
            await self._git.run(
                *(part for one in _GC for part in ("-c", one)),
                "gc",
                "--auto",
                "--quiet",
                git_dir=mirror,
            )
        except (Permanent, Transient) as error:
            _log.warning("mirror_gc_failed", repository=name, reason=str(error))

    async def _take_all(self, name: str) -> None:
        """Fetch every branch. From a shallow repository git fetches nothing, and only warns."""
        mirror = self.path(name)
        remote = self._remotes[name]
        refs = ("+refs/heads/*:refs/heads/*", f"+HEAD:{_DEFAULT}")
        await self._git.run(
            *(
                "fetch",
                "--quiet",
                "--no-tags",
                "--prune",
                "--no-write-fetch-head",
                "--",
                remote.url,
                *refs,
            ),
            git_dir=mirror,
            remote=remote,
            failure=f"could not clone {name} from {remote.url}: {{reason}}; check THREADLINE_REPO",
        )
        if not await self._answers(mirror, "rev-parse", "--verify", "--quiet", _DEFAULT):
            raise Permanent(f"{name} gave no commit: it may be a shallow clone")

    async def _refuse_unusable(self, name: str) -> None:
        """Raise `Mendable` with its own sentence where the state of the repository makes it
        unusable.
        """
        try:
            await look(self._git, self.path(name), name, self._remotes[name])
        except UnusableRepository as error:
            raise Mendable(str(error), kind=INVESTIGATION, subject=f"repository {name}") from error
        except (Permanent, Transient):
            return  # the fault of the fetch says the same

    def _fetch_fault(self, name: str, *, lasting: bool) -> Mendable | Transient:
        """Return the fault of a failed fetch: `Mendable` at once when the repository refused it,
        or after `PATIENCE` when it could not be reached. Git's own text may contain paths and
        addresses, so it only goes to the log.
        """
        now = self._clock()
        outage = self._outages.get(name)
        if outage is None or now - outage.last > SAME_FAULT:
            outage = self._outages[name] = Outage(now, now)
        outage.last = now
        if not lasting and now - outage.since < PATIENCE:
            return Transient(f"The repository {name} cannot be reached now.")
        said = (
            f"The repository {name} cannot be fetched: check its address in THREADLINE_REPO, "
            "and that the agents' worker may reach and read it. The worker's log has git's "
            "error message."
        )
        return Mendable(said, kind=INVESTIGATION, subject=f"repository {name}")


class Export:
    """One commit of a mirror, written as plain files to `tree`, an empty directory.

    `scratch` is a separate directory for the index and for new objects, out of the agent's reach.
    The mirror holds the commit (a full id), and is only read.
    """

    def __init__(self, git: Git, mirror: Path, tree: Path, scratch: Path, commit: str) -> None:
        self._git = git
        self._mirror = mirror
        self._tree = tree
        self._scratch = scratch
        self._commit = commit
        self._env = {
            "GIT_INDEX_FILE": str(scratch / "index"),
            "GIT_OBJECT_DIRECTORY": str(scratch / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(mirror / "objects"),
        }

    async def write(self) -> None:
        (self._scratch / "objects").mkdir(parents=True)
        self._tree.mkdir(parents=True)
        await self._run("read-tree", "--reset", "-u", self._commit)

    async def apply(self, diff: str) -> None:
        """Apply a diff of the method `diff`.

        Raises:
            Permanent: it does not fit the commit, or reaches out of the tree.
        """
        failure = (
            f"the kept changes do not fit {self._tree.name} at {self._commit[:12]}: {{reason}}; "
            "open a new case"
        )
        await self._run("apply", "--whitespace=nowarn", "-", stdin=diff.encode(), failure=failure)

    async def diff(self) -> str:
        """Return the changes against the commit, including new and deleted files; empty without
        changes.

        Paths with a component that begins with `.git` count as unchanged, as do line ends that a
        tool rewrote as a side effect (`line_ends`). Binary files, and files that are not UTF-8,
        become git's binary patches, so that `apply` can restore them and `patches.check_diff` can
        refuse them.
        """
        await self._stage()
        await self._restore_ends()
        diff = (
            "diff",
            "--cached",
            "--binary",
            "--full-index",
            "--no-renames",
            "--no-color",
            "--no-ext-diff",
        )
        options = ("--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", self._commit)
        failure = f"could not read the changes in {self._tree.name}: {{reason}}"
        printed = (await self._run(*diff, *options, failure=failure)).stdout
        try:
            return printed.decode("utf-8")
        except UnicodeDecodeError:
            as_binary = await self._run(
                "-c", "diff.default.binary=true", *diff, *options, failure=failure
            )
            return as_binary.stdout.decode("ascii")

    async def _stage(self) -> None:
        """Bring the index to the state of the files, found by a walk of this module. `git add`
        would inspect each nested `.git`, and obey its settings.
        """
        listed = (await self._run("ls-files", "--stage", "-z")).stdout.split(b"\0")[:-1]
        entries = {path: info[:6] for info, _, path in (line.partition(b"\t") for line in listed)}
        foreign = tuple(path + b"/" for path, mode in entries.items() if mode == _GITLINK)
        tracked = {path for path, mode in entries.items() if mode != _GITLINK}
        present = await asyncio.to_thread(lambda: set(_files(self._tree)))
        paths = [
            path
            for path in sorted(tracked | present)
            if not _is_git(path) and not path.startswith(foreign)
        ]
        feed = b"".join(path + b"\0" for path in paths)
        await self._run(
            "update-index", "-z", "--add", "--remove", "--replace", "--stdin", stdin=feed
        )

    async def _restore_ends(self) -> None:
        """Stage changed files with the commit's line ends; the files themselves do not change."""
        listed = (
            await self._run("diff-index", "--cached", "--raw", "-z", "--no-renames", self._commit)
        ).stdout
        fields = listed.split(b"\0")[:-1]
        for info, path in zip(fields[::2], fields[1::2], strict=True):
            old_mode, mode, base, edited, status = info.decode("ascii").lstrip(":").split(" ")
            if status != "M" or not {old_mode, mode} <= set(REGULAR):
                continue
            restored = await self._with_ends_of(base, edited)
            if restored != edited:
                await self._run(
                    "update-index",
                    "-z",
                    "--index-info",
                    stdin=f"{mode} {restored}\t".encode() + path + b"\0",
                )

    async def _with_ends_of(self, base: str, edited: str) -> str:
        """Return the blob `edited` with the line ends of `base`; `edited` itself when they need no
        restoring.
        """
        if (
            max([int((await self._run("cat-file", "-s", blob)).text) for blob in (base, edited)])
            > line_ends.LARGEST
        ):
            return edited
        before = (await self._run("cat-file", "blob", base)).stdout
        after = (await self._run("cat-file", "blob", edited)).stdout
        if not line_ends.may_differ(before, after):
            return edited
        old = Text.of(before)
        new = Text.of(after)
        plain = [await self._store(text.plain) for text in (old, new)]
        compare = (
            "diff",
            "-U0",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--inter-hunk-context=0",
        )
        hunks = line_ends.hunks_in((await self._run(*compare, *plain)).stdout)
        return await self._store(line_ends.restore(old, new, hunks).content)

    async def _store(self, content: bytes) -> str:
        return (await self._run("hash-object", "-w", "--stdin", stdin=content)).text

    async def _run(self, *arguments: str, stdin: bytes = b"", failure: str = "") -> Output:
        return await self._git.run(
            *_PLAIN,
            *arguments,
            git_dir=self._mirror,
            work_tree=self._tree,
            stdin=stdin,
            env=self._env,
            failure=failure,
        )


def _files(tree: Path) -> Iterator[bytes]:
    for path in tree.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield os.fsencode(path.relative_to(tree))


def _is_git(path: bytes) -> bool:
    return any(part.lower().startswith(b".git") for part in path.split(b"/"))
