"""Each known way around the rules, as a diff that git reads and applies in a bare clone."""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forge.diffs import addition, change, deletion, rename
from tests.forge.test_patch_rules import CI, GITS, HIDDEN, OUTSIDE
from tests.support.examples import examples
from tests.support.git_repository import GitRepository
from threadline.errors import Permanent
from threadline.forge.git import Git
from threadline.forge.patches import check_diff
from threadline.forge.pull_requests import FixClone
from threadline.forge.remotes import Remote

IMPOSSIBLE = [
    ".git/config",
    "a/.git",
    "a/.GIT/hooks/x",
    "a/git~1/x",
    ".g\u200cit/x",
    *OUTSIDE[:4],
    "./x",
]
"""Paths that git itself refuses."""
FORBIDDEN = [path for path in (*CI, *GITS, *HIDDEN, "a\\b") if path not in IMPOSSIBLE]
PLAIN = ["fine", "x", "a", "a b", "x b/x b/x", "src/cart.py", "caf\u00e9", "\udcff"]


class Judged:
    """A clone with a plain commit, and one that has a link, a submodule, a binary file and every
    forbidden file too.
    """

    def __init__(self, folder: Path) -> None:
        self.origin = GitRepository(folder / "origin")
        self.origin.path.mkdir()
        self.origin.git("init", "-q", "-b", "main")
        self.blobs = {name: self._blob(name, content) for name, content in CONTENTS.items()}
        self.plain = self._commit(
            dict.fromkeys(PLAIN, ("100644", "line")) | {"run.sh": ("100755", "line")}
        )
        special = {
            "link": ("120000", "line"),
            "logo.png": ("100644", "binary"),
            "big": ("100644", "long"),
        }
        self.full = self._commit(
            special | dict.fromkeys(FORBIDDEN, ("100644", "line")), submodule="lib"
        )
        self._clone = FixClone(Git(), folder / "clone.git", Remote(str(self.origin.path)), "shop")

    async def fetch(self) -> None:
        await self._clone.fetch("none")

    async def tree(self, diff: str, base: str = "") -> str:
        check_diff(diff)
        return await self._clone.tree(base or self.full, diff)

    def _blob(self, name: str, content: bytes) -> str:
        (self.origin.path / name).write_bytes(content)
        return self.origin.git("hash-object", "-w", name)

    def _commit(self, files: Mapping[str, tuple[str, str]], submodule: str = "") -> str:
        entries = [
            f"{mode},{self.blobs[content]},{path}" for path, (mode, content) in files.items()
        ]
        entries += [f"160000,{'1' * 40},{submodule}"] if submodule else []
        for entry in entries:
            self.origin.git("update-index", "--add", "--cacheinfo", entry)
        self.origin.git("commit", "-q", "-m", "files")
        return self.origin.head


CONTENTS = {"line": b"a\n", "long": b"a\n" * 1_600, "binary": b"\x89PNG\0\1", "other": b"other\n"}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    judged = Judged(tmp_path_factory.mktemp("judged"))
    asyncio.run(judged.fetch())
    return judged


def copy(old: str, new: str) -> str:
    return rename(old, new).replace("rename", "copy")


def with_mode(diff: str, old: str = "100644", new: str = "100755") -> str:
    """A rename or a copy that also changes the mode."""
    return diff.replace("similarity", f"old mode {old}\nnew mode {new}\nsimilarity")


@pytest.mark.parametrize(
    "diff",
    [
        change("src/cart.py"),
        change("run.sh", mode="100755"),
        addition("a b/c d.py").replace("a b/", "d b/"),
        addition("y b/x b/x"),
        change("x b/x b/x"),
        addition("empty").split("--- ")[0],
        deletion("src/cart.py"),
        rename("src/cart.py", "src/basket.py"),
        rename("a b", "b a"),
        copy("a", "b"),
        'diff --git "a/caf\\303\\251" "b/caf\\303\\251"\nindex 1111..2222 100644\n--- '
        '"a/caf\\303\\251"\n'
        '+++ "b/caf\\303\\251"\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n',
        change("src/cart.py", new="diff --git a/.github/x b/.github/x"),
        change("src/cart.py", new="++ b/.gitmodules"),
        change("src/cart.py", new="GIT binary patch"),
        change("src/cart.py", new="new mode 100755"),
        copy("run.sh", "walk.sh"),
        rename("run.sh", "walk.sh"),
        change("a", new="line\rwith\x0cfeeds\u2028"),
        addition("src/github/workflows.py")
        + addition("docs/jenkinsfiles.md")
        + addition("ci_helpers.py"),
    ],
)
async def test_change_of_regular_text_files_is_accepted(judged: Judged, diff: str) -> None:
    assert await judged.tree(diff) != judged.origin.git("rev-parse", f"{judged.full}^{{tree}}")


