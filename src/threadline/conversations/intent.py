"""What somebody wants, as far as a rule can say, and the help for those who said nothing to go by.

What a request is about, the model decides. The rule only spares a call of it where there is nothing to decide: no
words at all, or a plain cry for help.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from threadline.conversations.model.answers import LIMIT
from threadline.threads import phrases
from threadline.tools.registry import Tool

_HELP = re.compile(
    r"(?:(?:hi|hello|hey|please|pls)[\s,!]+)*"
    r"(?:help(?:\s+me)?|what\s+(?:can|do)\s+you\s+do|what\s+can\s+i\s+ask(?:\s+you)?|how\s+do\s+you\s+work|commands|usage)"
    r"(?:[\s,]+(?:please|pls|thanks))?[\s?!.]*",
    re.IGNORECASE,
)
_LONGEST = 200
"""Characters beyond which a text is more than a cry for help."""
_LOOKED_AT = 4_000
"""Characters in which there has to be a word."""
_MENTION = re.compile(r"<@[^<>]+>")
_TOOLS_TOLD = 4
"""Tools of one set that are described; of the others there is a number."""
_DESCRIPTION = 100

_OPENING = "Tell me in plain words what you want to know or what I should do."
_OF_ITSELF = "answer questions about what was said in this thread"
_CLOSING = "You can ask for several things in one message. Write *stop* at any time to stop me."


class IntentType(StrEnum):
    HELP = "help"
    """To be told what can be asked for."""
    REQUEST = "request"
    """Anything that has words: the model's to understand."""


@dataclass(frozen=True)
class Intent:
    """What a text asks for; `confidence` is from 0 to 1."""

    type: IntentType
    confidence: float


def extract(text: str) -> Intent | None:
    """The intent of any text; None when it is unknown, because nothing was said in words."""
    if phrases.is_wordless(text[:_LOOKED_AT]):
        return None
    if len(text) <= _LONGEST and _HELP.fullmatch(_MENTION.sub(" ", text).strip()):
        return Intent(IntentType.HELP, 1.0)
    return Intent(IntentType.REQUEST, 0.5)


def help_text(tools: Sequence[Tool]) -> str:
    """What can be asked for, by the tools on offer: Markdown of at most 2,000 characters, never without an example."""
    lines = [_OPENING, "", "I can", f"- {_OF_ITSELF}"]
    room = LIMIT - sum(len(line) + 1 for line in lines) - len(_CLOSING) - 60
    sets = _by_set(tools)
    for number, (name, members) in enumerate(sets.items()):
        line = f"- **{name}**: {_told(members)}"
        room -= len(line) + 1
        if room < 0:
            lines.append(f"- and {len(sets) - number} more groups of tools")
            break
        lines.append(line)
    return "\n".join([*lines, "", _CLOSING])


def _told(members: Sequence[Tool]) -> str:
    told = [_first_sentence(tool.description) for tool in members[:_TOOLS_TOLD]]
    more = len(members) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _first_sentence(description: str) -> str:
    first = " ".join(re.split(r"(?<=[.!?])\s", description.strip(), maxsplit=1)[0].split()).rstrip(".")
    return first if len(first) <= _DESCRIPTION else first[: _DESCRIPTION - 1].rsplit(" ", 1)[0] + "…"


def _by_set(tools: Sequence[Tool]) -> dict[str, list[Tool]]:
    sets: dict[str, list[Tool]] = {}
    for tool in tools:
        sets.setdefault(tool.toolset, []).append(tool)
    return sets
