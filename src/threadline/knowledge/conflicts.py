"""Finds passages that may contradict each other, by their amounts and denials. The model decides
whether they do.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from threadline.knowledge.model import Passage, Source

SAME_TOPIC = 0.3
"""Least share of the shorter sentence's words in the other one, for sentences about the same
thing.
"""
_MIN_SHARED = 2
"""Least number of words that both sentences share: one word alone says little."""
_MAX_SENTENCES = 60
"""Sentences of a passage that are compared. A passage is a few paragraphs long."""

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_WORD = re.compile(r"[a-zäöüß]+(?:'t)?")
_STEM = 5
"""First letters that identify a word in all its forms: refund, refunds, refunded."""
_ONES = (
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen"
)
_TENS = {
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}
_SPELLED = {word: str(number) for number, word in enumerate(_ONES.split("|"))} | {
    word: str(number) for word, number in _TENS.items()
}
_UNITS = {
    "money": "€|eur|euros?|\\$|usd|dollars?|£|gbp|pounds?",
    "share": "%|percent|per cent",
    "minutes": "min|mins|minutes?",
    "hours": "h|hrs?|hours?",
    "days": "days?",
    "weeks": "weeks?",
    "months": "months?",
    "years": "years?",
}
_DURATIONS = {
    "minutes": 1.0,
    "hours": 60.0,
    "days": 1440.0,
    "weeks": 10080.0,
    "months": 43200.0,
    "years": 525600.0,
}
"""Minutes of each unit. A month has thirty days."""
_THOUSANDS = re.compile(r"\d{1,3}(?:[,\s]\d{3})+(?:\.\d+)?")
_NUMBER = rf"(?<![\w.,])({_THOUSANDS.pattern}|\d+(?:[.,]\d+)?)"
_BETWEEN = r"(?:[\s-]+(?:working|business|calendar))?[\s-]*"
_AMOUNT = re.compile(rf"([€$£])?\s*{_NUMBER}(?:{_BETWEEN}({'|'.join(_UNITS.values())})(?![a-z]))?")
_NOT = re.compile(r"not|no|never|cannot|none|without|nobody|excluded|except|\w+n't")
_EMPTY = re.compile(
    r"the|and|for|are|was|with|you|your|our|this|that|from|has|have|will|can|may|per"
    r"|each|all|any|its"
)
"""Words without a topic. Words of up to two letters are ignored anyway."""


@dataclass(frozen=True)
class _Claim:
    """A sentence: the stems of its words, its amounts by kind, and whether it is a denial."""

    words: frozenset[str]
    amounts: dict[str, frozenset[float]]
    denies: bool


def find_conflicts(passages: Sequence[Passage | Source]) -> list[tuple[int, int]]:
    """Return pairs of passages, by their positions, from different documents that make different
    statements about one topic. They differ in amounts of one kind (prices, shares, durations, bare
    numbers), or one denies the other's statement.
    """
    claims = [list(_claims(each.text)) for each in passages]
    return [
        (one, other)
        for one, other in combinations(range(len(passages)), 2)
        if passages[one].source != passages[other].source
        and any(_clash(mine, theirs) for mine in claims[one] for theirs in claims[other])
    ]


def _claims(text: str) -> Iterator[_Claim]:
    for sentence in _SENTENCE.split(text.lower())[:_MAX_SENTENCES]:
        words = _WORD.findall(sentence.replace("’", "'"))
        denies = any(map(_NOT.fullmatch, words))
        topical = {
            word
            for word in words
            if len(word) > 2 and not _EMPTY.fullmatch(word) and not _NOT.fullmatch(word)
        }
        meant = frozenset(word[:_STEM] for word in topical - _SPELLED.keys())
        if len(meant) >= _MIN_SHARED:
            yield _Claim(meant, _amounts(sentence), denies)


def _clash(one: _Claim, other: _Claim) -> bool:
    shared = len(one.words & other.words)
    if shared < _MIN_SHARED or shared / min(len(one.words), len(other.words)) < SAME_TOPIC:
        return False
    if any(
        one.amounts[kind].isdisjoint(other.amounts[kind])
        for kind in one.amounts.keys() & other.amounts.keys()
    ):
        return True
    return one.denies != other.denies and 2 * shared >= min(len(one.words), len(other.words))


def _amounts(sentence: str) -> dict[str, frozenset[float]]:
    """Return a sentence's amounts by kind. Durations of all units are one kind."""
    spelled = re.sub(r"[a-z]+", lambda word: _SPELLED.get(word[0], word[0]), sentence)
    found: dict[str, set[float]] = {}
    for sign, digits, unit in _AMOUNT.findall(spelled):
        by_unit = (each for each, names in _UNITS.items() if unit and re.fullmatch(names, unit))
        kind = "money" if sign else next(by_unit, "number")
        # 4.90 and 4,90 are equal, and so are 1,200 and 1 200 and 1200.
        plain = (
            re.sub(r"[,\s]", "", digits)
            if _THOUSANDS.fullmatch(digits)
            else digits.replace(",", ".")
        )
        value = float(plain) * _DURATIONS.get(kind, 1.0)
        found.setdefault("duration" if kind in _DURATIONS else kind, set()).add(value)
    return {kind: frozenset(values) for kind, values in found.items()}
