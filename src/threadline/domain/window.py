"""The part of a dialogue that a model is sent: its end, in whole turns, and always the newest message of a person.

A turn of the dialogue is one message, but an assistant's calls, their results and the notes that follow them are one
together. Providers refuse a result without its call, and a call without its result, so neither ever stands alone here,
whatever the transcript holds: a turn that was stopped, a step that was stored twice, rows out of order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from threadline.domain.answers import is_blank
from threadline.domain.dialogue import Message, Role

TURNS = 20
"""Turns of a dialogue that a model is sent at most."""
ROOM = 5
"""Of these, turns kept free for what the answer itself takes, one for each model call that asks for tools.

So the window does not move between the calls of an answer, and the provider's prompt cache knows how they all begin.
"""


def window(messages: Sequence[Message], turns: int = TURNS, room: int = ROOM) -> list[Message]:
    """What to send of a transcript, oldest first; what it has been applied to once it leaves as it is.

    Args:
        messages: the whole transcript, or its end; anything may be in it.
        turns: how many turns to send at most.
        room: how many of them to leave to what follows the newest message of a person; should more follow, earlier
            turns make way, and at last the oldest of what follows.

    Returns:
        The newest `turns` turns, less what is unused of `room`. The results of calls directly follow them, in the
        calls' order, whenever they came. A call's id is there once.

    Raises:
        ValueError: no turn, or none beside the room, could be sent.
    """
    if not 0 <= room < turns:
        raise ValueError(f"a window of {turns} turns cannot keep {room} free")
    dialogue = list(_turns(messages))
    asked = [number for number, turn in enumerate(dialogue) if turn[0].role is Role.USER]
    until = asked[-1] + 1 if asked else len(dialogue)
    after = dialogue[max(until, len(dialogue) - (turns - 1)) :]
    before = turns - max(room, len(after)) if asked else turns
    kept = [*dialogue[max(0, until - before) : until], *after]
    return [message for turn in kept for message in turn]


def _turns(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """The transcript in whole turns; results and calls that belong to nothing are left out."""
    messages = [replace(each, calls=()) if each.role is not Role.ASSISTANT else each for each in messages]
    results: dict[str, Message] = {}
    for message in messages:
        if message.role is Role.TOOL:
            results.setdefault(message.call_id, message)
    group: list[Message] = []
    for message in messages:
        if message.role is Role.SYSTEM and group and group[0].calls:
            group.append(message)
        elif turn := _turn(message, results):
            if group:
                yield group
            group = turn
    if group:
        yield group


def _turn(message: Message, results: dict[str, Message]) -> list[Message]:
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
