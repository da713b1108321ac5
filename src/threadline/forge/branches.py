"""The branch of a case: made from a commit and a diff in a fresh bare clone, without a single file written out."""

import re
from dataclasses import dataclass
from pathlib import Path

from threadline.errors import Permanent
from threadline.forge import patches
from threadline.forge.git import Git
from threadline.forge.remotes import Remote

NAME = "Threadline"
EMAIL = "threadline@localhost"
_DEFAULT, _BRANCH = "refs/threadline/default", "refs/threadline/branch"
_AUTHOR = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", NAME), ("EMAIL", EMAIL))
}


@dataclass(frozen=True)
class Tips:
    """Where a remote's branches stand: the default branch, and the case's own, empty as long as there is none."""

    default_name: str
    default: str
    branch: str


class Clone:
    """A bare clone in a directory that its maker deletes."""

    def __init__(self, git: Git, git_dir: Path, remote: Remote, name: str) -> None:
        self._git, self._git_dir, self._remote, self._name = git, git_dir, remote, name
        self._env = {"GIT_INDEX_FILE": str(git_dir / "index-of-the-fix")} | _AUTHOR

    async def fetch(self, branch: str) -> Tips:
        """Clone the default branch, and `branch` if it exists.

        Raises:
            Permanent: the repository cannot be read, or is empty.
            Transient: it cannot be reached now.
        """
        await self._git.init(self._git_dir)
        failure = f"could not clone {self._name} from {self._remote.url}: {{reason}}; check THREADLINE_REPO"
        url, ref = self._remote.url, f"refs/heads/{branch}"
        listed = await self._git.run(
            *("ls-remote", "--symref", "--", url, "HEAD", ref),
            git_dir=self._git_dir,
            remote=self._remote,
            failure=failure,
        )
        default = re.search(r"^ref: refs/heads/(\S+)\tHEAD$", listed.text, re.MULTILINE)
        if not default:
            raise Permanent(f"{self._name} has no commit on its default branch: push one first")
        existing = [f"+{ref}:{_BRANCH}"] if any(line.endswith(f"\t{ref}") for line in listed.text.splitlines()) else []
        await self._git.run(
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", url, f"+HEAD:{_DEFAULT}", *existing),
            git_dir=self._git_dir,
            remote=self._remote,
            failure=failure,
        )
        return Tips(default[1], await self._read(_DEFAULT), await self._read(_BRANCH) if existing else "")

    async def tree(self, base: str, diff: str) -> str:
        """The tree of `base` with `diff` applied, held to the rules of `patches` by what git made of it.

        Raises:
            Permanent: the commit is not there, the diff does not fit it, or breaks a rule.
        """
        if not await self._answers("cat-file", "-e", f"{base}^{{commit}}"):
            raise Permanent(
                f"{self._name} no longer has commit {base[:12]}, on which the fix was made: "
                "its history was rewritten, so ask for the fix again"
            )
        await self._run("read-tree", base)
        failure = f"the fix does not fit {self._name} at {base[:12]}: {{reason}}; ask for it again"
        await self._run("apply", "--cached", "--whitespace=nowarn", "-", stdin=diff, failure=failure)
        listed = await self._run("diff-index", "--cached", "--raw", "-z", "--no-renames", base, strip=False)
        patches.check_index(listed)
        return await self._run("write-tree")

    async def commit(self, base: str, tree: str, tips: Tips, message: str) -> str:
        """The commit that makes the case's branch hold `tree`; the present one when it does already.

        It goes on top of the branch, or starts it anew at `base` when the branch belongs to an earlier base.

        Raises:
            Permanent: people have committed to the branch, the change is already on the default branch, or the
                default branch has moved on so that the two conflict.
        """
        if tips.branch and await self._read(tips.branch, "tree") == tree:
            return tips.branch
        continues = bool(tips.branch) and await self._is_ancestor(base, tips.branch)
        if tips.branch:
            await self._refuse_others(base, tips)
        parent = tips.branch if continues else base
        commit = await self._run("commit-tree", tree, "-p", parent, "-F", "-", stdin=message)
        await self._refuse_conflict(tips, commit)
        return commit

    async def push(self, branch: str, commit: str, tips: Tips) -> None:
        """Move the remote's branch to `commit`, unless somebody moved it since `fetch`.

        Raises:
            Permanent: the remote refuses.
            Transient: the branch has moved, or the remote cannot be reached now.
        """
        if commit == tips.branch:
            return
        ref = f"refs/heads/{branch}"
        await self._git.run(
            *("push", "--quiet", "--no-verify", f"--force-with-lease={ref}:{tips.branch}"),
            *("--", self._remote.url, f"{commit}:{ref}"),
            git_dir=self._git_dir,
            remote=self._remote,
            failure=f"could not push {branch} to {self._name}: {{reason}}; check that the token may write there",
        )

    async def merged(self, commit: str, tips: Tips) -> bool:
        known = await self._answers("cat-file", "-e", f"{commit}^{{commit}}")
        return known and await self._is_ancestor(commit, tips.default)

    async def _refuse_others(self, base: str, tips: Tips) -> None:
        emails = await self._run("log", "--format=%ce", tips.branch, "--not", base, tips.default)
        if others := sorted(set(emails.splitlines()) - {EMAIL}):
            raise Permanent(
                f"the case's branch in {self._name} contains commits by {', '.join(others)}: "
                "merge or rename that branch first, so that their work is kept"
            )

    async def _refuse_conflict(self, tips: Tips, commit: str) -> None:
        merge = await self._git.run(
            *("merge-tree", "--write-tree", "--name-only", "--no-messages", tips.default, commit),
            git_dir=self._git_dir,
            accept=(0, 1),
        )
        merged, *files = merge.text.splitlines()
        if merge.code:
            raise Permanent(
                f"{self._name} has moved on: the fix conflicts with {tips.default_name} in {', '.join(files[:5])}; "
                "ask for it again in a new case, which starts from the current code"
            )
        if merged == await self._read(tips.default, "tree"):
            raise Permanent(f"the fix is already on {tips.default_name} of {self._name}: there is nothing to open")

    async def _is_ancestor(self, older: str, newer: str) -> bool:
        return await self._answers("merge-base", "--is-ancestor", older, newer)

    async def _answers(self, *arguments: str) -> bool:
        return (await self._git.run(*arguments, git_dir=self._git_dir, accept=(0, 1, 128))).code == 0

    async def _read(self, name: str, kind: str = "commit") -> str:
        return await self._run("rev-parse", "--verify", f"{name}^{{{kind}}}")

    async def _run(self, *arguments: str, stdin: str = "", failure: str = "", strip: bool = True) -> str:
        output = await self._git.run(
            *arguments, git_dir=self._git_dir, stdin=stdin.encode(), env=self._env, failure=failure
        )
        return output.text if strip else output.stdout.decode("utf-8", "surrogateescape")
