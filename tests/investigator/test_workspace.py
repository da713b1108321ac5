"""The agent's files: restored at each opening, harmless with any content, held by one attempt at a
time.
"""

import asyncio
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.support.git_repository import GitRepository
from tests.support.patience import patient
from threadline.errors import Mendable, Permanent, Transient
from threadline.forge.git import DiskUnusable, Git, _failure
from threadline.forge.pull_requests import FixRequest, PullRequests
from threadline.investigator import workspace as workspace_module
from threadline.investigator.store import AttachedFile
from threadline.investigator.workspace import Workspaces

CART = "def total(items):\n    return sum(items) + 1\n"


@pytest.fixture
def shop(tmp_path: Path) -> GitRepository:
    """A repository that is not bare, since git reads those too: a program, a script, and
    attributes.
    """
    shop = GitRepository(tmp_path / "acme" / "shop")
    shop.path.mkdir(parents=True)
    (shop.path / "run.sh").write_text("#!/bin/sh\n")
    (shop.path / "run.sh").chmod(0o755)
    shop.git("init", "-q", "-b", "main")
    shop.commit(
        {
            ".github/ci.yml": "on: push\n",
            "src/cart.py": CART,
            ".gitattributes": "*.py text eol=crlf -diff\nsecret.txt export-ignore\n",
            "secret.txt": "not left out\n",
            ".gitignore": "*.log\n",
        }
    )
    return shop


@pytest.fixture
def workspaces(tmp_path: Path, shop: GitRepository, monkeypatch: pytest.MonkeyPatch) -> Workspaces:
    monkeypatch.setattr(workspace_module, "OPEN_WAIT", 0.2)
    return Workspaces(tmp_path / "work", [str(shop.path)])


def tree(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if not file.is_dir())


async def base_of(
    workspaces: Workspaces, bug_id: str, base: dict[str, str] | None = None
) -> dict[str, str]:
    """The commits at which a case's workspace is opened."""
    async with workspaces.open(bug_id, base or {}, {}) as workspace:
        return dict(workspace.base)


async def test_default_branch_is_written_byte_for_byte_and_without_git(
    workspaces: Workspaces, shop: GitRepository, tmp_path: Path
) -> None:
    async with workspaces.open("BUG-1", {}, {}, []) as workspace:
        assert workspace.path == tmp_path / "work" / "cases" / "BUG-1"
        assert workspace.base == {"shop": shop.head}
        assert tree(workspace.path / "shop") == sorted(shop.git("ls-files").splitlines())
        assert (workspace.path / "shop" / "src" / "cart.py").read_bytes() == CART.encode()
        assert not (workspace.path / "shop" / ".git").exists()
        assert await workspace.diff() == {}


async def test_case_keeps_its_commit_while_the_repository_moves_on(
    workspaces: Workspaces, shop: GitRepository
) -> None:
    base = await base_of(workspaces, "BUG-1")
    shop.commit({"src/cart.py": "rewritten\n"})
    async with workspaces.open("BUG-1", base, {}) as workspace:
        assert workspace.base == base
        assert (workspace.path / "shop" / "src" / "cart.py").read_text() == CART


async def test_newer_commit_is_fetched_at_once_also_over_a_lock_of_a_killed_fetch(
    workspaces: Workspaces, shop: GitRepository, tmp_path: Path
) -> None:
    await base_of(workspaces, "BUG-1")
    (tmp_path / "work" / "mirrors" / "shop.git" / "refs" / "heads" / "main.lock").touch()
    newer = {"shop": shop.commit()}
    assert await base_of(workspaces, "BUG-2", newer) == newer


async def test_mirror_is_fetched_at_most_once_a_minute(
    workspaces: Workspaces, shop: GitRepository, tmp_path: Path
) -> None:
    first = await base_of(workspaces, "BUG-1")
    newer = {"shop": shop.commit()}
    assert await base_of(workspaces, "BUG-2") == first
    a_minute_ago = time.time() - 61
    os.utime(tmp_path / "work" / "mirrors" / "shop.fetched", (a_minute_ago, a_minute_ago))
    assert await base_of(workspaces, "BUG-2") == newer


async def test_new_case_starts_from_what_another_process_has_fetched(
    workspaces: Workspaces, shop: GitRepository, tmp_path: Path
) -> None:
    await base_of(workspaces, "BUG-1")
    newer = {"shop": shop.commit()}
    await base_of(Workspaces(tmp_path / "work", [str(shop.path)]), "BUG-2", newer)
    assert await base_of(workspaces, "BUG-3") == newer


