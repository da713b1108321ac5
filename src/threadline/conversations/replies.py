"""How a model's reply is read: kept whole in the transcript, told in short to the workflow."""

import re
from dataclasses import replace
from itertools import dropwhile

from threadline.conversations.prompt import NO_REPLY
from threadline.models.model import Completion, Message, ModelReply, Role, ToolCall, ToolKind
from threadline.slack.text import is_blank
from threadline.tools.registry import MAX_NAME_LENGTH, ToolRegistry
from threadline.tools.runner import MAX_CALLS

BEGINNING = 300
"""Characters of a reply's text that travel: enough to see in Temporal's UI what it is about."""
CUT = "_My answer was cut off here: ask me to go on._"
_QUESTION = 200
_SILENT = re.compile(rf"[\s*_`'\"]*{NO_REPLY}[\s*_`'\".!]*")
_SILENT_FIRST = re.compile(rf"[\s*_`'\"]*{NO_REPLY}(?!_?[^\W_])[*_`'\".!?,;]*(?:[ \t]*[:–—-]+)?\s*")
_SILENT_LAST = re.compile(rf"\n[\s*_`'\"]*{NO_REPLY}[\s*_`'\".!]*\Z")
_LAST_SIGNS = re.compile(r"(?:[\s*_~`)\]}>\"'”’»]|:[a-z0-9_+-]+:)+$")
_ASKING = ("?", "？", "؟", "⁉", "❓")


def clear(answer: Completion, *, addressed: bool) -> ModelReply:
    """A reply that holds the word for silence alone or not at all where people would read it.

    A model that gives its reasons beside the word is silent where it was not spoken to; where it was, only the word
    goes. Words that came to the model's own limit say so, else people would take them for the whole.
    """
    reply = answer.reply
    begun = _SILENT_FIRST.match(reply.text)
    words = _SILENT_LAST.sub("", reply.text[begun.end() :] if begun else reply.text)
    if words != reply.text and not reply.calls and (not addressed or is_blank(words)):
        return replace(reply, text=NO_REPLY)
    return replace(reply, text=f"{words}\n\n{CUT}" if answer.cut and not (reply.calls or is_blank(words)) else words)


def message(reply: ModelReply, registry: ToolRegistry) -> Message:
    """A reply as the transcript keeps it: its calls by the tools' own names, and not more of them than are made."""
    calls = tuple(_own(call, registry) for call in reply.calls[:MAX_CALLS])
    return Message(Role.ASSISTANT, _whole(reply.text), calls, opaque=reply.opaque)


def left_out(reply: ModelReply) -> Message | None:
    """What the model is told after a reply that asks for more calls than are made."""
    asked = len(reply.calls)
    if asked <= MAX_CALLS:
        return None
    words = f"[Left out] Of the {asked} calls in your reply only the first {MAX_CALLS} were made. Ask again for others"
    return Message(Role.SYSTEM, f"{words} that are still needed.")


def told(kept: Message) -> ModelReply:
    """A kept reply as it travels: the beginning of its text, and its calls without their arguments.

    A silent one has no text, so that the word for it is posted nowhere, not even where silence does not count.
    """
    silent = is_silent(kept)
    text = "" if silent or is_blank(kept.content) else "".join(dropwhile(is_blank, kept.content))
    calls = tuple(replace(call.reference(), name=call.name[:MAX_NAME_LENGTH]) for call in kept.calls)
    return ModelReply(text[:BEGINNING], calls, silent=silent)


def is_silent(kept: Message) -> bool:
    """Whether the model holds that nothing was for it: it says so, says nothing else and asks for no tool."""
    return not kept.calls and _SILENT.fullmatch(kept.content) is not None


def question(text: str) -> str:
    """The beginning of an answer that ends with a question, in one line; empty for any other answer."""
    if not _LAST_SIGNS.sub("", text).endswith(_ASKING):
        return ""
    line = " ".join(text.split())
    return line if len(line) <= _QUESTION else line[: _QUESTION - 1] + "…"


def _own(call: ToolCall, registry: ToolRegistry) -> ToolCall:
    tool = registry.get(call.name)
    name = tool.name if tool else _whole(call.name)
    return ToolCall(
        _whole(call.id),
        name,
        _whole(call.arguments),
        kind=tool.kind if tool else ToolKind.CHANGE,
        binds_record=bool(tool and tool.binds_record),
        critical=bool(tool and tool.critical),
    )


def _whole(text: str) -> str:
    """Without halves of a surrogate pair, which JSON can say and neither Temporal nor an API takes back."""
    return text.encode("utf-8", "replace").decode("utf-8")
