"""An export holds the very bytes of a commit and no link, and its comparison obeys no file in
it.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.git_repository import GitRepository
from threadline.errors import Permanent
from threadline.forge.git import Git
from threadline.forge.mirrors import Export, Mirrors

Exporting = Callable[[str], Awaitable[tuple[Export, Path]]]
Judging = Callable[[str], Awaitable[str]]


@pytest.fixture
def export(tmp_path: Path, origin: GitRepository) -> Exporting:
    """Write the default branch out under a name; returns the export and the folder of its
    files.
    """
    mirrors = Mirrors(tmp_path / "mirrors", {"shop": str(origin.path)}, Git())

    async def write(name: str) -> tuple[Export, Path]:
        tree = tmp_path / name
        commit = await mirrors.commit("shop")
        written = Export(Git(), mirrors.path("shop"), tree, tmp_path / "scratch" / name, commit)
        await written.write()
        return written, tree

    return write


def files(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if not file.is_dir())


async def test_link_becomes_a_file_that_holds_its_target(
    export: Exporting, judge: Judging
) -> None:
    written, tree = await export("a")
    assert not (tree / "passwords").is_symlink()
    assert (tree / "passwords").read_text() == "/etc/passwd"
    assert await written.diff() == ""
    (tree / "passwords").write_text("/etc/shadow")
    with pytest.raises(Permanent, match="symbolic link"):
        await judge(await written.diff())


@pytest.mark.parametrize(
    ("name", "content"),
    [("new.bin", b"\0\1\2"), ("logo.png", b"\0"), ("latin.txt", "caf\u00e9\n".encode("latin-1"))],
)
async def test_binary_change_is_kept_but_refused_as_a_fix(
    export: Exporting, judge: Judging, name: str, content: bytes
) -> None:
    first, tree = await export("a")
    (tree / name).write_bytes(content)
    (tree / "src" / "cart.py").write_text("text\n")
    diff = await first.diff()
    with pytest.raises(Permanent, match="not UTF-8 text"):
        await judge(diff)
    second, tree = await export("b")
    await second.apply(diff)
    assert (tree / name).read_bytes() == content
    assert (tree / "src" / "cart.py").read_text() == "text\n"


async def test_change_of_gits_own_files_is_no_change(export: Exporting) -> None:
    written, tree = await export("a")
    (tree / ".github").mkdir()
    (tree / ".github" / "ci.yml").write_text("on: evil\n")
    (tree / ".gitattributes").write_text("* -diff\n")
    (tree / ".gitignore").unlink()
    assert await written.diff() == ""


async def test_diff_leaves_the_mirror_as_it_is(export: Exporting, tmp_path: Path) -> None:
    written, tree = await export("a")
    before = files(tmp_path / "mirrors")
    (tree / "new.py").write_text("new\n")
    assert await written.diff() != ""
    assert files(tmp_path / "mirrors") == before


@pytest.mark.parametrize("path", ["../x", ".git/config", "/tmp/x"])
async def test_changes_outside_the_tree_are_refused(
    export: Exporting, tmp_path: Path, path: str
) -> None:
    written, _ = await export("a")
    head = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n"
    with pytest.raises(Permanent, match="the kept changes do not fit a at"):
        await written.apply(head + "@@ -0,0 +1 @@\n+x\n")
    assert not (tmp_path / "x").exists()


async def test_submodule_is_left_alone(
    export: Exporting, developer: GitRepository, origin: GitRepository
) -> None:
    developer.git("update-index", "--add", "--cacheinfo", f"160000,{developer.head},lib")
    developer.git("commit", "-q", "-m", "submodule")
    developer.push()
    written, tree = await export("a")
    (tree / "lib").mkdir(exist_ok=True)
    (tree / "lib" / "x.py").write_text("x\n")
    assert await written.diff() == ""
