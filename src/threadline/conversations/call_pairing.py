"""A dialogue as a provider takes it: a result stands behind its call, and neither stands alone.

Providers refuse a result without its call, and a call without its result. A transcript may hold both: a turn that was
stopped, a step that was stored twice, rows out of order.
"""

from collections.abc import Sequence
from dataclasses import replace

from threadline.models.model import Message, Role
from threadline.slack.text import is_blank


def paired(messages: Sequence[Message]) -> list[Message]:
    """The messages in their order, with the results of calls directly behind them, in the calls' order.

    Left out are results and calls that belong to nothing, and what an assistant says that is nothing without them. A
    call's id is there once. What this has been applied to once it leaves as it is.
    """
    messages = [replace(each, calls=()) if each.role is not Role.ASSISTANT else each for each in messages]
    results: dict[str, Message] = {}
    for message in messages:
        if message.role is Role.TOOL:
            results.setdefault(message.call_id, message)
    return [each for message in messages for each in _with_results(message, results)]


def _with_results(message: Message, results: dict[str, Message]) -> list[Message]:
    """A message with the results of its calls, which it takes out of `results`; empty when it says nothing."""
    if message.role is Role.TOOL:
        return []
    answered = [(call, results.pop(call.id)) for call in message.calls if call.id in results]
    calls = tuple(call for call, _ in answered)
    if calls != message.calls:
        message = replace(message, calls=calls, opaque="")  # it speaks of the calls that are gone
    if message.role is Role.ASSISTANT and not calls and is_blank(message.content):
        return []
    return [message, *(result for _, result in answered)]
