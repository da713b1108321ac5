"""What to do with a question, by a model that sees the whole situation; never by keywords alone.

The model decides in a strict form. What is invalid it is shown once more with its faults; after that a person takes
over. Everything that people, records and documents say reaches it as JSON strings, out of which no text can break.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import sha256
from importlib.resources import files

from threadline.decisions import parsing as answer
from threadline.decisions.model import Action, Decided, Sensitivity, faults
from threadline.decisions.parsing import Unreadable
from threadline.models.chat_model import Ask

LONGEST_QUERY = 12_000
"""Characters of a query that the model is shown: the head and the tail of a longer one."""
_LONGEST_SAID, _LONGEST_SOURCE = 1_000, 1_200
_UNDECIDED = "No valid decision could be made."


@dataclass(frozen=True)
class Said:
    author: str
    text: str


@dataclass(frozen=True)
class Known:
    """A source that was retrieved before; its text is empty where only its name is remembered."""

    title: str
    section: str
    text: str = ""


@dataclass(frozen=True)
class Offered:
    """A tool by its name as the model is shown it."""

    name: str
    description: str


@dataclass(frozen=True)
class Situation:
    """What a decision is made with. `recent` are the last messages, oldest first; `lead`: who asks, in a few lines.

    `sensitive` are the topics that the query names; `types` the types of documents that there are.
    """

    query: str
    recent: tuple[Said, ...] = ()
    lead: str = ""
    sources: tuple[Known, ...] = ()
    tools: tuple[Offered, ...] = ()
    sensitive: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    @property
    def hash(self) -> str:
        """The same for the same situation alone: 64 hexadecimal digits."""
        return sha256(json.dumps(asdict(self), sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()

    def shown(self) -> str:
        """As the model reads it: one JSON document."""
        told = {
            "query": _ends(self.query),
            "recent_conversation": [f"{each.author}: {each.text[:_LONGEST_SAID]}" for each in self.recent],
            "lead_context": self.lead,
            "sources_already_retrieved": [
                asdict(replace(each, text=each.text[:_LONGEST_SOURCE])) for each in self.sources
            ],
            "tools": {each.name: each.description for each in self.tools},
            "document_types": self.types,
            "sensitive_words_in_the_query": self.sensitive,
        }
        return json.dumps(told, ensure_ascii=False, indent=1)


@dataclass(frozen=True)
class Decision:
    """`faults`: what was wrong with the last answer; a valid one has none."""

    decided: Decided
    faults: tuple[str, ...] = ()


async def decide(situation: Situation, ask: Ask, instructions: str = "") -> Decision:
    """Decide what to do with a query; whatever the model writes, there is a decision.

    Args:
        instructions: others than the product's own.

    Raises:
        Permanent | Transient: the model cannot be asked.
    """
    told, form = instructions or prompt("decide"), answer.form(situation.types)
    questions, wrong = [situation.shown()], tuple[str, ...]()
    for last in (False, True):
        text = await ask(told, questions, answer.NAME, form)
        read = answer.read(text)
        wrong = read.faults if isinstance(read, Unreadable) else _faults(read, situation, insists=last)
        if not wrong and isinstance(read, Decided):
            return Decision(read)
        questions = [questions[0], text, _mend(wrong)]
    return Decision(undecided(situation.sensitive), wrong)


def undecided(sensitive: Sequence[str] = ()) -> Decided:
    """A person decides, since nothing valid was decided; a sensitive word is then taken at its worst."""
    sensitivity = Sensitivity.CLAIMS if sensitive else Sensitivity.NONE
    return Decided(
        Action.ESCALATE,
        _UNDECIDED,
        escalation_reason=_UNDECIDED,
        complexity=1.0,
        sensitivity=sensitivity,
        intent_clear=False,
    )


@cache
def prompt(name: str) -> str:
    """One of the product's own prompts."""
    return (files(__package__) / "prompts" / f"{name}.md").read_text(encoding="utf-8")


def version(instructions: str) -> str:
    """By which instructions are known where a decision is kept: 12 hexadecimal digits."""
    return sha256(instructions.encode()).hexdigest()[:12]


def _faults(decided: Decided, situation: Situation, *, insists: bool) -> tuple[str, ...]:
    """Args: `insists`: it was asked before, so that what it says of sensitive words again, it means."""
    found = faults(decided, {each.name for each in situation.tools})
    if situation.sensitive and decided.sensitivity is Sensitivity.NONE and not insists:
        words = ", ".join(situation.sensitive)
        found.append(
            f"The query has sensitive words ({words}): sensitivity is asks or claims, by what is meant. Say none again "
            "only where they mean something else, as in a name."
        )
    return tuple(found)


def _mend(wrong: Sequence[str]) -> str:
    return "This is not valid. Answer again in the same form:\n" + "\n".join(f"- {each}" for each in wrong)


def _ends(query: str) -> str:
    if len(query) <= LONGEST_QUERY:
        return query
    half = LONGEST_QUERY // 2
    return f"{query[:half]}\n[… {len(query) - 2 * half:,} characters are left out here …]\n{query[-half:]}"
