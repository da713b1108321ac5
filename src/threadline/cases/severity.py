"""Reads the first severity of a report by rule, before any agent runs.

The levels follow common definitions of incident severities (PagerDuty, Atlassian, GitLab):

- S1: the whole product is down; payment, login or ordering is impossible for all people; data or
  money is lost, or people are charged twice; data is exposed.
- S2: an S1 that is limited to some people or one browser; a function that is down, crashes or
  fails for many people; urgent words.
- S4: only the looks.
- S3: everything else.

A rule is a short list of slots, for example scope × ability × action: "nobody" "can" "pay". Each
slot is a named list in `severity_words.py`. A new phrase belongs in a slot; a new kind of damage
is a new rule. S1 calls people at night, so logs, quotes, past outages, wishes and sentences about
a test system do not count. The rule rather misses a severity than invents one: the agent corrects
it in the first turn.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from threadline.cases import severity_words as words
from threadline.cases.model import Severity
from threadline.cases.severity_words import either

MAX_READ = 4_000
"""Characters of a report that the rule reads. Later ones are mostly logs."""

_NEGATION = (
    r"no|not|never|without|non|isn't|aren't|wasn't|weren't|doesn't|don't|didn't|keine?n?|nicht"
    r"|ohne|aucune?|pas|sans|sin|sem|nenhuma?|senza|geen"
)
_NEGATED_BEFORE = re.compile(
    rf"(?<!\w)(?:(?:{_NEGATION})(?: \w+){{0,2}}|(?:nobody|no ?one|none|niemand)(?: \w+)?)\s$"
)
_NEGATED_BETWEEN = re.compile(rf"(?<!\w)(?:{_NEGATION})(?!\w)")
_NEGATED_AFTER = re.compile(r"^\s*(?:ではありません|ていません|はありません)")


@dataclass(frozen=True)
class _Rule:
    """Slots that occur in one clause: in this order with a few other words between them
    (`_rule`), or anywhere (`_together`).

    Attributes:
        found: patterns that all occur in the clause.
        unavailable: the damage ends with the outage, so a resolved one does not count, and one
            that is limited to some people is only S2.
    """

    severity: Severity
    found: tuple[str, ...]
    unavailable: bool = True


def _rule(severity: Severity, *slots: str, gap: int = 40) -> _Rule:
    return _Rule(severity, (_in_order(*slots, gap=gap),))


def _together(severity: Severity, *slots: str) -> _Rule:
    return _Rule(severity, slots)


def _damage(*slots: str, gap: int = 40) -> _Rule:
    return _Rule(_S1, (_in_order(*slots, gap=gap),), unavailable=False)


def _damage_together(*slots: str) -> _Rule:
    return replace(_together(_S1, *slots), unavailable=False)


def _in_order(*slots: str, gap: int) -> str:
    return rf"([^,:]{{0,{gap}}}?)".join(slots)


_S1 = Severity.S1
_S2 = Severity.S2
_PRODUCT_IS_DOWN = (
    _rule(_S1, words.SITE, words.DOWN),
    _rule(_S1, words.APP, words.DOWN),
    _rule(_S1, words.DOWN, words.SITE, gap=4),
    _rule(_S1, words.PRODUCT, words.BARE_DOWN, gap=1),
    _rule(_S1, words.SITE, words.VANISHED, gap=4),
    _rule(_S1, words.SITE, words.DOES_NOT_WORK, gap=20),
    _rule(_S1, words.NOTHING, words.WORKS, gap=4),
    _rule(_S1, words.PRODUCT, words.DOES_NOT_WORK, words.FOR_ALL),
    _rule(_S1, words.ALL_PEOPLE, words.EMPTY_ANSWER, gap=12),
    _rule(_S1, words.OUTAGE),
)
_VITAL_IS_IMPOSSIBLE = (
    _rule(_S1, words.NOBODY, words.CAN, words.ACTION, gap=25),
    _rule(_S1, words.CAN, words.NOBODY, words.ACTION, gap=20),
    _rule(_S1, words.NOBODY, words.ACTION, words.CANNOT_AFTER, gap=12),
    _rule(_S1, words.ALL_PEOPLE, words.CANNOT, words.ACTION, gap=25),
    _rule(_S1, words.ALL_PEOPLE, words.LOCKED_OUT),
    _rule(_S1, words.VITAL, either(words.DOWN, words.IMPOSSIBLE), gap=15),
    _rule(_S1, words.VITAL, words.BARE_DOWN, gap=1),
    _rule(_S1, words.VITAL, words.ENTIRELY_BROKEN, gap=4),
    _rule(_S1, words.IMPOSSIBLE_TO, words.ACTION, words.FOR_ALL, gap=20),
    _rule(_S1, words.VITAL, words.FAILURE, words.FOR_ALL),
    _rule(_S1, words.ALL_OF_THEM, words.VITAL, words.FAILURE, gap=20),
    _rule(_S1, words.ALL_PEOPLE, words.ERROR, words.VITAL),
    _rule(_S1, words.NO_ORDERS),
    _together(_S1, words.ALL_STRONG, either(words.PRODUCT, words.VITAL), words.FAILURE),
    _together(_S1, words.NOBODY_NEGATED, either(words.SITE, words.ACTION)),
)
_LOSS_OR_LEAK = (
    _damage(words.WHOLE_AMOUNT, words.RECORDS, words.LOST),
    _damage(words.LOST, words.WHOLE_AMOUNT, words.RECORDS, gap=20),
    _damage(words.RECORDS, words.OF_TODAY, words.LOST),
    _damage(words.STORES, words.EMPTIED),
    _damage(words.EMPTIED, words.STORES, gap=20),
    _damage_together(words.RECORDS, words.LOST, words.BY_SYSTEM),
    _damage(words.DATA_LOSS),
    _damage(words.BREACH),
    _damage_together(words.SECRETS, words.EXPOSED),
    _damage(words.SEES, words.STRANGERS, words.PRIVATE, gap=20),
    _damage(words.SEES, words.PRIVATE, words.FROM, words.STRANGERS, gap=20),
    _damage(words.TWICE),
    _damage(words.MONEY_LOST),
)
_FUNCTION_FAILS = (
    _rule(_S2, words.I_CANNOT, either(words.ACTION, words.SAVE), gap=8),
    _rule(_S2, words.IMPOSSIBLE_TO, words.ACTION, gap=4),
    _rule(_S2, words.VITAL, words.FAILURE),
    _rule(_S2, words.ERROR, words.VITAL, gap=4),
    _rule(_S2, words.APP, words.DOES_NOT_WORK, gap=20),
    _rule(_S2, words.FUNCTION, either(words.IS_DOWN, words.DOWN), gap=1),
    _rule(_S2, words.MANY_PEOPLE, either(words.CANNOT, words.FAILURE, words.GETS_NOT)),
    _rule(_S2, words.FAILURE, either(words.MANY_PEOPLE, words.FOR_ALL)),
    _rule(_S2, words.NOTHING, words.FOR_ALL),
    _rule(_S2, words.NOBODY, words.CAN, words.OTHER_ACTION, gap=2),
    _rule(_S2, words.RECORDS, words.VANISHES, gap=12),
    _rule(_S2, words.SLOW, words.FOR_ALL),
    _rule(_S2, words.WORK, words.HALTED, gap=15),
    _rule(_S2, words.CRASH),
    _rule(_S2, words.MAILS),
    _rule(_S2, words.ANYTHING),
    _rule(_S2, words.BROKEN_ENTIRELY),
    _rule(_S2, words.HOLE),
    _rule(_S2, words.URGENT),
)
_RULES = (*_PRODUCT_IS_DOWN, *_VITAL_IS_IMPOSSIBLE, *_LOSS_OR_LEAK, *_FUNCTION_FAILS)

_STATED_NUMBER = re.compile(
    r"(?<!not a )(?<!not )(?<!no )\b(?:severity|sev|prio(?:rity)?|priorität|priorité|prioridade?"
    r"|schweregrad|gravité|gravedad|gravidade|重要度|優先度)"
    r"(?:\s+level|\s+is)?\s*[-:=]?\s*[sp]?([0-4])\b(?!\.?\d)"
    r"(?!\s+(?:customer|client|user|column|field|filter|item|label|list|queue|value)s?\b)"
)
_STATED_WORD = re.compile(
    r"^\W*(?:severity|prio(?:rity)?)\W*[:=]\W*(critical|blocker|highest|urgent|high|major|medium"
    r"|normal|moderate|low|lowest|minor|trivial)\b",
    re.MULTILINE,
)
_LABEL = re.compile(
    r"^\W*([sp])([0-4])(?=\s*[:\])|]|\s+[-–—]|\s*$)"
    r"|^\W*(p)([0-4])(?=\s+(?!and\b|or\b|meter\b))"
    r"|[\[(]([sp])([0-4])[\])]"
    r"|\b(?:is|as|it's)\s+(?:an?\s+)?([sp])([0-4])(?=\s*(?:$|[.,;:!]|\s(?:bug|issue|incident)))"
    r"|(?<![\w.-])([sp])([0-4])\s+(?:bug|issue|incident|outage|ticket|problem)\b",
    re.MULTILINE,
)
_OF_NUMBER = {0: _S1, 1: _S1, 2: _S2, 3: Severity.S3, 4: Severity.S4}
_OF_WORD = {
    **dict.fromkeys(("critical", "blocker", "highest"), _S1),
    **dict.fromkeys(("urgent", "high", "major"), _S2),
    **dict.fromkeys(("medium", "normal", "moderate"), Severity.S3),
    **dict.fromkeys(("low", "lowest", "minor", "trivial"), Severity.S4),
}
_NOT_SAID = re.compile(r"(?:\bnot|\bno|n't)(?: an?)?\s*$")

_CODE = re.compile(r"```.*?(?:```|$)|`[^`\n]*`", re.DOTALL)
_QUOTE = re.compile(
    r"^(?:>|&gt;).*$|\"[^\"\n]{1,200}\"|[“„«][^”“»\n]{1,200}[”“»]"
    r"|(?<!\w)'[^'\n]{1,200}'(?!\w)",
    re.MULTILINE,
)
_LOG = re.compile(
    r"^\W*(?:\d{4}-\d\d-\d\d[T ]\d|\d\d:\d\d:\d\d|(?:FATAL|WARN(?:ING)?|INFO|DEBUG)\b|Traceback"
    r"|at [\w.$]+\().*$|^\[?ERROR\b.*$",
    re.MULTILINE,
)
_IDIOM = re.compile(
    r"(?:scroll|drop|pull|slow|count|page|break|cut|shut|mark|press|key|arrow|step)(?:s|ed|ing)?"
    r"[ -]?down|down (?:arrow|key|button|by|to|the)|memory leak\w*|thumbs down"
)
_SENTENCE = re.compile(r"(?:[^.!?;\n。！？]|\.(?=\S))+[.!?。！？]*")
_BUT = re.compile(
    r",? (?:(?<!nothing )but|however|although|though|aber|mais|pero|mas) |が、| [-–—] "
)


def severity_of(text: str) -> Severity:
    """Return the severity that a report states, or else the highest of its sentences.

    "Severity: 2", "[P1]" and "Priority: high" are stated, and win over all other words. Otherwise
    a clause has the highest severity of the rules whose slots occur in it without a negation, and
    a report the highest of its clauses. Only a report without such a clause can be cosmetic.
    """
    own = _LOG.sub(" ", _QUOTE.sub(" ", _CODE.sub(" ", text[:MAX_READ])))
    own = re.sub(r"[*~]", "", own).lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    if stated := _stated(own):
        return stated
    plain = _IDIOM.sub(" ", own)
    plain = re.sub(r"'s (?=down|offline|dead|gone|broken)", " is ", plain.replace("'re ", " are "))
    is_over = _has(words.RESOLVED, plain) and not _has(words.AGAIN, plain)
    found = [_of_sentence(each, is_over) for each in _sentences(plain)]
    worst = min(found, default=Severity.S3)
    if worst is Severity.S3 and _is_cosmetic(plain):
        return Severity.S4
    return worst


def _stated(text: str) -> Severity | None:
    for pattern in (_STATED_NUMBER, _LABEL):
        for match in pattern.finditer(text):
            if not _NOT_SAID.search(text[: match.start()]):
                number = next(each for each in match.groups() if each and each.isdecimal())
                return _OF_NUMBER[int(number)]
    word = _STATED_WORD.search(text)
    return _OF_WORD[word[1]] if word else None


def _sentences(text: str) -> Iterator[str]:
    for match in _SENTENCE.finditer(text):
        yield " ".join(match[0].split())


def _of_sentence(sentence: str, is_over: bool) -> Severity:
    """Return the severity of a sentence; S3 if it is about another system, or a wish."""
    alone = _has(words.ONLY_MINE, sentence) and not _has(words.NOT_JUST_ME, sentence)
    elsewhere = _has(words.NOT_LIVE, sentence) and not _has(words.LIVE, sentence)
    if alone or elsewhere or _has(words.WISH, sentence):
        return Severity.S3
    limited = _has(words.LIMITED, sentence) or _has(r"(?<!\?)\?$", sentence)
    clauses = _BUT.split(sentence.rstrip(".。"))
    return min(_of_clause(clause, is_over, limited) for clause in clauses)


def _of_clause(clause: str, is_over: bool, limited: bool) -> Severity:
    worst = Severity.S3
    for rule in _RULES:
        if not (is_over and rule.unavailable) and _applies(rule, clause):
            only_some = limited and rule.unavailable
            worst = min(worst, Severity.S2 if only_some else rule.severity)
    return worst


def _applies(rule: _Rule, clause: str) -> bool:
    return all(
        any(not _is_negated(match) for match in _compiled(pattern).finditer(clause))
        for pattern in rule.found
    )


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a rule's pattern at its first use: all of them take 0.8 s of CPU."""
    return re.compile(pattern)


def _is_negated(match: re.Match[str]) -> bool:
    before = match.string[: match.start()]
    after = match.string[match.end() :]
    between = any(_NEGATED_BETWEEN.search(gap) for gap in match.groups())
    return bool(between or _NEGATED_BEFORE.search(before) or _NEGATED_AFTER.search(after))


def _is_cosmetic(text: str) -> bool:
    return _has(words.COSMETIC, text) and not _has(words.FUNCTION_FAILS, text)


def _has(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None
