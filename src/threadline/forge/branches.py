"""Inspects a remote repository without a clone, and reports why it cannot be used."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from threadline.errors import Permanent
from threadline.forge.git import Git, OwnedByAnother
from threadline.forge.remotes import Remote

BRANCHES = "threadline"
"""Prefix of the cases' branches, such as `threadline/bug-12`."""
_HEAD = re.compile(r"^ref: refs/heads/(\S+)\tHEAD$", re.MULTILINE)
_PREFIX = "refs/heads/"


class UnusableRepository(Permanent):
    """A repository in an unusable state. The message names it, and contains no address."""


@dataclass(frozen=True)
class RemoteBranches:
    """The branches of a remote. `default` is the name of the default branch; `found` are the
    existing ones among the requested branches.
    """

    default: str
    found: frozenset[str]

    def obstacle_to(self, branch: str) -> str | None:
        """Return an existing branch that blocks the name `branch`, since git stores a name as a
        folder or a file; None without one.
        """
        parents = {branch[: at.start()] for at in re.finditer("/", branch)}
        blocking = (
            name for name in self.found if name in parents or name.startswith(f"{branch}/")
        )
        return min(blocking, default=None)


async def look(
    git: Git, git_dir: Path, name: str, remote: Remote, *branches: str
) -> RemoteBranches:
    """List the default branch of a remote, and the existing ones among `branches`. A pattern may
    end in `/*`.

    Args:
        git_dir: any repository of Threadline, from which git runs.
        name: of the remote, for messages.

    Raises:
        UnusableRepository: shallow, another account's, empty, or without a default branch.
        Permanent: the remote refuses.
        Transient: the remote cannot be reached now.
    """
    failure = f"could not clone {name} from {remote.url}: {{reason}}; check THREADLINE_REPO"
    asked = [_PREFIX + branch for branch in branches]
    try:
        listed = await git.run(
            *("ls-remote", "--symref", "--", remote.url, "HEAD", *asked),
            git_dir=git_dir,
            remote=remote,
            failure=failure,
        )
    except OwnedByAnother as error:
        raise UnusableRepository(
            f"The repository {name} belongs to another account of its machine, and git reads no "
            "such folder: give it to the account that runs the workers, or name it by ssh:// "
            "or https:// in THREADLINE_REPO."
        ) from error
    if await _is_shallow(git, remote):
        raise UnusableRepository(
            f"The repository {name} is a shallow clone, which lacks the older commits: run `git "
            "fetch --unshallow` there, or name the repository that it was cloned from in "
            "THREADLINE_REPO."
        )
    refs = [
        line.partition("\t")[2]
        for line in listed.text.splitlines()
        if not line.startswith("ref: ")
    ]
    if not (default := _HEAD.search(listed.text)):
        raise await _without_default(git, git_dir, name, remote, detached="HEAD" in refs)
    return RemoteBranches(
        default[1], frozenset(ref.removeprefix(_PREFIX) for ref in refs if ref.startswith(_PREFIX))
    )


async def _without_default(
    git: Git, git_dir: Path, name: str, remote: Remote, *, detached: bool
) -> UnusableRepository:
    """Return the reason for a missing default branch."""
    if detached:
        return UnusableRepository(
            f"The repository {name} has no default branch, since its HEAD is a commit (detached): "
            "run `git switch main` there, or with the name of another branch."
        )
    heads = (
        await git.run("ls-remote", "--heads", "--", remote.url, git_dir=git_dir, remote=remote)
    ).text
    if not heads:
        return UnusableRepository(
            f"The repository {name} has no commit on its default branch: push one first."
        )
    branch = heads.splitlines()[0].partition(f"\t{_PREFIX}")[2]
    return UnusableRepository(
        f"The repository {name} has no default branch, since its HEAD names a branch that does "
        "not exist: set the default branch at its host, or run `git symbolic-ref HEAD "
        f"{_PREFIX}{branch}` there."
    )


async def _is_shallow(git: Git, remote: Remote) -> bool:
    """Whether a local repository lacks history; False for one at a host, where git does not report
    it.
    """
    if not remote.is_path:
        return False
    path = Path(unquote(urlsplit(remote.url).path) if "://" in remote.url else remote.url)
    git_dir = path / ".git" if (path / ".git").exists() else path
    told = await git.run("rev-parse", "--is-shallow-repository", git_dir=git_dir, accept=(0, 128))
    return told.text == "true"
