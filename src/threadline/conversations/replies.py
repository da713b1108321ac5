"""Rules for the texts of people and models: clean a reply, find a closing question, recognise a
cry for help.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import dropwhile

from threadline.models.model import (
    NO_REPLY,
    Completion,
    Ended,
    Message,
    ModelReply,
    Role,
    ToolCall,
    ToolKind,
)
from threadline.slack.text import is_blank
from threadline.threads import phrases
from threadline.tools.registry import MAX_NAME_LENGTH, ToolRegistry
from threadline.tools.runner import MAX_CALLS

PREVIEW_LENGTH = 300
"""Characters of a reply's text in the workflow's history: enough to recognise it in Temporal's
UI.
"""
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
"""The word as the first sentence. In lower case it may be a part of the text, so a sign has to end
it. Some models write the next sentence without a blank.
"""
_SILENT_LAST = re.compile(
    rf"(?:\n|(?<=[.!?…:;)。！？])\s|\s[–—-]+\s|\s(?=[(\[])){_OPENED}{_WORD}{_CLOSED}\Z"
)
"""The word as the last sentence."""
_LONGEST_ENDING = 80
"""Characters at the end of a reply in which such a sentence begins."""
_LAST_SIGNS = re.compile(r"(?:[\s*_~`)\]}>\"'”’»]|:[a-z0-9_+-]+:)+$")
_ASKING = ("?", "？", "؟", "⁉", "❓")


def clean_reply(answer: Completion, *, addressed: bool) -> ModelReply:
    """Return a reply whose text is the word for silence alone, or does not contain it where people
    would read it.

    A model that gives reasons beside the word is silent if it was not addressed; if it was, only
    the word is removed. A text that was cut by the model's limit or a filter gets a notice, since
    people would take it for the whole.
    """
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
    """Return a reply as the transcript stores it: with the tools' own names, and only the calls
    that are made.
    """
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
    return Message(
        Role.ASSISTANT, _whole(reply.text), tuple(calls), provider_data=reply.provider_data
    )


def skipped_calls_note(reply: ModelReply) -> Message | None:
    """Return the note for the model after a reply with more calls than are made; None
    otherwise.
    """
    asked = len(reply.calls)
    if asked <= MAX_CALLS:
        return None
    words = (
        f"[Left out] Of the {asked} calls in your reply only the first {MAX_CALLS} were made. "
        "Ask again for others"
    )
    return Message(Role.SYSTEM, f"{words} that are still needed.")


def reply_for_workflow(kept: Message) -> ModelReply:
    """Return a stored reply for the workflow: the beginning of its text, and its calls without
    their arguments. A silent reply has no text, so that the word for silence is never posted, even
    if silence does not count.
    """
    # Silent: a reply with only the word for silence, and without calls.
    silent = not kept.calls and _SILENT.fullmatch(kept.content) is not None
    text = "" if silent or is_blank(kept.content) else "".join(dropwhile(is_blank, kept.content))
    calls = tuple(
        replace(call.reference(), name=call.name[:MAX_NAME_LENGTH]) for call in kept.calls
    )
    return ModelReply(text[:PREVIEW_LENGTH], calls, silent=silent)


def closing_question(text: str) -> str:
    """Return the beginning of an answer that ends with a question, in one line; empty for any
    other answer.
    """
    if not _LAST_SIGNS.sub("", text).endswith(_ASKING):
        return ""
    line = " ".join(text.split())
    return line if len(line) <= _QUESTION else line[: _QUESTION - 1] + "…"


def _whole(text: str) -> str:
    """Return the text without halves of a surrogate pair, which JSON can express, but neither
    Temporal nor an API accepts.
    """
    return text.encode("utf-8", "replace").decode("utf-8")


_HELP = re.compile(
    r"(?:(?:hi|hello|hey|please|pls)[\s,!]+)*"
    r"(?:help(?:\s+me)?|what\s+(?:can|do)\s+you\s+do|what\s+can\s+i\s+ask(?:\s+you)?"
    r"|how\s+do\s+you\s+work|commands|usage)"
    r"(?:[\s,]+(?:please|pls|thanks))?[\s?!.]*",
    re.IGNORECASE,
)
_LONGEST = 200
"""Characters beyond which a text is more than a cry for help."""
_LOOKED_AT = 4_000
"""Characters that are searched for a word."""
_MENTION = re.compile(r"<@[^<>]+>")


class IntentType(StrEnum):
    """HELP: the user wants to know which requests are possible. REQUEST: any other text with
    words, which the model has to understand.
    """

    HELP = "help"
    REQUEST = "request"


@dataclass(frozen=True)
class Intent:
    """The intent of a text; `confidence` is from 0 to 1."""

    type: IntentType
    confidence: float


def extract_intent(text: str) -> Intent | None:
    """Return the intent of a text; None if it has no words."""
    if phrases.is_wordless(text[:_LOOKED_AT]):
        return None
    if len(text) <= _LONGEST and _HELP.fullmatch(_MENTION.sub(" ", text).strip()):
        return Intent(IntentType.HELP, 1.0)
    return Intent(IntentType.REQUEST, 0.5)


def asks_for_help(text: str) -> bool:
    """Return whether a text to the bot asks for help, or for nothing: it greets, or has no
    words.
    """
    wanted = extract_intent(text)
    return wanted is None or wanted.type is IntentType.HELP or phrases.is_greeting(text)
