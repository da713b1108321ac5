"""One branch for each case, against real repositories."""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.forge.fixes import FIRST, SECOND, fix
from threadline.errors import Permanent, Transient
from threadline.forge.branches import Clone
from threadline.forge.git import Git
from threadline.forge.pull_requests import Opened, PullRequest, PullRequests
from threadline.forge.remotes import Remote

Push = Callable[[Mapping[str, str]], str]
RunGit = Callable[..., str]


def commits(run_git: RunGit, origin: Path) -> list[str]:
    return run_git(origin, "log", "--format=%s", "main..threadline/bug-12").splitlines()


async def test_the_pushed_branch_is_the_pull_request_of_a_plain_remote(
    plain: PullRequests, asked: PullRequest, origin: Path, run_git: RunGit
) -> None:
    opened = await plain.open(asked)
    commit = run_git(origin, "rev-parse", "threadline/bug-12")
    assert opened == Opened("shop", f"{origin.as_uri()}#threadline/bug-12", None, "threadline/bug-12", commit)
    assert run_git(origin, "show", "threadline/bug-12:src/cart.py").endswith("return sum(items)")
    assert run_git(origin, "diff", "--name-only", "main", "threadline/bug-12") == "src/cart.py"
    log = run_git(origin, "log", "-1", "--format=%an <%ae> %cn <%ce>%n%B", commit).splitlines()
    assert log[0] == "Threadline <threadline@localhost> Threadline <threadline@localhost>"
    assert log[1] == "BUG-12: Totals are one too high"
    assert log[3:5] == ["Threadline-Case: BUG-12", "Threadline-Request: T1:C1:1.5"]


async def test_two_at_once_make_one_commit(
    plain: PullRequests, asked: PullRequest, origin: Path, run_git: RunGit
) -> None:
    results = await asyncio.gather(*(plain.open(asked) for _ in range(3)), return_exceptions=True)
    assert len(commits(run_git, origin)) == 1
    assert any(isinstance(result, Opened) for result in results)
    assert all(isinstance(result, (Opened, Transient)) for result in results), results


async def test_a_branch_that_moved_meanwhile_is_not_overwritten(
    plain: PullRequests, asked: PullRequest, tmp_path: Path, origin: Path, run_git: RunGit
) -> None:
    clone = Clone(Git(), tmp_path / "clone.git", Remote(str(origin)), "shop")
    tips = await clone.fetch("threadline/bug-12")
    opened = await plain.open(asked)
    commit = await clone.commit(asked.base, await clone.tree(asked.base, SECOND), tips, "late")
    with pytest.raises(Transient, match=r"could not push threadline/bug-12 to shop: .*stale info"):
        await clone.push("threadline/bug-12", commit, tips)
    assert run_git(origin, "rev-parse", "threadline/bug-12") == opened.commit


async def test_a_fix_of_an_older_commit_is_opened_when_it_merges(
    plain: PullRequests, asked: PullRequest, push: Push, origin: Path, run_git: RunGit
) -> None:
    push({"docs/other.md": "x\n"})
    await plain.open(asked)
    assert run_git(origin, "merge-base", "main", "threadline/bug-12") == asked.base


async def test_a_branch_of_an_earlier_base_starts_anew(
    plain: PullRequests, asked: PullRequest, push: Push, origin: Path, run_git: RunGit
) -> None:
    await plain.open(asked)
    base = push({"docs/other.md": "x\n"})
    await plain.open(replace(asked, base=base, diff=SECOND))
    assert run_git(origin, "rev-parse", "threadline/bug-12^") == base


async def test_a_conflict_with_the_present_code_is_said_and_pushes_nothing(
    plain: PullRequests, asked: PullRequest, push: Push, origin: Path, run_git: RunGit
) -> None:
    push({"src/cart.py": "def total(items):\n    return 0\n"})
    with pytest.raises(Permanent, match=r"moved on: the fix conflicts with main in src/cart\.py"):
        await plain.open(asked)
    assert run_git(origin, "branch", "--list", "threadline/*") == ""


