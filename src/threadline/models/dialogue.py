"""Converts a dialogue for strict chat templates: one leading system message, then people and the
model in turns.

Many templates of open models refuse a second system message, two messages of one role in a row, or
a person's message right after a tool's result: https://github.com/vllm-project/vllm/issues/41114.
So a note by Threadline is merged into the neighbouring message of a person or result of a tool,
and neighbouring messages of one role are merged.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from threadline.models.model import Message, Role, text_with_author

EARLIER = "(The conversation began earlier.)"
"""Placeholder for a person's message where the dialogue begins with the model."""
RESULTS = "(These are the results.)"
"""Placeholder for the model's message between a tool's result and a person's message that arrived
during the call.
"""
_NOTE = re.compile(
    r"^\[(Context|Decision|Earlier|Left out|Side Effect|Side Effect Error)\]", re.MULTILINE
)


def in_turns(messages: Sequence[Message]) -> list[Message]:
    """Return the messages of a prompt without the role `SYSTEM`.

    A person's text cannot imitate a note: brackets at the beginning of such a line become round
    ones.
    """
    said: list[Message] = []
    for message in map(_plain, messages):
        last = said[-1] if said else None
        if message.role is Role.SYSTEM and last and last.role is Role.TOOL:
            said[-1] = _joined(last, message)
            continue
        message = replace(message, role=Role.USER) if message.role is Role.SYSTEM else message
        if last and last.role is message.role and message.role is not Role.TOOL:
            said[-1] = _joined(last, message)
            continue
        said += [*_between(last, message), message]
    return said


def _plain(message: Message) -> Message:
    """Return the message with its author in its text."""
    if message.role is not Role.USER:
        return message
    return replace(message, content=_NOTE.sub(r"(\1)", text_with_author(message)), author="")


def _between(last: Message | None, message: Message) -> Iterable[Message]:
    if last is None and message.role is not Role.USER:
        yield Message(Role.USER, EARLIER)
    if last and last.role is Role.TOOL and message.role is Role.USER:
        yield Message(Role.ASSISTANT, RESULTS)


def _joined(first: Message, second: Message) -> Message:
    content = "\n\n".join(filter(str.strip, (first.content, second.content)))
    return replace(first, content=content, calls=(*first.calls, *second.calls))
