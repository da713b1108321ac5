"""One branch for each case, against real repositories."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.forge.diffs import addition
from tests.forge.fixes import FIRST, SECOND
from tests.support.git_repository import GitRepository
from threadline.errors import Permanent, Transient
from threadline.forge.git import Git
from threadline.forge.model import PullRequest
from threadline.forge.pull_requests import FixClone, FixRequest, PullRequests
from threadline.forge.remotes import Remote


def commits(origin: GitRepository) -> list[str]:
    """The subjects of the commits on the case's branch, the newest first."""
    return origin.git("log", "--format=%s", "main..threadline/bug-12").splitlines()


async def test_pushed_branch_is_the_pull_request_of_a_plain_remote(
    plain: PullRequests, asked: FixRequest, origin: GitRepository
) -> None:
    opened = await plain.open(asked)
    commit = origin.git("rev-parse", "threadline/bug-12")
    assert opened == PullRequest(
        "shop", "threadline/bug-12", f"{origin.path.as_uri()}#threadline/bug-12", None, commit
    )
    assert origin.git("show", "threadline/bug-12:src/cart.py").endswith("return sum(items)")
    assert origin.git("diff", "--name-only", "main", "threadline/bug-12") == "src/cart.py"
    log = origin.git("log", "-1", "--format=%an <%ae> %cn <%ce>%n%B", commit).splitlines()
    assert log[0] == "Threadline <threadline@localhost> Threadline <threadline@localhost>"
    assert log[1] == "BUG-12: Totals are one too high"
    assert log[3:5] == ["Threadline-Case: BUG-12", "Threadline-Request: T1:C1:1.5"]


async def test_requests_at_once_make_one_commit(
    plain: PullRequests, asked: FixRequest, origin: GitRepository
) -> None:
    results = await asyncio.gather(*(plain.open(asked) for _ in range(3)), return_exceptions=True)
    assert len(commits(origin)) == 1
    assert any(isinstance(result, PullRequest) for result in results)
    assert all(isinstance(result, (PullRequest, Transient)) for result in results), results


async def test_branch_that_moved_meanwhile_is_not_overwritten(
    plain: PullRequests, asked: FixRequest, tmp_path: Path, origin: GitRepository
) -> None:
    clone = FixClone(Git(), tmp_path / "clone.git", Remote(str(origin.path)), "shop")
    tips = await clone.fetch("threadline/bug-12")
    opened = await plain.open(asked)
    commit = await clone.commit(asked.base, await clone.tree(asked.base, SECOND), tips, "late")
    with pytest.raises(Transient, match=r"could not push threadline/bug-12 to shop: .*stale info"):
        await clone.push("threadline/bug-12", commit, tips)
    assert origin.git("rev-parse", "threadline/bug-12") == opened.commit


async def test_fix_of_an_older_commit_is_opened_when_it_merges(
    plain: PullRequests, asked: FixRequest, developer: GitRepository, origin: GitRepository
) -> None:
    developer.commit({"docs/other.md": "x\n"})
    developer.push()
    await plain.open(asked)
    assert origin.git("merge-base", "main", "threadline/bug-12") == asked.base


async def test_branch_of_an_earlier_base_is_started_again(
    plain: PullRequests, asked: FixRequest, developer: GitRepository, origin: GitRepository
) -> None:
    await plain.open(asked)
    base = developer.commit({"docs/other.md": "x\n"})
    developer.push()
    await plain.open(replace(asked, base=base, diff=SECOND))
    assert origin.git("rev-parse", "threadline/bug-12^") == base


async def test_conflict_with_the_present_code_pushes_nothing(
    plain: PullRequests, asked: FixRequest, developer: GitRepository, origin: GitRepository
) -> None:
    developer.commit({"src/cart.py": "def total(items):\n    return 0\n"})
    developer.push()
    with pytest.raises(Permanent, match=r"moved on: the fix conflicts with main in src/cart\.py"):
        await plain.open(asked)
    assert origin.git("branch", "--list", "threadline/*") == ""


