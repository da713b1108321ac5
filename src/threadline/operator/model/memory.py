"""What the operator remembers of earlier turns: what happened, what is so, and what worked or did not."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

MOST_FACTS = 10
"""That are remembered of one turn."""

_QUESTION = 5_000
"""Characters of a question, of which there are no more."""
_REMEMBER = re.compile(r"\s*(?:please,?\s+)?remember(?:\s+that\b|\s*:)[\s,:]*(?P<what>\S.*)", re.IGNORECASE | re.DOTALL)


class MemoryKind(StrEnum):
    EPISODIC = "episodic"
    """What was asked and what came of it."""
    SEMANTIC = "semantic"
    """What is so, until somebody says otherwise."""
    PROCEDURAL = "procedural"
    """Which tools did it, or how they failed."""


@dataclass(frozen=True)
class NewMemory:
    """`cue` is what it is found by first, such as the question.

    `error_class` names the kind of failure that it tells of; empty when it went well. `channel` is the only place where
    it may be told; empty for any in the team. `rfp_id`: what it is about, if anything.
    """

    kind: MemoryKind
    cue: str
    text: str
    user_id: str = ""
    channel: str = ""
    rfp_id: str = ""
    error_class: str = ""


@dataclass(frozen=True)
class Memory:
    kind: MemoryKind
    cue: str
    text: str
    error_class: str
    user_id: str
    rfp_id: str
    at: datetime

    @property
    def is_pattern(self) -> bool:
        """Whether it tells which tools led to an answer."""
        return self.kind is MemoryKind.PROCEDURAL and not self.error_class


def keys_of_facts(key: str) -> list[str]:
    """Under which a turn's facts are kept, one for each that somebody wanted to have remembered in it."""
    return [key, *(f"{key}:said:{number}" for number in range(2, MOST_FACTS + 1))]


def fact_to_remember(question: str) -> str:
    """What is to be remembered, as it was said ("remember that …", "remember: …"); empty when that is not asked for.

    "Remember to …" asks for a reminder, which is a job.
    """
    found = _REMEMBER.match(question[:_QUESTION])
    return found["what"].strip() if found else ""
