"""Who may read what of a turn's result: the reporter what was written for them, developers everything.

A stored result is JSON of any age. What it says to the reporter stands in `for_reporter` alone (and in the question,
which is asked of them); every other field is internal.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

_RUN = 8
"""Words in a row that are taken for a copy; of a shorter internal text, all of it."""
_SHORTEST = 4
"""Words: shorter internal texts ("Cart", "see above") are in everybody's mouth."""
_PATH = re.compile(r"(?<![\w/:.@-])(?:\.{0,2}/)?(?:[\w-]+/)+[\w.-]*\w\.[a-z]{1,5}\b")
_FENCE = re.compile(r"```|~~~")


def told_to_reporter(result: Mapping[str, Any]) -> str:
    """What the reporter may read of a result.

    Returns:
        the text, stripped; empty when there is none (results had no such field once), or when it holds something
        internal: better to say less than to let it cross.
    """
    words = result.get("for_reporter")
    if not isinstance(words, str) or crossings(words, result):
        return ""
    return words.strip()


def crossings(words: str, result: Mapping[str, Any]) -> list[str]:
    """What of a result's internal content is in `words`, as phrases for a sentence; empty when nothing is."""
    found = ["a block of code"] if _FENCE.search(words) else []
    found += [f"the path {match[0]}" for match in _PATH.finditer(words)]
    lowered = words.lower()
    found += [f"the file {name}" for name in _files(result) if re.search(rf"(?<!\w){re.escape(name.lower())}", lowered)]
    said = f" {_plain(words)} "
    found += [f"“{copied}”" for text in _internal(result) if (copied := _copied(said, text))]
    return list(dict.fromkeys(found))


def _internal(result: Mapping[str, Any]) -> Iterator[str]:
    yield str(result.get("root_cause") or "")
    for item in _dicts(result.get("evidence")):
        yield str(item.get("note") or "")
    actions = result.get("recommended_actions")
    yield from (str(action) for action in actions) if isinstance(actions, list | tuple) else ()


def _files(result: Mapping[str, Any]) -> Iterator[str]:
    """The names under which the evidence's files could be told."""
    for item in _dicts(result.get("evidence")):
        path = str(item.get("file") or "").strip()
        name = path.rpartition("/")[2]
        if "." in name.strip("."):  # `Makefile` is a word of ours, too
            yield name


def _dicts(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def _copied(said: str, text: str) -> str:
    words = _plain(text).split()
    size = min(_RUN, len(words))
    if size < _SHORTEST:
        return ""
    runs = (" ".join(words[at : at + size]) for at in range(len(words) - size + 1))
    return next((run for run in runs if f" {run} " in said), "")


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", " ", text.lower()).split())
