"""Property 5: of more than 20 messages at most 20 are sent, the summary among them, within the token budget.

And property 4 for the whole prompt: what is sent of the past is in order and without a gap, whatever else is added.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conversations.dialogues import REGISTRY, THREAD, bot, brief, call, person, placed, result, transcripts
from tests.properties.turning import Model
from threadline.conversations import context_window as context
from threadline.conversations.context_window import Budget, Past
from threadline.conversations.contract import TalkTurn, ThinkRequest
from threadline.conversations.model.answers import is_blank
from threadline.conversations.prompt_building import Question, TakingUp
from threadline.conversations.summary import Summaries
from threadline.db.engine import Database
from threadline.db.values import storable
from threadline.models.chat_model import Prompt
from threadline.models.model import Message, ModelReply, OutcomeKind, Role, ToolChoice
from threadline.threads import addressing, messages
from threadline.threads.addressing import Thread
from threadline.threads.messages import IncomingMessage
from threadline.threads.user_names import Names
from threadline.tools import access
from threadline.tools.context import Ports

ALLOWED = access.allowed(REGISTRY, Ports(), read_only=False)
BUDGETS = st.integers(4_000, 20_000).map(lambda tokens: Budget(tokens=tokens))


_threads = (Thread("T1", "C1", f"1{number:09}.000100") for number in itertools.count(1))
"""Examples share a database, so each has a thread of its own."""


class Nobody:
    """Slack, which knows no names."""

    async def person(self, user: str) -> None:
        return None


@dataclass
class Talk:
    """A conversation in Postgres, whose turns are prepared by what production runs."""

    database: Database
    thread: Thread

    async def hear(self, turn: int, said: Sequence[str]) -> None:
        """Somebody writes to the bot before a turn."""
        batch = [self._message(f"{turn}.{number:06}", text) for number, text in enumerate(said, start=1)]
        async with self.database.begin() as work:
            await work.conversations.store(self.thread, batch)
            await work.conversations.judged(self.thread, dict.fromkeys(each.id for each in batch))

    def _message(self, ts: str, text: str) -> IncomingMessage:
        identity = addressing.message_id(self.thread.team, self.thread.channel, f"{self.thread.ts}:{ts}")
        kind, sender = messages.MESSAGE, messages.UNKNOWN
        return IncomingMessage(identity, kind, sender, "U1", text, self.thread.channel, ts, addressed=True)

    async def had(self, earlier: Sequence[Message]) -> None:
        """The first turn, with all that its transcript holds."""
        entries = [(f"e:{number}", each) for number, each in enumerate(earlier)]
        async with self.database.begin() as work:
            await work.transcripts.append(self.thread, 1, 1, entries)
            await work.conversations.settle(
                self.thread, 1, OutcomeKind.ANSWERED, "Done.", "U1", detail=False, model_calls=1, question=""
            )

    async def begun(self, summary: str) -> tuple[Question, Prompt, int]:
        """The first call of the second turn, and how far the summary tells; `summary`: as the model has it."""
        budget, turn = Budget(), TalkTurn(self.thread, 2)
        async with self.database.begin() as work:
            crowded = (await work.conversations.marks(self.thread)).crowded
        if crowded:
            await Summaries(self.database, Model(*[ModelReply(summary)] * 99), budget).make(turn)
        taking_up = TakingUp(self.database, Names(Nobody()), budget, lambda: 1_772_000_000.0)
        question = await taking_up.question(ThinkRequest(self.thread, 2, 1, ToolChoice.AUTO))
        async with self.database.begin() as work:
            until = (await work.transcripts.read(self.thread)).summary_until
        return question, prompt(question.past, list(question.current)), until


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    transcripts(),
    st.lists(st.text(min_size=1, max_size=300).map(lambda text: f"{text * 40}?"), min_size=1, max_size=5),
    st.text(max_size=3_000),
)
async def test_property_5_more_than_20_messages_become_20_within_the_budget(
    database: Database, earlier: list[Message], said: list[str], summary: str
) -> None:
    """And what the summary does not tell is sent as it is: in order, to the last word, with nothing between the two."""
    talk = Talk(database, next(_threads))
    await talk.hear(1, ["hello"])
    await talk.had(earlier)
    await talk.hear(2, said)
    question, sent, until = await talk.begun(summary)
    assert len(sent.messages) <= 20
    assert sum(context.tokens(each) for each in sent.messages) <= Budget().tokens
    kept = [each for _, each in question.past.messages]
    assert kept == earlier[len(earlier) - len(kept) :]
    assert is_blank(summary) or until + len(kept) == len(earlier)
    assert question.past.summary == ("" if until == 0 else context.as_summary(storable(summary)))


def begun(past: Past, said: list[str], budget: Budget) -> tuple[Past, list[Message], Prompt]:
    """The first call of a turn that has had no summary made, or had none that could be made."""
    fresh = context.from_people([("", text, ()) for text in said], budget)
    cut = context.cut(past, fresh, budget)
    kept = Past(past.summary, cut.kept)
    current = [brief(7, since=cut.since).message(), *fresh]
    return kept, current, prompt(kept, current)


def prompt(past: Past, current: list[Message]) -> Prompt:
    return context.prompt_of(THREAD, past, current, (REGISTRY, ALLOWED), ToolChoice.AUTO)


@settings(max_examples=150)
@given(transcripts(), st.lists(st.text(max_size=50_000), min_size=1, max_size=5), BUDGETS, st.text(max_size=30_000))
def test_property_5_without_a_new_summary_they_are_as_few(
    earlier: list[Message], said: list[str], budget: Budget, summary: str
) -> None:
    _, _, sent = begun(Past(context.as_summary(summary), placed(earlier)), said, budget)
    assert len(sent.messages) <= 20
    assert sum(context.tokens(each) for each in sent.messages) <= budget.tokens


@settings(max_examples=100)
@given(transcripts(least=1), st.text(min_size=1, max_size=2_000), BUDGETS)
def test_property_5_a_summary_is_extended_and_what_is_left_goes_on_from_it(
    earlier: list[Message], summary: str, budget: Budget
) -> None:
    past = Past(summary, placed(earlier, first=40))
    cut = context.cut(past, [person("new")], budget)
    assert cut.older + cut.kept == past.messages
    assert cut.until == (cut.older[-1][0] if cut.older else 0)
    assert f"Summary so far: {summary}" in context.summary_prompt(past, cut.older).messages[0].content


@settings(max_examples=150)
@given(transcripts(), BUDGETS)
def test_property_4_what_is_sent_of_the_past_is_its_end_in_order(earlier: list[Message], budget: Budget) -> None:
    kept, _, sent = begun(Past("", placed(earlier)), ["new"], budget)
    *shown, newest = [each.content for each in sent.messages if each.role is not Role.SYSTEM]
    assert newest == "new"
    assert shown == [each.content for _, each in kept.messages if says_something(each)]
    assert kept.messages == placed(earlier)[len(earlier) - len(kept.messages) :]


def says_something(message: Message) -> bool:
    """A provider refuses an assistant's message with nothing in it."""
    return message.role is not Role.ASSISTANT or bool(message.calls) or not is_blank(message.content)


@settings(max_examples=100)
@given(transcripts(least=1), st.integers(1, 5), st.lists(st.text(max_size=300), max_size=3))
def test_the_calls_of_a_turn_begin_byte_for_byte_like_the_one_before(
    earlier: list[Message], steps: int, interjections: list[str]
) -> None:
    past, current, before = begun(Past("", placed(earlier)), ["new"], Budget())
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
