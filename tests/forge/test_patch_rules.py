"""What a fix may touch, and each known way around the rules, as a diff that git would apply."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.errors import Permanent
from threadline.forge.patches import Limits, check, check_index, check_path

BLOB = "1" * 40


def change(path: str, *, mode: str = "100644", old: str = "a", new: str = "b") -> str:
    head = f"diff --git a/{path} b/{path}\nindex {BLOB}..{BLOB} {mode}\n--- a/{path}\n+++ b/{path}\n"
    return f"{head}@@ -1 +1 @@\n-{old}\n+{new}\n"


def addition(path: str, *, mode: str = "100644") -> str:
    head = f"diff --git a/{path} b/{path}\nnew file mode {mode}\nindex {'0' * 40}..{BLOB}\n"
    return f"{head}--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"


def deletion(path: str, *, mode: str = "100644") -> str:
    head = f"diff --git a/{path} b/{path}\ndeleted file mode {mode}\nindex {BLOB}..{'0' * 40}\n"
    return f"{head}--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"


def rename(old: str, new: str) -> str:
    return f"diff --git a/{old} b/{new}\nsimilarity index 100%\nrename from {old}\nrename to {new}\n"


@pytest.mark.parametrize(
    "diff",
    [
        change("src/cart.py"),
        change("run.sh", mode="100755"),
        addition("a b/c d.py"),
        addition("x b/x b/x"),
        addition("empty").split("--- ")[0],
        deletion("src/cart.py"),
        rename("src/cart.py", "src/basket.py"),
        rename("a b", "b a"),
        rename("a", "b").replace("rename", "copy"),
        'diff --git "a/caf\\303\\251" "b/caf\\303\\251"\nindex 1..2 100644\n--- "a/caf\\303\\251"\n'
        '+++ "b/caf\\303\\251"\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n',
        change("src/cart.py", new="diff --git a/.github/x b/.github/x"),
        change("src/cart.py", old="- a/x", new="++ b/.gitmodules"),
        change("a", new="line\rwith\x0cfeeds\u2028"),
        change("src/github/workflows.py") + change("docs/jenkinsfiles.md") + change("ci_helpers.py"),
    ],
)
def test_change_of_regular_text_files_is_accepted(diff: str) -> None:
    check(diff)


CI = [
    ".github/workflows/x.yml",
    ".GitHub/workflows/x.yml",
    "sub/.github/actions/a/action.yml",
    ".gitlab-ci.yml",
    ".circleci/config.yml",
    "Jenkinsfile",
    "ci/Jenkinsfile.release",
    "azure-pipelines.yml",
    "azure-pipelines-nightly.yaml",
    ".buildkite/pipeline.yml",
    "bitbucket-pipelines.yml",
    ".travis.yml",
    ".drone.yml",
    "appveyor.yml",
    ".cirrus.star",
    ".woodpecker/x.yml",
    "cloudbuild.yaml",
    "buildspec.yml",
    "CODEOWNERS",
    "Jenk\u200cinsfile",
    "CODE\u200cOWNERS",
]
GITS = [
    ".gitattributes",
    ".gitmodules",
    ".git/config",
    "a/.git",
    "a/.GIT/hooks/x",
    ".gitignore",
    "a/git~1/x",
    ".g\u200cit/x",
]
OUTSIDE = ["../x", "a/../../x", "/etc/passwd", "a//b", "a\\b", "./x"]


@pytest.mark.parametrize("path", [*CI, *GITS, *OUTSIDE])
def test_forbidden_path_is_refused_however_it_is_touched(path: str) -> None:
    for diff in (change(path), addition(path), deletion(path), rename(path, "x"), rename("x", path)):
        with pytest.raises(Permanent, match="the fix touches"):
            check(change("fine") + diff)
    with pytest.raises(Permanent, match="the fix touches"):
        check_path(path)


@pytest.mark.parametrize(
    ("diff", "why"),
    [
        (addition("link", mode="120000"), "symbolic link"),
        (change("link", mode="120000"), "symbolic link"),
        (deletion("link", mode="120000"), "symbolic link"),
        (addition("lib", mode="160000"), "submodule"),
        (addition("x", mode="104755"), "mode 104755"),
        ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", "changes the mode"),
        ("diff --git a/x b/x\nindex 1..2 100644\nBinary files a/x and b/x differ\n", "not UTF-8 text"),
        ("diff --git a/x b/x\nindex 1..2 100644\nGIT binary patch\nliteral 1\nIcmZPo\n", "not UTF-8 text"),
        (change("x", new="a\0b"), "bytes that are not text"),
        (change("x", new="\udc80"), "bytes that are not text"),
        (" \n", "changes nothing"),
        ("--- a/x\n+++ b/.github/x\n@@ -1 +1 @@\n-a\n+b\n", "as git writes it"),
        (change("x") + "--- a/.github/x\n+++ b/.github/x\n@@ -1 +1 @@\n-a\n+b\n", "two names"),
        (change("x").replace("+++ b/x", "+++ b/.github/x"), "two names"),
        (change("x").replace("--- a/x", "--- a/.github/x"), "two names"),
        (rename("a", "b").replace("rename to b", "rename to .github/b"), "cannot be parsed"),
        ("diff --git a/x b/.github/x\nindex 1..2 100644\n", "cannot be parsed"),
        ("diff --git x x\nindex 1..2\n", "cannot be parsed"),
        (change("x") + "From 1234 Mon Sep 17\n", "an invalid line"),
        ("hello\n" + change("x"), "as git writes it"),
        (change("x").replace("-a\n", ""), "cut off"),
        (change("x").removesuffix("+b\n"), "cut off"),
        ('diff --git "a/.git\\150ub/x" "b/.git\\150ub/x"\nindex 1..2 100644\n', "begins with .git"),
        ('diff --git "a/\\056\\056/x" "b/\\056\\056/x"\nindex 1..2 100644\n', "inside the repository"),
        ('diff --git "a/a\\nb" "b/a\\nb"\nindex 1..2 100644\n', "inside the repository"),
        ('diff --git "a/\\377" "b/\\377"\nindex 1..2 100644\n', "not UTF-8"),
    ],
)
def test_other_than_a_plain_change_of_text_is_refused(diff: str, why: str) -> None:
    with pytest.raises(Permanent, match=why):
        check(diff)


def test_fix_too_big_to_review_is_refused() -> None:
    check(change("a") + change("b"), Limits(files=2, lines=4, bytes=10_000))
    for limits, why in (
        (Limits(files=1), "2 files"),
        (Limits(lines=3), "4 lines"),
        (Limits(bytes=100), "bytes long"),
    ):
        with pytest.raises(Permanent, match=why):
            check(change("a") + change("b"), limits)
    accented = change("a", new="é" * 10)
    with pytest.raises(Permanent, match="bytes long"):
        check(accented, Limits(bytes=len(accented)))


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (f":000000 120000 {BLOB} {BLOB} A\0link\0", "symbolic link"),
        (f":160000 000000 {BLOB} {BLOB} D\0lib\0", "submodule"),
        (f":100644 100755 {BLOB} {BLOB} M\0x\0", "changes the mode"),
        (f":100644 120000 {BLOB} {BLOB} T\0x\0", "symbolic link"),
        (f":100644 100644 {BLOB} {BLOB} M\0x\0:000000 100644 {BLOB} {BLOB} A\0.github/x.yml\0", "begins with .git"),
    ],
)
def test_index_is_held_to_the_same_rules(raw: str, why: str) -> None:
    check_index(f":100644 100644 {BLOB} {BLOB} M\0fine\0")
    with pytest.raises(Permanent, match=why):
        check_index(raw)


@given(st.text())
def test_any_text_is_judged_without_another_error(text: str) -> None:
    for diff in (text, "diff --git " + text, change("x") + text, change("x", new=text)):
        with contextlib.suppress(Permanent):
            check(diff)
