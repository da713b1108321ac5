"""What a rule for secrets is: where to look, what to take out, and the mark that stays in its place."""

import re
from collections.abc import Callable
from dataclasses import dataclass

MARK = "[redacted: "
BEGIN = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})|(?<=\[\dm)|(?<=\[\d\dm))"
"""Where a word begins; also behind what ends in a letter or digit and is none: an escaped line break or character, and
a terminal's colour."""


def anything(_: str) -> bool:
    return True


def is_mixed(text: str) -> bool:
    """Whether it has letters and digits, as nearly every key and few words have."""
    return any(each.isdigit() for each in text) and any(each.isalpha() for each in text)


def is_random(text: str) -> bool:
    """Whether it has capitals, small letters and digits: then it is no word, and no hash in hexadecimal."""
    return is_mixed(text) and text != text.lower() and text != text.upper()


def _lowered(text: str) -> str:
    """In small letters and of the same length, which `lower` does not promise: İ becomes two characters."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text.translate(_SMALL)


_SMALL = {ord(each): each.lower() for each in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}


@dataclass(frozen=True)
class Rule:
    """One kind of secret.

    `kind` is what the mark names. `pattern` takes time in proportion to the text, whatever the text is. `hints` are
    texts without which the pattern cannot match, looked for first because that costs next to nothing; when the rule
    `folds`, they are in lower case. `group` is the part that is secret, without what `lead` matches at its start and
    the characters of `trail` at its end; `accepts` refuses what only looks like a secret. With an `anchor`, a pattern
    for text in lower case, the rule is tried only where the anchor matches: a search for names in capitals and small
    letters alike would be tried at each character.
    """

    kind: str
    pattern: re.Pattern[str]
    hints: tuple[str, ...]
    group: int = 0
    accepts: Callable[[str], bool] = anything
    folds: bool = False
    lead: re.Pattern[str] | None = None
    trail: str = ""
    anchor: re.Pattern[str] | None = None

    def apply(self, text: str) -> str:
        """The text with a mark in place of each secret of this kind."""
        if self.anchor is None:
            return self.pattern.sub(self._replacement, text)
        pieces, done = [], 0
        for at in self.anchor.finditer(_lowered(text)):
            if at.start() >= done and (match := self.pattern.match(text, at.start())):
                pieces += [text[done : match.start()], self._replacement(match)]
                done = match.end()
        return "".join((*pieces, text[done:]))

    def _replacement(self, match: re.Match[str]) -> str:
        whole, found = match[0], match[self.group]
        head = self.lead.match(found) if self.lead else None
        secret = found[head.end() if head else 0 :].rstrip(self.trail or None)
        if not secret or not self.accepts(secret):
            return whole
        start = match.start(self.group) - match.start() + (head.end() if head else 0)
        return f"{whole[:start]}{MARK}{self.kind}]{whole[start + len(secret) :]}"
