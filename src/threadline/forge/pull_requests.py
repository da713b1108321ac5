"""Pull requests: an agent's diff becomes a branch, and at GitHub a draft, for people to review.
The branch is made in a fresh bare clone, without a working tree.
"""

import asyncio
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from threadline.errors import Permanent
from threadline.forge import patches
from threadline.forge.branches import BRANCHES, look
from threadline.forge.faults import in_the_way
from threadline.forge.git import Git
from threadline.forge.github import GITHUB_API, GitHub
from threadline.forge.mirrors import COMMIT
from threadline.forge.model import PullRequest, RemoteState
from threadline.forge.remotes import Remote

NAME = "Threadline"
EMAIL = "threadline@localhost"
_BUG_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_TITLE = 200
_DEFAULT = "refs/threadline/default"
_BRANCH = "refs/threadline/branch"
_AUTHOR = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", NAME), ("EMAIL", EMAIL))
}


@dataclass(frozen=True)
class FixRequest:
    """A fix of the case `bug_id` in one repository: `diff` against the commit `base`.

    `key` is the id of the developer's message that asked for it; the commit records it. All texts
    are storable: without NUL and lone surrogates.
    """

    bug_id: str
    repository: str
    base: str
    diff: str
    title: str
    body: str
    key: str


class PullRequests:
    """Opens pull requests with a credential that no agent has.

    Args:
        repositories: URL or path by name, see `remotes.repositories_by_name`.
        github_token: for git and GitHub's API; without it the pushed branch is the pull request.
        github_api_url: that of a GitHub Enterprise; the repositories are expected at its host, and
            repositories that are paths count as hosted there, too.
    """

    def __init__(
        self,
        repositories: Mapping[str, str],
        github_token: SecretStr | None = None,
        github_api_url: str | None = None,
    ) -> None:
        self._host = (urlsplit(github_api_url or GITHUB_API).hostname or "").removeprefix("api.")
        self._paths_too = github_api_url is not None
        self._github = GitHub(github_api_url or GITHUB_API, github_token) if github_token else None
        self._remotes = {
            name: self._log_in(Remote.parse(url), github_token)
            for name, url in repositories.items()
        }
        self._git = Git()

    async def open(self, request: FixRequest) -> PullRequest:
        """Push the fix to the case's one branch and open or update its one draft. Idempotent.

        Raises:
            Permanent: the diff breaks a rule of `patches`, or conflicts with the current code, or
                the remote refuses.
            Transient: the remote cannot be reached, asks to wait, or its branch moved in the
                meantime.
        """
        remote = self._remote(request.repository)
        patches.check_diff(request.diff)
        if not COMMIT.fullmatch(request.base):
            raise Permanent(
                f"{request.base!r} is not a commit id: give all of its hexadecimal digits"
            )
        if not _BUG_ID.fullmatch(request.bug_id):
            raise Permanent(f"{request.bug_id!r} is not a case id: write it like BUG-12")
        branch = f"{BRANCHES}/{request.bug_id.lower()}"
        title = f"{request.bug_id}: {' '.join(request.title.split())}"[:_TITLE]
        async with self._clone(remote, request.repository) as clone:
            tips = await clone.fetch(branch)
            if tips.obstacle:
                raise Permanent(
                    f"could not push {branch} to {request.repository}: "
                    f"{in_the_way(branch, tips.obstacle)}"
                )
            tree = await clone.tree(request.base, request.diff)
            key = "".join(request.key.split())
            message = f"{title}\n\nThreadline-Case: {request.bug_id}\nThreadline-Request: {key}\n"
            commit = await clone.commit(request.base, tree, tips, message)
            await clone.push(branch, commit, tips)
        at_github = self._paths_too if remote.is_path else remote.host == self._host
        if self._github is None or not at_github:
            return PullRequest(request.repository, branch, f"{remote.link}#{branch}", None, commit)
        hosted = await self._github.ensure_draft(
            remote.slug, branch, commit, tips.default_name, title, request.body
        )
        return PullRequest(
            request.repository, branch, hosted.url, hosted.number, commit, hosted.draft
        )

    async def state(self, opened: PullRequest) -> RemoteState:
        """Return the state of a pull request. Without GitHub it is `merged` when the default
        branch holds its commit, and `gone` when its branch was deleted.

        Raises:
            Permanent: the repository cannot be read.
            Transient: the repository cannot be reached now.
        """
        remote = self._remote(opened.repository)
        if self._github is not None and opened.number is not None:
            return await self._github.pull_request_state(remote.slug, opened.number)
        async with self._clone(remote, opened.repository) as clone:
            tips = await clone.fetch(opened.branch)
            if await clone.merged(opened.commit, tips):
                return "merged"
            return "open" if tips.branch else "gone"

    def _remote(self, name: str) -> Remote:
        if name not in self._remotes:
            known = ", ".join(self._remotes) or "none"
            raise Permanent(f"there is no repository called {name}: THREADLINE_REPO names {known}")
        return self._remotes[name]

    def _log_in(self, remote: Remote, token: SecretStr | None) -> Remote:
        """Let git use the token at GitHub's own host only."""
        over_http = remote.url.startswith(("https://", "http://"))
        return (
            remote.with_token(token)
            if token and over_http and remote.host == self._host
            else remote
        )

    @asynccontextmanager
    async def _clone(self, remote: Remote, name: str) -> AsyncIterator["FixClone"]:
        directory = Path(tempfile.mkdtemp(prefix="threadline-"))
        try:
            yield FixClone(self._git, directory / "clone.git", remote, name)
        finally:
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


