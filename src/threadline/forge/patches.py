"""What a diff that an agent wrote may touch: text files of the code, and nothing that runs before a person has looked.

Git itself takes much more: a diff may bring a symbolic link to `/etc/passwd` or a workflow that runs at push.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field

from threadline.errors import Permanent

REGULAR = ("100644", "100755")
_NONE = "000000"
_CI_FOLDERS = (
    r"\.(?:circleci|buildkite|woodpecker|drone|teamcity|semaphore|azuredevops|azure-pipelines|azure|forgejo|gitea|builds"
    r"|tekton|harness|expeditor|ci)"
)
_CI_FILES = (
    r"(?:.*[._-])?jenkinsfile(?:[._-].*)?|\.?azure-pipelines?.*\.ya?ml|bitbucket-pipelines.*\.ya?ml|\.?appveyor.*\.ya?ml"
    r"|\.(?:travis|drone|cirrus|woodpecker|build|semaphore|codefresh|scrutinizer)\.(?:ya?ml|star|jsonnet|json)"
    r"|circle\.ya?ml|cloudbuild.*\.(?:ya?ml|json)|buildspec.*\.ya?ml|wercker\.ya?ml|codeship-.*\.ya?ml|bitrise\.ya?ml"
    r"|codefresh\.ya?ml|codeowners|netlify\.toml|vercel\.json|render\.ya?ml|amplify\.ya?ml|earthfile|dangerfile.*"
)
_CI_FOLDER, _CI_FILE = re.compile(_CI_FOLDERS), re.compile(_CI_FILES)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPES = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@(?: .*)?")
_MODE = re.compile(r"(?:new file|deleted file) mode (\d+)|index [0-9a-f]+\.\.[0-9a-f]+(?: (\d+))?")
_PATH = re.compile(r"(?:rename|copy) (from|to) (.+)|(---|\+\+\+) (.+)")
_IGNORED = re.compile(r"(?:dis)?similarity index \d+%")


@dataclass(frozen=True)
class Limits:
    """The biggest fix that a person can be expected to review: files, lines added and removed, bytes of the diff."""

    files: int = 30
    lines: int = 1_500
    bytes: int = 200_000


DEFAULT = Limits()


@dataclass
class _Section:
    """What the headers of one file say."""

    line: str
    paths: dict[str, str] = field(default_factory=dict)


def check(diff: str, limits: Limits = DEFAULT) -> None:
    """Refuse a diff that is more than a small change of text files.

    Args:
        diff: as `git diff` writes it, with `a/` and `b/`; any line of another form is refused, since `git apply` might
            read it otherwise than this function does.
        limits: how big it may be.

    Raises:
        Permanent: with a sentence that names the path and what is wrong with it.
    """
    if not diff.strip():
        raise Permanent("the fix changes nothing: there is no pull request to open")
    if "\0" in diff or any("\ud800" <= character <= "\udfff" for character in diff):
        raise Permanent("the fix contains bytes that are not text: change text files in UTF-8 only")
    if (size := len(diff.encode())) > limits.bytes:
        raise Permanent(f"the fix is {size} bytes long, and the maximum is {limits.bytes}: ask for a smaller one")
    files, lines = _read(diff)
    if files > limits.files:
        raise Permanent(f"the fix changes {files} files, and the maximum is {limits.files}: ask for a smaller one")
    if lines > limits.lines:
        raise Permanent(f"the fix changes {lines} lines, and the maximum is {limits.lines}: ask for a smaller one")


def check_index(raw: str) -> None:
    """Hold what git made of a diff to the same rules.

    Args:
        raw: the output of `git diff-index --cached --raw -z --no-renames`.

    Raises:
        Permanent: with a sentence that names the path and what is wrong with it.
    """
    fields = raw.split("\0")[:-1]
    for info, path in zip(fields[::2], fields[1::2], strict=True):
        old, new = info.lstrip(":").split(" ")[:2]
        check_path(path)
        for mode in (old, new):
            if mode != _NONE:
                _check_mode(mode, path)
        if _NONE not in (old, new) and old != new:
            raise Permanent(f"the fix changes the mode of {path}: only the text of files may change")


def check_path(path: str) -> None:
    """Refuse a path out of the repository, one of git's own files, and whatever decides what CI runs.

    Raises:
        Permanent: with a sentence that names the path.
    """
    # Some file systems fold case, and drop what is invisible, so that `.G<U+200C>it` is `.git` there.
    visible = "".join(character for character in path if unicodedata.category(character) != "Cf")
    parts = visible.casefold().split("/")
    if any(part in ("", ".", "..") for part in parts) or re.search(r"[\x00-\x1f\x7f\\]", path):
        raise Permanent(f"the fix touches {path!r}, which is not a path inside the repository")
    if any(part.startswith(".git") or re.match(r"git~\d", part) for part in parts):
        raise Permanent(f"the fix touches {path}: only people may change files whose name begins with .git")
    if any(_CI_FOLDER.fullmatch(part) for part in parts) or _CI_FILE.fullmatch(parts[-1]):
        raise Permanent(f"the fix touches {path}: only people may change what CI runs")
    if any(part.startswith(".") for part in parts):
        raise Permanent(
            f"the fix touches {path}: only people may change hidden files, because they tell machines what to run"
        )


def _check_mode(mode: str, path: str) -> None:
    if mode in REGULAR:
        return
    kind = {"120000": "a symbolic link", "160000": "a submodule"}.get(mode, f"of mode {mode}")
    raise Permanent(f"the fix touches {path}, which is {kind}: only regular files may change")


def _read(diff: str) -> tuple[int, int]:
    """The number of files, and of lines added and removed."""
    files, changed = 0, 0
    section: _Section | None = None
    lines = iter(diff.removesuffix("\n").split("\n"))
    for line in lines:
        if line.startswith("diff --git "):
            _finish(section)
            section, files = _Section(line), files + 1
        elif section is None:
            raise Permanent(f"the fix begins with {line[:80]!r}: it must be a diff as git writes it")
        elif hunk := _HUNK.fullmatch(line):
            changed += _read_hunk(lines, *(int(count) if count else 1 for count in hunk.groups()))
        else:
            _read_header(section, line)
    _finish(section)
    return files, changed


def _read_header(section: _Section, line: str) -> None:
    name = section.line.rpartition(" b/")[2]
    if mode := _MODE.fullmatch(line):
        if given := mode[1] or mode[2]:
            _check_mode(given, name)
    elif path := _PATH.fullmatch(line):
        section.paths[path[1] or path[3]] = _unquote(path[2] or path[4].removesuffix("\t"))
    elif line.startswith(("old mode ", "new mode ")):
        raise Permanent(f"the fix changes the mode of {name}: only the text of files may change")
    elif line.startswith(("Binary files ", "GIT binary patch")):
        raise Permanent(f"the fix changes {name}, which is not UTF-8 text: change text files only")
    elif not _IGNORED.fullmatch(line) and line != r"\ No newline at end of file":
        raise Permanent(f"the fix has an invalid line in {name}: {line[:80]!r}")


def _read_hunk(lines: Iterator[str], old: int, new: int) -> int:
    """Take exactly the lines that the hunk's head announces, so that none of them is taken for a header."""
    changed = 0
    while old > 0 or new > 0:
        line = next(lines, "")
        sign = line[:1]
        if sign not in (" ", "+", "-", "\\"):
            raise Permanent("the fix is cut off or damaged inside a hunk: ask for it again")
        old, new = old - (sign in " -"), new - (sign in " +")
        changed += sign in "+-"
    return changed


