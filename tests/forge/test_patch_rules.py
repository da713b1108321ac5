"""A fix may touch a path depending on its name and on git's view of it before and after the
fix.
"""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forge.diffs import BLOB, change, rename
from threadline.errors import Permanent
from threadline.forge import patches
from threadline.forge.patches import check_diff, check_index, check_path, check_size, check_sources

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
HIDDEN = [
    ".env",
    "web/.npmrc",
    ".vscode/tasks.json",
    ".pre-commit-config.yaml",
    ".\u200chusky/pre-commit",
]
OUTSIDE = ["../x", "a/../../x", "/etc/passwd", "a//b", "a\\b", "./x", "a\nb"]


def record(path: str, old: str = "100644", new: str = "100644") -> bytes:
    """One file, as `git diff-index --raw -z` lists it."""
    return f":{old} {new} {BLOB} {BLOB} M\0{path}\0".encode()


@pytest.mark.parametrize("path", [*CI, *GITS, *HIDDEN, *OUTSIDE])
def test_forbidden_path_is_refused(path: str) -> None:
    with pytest.raises(Permanent, match="the fix touches"):
        check_path(path)
    for old, new in (("100644", "100644"), ("000000", "100644"), ("100644", "000000")):
        with pytest.raises(Permanent, match="the fix touches"):
            check_index(
                record("fine") + record(path, old, new) + f"1\t0\tfine\0001\t0\t{path}\0".encode()
            )


@pytest.mark.parametrize(
    "path",
    [
        "src/github/workflows.py",
        "docs/jenkinsfiles.md",
        "ci_helpers.py",
        "a b/c d.py",
        "caf\u00e9",
        ":0",
    ],
)
def test_other_path_is_accepted(path: str) -> None:
    check_path(path)
    check_index(record(path) + f"1\t0\t{path}\0".encode())


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        (b"", "changes nothing"),
        (record("link", "000000", "120000"), "symbolic link"),
        (record("link", "120000", "120000"), "symbolic link"),
        (record("lib", "160000", "000000"), "submodule"),
        (record("x", "100644", "100755"), "changes the mode"),
        (record("x", "100644", "120000"), "symbolic link"),
        (record("x", "000000", "100664"), "of mode 100664"),
        (record("x").replace(b"\0x", b"\0\xff"), "not UTF-8"),
        (record("logo.png") + b"-\t-\tlogo.png\0", r"logo\.png, which is not UTF-8 text"),
    ],
)
def test_other_than_a_regular_text_file_is_refused(listed: bytes, why: str) -> None:
    check_index(record("fine") + b"1\t1\tfine\0")
    with pytest.raises(Permanent, match=why):
        check_index(listed)


@pytest.mark.parametrize(
    ("diff", "why"),
    [
        (" \n", "changes nothing"),
        (change("x", new="a\0b"), "bytes that are not text"),
        (change("x", new="\udc80"), "bytes that are not text"),
        (
            change("a") + rename("my x", "y").replace("simil", "new mode 100755\nsimil"),
            "changes the mode of y: ",
        ),
        (
            (
                "diff --git a/my logo b/my logo\nindex 1..2 100644\nGIT binary patch\nliteral "
                "1\nIcmZPo\n"
            ),
            "changes my logo, which is not UTF-8 text",
        ),
    ],
)
def test_diff_that_git_should_not_read_is_refused(diff: str, why: str) -> None:
    with pytest.raises(Permanent, match=why):
        check_diff(diff)


@pytest.mark.parametrize("words", ["GIT binary patch", "new mode 100755"])
def test_text_that_mentions_binary_patches_or_modes_is_accepted(words: str) -> None:
    check_diff(change("x", old=words, new=words))


@pytest.mark.parametrize("path", [*CI, *GITS, *HIDDEN, *OUTSIDE])
def test_copy_of_a_forbidden_path_is_refused(path: str) -> None:
    check_sources(b"1\t1\tx\0" + b"0\t0\ta b\0")
    with pytest.raises(Permanent, match="the fix touches"):
        check_sources(f"1\t1\tx\0000\t0\t{path}\0".encode())


@pytest.mark.parametrize(
    ("limit", "most", "why"), [("MAX_FILES", 2, "2 files"), ("MAX_LINES", 4, "4 lines")]
)
def test_fix_too_big_to_review_is_refused(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int, why: str
) -> None:
    both = b"1\t1\ta\0" + b"2\t0\tb\0"
    monkeypatch.setattr(patches, limit, most)
    check_size(both)
    monkeypatch.setattr(patches, limit, most - 1)
    with pytest.raises(Permanent, match=why):
        check_size(both)
    with pytest.raises(Permanent, match=why):
        check_index(record("a") + record("b") + both)


def test_fix_of_too_many_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    accented = change("a", new="\u00e9" * 10)
    monkeypatch.setattr(patches, "MAX_BYTES", len(accented.encode()))
    check_diff(accented)
    monkeypatch.setattr(patches, "MAX_BYTES", len(accented))
    with pytest.raises(Permanent, match="bytes long"):
        check_diff(accented)


@given(st.text())
def test_any_text_is_judged_without_another_error(text: str) -> None:
    for diff in (text, "GIT binary patch\n" + text, change("x") + text):
        with contextlib.suppress(Permanent):
            check_diff(diff)
    with contextlib.suppress(Permanent):
        check_path(text)