@dataclass(frozen=True)
class BranchTips:
    """The tips of a remote's branches: the default branch, and the case's own, which is empty
    until it exists. `obstacle`: an existing branch whose name blocks the case's own.
    """

    default_name: str
    default: str
    branch: str
    obstacle: str | None = None


class FixClone:
    """A bare clone in a directory that its creator deletes."""

    def __init__(self, git: Git, git_dir: Path, remote: Remote, name: str) -> None:
        self._git = git
        self._git_dir = git_dir
        self._remote = remote
        self._name = name
        self._env = {"GIT_INDEX_FILE": str(git_dir / "index-of-the-fix")} | _AUTHOR

    async def fetch(self, branch: str) -> BranchTips:
        """Clone the default branch, and `branch` if it exists.

        Raises:
            Permanent: the repository cannot be read, or is empty.
            Transient: the repository cannot be reached now.
        """
        await self._git.init(self._git_dir)
        failure = (
            f"could not clone {self._name} from {self._remote.url}: {{reason}}; check "
            "THREADLINE_REPO"
        )
        url = self._remote.url
        ref = f"refs/heads/{branch}"
        known = await look(
            self._git, self._git_dir, self._name, self._remote, branch, BRANCHES, f"{branch}/*"
        )
        existing = [f"+{ref}:{_BRANCH}"] if branch in known.found else []
        await self._git.run(
            *(
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-write-fetch-head",
                "--",
                url,
                f"+HEAD:{_DEFAULT}",
                *existing,
            ),
            git_dir=self._git_dir,
            remote=self._remote,
            failure=failure,
        )
        own = await self._read(_BRANCH) if existing else ""
        return BranchTips(
            known.default, await self._read(_DEFAULT), own, known.obstacle_to(branch)
        )

    async def tree(self, base: str, diff: str) -> str:
        """Return the tree of `base` with `diff` applied; `diff` has passed `patches.check_diff`.

        Raises:
            Permanent: the commit is missing, or the diff does not fit it, or breaks a rule of
                `patches`.
        """
        if not await self._answers("cat-file", "-e", f"{base}^{{commit}}"):
            raise Permanent(
                f"{self._name} no longer has commit {base[:12]}, on which the fix was made: "
                "its history was rewritten, so ask for the fix again"
            )
        failure = f"the fix does not fit {self._name} at {base[:12]}: {{reason}}; ask for it again"
        size = await self._output("apply", "--numstat", "-z", "-", stdin=diff, failure=failure)
        patches.check_size(size)
        await self._run("read-tree", base)
        await self._run(
            "apply", "--cached", "--whitespace=nowarn", "-", stdin=diff, failure=failure
        )
        listed = await self._output(
            "diff-index", "--cached", "--raw", "--numstat", "-z", "--no-renames", base
        )
        patches.check_index(listed)
        sources = await self._output(
            "apply", "--reverse", "--numstat", "-z", "-", stdin=diff, failure=failure
        )
        patches.check_sources(sources)
        return await self._run("write-tree")

    async def commit(self, base: str, tree: str, tips: BranchTips, message: str) -> str:
        """Return a commit that gives the case's branch `tree`; the branch's current one when it
        already has it.

        A new commit goes on top of the branch, or on `base` when the branch belongs to an earlier
        base.

        Raises:
            Permanent: people have committed to the branch, the change is already on the default
                branch, or the two conflict.
        """
        if tips.branch and await self._read(tips.branch, "tree") == tree:
            return tips.branch
        continues = bool(tips.branch) and await self._is_ancestor(base, tips.branch)
        if tips.branch:
            emails = await self._run(
                "log", "--format=%ce", tips.branch, "--not", base, tips.default
            )
            if others := sorted(set(emails.splitlines()) - {EMAIL}):
                raise Permanent(
                    f"the case's branch in {self._name} contains commits by {', '.join(others)}: "
                    "merge or rename that branch first, so that their work is kept"
                )
        parent = tips.branch if continues else base
        commit = await self._run("commit-tree", tree, "-p", parent, "-F", "-", stdin=message)
        await self._refuse_conflict(tips, commit)
        return commit

    async def push(self, branch: str, commit: str, tips: BranchTips) -> None:
        """Move the remote's branch to `commit`, unless it has moved since `fetch`.

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
            failure=f"could not push {branch} to {self._name}: {{reason}}",
        )

    async def merged(self, commit: str, tips: BranchTips) -> bool:
        known = await self._answers("cat-file", "-e", f"{commit}^{{commit}}")
        return known and await self._is_ancestor(commit, tips.default)

    async def _refuse_conflict(self, tips: BranchTips, commit: str) -> None:
        merge = await self._git.run(
            *("merge-tree", "--write-tree", "--name-only", "--no-messages", tips.default, commit),
            git_dir=self._git_dir,
            accept=(0, 1),
        )
        merged, *files = merge.text.splitlines()
        if merge.code:
            raise Permanent(
                f"{self._name} has moved on: the fix conflicts with {tips.default_name} in "
                f"{', '.join(files[:5])}; ask for it again in a new case, which starts from the "
                "current code"
            )
        if merged == await self._read(tips.default, "tree"):
            raise Permanent(
                f"the fix is already on {tips.default_name} of {self._name}: there is "
                "nothing to open"
            )

    async def _is_ancestor(self, older: str, newer: str) -> bool:
        return await self._answers("merge-base", "--is-ancestor", older, newer)

    async def _answers(self, *arguments: str) -> bool:
        return (
            await self._git.run(*arguments, git_dir=self._git_dir, accept=(0, 1, 128))
        ).code == 0

    async def _read(self, name: str, kind: str = "commit") -> str:
        return await self._run("rev-parse", "--verify", f"{name}^{{{kind}}}")

    async def _run(self, *arguments: str, stdin: str = "", failure: str = "") -> str:
        return (
            (await self._output(*arguments, stdin=stdin, failure=failure))
            .decode("utf-8", "replace")
            .strip()
        )

    async def _output(self, *arguments: str, stdin: str = "", failure: str = "") -> bytes:
        output = await self._git.run(
            *arguments, git_dir=self._git_dir, stdin=stdin.encode(), env=self._env, failure=failure
        )
        return output.stdout
