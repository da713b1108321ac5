"""Rules for the changes of a fix: only text files of the code, and nothing that runs before a
person has reviewed it.

Each check raises `Permanent` with a sentence on the fault, which names the path where there is
one.

Git accepts much more: a diff may add a symbolic link to `/etc/passwd`, or a workflow that runs at
the push. Only git reads the diff, and these rules judge git's result, since another parser might
read a diff differently.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import NoReturn

from threadline.errors import Permanent

REGULAR = ("100644", "100755")
_NONE = "000000"
_CI_FOLDERS = (
    r"\.(?:circleci|buildkite|woodpecker|drone|teamcity|semaphore|azuredevops|azure-pipelines"
    r"|azure|forgejo|gitea|builds"
    r"|tekton|harness|expeditor|ci)"
)
_CI_FILES = (
    r"(?:.*[._-])?jenkinsfile(?:[._-].*)?|\.?azure-pipelines?.*\.ya?ml"
    r"|bitbucket-pipelines.*\.ya?ml|\.?appveyor.*\.ya?ml"
    r"|\.(?:travis|drone|cirrus|woodpecker|build|semaphore|codefresh|scrutinizer)"
    r"\.(?:ya?ml|star|jsonnet|json)"
    r"|circle\.ya?ml|cloudbuild.*\.(?:ya?ml|json)|buildspec.*\.ya?ml|wercker\.ya?ml"
    r"|codeship-.*\.ya?ml|bitrise\.ya?ml"
    r"|codefresh\.ya?ml|codeowners|netlify\.toml|vercel\.json|render\.ya?ml|amplify\.ya?ml"
    r"|earthfile|dangerfile.*"
)
_CI_FOLDER = re.compile(_CI_FOLDERS)
_CI_FILE = re.compile(_CI_FILES)
# Outside of hunks only git writes such lines: a line inside a hunk begins with a space, `+`, `-`
# or a backslash.
_BINARY = re.compile(r"^GIT binary patch$", re.MULTILINE)
_MODE = re.compile(r"^(?:old|new) mode ", re.MULTILINE)

MAX_FILES = 30
MAX_LINES = 1_500
MAX_BYTES = 200_000
"""The largest fix that a person can be expected to review: files, lines added and removed, bytes
of the diff.
"""


def check_diff(diff: str) -> None:
    """Refuse a diff that git should not even read: an empty one, one that is too big, one with
    binary data, and one that changes a mode.

    Binary data is compressed, and git inflates it to any size while it reads the diff. The index
    does not show a mode that changes with a rename, as the file is new there.
    """
    if not diff.strip():
        raise Permanent("the fix changes nothing: there is no pull request to open")
    if "\0" in diff or any("\ud800" <= character <= "\udfff" for character in diff):
        raise Permanent(
            "the fix contains bytes that are not text: change text files in UTF-8 only"
        )
    if (size := len(diff.encode())) > MAX_BYTES:
        raise Permanent(
            f"the fix is {size} bytes long, and the maximum is {MAX_BYTES}: ask for a smaller one"
        )
    if binary := _BINARY.search(diff):
        _refuse_binary(_named_before(diff, binary.start()))
    if mode := _MODE.search(diff):
        _refuse_mode(_named_before(diff, mode.start()))


def check_size(numstat: bytes) -> None:
    """Refuse a diff with binary files, too many files or too many lines, before git reads a file
    of the repository: a copy of a big file takes one short line of a diff, and git holds all
    results in memory.

    Args:
        numstat: the output of `git apply --numstat -z`.
    """
    _check_size(numstat.split(b"\0")[:-1])


def check_index(listed: bytes) -> None:
    """Refuse any change beyond a small one of regular text files.

    Args:
        listed: the output of `git diff-index --cached --raw --numstat -z --no-renames`: for each
            file its modes and its path, then for each file its numbers of lines. A rename is a
            deleted file and a new one.
    """
    fields = listed.split(b"\0")[:-1]
    if not fields:
        raise Permanent("the fix changes nothing: there is no pull request to open")
    files = sum(field.startswith(b":") for field in fields[::2])
    for info, name in zip(fields[: 2 * files : 2], fields[1 : 2 * files : 2], strict=True):
        path = _path(name)
        check_path(path)
        old, new = info.decode().lstrip(":").split(" ")[:2]
        for mode in {old, new} - {_NONE, *REGULAR}:
            kind = {"120000": "a symbolic link", "160000": "a submodule"}.get(
                mode, f"of mode {mode}"
            )
            raise Permanent(
                f"the fix touches {path}, which is {kind}: only regular files may change"
            )
        if _NONE not in (old, new) and old != new:
            _refuse_mode(path)
    _check_size(fields[2 * files :])


def check_sources(numstat: bytes) -> None:
    """Refuse a copy of a file that only people may change. The index only shows the new file.

    Args:
        numstat: the output of `git apply --reverse --numstat -z`, which names each file as it was
            before the fix.
    """
    for record in numstat.split(b"\0")[:-1]:
        check_path(_path(record.split(b"\t", 2)[2]))


def check_path(path: str) -> None:
    """Refuse a path outside of the repository, one of git's own files, and files that determine
    what CI runs.
    """
    # Some file systems fold case, and drop invisible characters, so that they read `.G<U+200C>it`
    # as `.git`.
    visible = "".join(character for character in path if unicodedata.category(character) != "Cf")
    parts = visible.casefold().split("/")
    if any(part in ("", ".", "..") for part in parts) or re.search(r"[\x00-\x1f\x7f\\]", path):
        raise Permanent(f"the fix touches {path!r}, which is not a path inside the repository")
    if any(part.startswith(".git") or re.match(r"git~\d", part) for part in parts):
        raise Permanent(
            f"the fix touches {path}: only people may change files whose name begins with .git"
        )
    if any(_CI_FOLDER.fullmatch(part) for part in parts) or _CI_FILE.fullmatch(parts[-1]):
        raise Permanent(f"the fix touches {path}: only people may change what CI runs")
    if any(part.startswith(".") for part in parts):
        raise Permanent(
            f"the fix touches {path}: only people may change hidden files, because they tell "
            "machines what to run"
        )


def _path(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise Permanent(
            f"the fix touches {name!r}, whose name is not UTF-8: rename it first"
        ) from None


def _named_before(diff: str, position: int) -> str:
    """Return the name in the last header before a position, for a message."""
    return diff[:position].rpartition("diff --git ")[2].partition("\n")[0].rpartition(" b/")[2]


def _check_size(records: Iterable[bytes]) -> None:
    files = lines = 0
    for record in records:
        added, removed, path = record.split(b"\t", 2)
        if added == b"-":
            _refuse_binary(path.decode("utf-8", "replace"))
        files = files + 1
        lines = lines + int(added) + int(removed)
    if files > MAX_FILES:
        raise Permanent(
            f"the fix changes {files} files, and the maximum is {MAX_FILES}: ask for a smaller one"
        )
    if lines > MAX_LINES:
        raise Permanent(
            f"the fix changes {lines} lines, and the maximum is {MAX_LINES}: ask for a smaller one"
        )


def _refuse_binary(path: str) -> NoReturn:
    raise Permanent(f"the fix changes {path}, which is not UTF-8 text: change text files only")


def _refuse_mode(path: str) -> NoReturn:
    raise Permanent(f"the fix changes the mode of {path}: only the text of files may change")