@pytest.mark.parametrize("path", FORBIDDEN)
async def test_forbidden_path_is_refused_for_every_kind_of_change(
    judged: Judged, path: str
) -> None:
    there = (
        change(path),
        deletion(path),
        rename(path, "y"),
        copy(path, "y"),
        copy(path, "y") + change("x"),
    )
    new = (
        addition(path),
        rename("x", path),
        copy("x", path),
        f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n",
    )
    for base, diffs in ((judged.full, there), (judged.plain, new)):
        for diff in diffs:
            with pytest.raises(Permanent, match="the fix touches"):
                await judged.tree(change("fine") + diff, base)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (".env", "only people may change hidden files"),
        ("web/.npmrc", "only people may change hidden files"),
        ("Jenkinsfile", "only people may change what CI runs"),
        (".circleci/config.yml", "only people may change what CI runs"),
    ],
)
async def test_hidden_or_ci_file_is_not_copied_to_an_ordinary_path(
    judged: Judged, path: str, why: str
) -> None:
    """The index shows the new file alone, whose path is an ordinary one."""
    edited = (
        change("x")
        .partition("100644\n")[2]
        .replace("a/x", f"a/{path}")
        .replace("b/x", "b/notes.md")
    )
    for diff in (copy(path, "notes.md"), copy(path, "notes.md") + edited):
        with pytest.raises(Permanent, match=f"the fix touches {path}: {why}"):
            await judged.tree(change("fine") + diff)


@pytest.mark.parametrize("path", IMPOSSIBLE)
async def test_path_that_git_refuses_is_refused(judged: Judged, path: str) -> None:
    for diff in (addition(path), rename("x", path), copy("x", path)):
        with pytest.raises(Permanent, match=r"does not fit shop at \w+: "):
            await judged.tree(change("fine") + diff)


