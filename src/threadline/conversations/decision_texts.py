"""What a turn's decision says in the thread: a question, that a person takes over, and what an answer rests on."""

import re
from collections.abc import Sequence

from threadline.conversations.model import answers
from threadline.conversations.model.conversation import OutcomeKind
from threadline.decisions.model import ERROR_REPLY, DecisionRound, DecisionType, EscalationReason, NextStep, Source
from threadline.knowledge.model import SECTION

SAY_MORE = "I want to get this right: could you tell me a little more about what you need?"
"""Asked where the model has no question of its own."""
_PASSED_ON = "I have handed it over to a person, with the conversation so far. The answer will come in this thread."
_WHY = {
    EscalationReason.LOW_CONFIDENCE: "I am not sure enough about this to answer it myself.",
    EscalationReason.SENSITIVE_TOPIC: "This is not for me to decide.",
    EscalationReason.RETRIEVAL_FAILURE: "I cannot look this up right now, and I do not want to guess.",
    EscalationReason.TOOL_FAILURE: "Something that I need for this did not work.",
    EscalationReason.DECIDED: "This needs a person.",
}
_MARK = re.compile(r"\[(\d{1,2})\]")
_MOST, _LONGEST = 10, 100
"""Sources behind one answer, and characters of each."""
_MARKS = 100
"""Characters for what Slack's marks may take."""


def said(kind: OutcomeKind, made: DecisionRound | None) -> str:
    """The whole answer of a turn that ends with its decision."""
    if kind is OutcomeKind.CLARIFIED:
        return (made.decision.question if made and made.decision.type is DecisionType.CLARIFY else "") or SAY_MORE
    return handed_over(made.judgement.reason if made and made.judgement else None)


def passed_on(made: DecisionRound | None) -> str:
    """Told behind an answer where a person takes over beside it, since something critical has failed."""
    verdict = made.judgement if made else None
    return handed_over(verdict.reason) if verdict and verdict.next_step is NextStep.ESCALATE else ""


def fitting(before: str, answer: str, end: str, *, detail: bool) -> str:
    """What is said, of which Slack is sent `answers.LIMIT` characters: cut short is the answer, and not its end.

    Args:
        detail: somebody asks for all of it.
    """
    around = sum(len(each) + 2 for each in (before, end) if each)
    if end and not detail and len(answer) + around > answers.LIMIT - _MARKS:
        answer = answers.shorten(answer, max(answers.SHORTEST, answers.LIMIT - _MARKS - around))
    return "\n\n".join(filter(None, (before, answer, end)))


def handed_over(reason: EscalationReason | None) -> str:
    """Told to who asks when a person takes over."""
    if reason is EscalationReason.RESPONSE_ERROR:
        return ERROR_REPLY
    return f"{_WHY.get(reason or EscalationReason.DECIDED, _WHY[EscalationReason.DECIDED])} {_PASSED_ON}"


def sources_of(answer: str, sources: Sequence[Source], found: Sequence[str] = ()) -> str:
    """What an answer rests on, by title and section; empty where it rests on nothing, or says nothing.

    Args:
        sources: passages that it was given with numbers. Those are cited that it marks; of one that marks none, all.
        found: what its tools found, as it is cited. An answer that names some of it by title and section has cited it.
    """
    if not answer:
        return ""
    marked = sorted({int(each) for each in _MARK.findall(answer)} & set(range(1, len(sources) + 1)))
    given = [sources[number - 1].cited for number in marked] or [each.cited for each in sources]
    marks = [f"[{number}] {name}" for number, name in zip(marked, given, strict=False)] or given
    theirs = () if _names_one(answer, found) else (each for each in found if each not in given)
    named = list(dict.fromkeys([*marks, *theirs]))
    more = [f"and {len(named) - _MOST} more"] if len(named) > _MOST else []
    return f"Sources: {'; '.join([*map(_short, named[:_MOST]), *more])}" if named else ""


def _short(name: str) -> str:
    """With the start of its title and the end of its section."""
    half = _LONGEST // 2
    return name if len(name) <= _LONGEST else f"{name[:half]}…{name[-half:]}"


def _names_one(answer: str, found: Sequence[str]) -> bool:
    """A title alone may be a word of the answer by chance."""
    words = _plain(answer)
    return any(SECTION in each and _plain(each) in words for each in found)


def _plain(text: str) -> str:
    """In which two ways to write a name are one: models like other dashes."""
    return re.sub(r"[\s–—-]+", " ", text).casefold()