async def test_a_fix_that_is_already_there_opens_nothing(plain: PullRequests, asked: PullRequest, push: Push) -> None:
    push({"src/cart.py": "def total(items):\n    return sum(items)\n"})
    with pytest.raises(Permanent, match="already on main"):
        await plain.open(asked)


async def test_commits_of_people_on_the_branch_are_never_undone(
    plain: PullRequests, asked: PullRequest, tmp_path: Path, origin: Path, run_git: RunGit
) -> None:
    await plain.open(asked)
    work = tmp_path / "developer"
    run_git(work, "fetch", "-q", "origin", "threadline/bug-12")
    run_git(work, "checkout", "-q", "FETCH_HEAD")
    run_git(work, "commit", "-q", "--allow-empty", "-m", "mine")
    run_git(work, "push", "-q", "origin", "HEAD:threadline/bug-12")
    with pytest.raises(Permanent, match=r"commits by dev@example\.com"):
        await plain.open(replace(asked, diff=SECOND))
    assert commits(run_git, origin)[0] == "mine"


@pytest.mark.parametrize(
    ("diff", "why"),
    [
        (fix("x", "y", ".github/workflows/x.yml"), "begins with .git"),
        (FIRST.replace("return sum(items) + 1", "return 7"), "does not fit shop"),
        (
            "diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+/etc/passwd\n",
            "link",
        ),
        # Says nothing of a mode: that this is a link is known to the index alone.
        (
            "diff --git a/passwords b/passwords\n--- a/passwords\n+++ b/passwords\n@@ -1 +1 @@\n-/etc/passwd\n"
            "\\ No newline at end of file\n+/etc/shadow\n\\ No newline at end of file\n",
            "symbolic link",
        ),
    ],
)
async def test_a_refused_fix_pushes_nothing(
    plain: PullRequests, asked: PullRequest, origin: Path, run_git: RunGit, diff: str, why: str
) -> None:
    with pytest.raises(Permanent, match=why):
        await plain.open(replace(asked, diff=diff))
    assert run_git(origin, "branch", "--list", "threadline/*") == ""


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"repository": "other"}, "no repository called other"),
        ({"base": "main"}, "not a commit id"),
        ({"base": "0" * 40}, "no longer has commit"),
        ({"bug_id": "BUG-1/../../main"}, "not a case id"),
        ({"bug_id": "--mirror"}, "not a case id"),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused(
    plain: PullRequests, asked: PullRequest, changes: dict[str, str], why: str
) -> None:
    with pytest.raises(Permanent, match=why):
        await plain.open(replace(asked, **changes))


async def test_a_repository_that_cannot_be_cloned_is_named_with_advice(tmp_path: Path, asked: PullRequest) -> None:
    missing = PullRequests({"shop": str(tmp_path / "none.git")})
    with pytest.raises(
        Permanent, match=r"could not clone shop from .*does not (appear|exist).*; check THREADLINE_REPO"
    ):
        await missing.open(asked)


async def test_the_state_of_a_plain_branch_follows_the_default_branch(
    plain: PullRequests, asked: PullRequest, tmp_path: Path, origin: Path, run_git: RunGit
) -> None:
    opened = await plain.open(asked)
    assert await plain.state(opened) == "open"
    other = await plain.open(replace(asked, bug_id="BUG-13"))
    run_git(origin, "branch", "-D", "threadline/bug-13")
    assert await plain.state(other) == "gone"
    work = tmp_path / "developer"
    run_git(work, "fetch", "-q", "origin", "threadline/bug-12")
    run_git(work, "merge", "-q", "--no-ff", "-m", "merge", "FETCH_HEAD")
    run_git(work, "push", "-q", "origin", "HEAD:main")
    assert await plain.state(opened) == "merged"
    run_git(origin, "branch", "-D", "threadline/bug-12")
    assert await plain.state(opened) == "merged"


async def test_nothing_is_left_on_disk(
    plain: PullRequests, asked: PullRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    opened = await plain.open(asked)
    assert re.fullmatch(r"[0-9a-f]{40}", opened.commit)
    assert list(scratch.iterdir()) == []
