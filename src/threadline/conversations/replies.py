"""What people and models write, read by rule: a reply made clean, a question found, a cry for help understood."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import dropwhile

from threadline.conversations.model.answers import LIMIT, NO_REPLY
from threadline.models.model import Completion, Ended, Message, ModelReply, Role, ToolCall, ToolKind
from threadline.slack.text import is_blank
from threadline.threads import phrases
from threadline.tools.registry import MAX_NAME_LENGTH, Tool, ToolRegistry
from threadline.tools.runner import MAX_CALLS

PREVIEW_LENGTH = 300
"""Characters of a reply's text that travel: enough to see in Temporal's UI what it is about."""
CUT_OFF_NOTICE = "_My answer was cut off here: ask me to go on._"
FILTERED_NOTICE = "_The model's provider has stopped my answer here: ask in other words._"
_ENDINGS = {Ended.LENGTH: CUT_OFF_NOTICE, Ended.FILTER: FILTERED_NOTICE}
_QUESTION = 200
_OPENED = r"(?:```\w*)?[\s*_~`'\"“‘(\[{<.…]*"
_CLOSED = r"[\s*_~`'\"”’)\]}>.!…]*"
"""Signs that models put around the word for silence."""
_WORD = rf"(?i:{NO_REPLY})"
_SILENT = re.compile(
    rf"(?:{_OPENED}{_WORD})+{_CLOSED}"
    rf"|{_OPENED}{NO_REPLY.replace('_', '[ -]')}{_CLOSED}"
    rf"|\s*\{{\s*\"\w+\"\s*:\s*\"{_WORD}\"\s*\}}\s*"
)
"""The word alone: also twice, with a blank or a hyphen, or as the one value of a JSON object."""
_SILENT_FIRST = re.compile(
    rf"{_OPENED}(?:"
    rf"{NO_REPLY}(?!_?[^\W_])[*_~`'\")\]}}>.!?,;]*(?:[ \t]*[:–—-]+)?\s*"
    rf"|{_WORD}[*_~`'\")\]}}>]*(?:[.!?,;:](?=\s)|[ \t]*[–—-]+(?=\s)|\n)\s*"
    rf"|{NO_REPLY}(?=[A-Z][a-z])"
    r")"
)
"""The word as the first sentence. In lower case it may be a part of the text, so a sign has to end it. Some models
write the next sentence without a blank."""
_SILENT_LAST = re.compile(rf"(?:\n|(?<=[.!?…:;)。！？])\s|\s[–—-]+\s|\s(?=[(\[])){_OPENED}{_WORD}{_CLOSED}\Z")
"""The word as the last sentence."""
_LONGEST_ENDING = 80
"""Characters at the end of a reply in which such a sentence begins."""
_LAST_SIGNS = re.compile(r"(?:[\s*_~`)\]}>\"'”’»]|:[a-z0-9_+-]+:)+$")
_ASKING = ("?", "？", "؟", "⁉", "❓")


def clean_reply(answer: Completion, *, addressed: bool) -> ModelReply:
    """A reply that holds the word for silence alone or not at all where people would read it. A model that gives its
    reasons beside the word is silent where it was not spoken to; where it was, only the word goes. Words that came to
    the model's own limit say so, else people would take them for the whole."""
    reply = answer.reply
    words = "" if _SILENT.fullmatch(reply.text) else _without_silence(reply.text)
    if words != reply.text and not reply.calls and (not addressed or is_blank(words)):
        return replace(reply, text=NO_REPLY)
    notice = _ENDINGS.get(answer.ended, "")
    is_answer = not (reply.calls or is_blank(words))
    return replace(reply, text=f"{words}\n\n{notice}" if notice and is_answer else words)


def _without_silence(text: str) -> str:
    begun = _SILENT_FIRST.match(text)
    words = text[begun.end() :] if begun else text
    ended = _SILENT_LAST.search(words, max(0, len(words) - _LONGEST_ENDING))
    return words[: ended.start()] if ended else words


