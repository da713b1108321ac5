"""Pull requests: from a diff that an agent wrote to a branch, and a draft, that people review."""

import asyncio
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast
from urllib.parse import urlsplit

from pydantic import SecretStr

from threadline.errors import Permanent
from threadline.forge import patches
from threadline.forge.branches import Clone
from threadline.forge.git import Git
from threadline.forge.github import Draft, GitHub
from threadline.forge.mirrors import COMMIT
from threadline.forge.remotes import Remote
from threadline.threads.messages import clean

GITHUB_API = "https://api.github.com"
State = Literal["open", "merged", "closed", "gone"]
_BUG_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")
_TITLE = 200


@dataclass(frozen=True)
class PullRequest:
    """A fix of the case `bug_id` in one repository: `diff` against the commit `base`.

    `key` is the id of the developer's message that asked for it; it is recorded in the commit.
    """

    bug_id: str
    repository: str
    base: str
    diff: str
    title: str
    body: str
    key: str


@dataclass(frozen=True)
class Opened:
    """A pull request; `number` is missing where the pushed branch is all there is."""

    repository: str
    url: str
    number: int | None
    branch: str
    commit: str


class PullRequests:
    """Opens pull requests with a credential that no agent ever holds.

    Args:
        repositories: URL or path by name, see `remotes.by_name`.
        github_token: for git and the API of GitHub; without it the pushed branch is the pull request.
        github_api_url: the API of a GitHub Enterprise, whose host the repositories are then expected at; with it,
            repositories that are paths count as being there too.
        limits: how big a fix may be.
        git: runs the commands.
    """

    def __init__(
        self,
        repositories: Mapping[str, str],
        github_token: SecretStr | None = None,
        github_api_url: str | None = None,
        *,
        limits: patches.Limits = patches.DEFAULT,
        git: Git | None = None,
    ) -> None:
        self._host = (urlsplit(github_api_url or GITHUB_API).hostname or "").removeprefix("api.")
        self._paths_too = github_api_url is not None
        self._github = GitHub(github_api_url or GITHUB_API, github_token) if github_token else None
        self._remotes = {name: self._log_in(Remote.parse(url), github_token) for name, url in repositories.items()}
        self._limits, self._git = limits, git or Git()

    async def open(self, request: PullRequest) -> Opened:
        """Push the fix to the case's one branch and see to its one draft; a repeated request changes nothing.

        Raises:
            Permanent: the diff breaks a rule of `patches`, conflicts with the present code, or the remote refuses.
            Transient: the remote is away, asks to wait, or its branch moved meanwhile.
        """
        remote = self._remote(request.repository)
        patches.check(request.diff, self._limits)
        if not COMMIT.fullmatch(request.base):
            raise Permanent(f"{request.base!r} is not a commit id: give all of its hexadecimal digits")
        branch = _branch_of(request.bug_id)
        async with self._clone(remote, request.repository) as clone:
            tips = await clone.fetch(branch)
            tree = await clone.tree(request.base, request.diff)
            commit = await clone.commit(request.base, tree, tips, _message(request))
            await clone.push(branch, commit, tips)
        if self._github is None or not self._is_github(remote):
            return Opened(request.repository, f"{remote.link}#{branch}", None, branch, commit)
        title, body = _title(request), clean(request.body)
        draft = Draft(remote.slug, branch, commit, tips.default_name, title, body)
        url, number = await self._github.ensure(draft)
        return Opened(request.repository, url, number, branch, commit)

    async def state(self, opened: Opened) -> State:
        """What became of a pull request.

        Without GitHub it is `merged` when the default branch holds its commit, and `gone` when its branch was deleted.

        Raises:
            Permanent: the repository cannot be read.
            Transient: it cannot be reached now.
        """
        remote = self._remote(opened.repository)
        if self._github is not None and opened.number is not None:
            return cast(State, await self._github.state(remote.slug, opened.number))
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

    def _is_github(self, remote: Remote) -> bool:
        return self._paths_too if remote.is_path else remote.host == self._host

    def _log_in(self, remote: Remote, token: SecretStr | None) -> Remote:
        """Let git use the token at GitHub's own host, and nowhere else."""
        over_http = remote.url.startswith(("https://", "http://"))
        return remote.with_token(token) if token and over_http and remote.host == self._host else remote

    @asynccontextmanager
    async def _clone(self, remote: Remote, name: str) -> AsyncIterator[Clone]:
        directory = Path(tempfile.mkdtemp(prefix="threadline-"))
        try:
            yield Clone(self._git, directory / "clone.git", remote, name)
        finally:
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


def _branch_of(bug_id: str) -> str:
    if not _BUG_ID.fullmatch(bug_id):
        raise Permanent(f"{bug_id!r} is not a case id: write it like BUG-12")
    return f"threadline/{bug_id.lower()}"


def _title(request: PullRequest) -> str:
    return f"{request.bug_id}: {' '.join(clean(request.title).split())}"[:_TITLE]


def _message(request: PullRequest) -> str:
    key = "".join(clean(request.key).split())
    return f"{_title(request)}\n\nThreadline-Case: {request.bug_id}\nThreadline-Request: {key}\n"