async def test_changes_are_a_diff_and_are_there_again_at_the_next_opening(
    workspaces: Workspaces, shop: GitRepository
) -> None:
    async with workspaces.open("BUG-1", {}, {}) as workspace:
        files = workspace.path / "shop"
        (files / "src" / "cart.py").write_text(CART.replace(" + 1", ""))
        (files / "src" / "na\u00efve name.py").write_text("new\r\n")
        (files / "debug.log").write_text("ignored by the repository, but not by us\n")
        (files / "secret.txt").unlink()
        (files / "run.sh").chmod(0o644)
        diffs = await workspace.diff()
        base = workspace.base
        assert await workspace.diff() == diffs
    fix = FixRequest("BUG-1", "shop", base["shop"], diffs["shop"], "a fix", "", "T1:C1:1.5")
    await PullRequests({"shop": str(shop.path)}).open(fix)
    assert "-    return sum(items) + 1\n+    return sum(items)\n" in diffs["shop"]
    assert "deleted file mode 100644" in diffs["shop"]
    assert "new mode" not in diffs["shop"]
    async with workspaces.open("BUG-1", base, diffs) as again:
        assert (again.path / "shop" / "src" / "na\u00efve name.py").read_bytes() == b"new\r\n"
        assert (again.path / "shop" / "debug.log").exists()
        assert not (again.path / "shop" / "secret.txt").exists()
        assert await again.diff() == diffs


async def test_files_that_the_agent_writes_are_never_run_by_git(
    workspaces: Workspaces, tmp_path: Path
) -> None:
    async with workspaces.open("BUG-1", {}, {}) as workspace:
        shop = workspace.path / "shop"
        mark = tmp_path / "ran"
        script = shop / "evil.sh"
        script.write_text(f"#!/bin/sh\ntouch {mark}\n")
        script.chmod(0o755)
        config = (
            f"[core]\n\tfsmonitor = {script}\n\trepositoryformatversion = 0\n[filter "
            f'"x"]\n\tclean = {script}\n'
        )
        for place in (workspace.path, shop, shop / "src"):
            evil = place / "notes" / "g"
            for folder in ("objects", "refs/heads"):
                (evil / folder).mkdir(parents=True)
            (evil / "HEAD").write_text("ref: refs/heads/main\n")
            (evil / "config").write_text(config + f'[diff "x"]\n\tcommand = {script}\n')
            (place / ".git").write_text("gitdir: notes/g\n")
        (shop / ".gitattributes").write_text("* filter=x diff=x -diff\n")
        (shop / "src" / "cart.py").write_text(CART + "# changed\n")
        # The attack is a real one: ordinary git does execute the script.
        await asyncio.to_thread(
            subprocess.run, ["git", "status"], cwd=shop, check=False, capture_output=True
        )
        assert mark.exists()
        mark.unlink()
        diff = (await workspace.diff())["shop"]
        assert not mark.exists()
    assert "+# changed" in diff
    assert ".gitattributes" not in diff
    assert "/.git" not in diff


async def test_leftovers_of_an_attempt_are_gone_at_the_next_opening(
    workspaces: Workspaces,
) -> None:
    async with workspaces.open("BUG-1", {}, {}, [AttachedFile("old.png", b"1")]) as workspace:
        (workspace.path / "shop" / "src" / "cart.py").write_text("half done")
        (workspace.path / "stray").write_text("x")
    async with workspaces.open("BUG-1", {}, {}) as again:
        assert again.path == workspace.path
        assert (again.path / "shop" / "src" / "cart.py").read_text() == CART
        assert tree(again.path / "attachments") == []
        assert not (again.path / "stray").exists()


async def test_attachments_get_safe_and_unique_names(
    workspaces: Workspaces, tmp_path: Path
) -> None:
    names = [
        "screen shot.png",
        "../../../evil",
        "/etc/cron.d/evil",
        "C:\\temp\\evil",
        "..",
        "",
        ".git",
        ".claude",
        "Screen Shot.PNG",
        "a\0b\nc\u202e.txt",
        "x" * 400 + ".png",
        "--help",
    ]
    attachments = [AttachedFile(name, str(number).encode()) for number, name in enumerate(names)]
    async with workspaces.open("BUG-1", {}, {}, attachments) as workspace:
        files = sorted(
            (workspace.path / "attachments").iterdir(), key=lambda file: int(file.read_bytes())
        )
    kept = [file.name for file in files]
    assert len(kept) == len(names)
    assert kept[:4] == ["screen shot.png", "evil", "evil-2", "evil-3"]
    assert kept[6:10] == ["git", "claude", "Screen Shot-2.PNG", "a_b_c_.txt"]
    assert all(len(name.encode()) < 150 and not name.startswith(".") for name in kept)
    assert not (tmp_path / "evil").exists()


async def test_second_attempt_waits_and_is_refused_for_now(workspaces: Workspaces) -> None:
    async with workspaces.open("BUG-1", {}, {}):
        with pytest.raises(
            Transient, match="another attempt still works in the workspace of BUG-1"
        ):
            async with workspaces.open("BUG-1", {}, {}):
                pytest.fail("two attempts in one workspace")
        async with workspaces.open("BUG-2", {}, {}):
            pass
    async with workspaces.open("BUG-1", {}, {}):
        pass


async def test_second_attempt_starts_as_soon_as_the_first_is_cancelled(
    tmp_path: Path, shop: GitRepository
) -> None:
    workspaces = Workspaces(tmp_path / "work", [str(shop.path)])
    inside = asyncio.Event()

    async def first() -> None:
        async with workspaces.open("BUG-1", {}, {}):
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(first())
    await inside.wait()
    second = asyncio.create_task(workspaces.open("BUG-1", {}, {}).__aenter__())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(patient(10)):
        assert (await second).base


