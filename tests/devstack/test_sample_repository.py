"""The sample repository: the same commits everywhere, and each planted bug with the test that
proves it.
"""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from threadline.errors import Permanent
from threadline_devstack.sample_repository import PLANTED_BUGS, make_sample_repository


def git(*arguments: str, cwd: Path) -> str:
    environment = {
        "PATH": "/usr/bin:/bin:/usr/local/bin",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    return subprocess.check_output(
        ["git", *arguments], cwd=cwd, env=environment, text=True
    ).strip()


def failing_tests(checkout: Path) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-B", "-m", "unittest"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    return set(re.findall(r"^(?:FAIL|ERROR): \w+ \((\S+)\)", done.stderr, re.MULTILINE))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    make_sample_repository(tmp_path / "sample-shop.git")
    git("clone", "--quiet", str(tmp_path / "sample-shop.git"), "sample-shop", cwd=tmp_path)
    return tmp_path / "sample-shop"


def test_every_machine_gets_the_same_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_sample_repository(tmp_path / "one.git")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Else")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2001-01-01T00:00:00Z")
    assert make_sample_repository(tmp_path / "deeper" / "two.git") == first


def test_a_second_call_keeps_pushed_commits(tmp_path: Path, checkout: Path) -> None:
    (checkout / "NEWS.md").write_text("A change.\n")
    git("add", "NEWS.md", cwd=checkout)
    git(
        "-c",
        "user.name=x",
        "-c",
        "user.email=x@example.invalid",
        "commit",
        "-q",
        "-m",
        "News",
        cwd=checkout,
    )
    git("push", "--quiet", "origin", "main", cwd=checkout)
    assert make_sample_repository(tmp_path / "sample-shop.git") == git(
        "rev-parse", "HEAD", cwd=checkout
    )


def test_foreign_content_at_the_path_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    with pytest.raises(Permanent, match="sample repository"):
        make_sample_repository(tmp_path / "notes")
    assert (tmp_path / "notes" / "mine.txt").read_text() == "mine"


def test_exactly_the_planted_bugs_fail(checkout: Path) -> None:
    assert failing_tests(checkout) == set(PLANTED_BUGS.values())
    assert all((checkout / file).is_file() for file in PLANTED_BUGS)


async def test_concurrent_makers_agree(tmp_path: Path) -> None:
    path = tmp_path / "sample-shop.git"
    heads = await asyncio.gather(
        *(asyncio.to_thread(make_sample_repository, path) for _ in range(4))
    )
    assert len(set(heads)) == 1
