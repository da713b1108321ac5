"""The audiences of a turn's result: the reporter reads the text written for them, developers read
everything.

A result is the JSON of an `Outcome`. Its text for the reporter is in `for_reporter` and the
question; every other field is internal. The reporter's own messages and attachments are no secret
from them.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

_RUN = 8
"""Consecutive words that count as a copy; a shorter internal text counts as a whole."""
_SHORTEST = 4
"""Words: shorter internal texts ("Cart", "see above") are common phrases."""

_CODE = (
    "py|pyi|rb|go|java|kt|scala|groovy|php|js|jsx|mjs|ts|tsx|vue|svelte|cpp|hpp|cs|swift"
    "|ex|exs|erl|clj|hs|sql|gradle"
)
"""Suffixes of code files; users' exports and pages (`.csv`, `.html`) are not internal."""
_CODE_IN_A_FOLDER = rf"{_CODE}|c|h|cc|rs|sh|pl|tf|proto|ya?ml|toml|ini|cfg|conf|lock"
"""Suffixes that need a folder: alone they would take `shop.rs`, which may be a site, for a file.
"""
_BUILD = r"Makefile|Dockerfile|Jenkinsfile|Rakefile|Gemfile|Procfile"
_PATH = re.compile(
    rf"(?<![\w/:.@-])(?:[a-z]:)?(?:\.{{0,2}}/)?(?:(?:[\w.-]+/)*[\w-][\w.-]*\.(?:{_CODE})\b"
    rf"|(?:[\w.-]+/)+(?:[\w-][\w.-]*\.(?:{_CODE_IN_A_FOLDER})|{_BUILD})\b"
    r"|(?:[\w.-]+/)*(?:src|node_modules)/[\w./-]*\w)",
    re.IGNORECASE,
)
_PRODUCT = re.compile(r"[A-Z][a-z]+\.js")
"""Products such as `Node.js`."""
_LINE = re.compile(r"(?:[:#]L?\d+(?:[-:]L?\d+)*|,? lines? \d+.*)$", re.IGNORECASE)
_FENCE = re.compile(r"```|~~~|(?:\A|\n[ \t]*\n)(?: {4}|\t)[ \t]*\S")
_TICKED = re.compile(r"`+([^`\n]+)`+")
_NAMED = re.compile(r"[\d_./:\\-]|[a-z][A-Z]")
"""The mark of a component's name that is no everyday word: `tax-service`, not `cart`."""

_ADDRESS = re.compile(
    r"\b(?:https?|ssh|git)://[^\s<>|)\]]+|\bgit@[^\s<>|)\]]+"
    r"|(?<![\w./@-])(?:github|gitlab|bitbucket)\.\w+/[^\s<>|)\]]+"
    r"|(?<![\w./@-])(?:[\w-]+\.)+(?:internal|intranet|corp|lan)\b[^\s<>|)\]]*",
    re.IGNORECASE,
)
_CODE_HOSTS = frozenset({"github", "gitlab", "bitbucket", "gitea", "git", "codeberg"})
_OF_CODE = re.compile(r"/(?:pull|pull-requests|merge_requests|commit|blob)/\w")
_INSIDE = (".internal", ".intranet", ".corp", ".lan", ".local", ".localhost")


def reporter_text(result: Mapping[str, Any], said: str = "") -> str:
    """Return the text of a result that the reporter may read.

    Empty when there is none, or when it contains something internal: a short answer is better than
    a leak.

    Args:
        result: The JSON of an `Outcome`.
        said: The reporter's messages, and the names of their attachments.
    """
    words = result.get("for_reporter")
    if not isinstance(words, str) or find_internal_content(words, result, said):
        return ""
    return words.strip()


def find_internal_content(words: str, result: Mapping[str, Any], said: str = "") -> list[str]:
    """Return the internal content of a result that `words` contains, as phrases for a sentence.

    Content that the reporter has `said` themselves is allowed.
    """
    known = said.replace("\\", "/").lower()
    found = ["a block of code"] if _FENCE.search(words) else []
    named = [(kind, name) for kind, name in _names(words, result) if not _is_named_in(name, known)]
    paths = {name.lower() for kind, name in named if kind == "the path"}
    found += [
        f"{kind} {name}" for kind, name in named if kind != "the file" or name.lower() not in paths
    ]
    plain = f" {_plain(words)} "
    known = f" {_plain(said)} "
    found += [
        f"“{copied}”" for text in _internal(result) if (copied := _copied(plain, text, known))
    ]
    return list(dict.fromkeys(found))


def _names(words: str, result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of each name in `words` that looks internal."""
    for match in _ADDRESS.finditer(words):
        if _is_internal(match[0].rstrip(".,;:!?'\"")):
            yield "the address", match[0].rstrip(".,;:!?'\"")
    rest = _ADDRESS.sub(" ", words).replace("\\", "/")
    yield from (
        ("the code", match[1].strip()) for match in _TICKED.finditer(rest) if match[1].strip()
    )
    yield from (
        ("the path", match[0])
        for match in _PATH.finditer(rest)
        if not _PRODUCT.fullmatch(match[0])
    )
    lowered = rest.lower()
    yield from (("the file", name) for name in _files(result) if _is_named_in(name, lowered))
    components = [str(each) for each in _list(result.get("affected_components"))]
    yield from (
        ("the component", name)
        for name in components
        if _NAMED.search(name) and _is_named_in(name, lowered)
    )


def _is_internal(address: str) -> bool:
    """Return whether an address belongs to the code, or is unreachable from outside."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host = parts.hostname or ""
    except ValueError:
        return True
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        named = (
            "." not in host or host.endswith(_INSIDE) or bool(_CODE_HOSTS & set(host.split(".")))
        )
        return named or bool(_OF_CODE.search(parts.path))


def _internal(result: Mapping[str, Any]) -> Iterator[str]:
    yield from (
        str(result.get(name) or "") for name in ("title", "reply", "summary", "root_cause")
    )
    for item in _list(result.get("evidence")):
        yield str(item.get("note") or "") if isinstance(item, Mapping) else ""
    for name in ("recommended_actions", "affected_components"):
        yield from (str(each) for each in _list(result.get(name)))


def _files(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names by which a text could mention the evidence's files.

    People's own attachments are not internal.
    """
    for item in _list(result.get("evidence")):
        told = str(item.get("file") or "") if isinstance(item, Mapping) else ""
        folder, _, name = (
            _LINE.sub("", told.strip().replace("\\", "/"))
            .strip()
            .removeprefix("./")
            .rpartition("/")
        )
        if "attachments" in folder.split("/"):
            continue
        if "." in name.strip("."):  # `Makefile` alone is an ordinary word
            yield name
        elif folder and name:
            yield f"{folder.rpartition('/')[2]}/{name}"


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _is_named_in(name: str, lowered: str) -> bool:
    return bool(re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", lowered))


def _copied(words: str, text: str, known: str) -> str:
    parts = _plain(text).split()
    size = min(_RUN, len(parts))
    if size < _SHORTEST:
        return ""
    runs = (" ".join(parts[at : at + size]) for at in range(len(parts) - size + 1))
    return next((run for run in runs if f" {run} " in words and f" {run} " not in known), "")


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", " ", text.lower()).split())
