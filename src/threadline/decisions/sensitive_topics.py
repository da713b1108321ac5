"""Words that make a question one for a person, perhaps: evidence for the model, which says what is meant by them."""

import re
from collections.abc import Sequence
from functools import lru_cache

TOPICS = {
    "refund": r"refund(?:s|ed|ing|able)?",
    "legal": r"legal(?:ly|ity|ities)?",
    "complaint": r"complain(?:t|ts|s|ed|ing)?",
    "sue": r"su(?:e|es|ed|ing)",
    "compensation": r"compensat(?:e|es|ed|ing|ion|ions)",
}
"""The design's, with their inflections."""
_LOOKED_AT = 50_000
"""Characters of a text."""


def words_in(text: str, more: Sequence[str] = ()) -> tuple[str, ...]:
    """The topics that a text names, in any case and inflection, standing alone: "issue" does not name "sue".

    Args:
        more: further words, each with the endings of English verbs and nouns.
    """
    looked_at = text[:_LOOKED_AT]
    return tuple(name for name, pattern in _patterns(tuple(more)) if pattern.search(looked_at))


@lru_cache(maxsize=8)
def _patterns(more: tuple[str, ...]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """One for each topic, since they overlap: "legal action" names "legal", too."""
    added = {each: _inflected(each) for each in more if each.strip() and each not in TOPICS}
    return tuple((name, _alone(inflected)) for name, inflected in (TOPICS | added).items())


def _alone(word: str) -> re.Pattern[str]:
    """An underscore is no part of a word, but Slack's mark of italics; a hyphen joins words."""
    return re.compile(rf"(?<![^\W_])(?:{word})(?![^\W_])", re.IGNORECASE)


def _inflected(words: str) -> str:
    """With its last word's regular endings: disputed, policies, cancelling."""
    spaced = r"\s+".join(re.escape(each) for each in words.split())
    if ending := re.search(r"(?<=\w)e$", spaced, re.IGNORECASE):
        return rf"{spaced[: ending.start()]}(?:e|es|e's|ed|e?ing)"
    if ending := re.search(r"(?<=[^\Waeiou])y$", spaced, re.IGNORECASE):
        return rf"{spaced[: ending.start()]}(?:y|y's|ies|ied|ying)"
    if ending := re.search(r"(?<=[aeiou])[bdfgklmnprtvz]$", spaced, re.IGNORECASE):
        return rf"{spaced}(?:s|es|'s|{ending[0]}?(?:ed|ing))?"
    return rf"{spaced}(?:s|es|'s|ed|ing)?"
