"""A bare repository of each test, the working copy that it came from, and a GitHub on the
loopback.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from tests.forge.fake_github import TOKEN, FakeGitHub
from tests.forge.fixes import FIRST
from tests.support.git_repository import GitRepository
from threadline.forge.git import Git
from threadline.forge.patches import check_diff
from threadline.forge.pull_requests import FixClone, FixRequest, PullRequests
from threadline.forge.remotes import Remote


@pytest.fixture
def developer(tmp_path: Path) -> GitRepository:
    """A working copy of a repository with one commit: a program, a script and a link; `push` puts
    it into `origin`.
    """
    work = GitRepository(tmp_path / "developer")
    work.path.mkdir()
    (work.path / "logo.png").write_bytes(b"\x89PNG\0\1\2")
    (work.path / "run.sh").write_text("#!/bin/sh\necho hi\n")
    (work.path / "run.sh").chmod(0o755)
    (work.path / "passwords").symlink_to("/etc/passwd")
    work.git("init", "-q", "-b", "main")
    work.commit(
        {
            "src/cart.py": "def total(items):\n    return sum(items) + 1\n",
            "README.md": "# Shop\n",
            ".gitattributes": "*.md -diff\n*.py text eol=crlf\n",
            ".gitignore": "*.log\n",
        }
    )
    return work


@pytest.fixture
def origin(tmp_path: Path, developer: GitRepository) -> GitRepository:
    """The bare repository `acme/shop.git`, which `developer` pushes to."""
    bare = GitRepository(tmp_path / "acme" / "shop.git")
    developer.git("clone", "-q", "--bare", ".", str(bare.path))
    developer.git("remote", "add", "origin", str(bare.path))
    return bare


@pytest.fixture
async def github(origin: GitRepository) -> AsyncIterator[FakeGitHub]:
    fake = FakeGitHub(head_of=lambda branch: origin.git("rev-parse", branch))
    app = web.Application()
    app.router.add_route("*", "/repos/acme/shop/pulls", fake.handle)
    app.router.add_route("*", "/repos/acme/shop/pulls/{number}", fake.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield fake
    await runner.cleanup()


@pytest.fixture
def plain(origin: GitRepository) -> PullRequests:
    return PullRequests({"shop": str(origin.path)})


@pytest.fixture
def hosted(origin: GitRepository, github: FakeGitHub) -> PullRequests:
    return PullRequests({"shop": str(origin.path)}, TOKEN, github.url)


@pytest.fixture
def asked(origin: GitRepository) -> FixRequest:
    return FixRequest(
        "BUG-12",
        "shop",
        origin.head,
        FIRST,
        "Totals are\none too high",
        "See the thread.",
        "T1:C1:1.5",
    )


@pytest.fixture
def judge(origin: GitRepository, tmp_path: Path) -> Callable[[str], Awaitable[str]]:
    """Judge a diff against the default branch: the tree, or `Permanent`."""

    async def judge(diff: str) -> str:
        check_diff(diff)
        clone = FixClone(Git(), tmp_path / "judged.git", Remote(str(origin.path)), "shop")
        tips = await clone.fetch("none")
        return await clone.tree(tips.default, diff)

    return judge
