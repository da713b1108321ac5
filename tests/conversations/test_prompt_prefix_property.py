"""Each prompt of a turn begins like the one before, so that the provider's cache serves it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conversations.dialogues import REGISTRY, THREAD, bot, brief, call, person, placed, result, transcripts
from threadline.conversations import context_window as context
from threadline.conversations.context_window import Budget, Past
from threadline.models.chat_model import Prompt
from threadline.models.model import Message, ToolChoice
from threadline.tools import access
from threadline.tools.context import Ports

ALLOWED = access.allowed(REGISTRY, Ports(), read_only=False)


def prompt(past: Past, current: list[Message]) -> Prompt:
    return context.prompt_of(THREAD, past, current, (REGISTRY, ALLOWED), ToolChoice.AUTO)


@settings(max_examples=40)
@given(transcripts(least=1), st.integers(1, 5), st.lists(st.text(max_size=300), max_size=3))
def test_each_prompt_of_a_turn_begins_with_the_one_before(
    earlier: list[Message], steps: int, interjections: list[str]
) -> None:
    cut = context.cut(Past("", placed(earlier)), [person("new")], Budget())
    past, current = Past("", cut.kept), [brief(7, since=cut.since).message(), person("new")]
    before = prompt(past, current)
    for step in range(steps):
        calls = [call(f"now{step}.{number}") for number in range(2)]
        current += [bot("", *calls, opaque="{}"), *(result(each.id, "y" * 19_000) for each in calls)]
        current += [person(text) for text in interjections[step : step + 1]]
        after = prompt(past, current)
        assert after.messages[: len(before.messages)] == before.messages
        assert (after.instructions, after.tools, after.cache_key) == (
            before.instructions,
            before.tools,
            before.cache_key,
        )
        before = after