ATTACKS = {
    "new link": (addition("l", mode="120000"), "symbolic link"),
    "link elsewhere": (change("link", mode="120000"), "symbolic link"),
    "link elsewhere, mode unsaid": (change("link").replace(" 100644", ""), "symbolic link"),
    "link gone": (deletion("link", mode="120000"), "symbolic link"),
    "link renamed": (rename("link", "l"), "symbolic link"),
    "link copied": (copy("link", "l"), "symbolic link"),
    "link becomes a file": (deletion("link", mode="120000") + addition("link"), "symbolic link"),
    "file becomes a link": (deletion("x") + addition("x", mode="120000"), "symbolic link"),
    "link, then a file beyond it": (
        addition("etc", mode="120000") + addition("etc/passwd"),
        "symbolic link|beyond a symbolic link|does not fit",
    ),
    "new submodule": (
        addition("m", mode="160000").replace("+x", f"+Subproject commit {'2' * 40}"),
        "submodule",
    ),
    "submodule gone": (
        deletion("lib", mode="160000").replace("-a", f"-Subproject commit {'1' * 40}"),
        "submodule",
    ),
    "executable": ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "changes the mode"),
    "deleted and added as executable": (
        deletion("x") + addition("x", mode="100755"),
        "changes the mode",
    ),
    "executable and renamed": (with_mode(rename("x", "y")), "changes the mode"),
    "executable and copied": (with_mode(copy("x", "y")), "changes the mode"),
    "executable and renamed, old mode unsaid": (
        with_mode(rename("x", "y")).replace("old mode 100644\n", ""),
        "changes the mode",
    ),
    "executable and renamed, with a change": (
        with_mode(rename("x", "y")) + change("x").partition("100644\n")[2].replace("b/x", "b/y"),
        "changes the mode",
    ),
    "no longer executable, and renamed": (
        with_mode(rename("run.sh", "y"), "100755", "100644"),
        "changes the mode",
    ),
    "hidden file copied, with a change": (
        copy(".gitignore", "y")
        + change("x")
        .partition("100644\n")[2]
        .replace("a/x", "a/.gitignore")
        .replace("b/x", "b/y"),
        "begins with .git",
    ),
    "hidden file copied under another name": (
        copy("x", "y").replace("copy from x", "copy from .gitignore"),
        "begins with .git|does not fit",
    ),
    "quoted hidden file copied": (
        copy("x", "y").replace("from x", 'from ".git\\151gnore"'),
        "begins with .git",
    ),
    "quoted byte copied": (copy("x", "y").replace("from x", 'from "\\377"'), "not UTF-8"),
    "hidden file copied by way of another": (
        copy(".gitignore", "y") + rename("y", "z"),
        "begins with .git|does not fit",
    ),
    "binary copied": (copy("logo.png", "logo2.png"), "not UTF-8 text"),
    "binary renamed": (rename("logo.png", "logo2.png"), "not UTF-8 text"),
    "binary without data": (
        "diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n",
        "not UTF-8 text",
    ),
    "traditional form": (
        "--- /dev/null\n+++ b/.github/x\n@@ -0,0 +1 @@\n+b\n",
        "begins with .git",
    ),
    "traditional form, after a good one": (
        change("fine") + "--- /dev/null\n+++ b/.github/x\n@@ -0,0 +1 @@\n+b\n",
        "begins with .git",
    ),
    "traditional form of two names": (
        "--- a/x\n+++ b/.github/x\n@@ -1 +1 @@\n-a\n+b\n",
        "does not fit",
    ),
    "another new name": (
        change("x").replace("+++ b/x", "+++ b/.github/x"),
        "begins with .git|does not fit",
    ),
    "another old name": (change("x").replace("--- a/x", "--- a/.github/x"), "does not fit"),
    "another name of a rename": (
        rename("a", "b").replace("rename to b", "rename to .github/b"),
        "begins with .git",
    ),
    "two names without a change": (
        "diff --git a/x b/.github/x\nindex 1..2 100644\n",
        "does not fit",
    ),
    "no prefix": ("diff --git x x\nindex 1..2\n", "does not fit"),
    "no diff": ("hello\n", "does not fit"),
    "a hunk of context": (
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n a\n",
        "does not fit|changes nothing",
    ),
    "cut off": (change("x").removesuffix("+b\n"), "does not fit"),
    "a line too few": (change("x").replace("-a\n", ""), "does not fit"),
    "quoted .github": (
        'diff --git "a/.git\\150ub/x" "b/.git\\150ub/x"\nnew file mode 100644\nindex 1..2\n',
        "begins with .git",
    ),
    "quoted ..": (
        'diff --git "a/\\056\\056/x" "b/\\056\\056/x"\nnew file mode 100644\nindex 1..2\n',
        "does not fit",
    ),
    "quoted line end": (
        'diff --git "a/a\\nb" "b/a\\nb"\nnew file mode 100644\nindex 1..2\n',
        "inside the repository",
    ),
    "quoted byte": (
        'diff --git "a/\\376" "b/\\376"\nnew file mode 100644\nindex 1..2\n',
        "not UTF-8",
    ),
    "quoted byte gone": (
        'diff --git "a/\\377" "b/\\377"\ndeleted file mode 100644\nindex 1..2\n--- '
        '"a/\\377"\n+++ /dev/null\n'
        "@@ -1 +0,0 @@\n-a\n",
        "not UTF-8",
    ),
    "a long file copied": (copy("big", "big2"), "1600 lines"),
    "many copies": ("".join(copy("nothing", f"c{number}") for number in range(31)), "31 files"),
}


@pytest.mark.parametrize("name", ATTACKS)
async def test_other_than_a_plain_change_of_text_is_refused(judged: Judged, name: str) -> None:
    diff, why = ATTACKS[name]
    with pytest.raises(Permanent, match=why):
        await judged.tree(diff)


@pytest.mark.parametrize("content", ["binary", "other"])
async def test_blob_that_the_repository_holds_is_not_taken_by_its_id(
    judged: Judged, content: str
) -> None:
    """Git would take the content of a binary file from the repository, where its id is written
    out.
    """
    ids = f"index {judged.blobs['line']}..{judged.blobs[content]} 100644"
    with pytest.raises(Permanent, match="x, which is not UTF-8 text"):
        await judged.tree(f"diff --git a/x b/x\n{ids}\nBinary files a/x and b/x differ\n")


@pytest.mark.parametrize(
    ("odd", "plain"),
    [
        ("hello\n" + change("x"), change("x")),
        (change("x") + "From 1234 Mon Sep 17\n", change("x")),
        (addition("y", mode="104755"), addition("y", mode="100755")),
    ],
)
async def test_lines_and_modes_that_git_ignores_change_nothing(
    judged: Judged, odd: str, plain: str
) -> None:
    assert await judged.tree(odd) == await judged.tree(plain)


@examples(0.15)
@given(text=st.text(max_size=200))
def test_any_text_is_refused_or_changes_what_may_change(judged: Judged, text: str) -> None:
    for diff in (text, "diff --git " + text, change("x") + text, change("x", new=text)):
        with contextlib.suppress(Permanent):
            asyncio.run(judged.tree(diff))
