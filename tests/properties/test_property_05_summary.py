"""Property 5: of more than 20 messages at most 20 are sent, the summary among them, within the token budget.

And property 4 for the whole prompt: what is sent of the past is in order and without a gap, whatever else is added.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.dialogues import REGISTRY, THREAD, bot, brief, call, person, placed, result, transcripts
from threadline.agents.copilot import context
from threadline.agents.copilot.context import Budget, Past
from threadline.agents.models.port import Prompt
from threadline.domain.answers import is_blank
from threadline.domain.dialogue import Message, Role, ToolChoice
from threadline.tools import access
from threadline.tools.context import Ports

ALLOWED = access.allowed(REGISTRY, Ports(), read_only=False)
BUDGETS = st.integers(4_000, 20_000).map(lambda tokens: Budget(tokens=tokens))


def begun(past: Past, said: list[str], budget: Budget, summary: str) -> tuple[Past, list[Message], Prompt]:
    """The first call of a turn, as the activity makes it; `summary` is what the model answers when asked for one."""
    fresh = context.from_people([("", text, ()) for text in said], budget)
    cut = context.cut(past, fresh, budget)
    kept = Past(context.as_summary(summary), cut.kept) if cut.older else past
    current = [brief(7, since=cut.since).message(), *fresh]
    return kept, current, prompt(kept, current)


def prompt(past: Past, current: list[Message]) -> Prompt:
    return context.prompt_of(THREAD, past, current, (REGISTRY, ALLOWED), ToolChoice.AUTO)


@pytest.mark.promise("memory:context:bounded")
@settings(max_examples=150, deadline=None)
@given(transcripts(), st.lists(st.text(max_size=50_000), min_size=1, max_size=5), BUDGETS, st.text(max_size=30_000))
def test_property_5_more_than_20_messages_become_20_within_the_budget(
    earlier: list[Message], said: list[str], budget: Budget, summary: str
) -> None:
    _, _, sent = begun(Past("", placed(earlier)), said, budget, summary)
    assert len(sent.messages) <= 20
    assert sum(context.tokens(each) for each in sent.messages) <= budget.tokens


@pytest.mark.promise("memory:summary:extended")
@settings(max_examples=100, deadline=None)
@given(transcripts(least=1), st.text(min_size=1, max_size=2_000), BUDGETS)
def test_property_5_a_summary_is_extended_and_what_is_left_goes_on_from_it(
    earlier: list[Message], summary: str, budget: Budget
) -> None:
    past = Past(summary, placed(earlier, first=40))
    cut = context.cut(past, [person("new")], budget)
    assert cut.older + cut.kept == past.messages
    assert cut.until == (cut.older[-1][0] if cut.older else 0)
    assert f"Summary so far: {summary}" in context.summary_prompt(past, cut.older).messages[0].content


@pytest.mark.promise("memory:context:in-order")
@settings(max_examples=150, deadline=None)
@given(transcripts(), BUDGETS)
def test_property_4_what_is_sent_of_the_past_is_its_end_in_order(earlier: list[Message], budget: Budget) -> None:
    kept, _, sent = begun(Past("", placed(earlier)), ["new"], budget, "They spoke.")
    *shown, newest = [each.content for each in sent.messages if each.role is not Role.SYSTEM]
    assert newest == "new"
    assert shown == [each.content for _, each in kept.messages if says_something(each)]
    assert kept.messages == placed(earlier)[len(earlier) - len(kept.messages) :]


def says_something(message: Message) -> bool:
    """A provider refuses an assistant's message with nothing in it."""
    return message.role is not Role.ASSISTANT or bool(message.calls) or not is_blank(message.content)


@pytest.mark.promise("memory:context:prefix")
@settings(max_examples=100, deadline=None)
@given(transcripts(least=1), st.integers(1, 5), st.lists(st.text(max_size=300), max_size=3))
def test_the_calls_of_a_turn_begin_byte_for_byte_like_the_one_before(
    earlier: list[Message], steps: int, interjections: list[str]
) -> None:
    past, current, before = begun(Past("", placed(earlier)), ["new"], Budget(), "They spoke.")
    for step in range(steps):
        calls = [call(f"now{step}.{number}") for number in range(2)]
        current += [bot("", *calls, opaque="{}"), *(result(each.id, "y" * 19_000) for each in calls)]
        current += [person(text) for text in interjections[step : step + 1]]
        after = prompt(past, current)
        assert repr(after.messages).startswith(repr(before.messages)[:-1])
        assert (after.instructions, after.tools, after.cache_key) == (
            before.instructions,
            before.tools,
            before.cache_key,
        )
        before = after