async def test_fix_that_is_already_there_opens_nothing(
    plain: PullRequests, asked: FixRequest, developer: GitRepository
) -> None:
    developer.commit({"src/cart.py": "def total(items):\n    return sum(items)\n"})
    developer.push()
    with pytest.raises(Permanent, match="already on main"):
        await plain.open(asked)


async def test_commits_of_people_on_the_branch_are_never_undone(
    plain: PullRequests, asked: FixRequest, developer: GitRepository, origin: GitRepository
) -> None:
    await plain.open(asked)
    developer.git("fetch", "-q", "origin", "threadline/bug-12")
    developer.git("checkout", "-q", "FETCH_HEAD")
    developer.commit()
    developer.push("threadline/bug-12")
    with pytest.raises(Permanent, match=r"commits by dev@example\.com"):
        await plain.open(replace(asked, diff=SECOND))
    assert commits(origin)[0] == "more"


@pytest.mark.parametrize(
    ("diff", "why"),
    [
        (addition(".github/workflows/x.yml"), "begins with .git"),
        (FIRST.replace("return sum(items) + 1", "return 7"), "does not fit shop"),
        (
            (
                "diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ "
                "-0,0 +1 @@\n+/etc/passwd\n"
            ),
            "link",
        ),
        # Names no mode: only the index knows that this is a link.
        (
            "diff --git a/passwords b/passwords\n--- a/passwords\n+++ b/passwords\n@@ -1 +1 "
            "@@\n-/etc/passwd\n"
            "\\ No newline at end of file\n+/etc/shadow\n\\ No newline at end of file\n",
            "symbolic link",
        ),
    ],
)
async def test_refused_fix_pushes_nothing(
    plain: PullRequests, asked: FixRequest, origin: GitRepository, diff: str, why: str
) -> None:
    with pytest.raises(Permanent, match=why):
        await plain.open(replace(asked, diff=diff))
    assert origin.git("branch", "--list", "threadline/*") == ""


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
async def test_invalid_request_is_refused(
    plain: PullRequests, asked: FixRequest, changes: dict[str, str], why: str
) -> None:
    with pytest.raises(Permanent, match=why):
        await plain.open(replace(asked, **changes))


async def test_binary_data_is_refused_before_git_reads_it(
    tmp_path: Path, asked: FixRequest
) -> None:
    missing = PullRequests({"shop": str(tmp_path / "none.git")})
    diff = (
        "diff --git a/x b/x\nnew file mode 100644\nindex 1..2\nGIT binary patch\nliteral "
        "99999999\nIcmZPo\n"
    )
    with pytest.raises(Permanent, match="changes x, which is not UTF-8 text"):
        await missing.open(replace(asked, diff=diff))


async def test_repository_that_cannot_be_cloned_is_named(
    tmp_path: Path, asked: FixRequest
) -> None:
    missing = PullRequests({"shop": str(tmp_path / "none.git")})
    with pytest.raises(Permanent, match=r"shop from .*does not (appear|exist).*THREADLINE_REPO"):
        await missing.open(asked)


async def test_state_of_a_plain_branch_follows_the_default_branch(
    plain: PullRequests, asked: FixRequest, developer: GitRepository, origin: GitRepository
) -> None:
    opened = await plain.open(asked)
    assert await plain.state(opened) == "open"
    other = await plain.open(replace(asked, bug_id="BUG-13"))
    origin.git("branch", "-D", "threadline/bug-13")
    assert await plain.state(other) == "gone"
    developer.git("fetch", "-q", "origin", "threadline/bug-12")
    developer.git("merge", "-q", "--no-ff", "-m", "merge", "FETCH_HEAD")
    developer.push()
    assert await plain.state(opened) == "merged"
    origin.git("branch", "-D", "threadline/bug-12")
    assert await plain.state(opened) == "merged"


async def test_nothing_is_left_on_disk(
    plain: PullRequests, asked: FixRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    opened = await plain.open(asked)
    assert re.fullmatch(r"[0-9a-f]{40}", opened.commit)
    assert list(scratch.iterdir()) == []