def reply_to_message(reply: ModelReply, registry: ToolRegistry) -> Message:
    """A reply as the transcript keeps it: its calls by the tools' own names, and not more of them than are made."""
    calls: list[ToolCall] = []
    for call in reply.calls[:MAX_CALLS]:
        tool = registry.get(call.name)
        kept = ToolCall(
            _whole(call.id),
            tool.name if tool else _whole(call.name),
            _whole(call.arguments),
            kind=tool.kind if tool else ToolKind.CHANGE,
            binds_record=bool(tool and tool.binds_record),
            critical=bool(tool and tool.critical),
        )
        calls.append(kept)
    return Message(Role.ASSISTANT, _whole(reply.text), tuple(calls), provider_data=reply.provider_data)


def skipped_calls_note(reply: ModelReply) -> Message | None:
    """What the model is told after a reply that asks for more calls than are made."""
    asked = len(reply.calls)
    if asked <= MAX_CALLS:
        return None
    words = f"[Left out] Of the {asked} calls in your reply only the first {MAX_CALLS} were made. Ask again for others"
    return Message(Role.SYSTEM, f"{words} that are still needed.")


def reply_for_workflow(kept: Message) -> ModelReply:
    """A kept reply as it travels: the beginning of its text, and its calls without their arguments. A silent one has no
    text, so that the word for it is posted nowhere, not even where silence does not count."""
    # The model holds that nothing was for it: it says so, says nothing else and asks for no tool.
    silent = not kept.calls and _SILENT.fullmatch(kept.content) is not None
    text = "" if silent or is_blank(kept.content) else "".join(dropwhile(is_blank, kept.content))
    calls = tuple(replace(call.reference(), name=call.name[:MAX_NAME_LENGTH]) for call in kept.calls)
    return ModelReply(text[:PREVIEW_LENGTH], calls, silent=silent)


def closing_question(text: str) -> str:
    """The beginning of an answer that ends with a question, in one line; empty for any other answer."""
    if not _LAST_SIGNS.sub("", text).endswith(_ASKING):
        return ""
    line = " ".join(text.split())
    return line if len(line) <= _QUESTION else line[: _QUESTION - 1] + "…"


def _whole(text: str) -> str:
    """Without halves of a surrogate pair, which JSON can say and neither Temporal nor an API takes back."""
    return text.encode("utf-8", "replace").decode("utf-8")


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
_CLOSING = "You can ask for several things in one message. Write *stop* at any time to stop me."


class IntentType(StrEnum):
    """HELP: to be told what can be asked for. REQUEST: anything that has words, the model's to understand."""

    HELP = "help"
    REQUEST = "request"


@dataclass(frozen=True)
class Intent:
    """What a text asks for; `confidence` is from 0 to 1."""

    type: IntentType
    confidence: float


def extract_intent(text: str) -> Intent | None:
    """The intent of any text; None when it is unknown, because nothing was said in words."""
    if phrases.is_wordless(text[:_LOOKED_AT]):
        return None
    if len(text) <= _LONGEST and _HELP.fullmatch(_MENTION.sub(" ", text).strip()):
        return Intent(IntentType.HELP, 1.0)
    return Intent(IntentType.REQUEST, 0.5)


def help_text(tools: Sequence[Tool]) -> str:
    """What can be asked for, by the tools on offer: Markdown of at most 2,000 characters, never without an example."""
    lines = [_OPENING, "", "I can", "- answer questions about what was said in this thread"]
    room = LIMIT - sum(len(line) + 1 for line in lines) - len(_CLOSING) - 60
    sets: dict[str, list[Tool]] = {}
    for tool in tools:
        sets.setdefault(tool.toolset, []).append(tool)
    for number, (name, members) in enumerate(sets.items()):
        told = "; ".join(_first_sentence(tool.description) for tool in members[:_TOOLS_TOLD])
        more = len(members) - _TOOLS_TOLD
        line = f"- **{name}**: {told}" + (f"; and {more} more" if more > 0 else "")
        room -= len(line) + 1
        if room < 0:
            lines.append(f"- and {len(sets) - number} more groups of tools")
            break
        lines.append(line)
    return "\n".join([*lines, "", _CLOSING])


def _first_sentence(description: str) -> str:
    first = " ".join(re.split(r"(?<=[.!?])\s", description.strip(), maxsplit=1)[0].split()).rstrip(".")
    return first if len(first) <= _DESCRIPTION else first[: _DESCRIPTION - 1].rsplit(" ", 1)[0] + "…"
