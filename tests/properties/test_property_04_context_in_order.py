"""Property 4: whenever a thread has a history, what is sent to the model holds its earlier messages in their order."""

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conversations.dialogues import REGISTRY, THREAD, bot, brief, call, person, placed, result
from threadline.conversations import context_window as context
from threadline.conversations.context_window import Budget, Past
from threadline.models.model import Message, Role, ToolChoice
from threadline.tools import access
from threadline.tools.context import Ports

ALLOWED = access.allowed(REGISTRY, Ports(), read_only=False)
FITS = Budget().messages - 2
"""Earlier messages that fit beside the newest one and the note of what holds in the turn."""


@st.composite
def histories(draw: st.DrawFn, most: int) -> list[Message]:
    """At most so many messages: people and the bot in any order, tools with their results."""
    ids, messages = count(), [person("first")]
    for number, shape in enumerate(draw(st.lists(st.sampled_from(["user", "assistant", "tools"]), max_size=most))):
        if shape == "tools":
            calls = [call(str(next(ids))) for _ in range(draw(st.integers(1, 3)))]
            group = [bot(f"text {number}", *calls), *(result(each.id, number) for each in calls)]
        else:
            group = [Message(Role(shape), f"text {number}")]
        if len(messages) + len(group) > most:
            break
        messages += group
    return messages


def sent(earlier: list[Message]) -> list[tuple[Role, str, list[str]]]:
    """What the first call of a turn sends of it, and the newest message; without notes."""
    fresh = [person("newest")]
    cut = context.cut(Past("", placed(earlier)), fresh, Budget())
    current = [brief(7, since=cut.since).message(), *fresh]
    prompt = context.prompt_of(THREAD, Past("", cut.kept), current, (REGISTRY, ALLOWED), ToolChoice.AUTO)
    return told([each for each in prompt.messages if each.role is not Role.SYSTEM])


def told(messages: list[Message]) -> list[tuple[Role, str, list[str]]]:
    return [(each.role, each.content, [one.id for one in each.calls] or [each.call_id]) for each in messages]


@settings(max_examples=200)
@given(histories(most=FITS))
def test_property_4_all_earlier_messages_are_sent_in_chronological_order(earlier: list[Message]) -> None:
    assert sent(earlier) == told([*earlier, person("newest")])


@settings(max_examples=200)
@given(histories(most=4 * FITS))
def test_property_4_of_a_long_history_the_latest_are_sent_without_a_gap(earlier: list[Message]) -> None:
    shown, whole = sent(earlier), told([*earlier, person("newest")])
    assert shown == whole[-len(shown) :]
    assert shown[0][0] is not Role.TOOL
    assert len(shown) <= Budget().messages