def _finish(section: _Section | None) -> None:
    """Check every name a file is given; the first line is unambiguous only together with the others."""
    if section is None:
        return
    old, new = _names(section)
    for path in (old, new):
        check_path(path)
    given = {"---": f"a/{old}", "+++": f"b/{new}"}
    for mark, path in section.paths.items():
        if path != "/dev/null" and path != given.get(mark, old if mark == "from" else new):
            raise Permanent(f"the fix gives {new} two names: it must be a diff as git writes it")


def _names(section: _Section) -> tuple[str, str]:
    rest = section.line.removeprefix("diff --git ")
    for old, new in _splits(rest):
        renamed = section.paths.get("from", old[2:]), section.paths.get("to", new[2:])
        moved = "from" in section.paths or "to" in section.paths
        if (
            old.startswith("a/")
            and new.startswith("b/")
            and renamed == (old[2:], new[2:])
            and (moved or old[2:] == new[2:])
        ):
            return renamed
    raise Permanent(f"the fix has a file name that cannot be parsed: {rest[:120]!r}")


def _splits(rest: str) -> Iterator[tuple[str, str]]:
    """Every way to read two names out of the line: a space may be part of a name that has no quotes."""
    for space in (index for index, character in enumerate(rest) if character == " "):
        left, right = rest[:space], rest[space + 1 :]
        if all(_QUOTED.fullmatch(part) or not part.startswith('"') for part in (left, right)):
            yield _unquote(left), _unquote(right)


def _unquote(name: str) -> str:
    r"""Git quotes a name with unusual bytes as in C: `"caf\303\251"` is `café`."""
    quoted = _QUOTED.fullmatch(name)
    if not quoted:
        return name
    raw = _ESCAPE.sub(_byte, quoted[1].encode())
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise Permanent(f"the fix names a file {name}, which is not UTF-8: rename it first") from None


def _byte(match: re.Match[bytes]) -> bytes:
    escape = match[1]
    return bytes([int(escape, 8)]) if len(escape) == 3 else _ESCAPES.get(escape, escape)