async def test_workspace_stays_locked_while_files_are_deleted_despite_repeated_cancels(
    workspaces: Workspaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with workspaces.open("BUG-1", {}, {}):
        pass
    started = threading.Event()
    go_on = threading.Event()

    def slow(path: Path) -> None:
        started.set()
        go_on.wait(10)

    monkeypatch.setattr("shutil.rmtree", slow)
    removal = asyncio.create_task(workspaces.remove("BUG-1"))
    await asyncio.to_thread(started.wait, 10)
    try:
        for _ in range(3):
            removal.cancel()
            await asyncio.wait({removal}, timeout=0.05)
        with pytest.raises(Transient, match="still works in the workspace"):
            await workspaces.open("BUG-1", {}, {}).__aenter__()
    finally:
        go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await removal


async def test_workspace_is_removed_unless_it_is_held(
    workspaces: Workspaces, tmp_path: Path
) -> None:
    async with workspaces.open("BUG-1", {}, {}) as workspace:
        with pytest.raises(Transient):
            await workspaces.remove("BUG-1")
        assert workspace.path.exists()
    await workspaces.remove("BUG-1")
    await workspaces.remove("BUG-1")
    await workspaces.remove("BUG-99")
    assert list((tmp_path / "work" / "cases").iterdir()) == []
    assert list((tmp_path / "work" / "scratch").iterdir()) == []


async def test_sweep_removes_workspaces_that_are_neither_kept_nor_held(
    workspaces: Workspaces, tmp_path: Path
) -> None:
    assert await workspaces.sweep([]) == []
    for bug_id in ("BUG-1", "BUG-2", "BUG-3"):
        async with workspaces.open(bug_id, {}, {}):
            pass
    async with workspaces.open("BUG-3", {}, {}):
        assert await workspaces.sweep({"BUG-1"}) == ["BUG-2"]
        assert sorted(path.name for path in (tmp_path / "work" / "cases").glob("BUG-?")) == [
            "BUG-1",
            "BUG-3",
        ]


async def test_invalid_case_id_reaches_no_file(workspaces: Workspaces) -> None:
    for bug_id in ("../x", "", "a/b", ".", "BUG-1.lock", "-x"):
        with pytest.raises(Permanent, match="not a case id"):
            await workspaces.remove(bug_id)


async def test_repository_that_cannot_be_cloned_is_named(tmp_path: Path) -> None:
    workspaces = Workspaces(tmp_path / "work", [str(tmp_path / "missing.git")])
    with pytest.raises(
        Mendable, match=r"repository missing cannot be fetched: .*THREADLINE_REPO"
    ) as raised:
        await base_of(workspaces, "BUG-1")
    assert str(tmp_path) not in str(raised.value)
    assert raised.value.subject == "repository missing"


async def test_repository_that_cannot_be_reached_is_waited_for(tmp_path: Path) -> None:
    workspaces = Workspaces(tmp_path / "work", ["http://127.0.0.1:1/acme/shop.git"])
    with pytest.raises(Transient, match=r"^The repository shop cannot be reached now\.$"):
        await base_of(workspaces, "BUG-1")


async def test_full_disk_at_git_init_is_no_fault_of_the_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> None:
        raise _failure(
            "git init failed", b"could not set 'core.repositoryformatversion' to '0'", ""
        )

    monkeypatch.setattr(Git, "init", full)
    with pytest.raises(DiskUnusable):
        await base_of(Workspaces(tmp_path / "work", [str(tmp_path / "shop.git")]), "BUG-1")


@pytest.mark.parametrize(
    ("base", "diffs", "why"),
    [({"shop": "0" * 40}, {}, "commit 000000000000"), ({}, {"other": "diff"}, "THREADLINE_REPO")],
)
async def test_missing_commit_or_repository_is_named(
    workspaces: Workspaces, base: dict[str, str], diffs: dict[str, str], why: str
) -> None:
    with pytest.raises(Permanent, match=why):
        async with workspaces.open("BUG-1", base, diffs):
            pytest.fail("opened without what the case needs")


async def test_repositories_lie_side_by_side(tmp_path: Path, shop: GitRepository) -> None:
    shop.git("clone", "-q", "--bare", ".", str(tmp_path / "api.git"))
    workspaces = Workspaces(tmp_path / "work", [str(shop.path), str(tmp_path / "api.git")])
    async with workspaces.open("BUG-1", {}, {}) as workspace:
        (workspace.path / "api" / "new.py").write_text("x\n")
        assert set(workspace.base) == {"shop", "api"}
        assert list(await workspace.diff()) == ["api"]


async def test_small_repository_opens_within_a_second(workspaces: Workspaces) -> None:
    await base_of(workspaces, "BUG-1")
    took = []
    for number in range(3):
        started = time.monotonic()
        async with workspaces.open(f"BUG-{number}", {}, {}):
            took.append(time.monotonic() - started)
    assert min(took) < patient(1)
