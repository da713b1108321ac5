"""From a person's words to tools: which of those on offer they ask for, in which order, and for how many things."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

_VERBS = {
    "read": "get show list see what which who open display tell give find search look fetch read describe recent",
    "create": "create add make write new",
    "update": "update change set edit refresh recalculate adjust raise lower",
    "book": "book schedule reserve",
    "move": "move reschedule postpone",
    "cancel": "cancel delete remove drop",
    "comment": "comment note",
    "transition": "transition close reopen resolve",
    "rerun": "rerun retry restart re-run",
}
_VERB = {word: verb for verb, words in _VERBS.items() for word in words.split()}
_NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_EMPTY_WORDS = """
a all an and any are at by can could do does for from in is it its me my now of on or our please that the their them
then these they this those to us with would you your
"""
_EMPTY = frozenset(_EMPTY_WORDS.split())
_STEP = re.compile(r"(?i)\b(?:and )?then\b|\bafter that\b|[;!?\n]|\.(?=\s|$)")
_PART = re.compile(r"(?i),|\band\b")
_WORD = re.compile(r"[a-z][a-z-]*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_UNITS = r"%|€|\$|o'clock|percent|euros?|dollars?|hours?|days?"
_COUNT = re.compile(rf"(?i)(?<![\w.:-])(\d{{1,2}}|{'|'.join(_NUMBERS)})(?![\w:-]|\.\d)(?! ?(?:{_UNITS}))")

MOST = 20
"""Things that one call makes, however many are asked for: a script that runs away is no use to a test."""


@dataclass(frozen=True)
class Planned:
    """A tool, and the words that ask for it."""

    tool: str
    words: str

    @property
    def reads(self) -> bool:
        return _verb(_name_words(self.tool)) == "read"

    @property
    def changes(self) -> bool:
        """Whether the name says so; one without a verb may do anything."""
        return _verb(_name_words(self.tool)) not in ("", "read")

    @property
    def thing(self) -> str:
        """What the tool is about, one of them: `estimates_createWbsItems` makes a "wbs item"."""
        return _stem(" ".join(spoken(self.tool).split()[1:]) or spoken(self.tool))

    @property
    def count(self) -> int:
        """For how many things the words ask; 0 when they name no number."""
        found = _COUNT.search(self.words)
        if not found:
            return 0
        said = found[1].lower()
        return min(MOST, _NUMBERS.index(said) + 1 if said in _NUMBERS else int(said))


def plan(text: str, tools: Mapping[str, str]) -> list[list[Planned]]:
    """The steps that `text` asks for; the calls of one step only read, and may be made together.

    Args:
        text: a person's words.
        tools: name → description, in the order in which they are on offer; of equal matches the first counts.
    """
    steps: list[list[Planned]] = []
    verb = ""
    for sentence in _STEP.split(text):
        together: list[Planned] = []
        for part in _PART.split(sentence):
            said = _words(part)
            verb = _verb(said) or verb
            tool = _best(said, verb, tools)
            if tool and not any(each.tool == tool for each in together):
                together.append(Planned(tool, part.strip()))
        reading = [each for each in together if each.reads]
        steps += [reading] if len(reading) == len(together) and reading else [[each] for each in together]
    return steps


def spoken(tool: str) -> str:
    """A tool's name as people would say it: `estimates_listWbsItems` is "list wbs items"."""
    return " ".join(_CAMEL.sub(" ", re.split(r"__|\.|_", tool)[-1]).lower().split())


def _best(said: Sequence[str], verb: str, tools: Mapping[str, str]) -> str:
    scored = [(_score(said, verb or "read", name, about), name) for name, about in tools.items()]
    best = max(scored, key=lambda each: each[0], default=(0, ""))
    return best[1] if best[0] >= 3 else ""


def _score(said: Sequence[str], verb: str, tool: str, about: str) -> int:
    name = _name_words(tool)
    does = _verb(name)
    if does and does != verb:
        return 0
    asked = set(said) - _VERB.keys()
    if not asked:
        return 0
    same = does == verb, bool(set(said) & set(name) & _VERB.keys())
    return 3 * len(asked & set(name)) + len(asked & set(_words(about))) + sum(same)


def _name_words(tool: str) -> list[str]:
    return _words(_CAMEL.sub(" ", tool).replace("_", " ").replace(".", " "))


def _words(text: str) -> list[str]:
    return [_stem(word) for word in _WORD.findall(text.lower()) if word not in _EMPTY]


def _stem(word: str) -> str:
    kept = word in _VERB or len(word) <= 3 or word.endswith(("ss", "us", "is"))
    return word if kept else word.removesuffix("s")


def _verb(words: Iterable[str]) -> str:
    return next(filter(None, map(partial(_VERB.get), words)), "") or ""
