"""A dialogue as strict chat templates take it: one leading system message, then people and the model in turns.

Many templates of open models refuse a second system message, two messages of one role in a row, or a person's message
right after a tool's result: https://github.com/vllm-project/vllm/issues/41114. So a note of ours goes with the person's
message or the tool's result beside it, and messages of one role become one.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from threadline.models.model import Message, Role, text_with_author

EARLIER = "(The conversation began earlier.)"
"""Stands for a person where the dialogue begins with the model."""
RESULTS = "(These are the results.)"
"""Stands for the model between a result and a person who wrote meanwhile."""
_NOTE = re.compile(r"^\[(Context|Decision|Earlier|Left out|Side Effect|Side Effect Error)\]", re.MULTILINE)


def in_turns(messages: Sequence[Message]) -> list[Message]:
    """The messages of a prompt, none of which has the role `SYSTEM`.

    A text of a person cannot look like a note: brackets at the beginning of such a line become round ones.
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
    """The message with its author in its text."""
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
