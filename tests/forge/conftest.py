"""A real bare repository for each test, git to look into it, and a GitHub on the loopback."""

import os
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
from aiohttp import web

from tests.forge.fake_github import TOKEN, FakeGitHub
from tests.forge.fixes import FIRST
from threadline.forge.pull_requests import PullRequest, PullRequests

_AUTHOR = {"GIT_AUTHOR_NAME": "Dev", "GIT_COMMITTER_NAME": "Dev"} | {
    "GIT_AUTHOR_EMAIL": "dev@example.com",
    "GIT_COMMITTER_EMAIL": "dev@example.com",
}


@pytest.fixture
def run_git() -> Callable[..., str]:
    def run(directory: Path, *arguments: str) -> str:
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"} | _AUTHOR
        return subprocess.run(
            ["git", *arguments], cwd=directory, env=env, check=True, capture_output=True, text=True
        ).stdout.strip()

    return run


@pytest.fixture
def origin(tmp_path: Path, run_git: Callable[..., str]) -> Path:
    """A bare repository `acme/shop.git` with one commit: a program, a script and a link."""
    bare = tmp_path / "acme" / "shop.git"
    bare.mkdir(parents=True)
    run_git(bare, "init", "--bare", "--quiet", "--initial-branch=main")
    work = tmp_path / "developer"
    run_git(tmp_path, "clone", "--quiet", str(bare), str(work))
    run_git(work, "checkout", "-q", "-b", "main")
    (work / "src").mkdir()
    (work / "src" / "cart.py").write_text("def total(items):\n    return sum(items) + 1\n")
    (work / "README.md").write_text("# Shop\n")
    (work / "logo.png").write_bytes(b"\x89PNG\0\1\2")
    (work / "run.sh").write_text("#!/bin/sh\necho hi\n")
    (work / "run.sh").chmod(0o755)
    (work / "passwords").symlink_to("/etc/passwd")
    (work / ".gitattributes").write_text("*.md -diff\n*.py text eol=crlf\n")
    (work / ".gitignore").write_text("*.log\n")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-q", "-m", "first")
    run_git(work, "push", "-q", "origin", "main")
    return bare


@pytest.fixture
def push(tmp_path: Path, origin: Path, run_git: Callable[..., str]) -> Callable[[Mapping[str, str]], str]:
    """Commit files as a developer would, push them to the default branch, and return the commit."""

    def commit(files: Mapping[str, str]) -> str:
        work = tmp_path / "developer"
        for name, text in files.items():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).write_text(text)
        run_git(work, "add", "-A")
        run_git(work, "commit", "-q", "--allow-empty", "-m", "more")
        run_git(work, "push", "-q", str(origin), "HEAD:main")
        return run_git(work, "rev-parse", "HEAD")

    return commit


@pytest.fixture
async def github(origin: Path, run_git: Callable[..., str]) -> AsyncIterator[FakeGitHub]:
    fake = FakeGitHub(head_of=lambda branch: run_git(origin, "rev-parse", branch))
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
def plain(origin: Path) -> PullRequests:
    return PullRequests({"shop": str(origin)})


@pytest.fixture
def hosted(origin: Path, github: FakeGitHub) -> PullRequests:
    return PullRequests({"shop": str(origin)}, TOKEN, github.url)


@pytest.fixture
def asked(origin: Path, run_git: Callable[..., str]) -> PullRequest:
    base = run_git(origin, "rev-parse", "main")
    return PullRequest("BUG-12", "shop", base, FIRST, "Totals are\none too high", "See the thread.", "T1:C1:1.5")
