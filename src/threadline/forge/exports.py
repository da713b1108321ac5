"""The files of one commit without a `.git`, and what was changed in them since."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

from threadline.forge.git import Git, Output

# Symbolic links become small text files that hold their target, so no link in an export leads anywhere; and a tool
# that loses the executable bit changes nothing.
_PLAIN = ("-c", "core.symlinks=false", "-c", "core.fileMode=false")
_GITLINK = b"160000"


class Export:
    """One commit of a mirror, written out as plain files.

    Args:
        git: runs the commands.
        mirror: the bare repository; it is only read.
        tree: where the files go; an empty directory.
        scratch: a directory of its own for the index and for new objects, out of the agent's reach.
        commit: the full id of a commit that the mirror holds.
    """

    def __init__(self, git: Git, mirror: Path, tree: Path, scratch: Path, commit: str) -> None:
        self._git, self._mirror, self._tree, self._scratch, self._commit = git, mirror, tree, scratch, commit
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
        """Apply a diff that `diff` returned.

        Raises:
            Permanent: it does not fit the commit, or reaches out of the tree.
        """
        failure = f"the kept changes do not fit {self._tree.name} at {self._commit[:12]}: {{reason}}; open a new case"
        await self._run("apply", "--whitespace=nowarn", "-", stdin=diff.encode(), failure=failure)

    async def diff(self) -> str:
        """What differs from the commit, new and deleted files included; empty when nothing does.

        Paths with a component that begins with `.git` count as unchanged. Files that are no text, or not in UTF-8,
        come as git's binary patches, so that `apply` can restore them and `patches.check` can refuse them.
        """
        await self._stage()
        diff = ("diff", "--cached", "--binary", "--full-index", "--no-renames", "--no-color", "--no-ext-diff")
        options = ("--no-textconv", "--src-prefix=a/", "--dst-prefix=b/", self._commit)
        failure = f"could not read the changes in {self._tree.name}: {{reason}}"
        printed = (await self._run(*diff, *options, failure=failure)).stdout
        try:
            return printed.decode("utf-8")
        except UnicodeDecodeError:
            as_binary = await self._run("-c", "diff.default.binary=true", *diff, *options, failure=failure)
            return as_binary.stdout.decode("ascii")

    async def _stage(self) -> None:
        """Bring the index to the state of the files, which are found by our own walk.

        `git add` would ask each nested `.git` what it is, and obey the settings it finds there.
        """
        listed = (await self._run("ls-files", "--stage", "-z")).stdout.split(b"\0")[:-1]
        entries = {path: info[:6] for info, _, path in (line.partition(b"\t") for line in listed)}
        foreign = tuple(path + b"/" for path, mode in entries.items() if mode == _GITLINK)
        tracked = {path for path, mode in entries.items() if mode != _GITLINK}
        present = await asyncio.to_thread(lambda: set(_files(self._tree)))
        paths = [path for path in sorted(tracked | present) if not _is_git(path) and not path.startswith(foreign)]
        feed = b"".join(path + b"\0" for path in paths)
        await self._run("update-index", "-z", "--add", "--remove", "--replace", "--stdin", stdin=feed)

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
