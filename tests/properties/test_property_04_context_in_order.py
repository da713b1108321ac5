"""Property 4: whenever a thread has a history, what is sent to the model holds its earlier messages in their order."""

from dataclasses import dataclass
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadline.domain.dialogue import Message, Role, ToolCall
from threadline.domain.window import ROOM, TURNS, window


@dataclass(frozen=True)
class Dialogue:
    """A thread as it was, and how many dialogue turns that is."""

    messages: list[Message]
    turns: int


@st.composite
def dialogues(draw: st.DrawFn, most: int) -> Dialogue:
    """People and the bot in any order, tools with their results, and at the end a person's message."""
    ids, messages = count(), [] if most < 2 else [Message(Role.USER, "first")]
    shapes = draw(st.lists(st.sampled_from(["user", "assistant", "tools"]), max_size=most - 2))
    for number, shape in enumerate(shapes):
        if shape == "tools":
            calls = tuple(ToolCall(str(next(ids)), "a") for _ in range(draw(st.integers(1, 3))))
            messages.append(Message(Role.ASSISTANT, f"text {number}", calls))
            messages += [Message(Role.TOOL, f"result of {call.id}", call_id=call.id) for call in calls]
        else:
            messages.append(Message(Role(shape), f"text {number}"))
    return Dialogue([*messages, Message(Role.USER, "newest")], len(shapes) + 2)


@pytest.mark.promise("memory:context:in-order")
@settings(max_examples=200, deadline=None)
@given(dialogues(most=TURNS - ROOM))
def test_property_4_all_earlier_messages_are_sent_in_chronological_order(dialogue: Dialogue) -> None:
    assert window(dialogue.messages) == dialogue.messages


@pytest.mark.promise("memory:context:in-order")
@settings(max_examples=200, deadline=None)
@given(dialogues(most=4 * TURNS))
def test_property_4_of_a_long_history_the_latest_are_sent_without_a_gap(dialogue: Dialogue) -> None:
    sent = window(dialogue.messages)
    assert sent == dialogue.messages[-len(sent) :]
    assert sum(message.role is not Role.TOOL for message in sent) == min(dialogue.turns, TURNS - ROOM)
