"""From people's words to the files that hold them: what to search for, and how to read what Grep and Read return."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

SOURCES = "*.{py,js,jsx,ts,tsx,java,kt,go,rs,rb,php,cs,c,cc,cpp,h,swift,scala,sql}"
MAX_WORDS = 20
"""Words in one search; a long report is told by its first ones."""

_WORD = re.compile(r"[a-z][a-z0-9_]{2,}")
_HIT = re.compile(r"^(?P<path>[^:\n]+):(?P<line>\d+):(?P<text>.*)$", re.MULTILINE)
_NUMBERED = re.compile(r"^\s*\d+[\t→](?P<text>.*)$", re.MULTILINE)
_BESIDE_THE_POINT = frozenset({"test", "tests", "attachments", "docs", "node_modules"})
_EMPTY_WORDS = """
about after again against all also always and another any anything app are back bad because been before being broke
broken bug but can cannot case could did does doesn doing done down error even ever every everything fails fault
fine fix for found from gets getting give gives goes going good got had has have hello help her here his hour how
into isn issue its just know like look looks made make many maybe mine more most much must need needs never new none
not nothing now off one only open other our out please possible problem pull really reporter request said same says
see seem seems sent she should show shows since some somebody someone something somewhere soon still such sure take
tell than thank thanks that the their them then there these they thing things think this time today told too try
trying two use used user using very want was way week well went were what when where which who why will with without
won work working works would wrong yes yesterday yet you your
"""
_EMPTY = frozenset(_EMPTY_WORDS.split())


def content_words(texts: Iterable[str]) -> list[str]:
    """Words that may be found in code, in the order in which they were said, without plural endings."""
    said = (word.rstrip("_") for text in texts for word in _WORD.findall(text.lower()))
    words = dict.fromkeys(_singular(word) for word in said if word not in _EMPTY)
    return list(words)[:MAX_WORDS]


def pattern(words: Iterable[str]) -> str:
    """A regular expression for any of the words at the beginning of a name or a part of it."""
    return rf"(\b|_)({'|'.join(words)})"


def ranked(grep_output: str, words: Iterable[str]) -> list[str]:
    """Paths of source files in Grep's `content` output, the one with the most different words first.

    A word in the file's own name counts three times: it is what the file is about.
    """
    found: dict[str, set[str]] = {}
    words = list(words)
    for hit in _HIT.finditer(grep_output):
        path = hit["path"].removeprefix("./")
        if not _BESIDE_THE_POINT & set(PurePosixPath(path).parts):
            found.setdefault(path, set()).update(word for word in words if word in hit["text"].lower())

    def weight(path: str) -> tuple[int, str]:
        stem = PurePosixPath(path).stem.lower()
        return -len(found[path]) - 2 * sum(word in stem for word in words), path

    return sorted(found, key=weight)


def first_hit(grep_output: str, path: str) -> int:
    """The line of the first hit in a file; 1 when there is none."""
    return next((int(hit["line"]) for hit in _HIT.finditer(grep_output) if hit["path"].endswith(path)), 1)


def source(read_output: str) -> str:
    """The file's own text out of what Read returned, which numbers each line."""
    return "\n".join(line["text"] for line in _NUMBERED.finditer(read_output))


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
