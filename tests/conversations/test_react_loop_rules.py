"""A turn goes on and ends, reply by reply."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.conversations.scripted_turn import Script, done
from tests.support.examples import examples
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import (
    DEFAULT_MAX_STEPS,
    ConversationOutcome,
    Execution,
    OutcomeKind,
)
from threadline.errors import ClaimLost, Permanent
from threadline.models.model import ModelReply, StepFailed, ToolCall, ToolChoice, ToolKind
from threadline.slack.text import is_blank
from threadline.tools.model import ToolStatus

AUTO = ToolChoice.AUTO
NONE = ToolChoice.NONE
LOOK = ToolCall("1", "estimates.getProjectDetails", kind=ToolKind.READ)
CREATE = ToolCall("2", "estimates.createWbsItems")
TOTAL = ToolCall("3", "estimates.updateQuoteTotals")
ANSWER = ModelReply("Three items were created, and the total is 4,200.")
SILENT = ModelReply(silent=True)


def asks(*calls: ToolCall, text: str = "") -> ModelReply:
    return ModelReply(text, calls)


def endless() -> list[ModelReply]:
    return [asks(ToolCall(str(number), "ci.rerun")) for number in range(20)]


def test_text_without_calls_is_the_answer() -> None:
    script = Script([ANSWER, ModelReply("more")])
    outcome = script.play()
    assert (outcome.kind, outcome.text, outcome.step) == (OutcomeKind.ANSWERED, ANSWER.text, 1)
    assert (script.asked, script.ran) == ([AUTO], [])


def test_tools_are_called_until_there_is_an_answer() -> None:
    failed = Execution(CREATE.id, CREATE.name, ToolStatus.ERROR, "There is no such project.")
    script = Script(
        [asks(LOOK, text="Let me look."), asks(CREATE, TOTAL), ANSWER], [[done(LOOK)], [failed]]
    )
    outcome = script.play()
    assert script.ran == [[LOOK], [CREATE, TOTAL]]
    assert script.asked == [AUTO] * 3
    assert (outcome.text, outcome.step, outcome.model_calls) == (ANSWER.text, 3, 3)
    assert outcome.executions == (done(LOOK), failed)


@pytest.mark.parametrize("nothing", ["", " \n\t", "\u200b\ufeff"])
def test_model_without_text_and_calls_is_asked_once_more_without_tools(nothing: str) -> None:
    script = Script([asks(LOOK), ModelReply(nothing), ANSWER])
    assert script.play().text == ANSWER.text
    assert script.asked == [AUTO, AUTO, NONE]


def test_model_that_always_asks_for_tools_is_asked_for_words() -> None:
    script = Script([*endless()[:5], ANSWER])
    assert script.play().text == ANSWER.text
    assert script.asked == [AUTO] * 5 + [NONE]
    assert len(script.ran) == 5
    for max_steps in (0, 1, 8):
        script = Script(endless())
        assert script.play(max_steps=max_steps).model_calls == max_steps + 1
        assert script.asked == [AUTO] * max_steps + [NONE]


def test_calls_of_the_last_reply_are_not_run() -> None:
    script = Script([ModelReply(), asks(CREATE, text="Done.")])
    outcome = script.play()
    assert (outcome.kind, outcome.text, script.ran) == (OutcomeKind.ANSWERED, "Done.", [])


def test_model_without_words_ends_with_a_summary_or_a_sentence() -> None:
    outcome = Script([asks(LOOK)]).play()
    assert (outcome.kind, outcome.step) == (OutcomeKind.SUMMARISED, 0)
    assert outcome.text == answers.summary_text([done(LOOK)])
    outcome = Script([]).play()
    assert (outcome.kind, outcome.text) == (OutcomeKind.NO_ANSWER, answers.NOTHING_TO_SAY)


def test_call_with_a_known_id_is_not_run_again() -> None:
    again = ToolCall(CREATE.id, CREATE.name, '{"other": "arguments"}')
    script = Script(
        [asks(CREATE, CREATE), asks(again, TOTAL), asks(CREATE, text="Creating."), asks(TOTAL)]
    )
    assert script.play().kind is OutcomeKind.SUMMARISED
    assert script.ran == [[CREATE], [TOTAL]]
    assert script.asked == [AUTO, AUTO, AUTO, NONE]


@pytest.mark.parametrize("replies", [[], [asks(LOOK)], [asks(LOOK), ModelReply()]])
def test_model_that_fails_ends_the_turn_with_its_error(replies: list[ModelReply]) -> None:
    outcome = Script([*replies, StepFailed("The model refuses our key.")]).play()
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.text.startswith("The model refuses our key.")
    assert (LOOK.name in outcome.text) == bool(replies)
    assert outcome.model_calls == len(replies) + 1


@pytest.mark.parametrize(
    "error", [ClaimLost("taken over"), Permanent("no"), RuntimeError("a bug")]
)
def test_other_error_than_a_failed_step_is_raised(error: Exception) -> None:
    class Breaking(Script):
        def think(self, choice: ToolChoice) -> ModelReply:
            raise error

    with pytest.raises(type(error)):
        Breaking([]).play()


# -- stops


def test_stop_before_the_first_step_calls_no_model() -> None:
    script = Script([ANSWER])
    outcome = script.play(stop_requested=lambda: True)
    assert (outcome.kind, outcome.text) == (OutcomeKind.STOPPED, answers.stopped_text([]))
    assert script.asked == []


def test_stop_while_the_model_thinks_runs_none_of_its_calls() -> None:
    script = Script([asks(LOOK), asks(CREATE), ANSWER])
    outcome = script.play(stop_requested=lambda: len(script.asked) == 2)
    assert script.ran == [[LOOK]]
    assert (outcome.kind, outcome.text) == (
        OutcomeKind.STOPPED,
        answers.stopped_text([done(LOOK)]),
    )


@pytest.mark.parametrize("max_steps", [1, DEFAULT_MAX_STEPS])
def test_stop_while_tools_run_lets_them_end_and_calls_no_model(max_steps: int) -> None:
    script = Script([asks(LOOK), ANSWER])
    outcome = script.play(max_steps=max_steps, stop_requested=lambda: len(script.ran) == 1)
    assert (outcome.kind, outcome.text) == (
        OutcomeKind.STOPPED,
        answers.stopped_text([done(LOOK)]),
    )
    assert script.asked == [AUTO]


def test_answer_that_comes_with_the_stop_is_given() -> None:
    script = Script([asks(LOOK), ANSWER])
    assert script.play(stop_requested=lambda: len(script.asked) == 2).text == ANSWER.text


# -- silence


def test_silence_is_kept_where_it_is_allowed() -> None:
    scripts: list[list[ModelReply | StepFailed]] = [
        [SILENT],
        [asks(LOOK), SILENT],
        [asks(LOOK), StepFailed("The model is away.")],
    ]
    for replies in scripts:
        outcome = Script(replies).play(may_be_silent=True)
        assert (outcome.kind, outcome.text) == (OutcomeKind.SILENT, "")
    script = Script([])
    assert script.play(may_be_silent=True).kind is OutcomeKind.SILENT
    assert script.asked == [AUTO, NONE]


@pytest.mark.parametrize("status", [ToolStatus.OK, ToolStatus.ERROR, ToolStatus.UNKNOWN])
def test_change_forbids_silence(status: ToolStatus) -> None:
    changed = Execution(CREATE.id, CREATE.name, status)
    outcome = Script([asks(CREATE), SILENT, SILENT], [[changed]]).play(may_be_silent=True)
    assert (outcome.kind, outcome.text) == (
        OutcomeKind.SUMMARISED,
        answers.summary_text([changed]),
    )
    outcome = Script([asks(CREATE), StepFailed("The model is away.")], [[changed]]).play(
        may_be_silent=True
    )
    assert (outcome.kind, outcome.executions) == (OutcomeKind.FAILED, (changed,))


@pytest.mark.parametrize("text", ["", "NO_REPLY"])
def test_silent_model_is_asked_again_where_silence_is_not_allowed(text: str) -> None:
    silent = ModelReply(text, silent=True)
    script = Script([silent] * 9)
    assert script.play().kind is OutcomeKind.NO_ANSWER
    assert script.asked == [AUTO, AUTO, NONE]
    assert Script([silent, ANSWER]).play().text == ANSWER.text
    script = Script([silent] * 9)
    assert script.play(max_steps=1).model_calls == 2
    assert script.asked == [AUTO, NONE]


# -- any script

BLANK = st.sampled_from(["", " ", "\n\n", "\u200b", "\x00\ufeff"])
TEXT = (
    BLANK | st.sampled_from(["no_reply", "Done.", "x" * 5_000, "`a`\n# b"]) | st.text(max_size=3)
)
IDS = st.sampled_from(["", "1", "2", "3", "4", "5", "6", "call_0"])
CALLS = st.builds(
    ToolCall, id=IDS, name=TEXT, kind=st.sampled_from([ToolKind.READ, ToolKind.CHANGE])
)
REPLIES = st.builds(
    ModelReply, text=TEXT, calls=st.lists(CALLS, max_size=3).map(tuple), silent=st.booleans()
)
ASKING = st.builds(ModelReply, text=TEXT, calls=st.lists(CALLS, min_size=1, max_size=3).map(tuple))
EXECUTIONS = st.builds(
    Execution, IDS, TEXT, st.sampled_from(ToolStatus), TEXT, st.sampled_from(ToolKind)
)


@dataclass
class Played:
    """A turn over random replies, results and stops."""

    replies: list[ModelReply | StepFailed]
    results: list[list[Execution]]
    stops: list[bool]
    max_steps: int
    silence: bool
    script: Script = field(init=False)
    outcome: ConversationOutcome = field(init=False)

    def __post_init__(self) -> None:
        left = iter(self.stops)
        self.script = Script(self.replies, self.results)
        self.outcome = self.script.play(
            max_steps=self.max_steps,
            stop_requested=lambda: next(left, False),
            may_be_silent=self.silence,
        )


TURNS = st.builds(
    Played,
    # Scripts of calls alone, since any other script ends soon.
    replies=st.lists(ASKING | REPLIES | st.builds(StepFailed, TEXT), max_size=8)
    | st.lists(ASKING, min_size=3, max_size=8),
    results=st.lists(st.lists(EXECUTIONS, max_size=3), max_size=4),
    stops=st.just([]) | st.lists(st.booleans(), max_size=10),
    max_steps=st.just(DEFAULT_MAX_STEPS) | st.integers(-1, 9),
    silence=st.booleans(),
)


@examples(4)
@given(TURNS)
def test_any_turn_ends_with_one_visible_message_or_allowed_silence(turn: Played) -> None:
    outcome = turn.outcome
    assert is_blank(outcome.text) == (outcome.kind is OutcomeKind.SILENT)
    assert (outcome.kind is OutcomeKind.ANSWERED) == (outcome.step > 0)
    assert outcome.step or len(outcome.text) <= answers.LIMIT
    if outcome.kind is OutcomeKind.SILENT:
        assert turn.silence
        assert all(
            each.read_only or each.status is ToolStatus.BLOCKED for each in outcome.executions
        )
    stored = TypeAdapter(ConversationOutcome)
    assert stored.validate_json(stored.dump_json(outcome)) == outcome


@examples(3)
@given(TURNS)
def test_any_turn_calls_the_model_at_most_once_more_than_max_turns(turn: Played) -> None:
    asked = turn.script.asked
    most = max(turn.max_steps, 0)
    assert len(asked) == turn.outcome.model_calls <= most + 1
    assert NONE not in asked[:-1]
    assert asked.count(AUTO) <= most


@examples(3)
@given(TURNS)
def test_any_turn_runs_only_calls_of_the_newest_reply_and_no_id_twice(turn: Played) -> None:
    script = turn.script
    ids = [call.id for calls in script.ran for call in calls]
    assert len(ids) == len(set(ids))
    assert all(script.ran)
    for calls, reply in zip(script.ran, script.ran_after, strict=True):
        assert set(calls) <= set(reply.calls)
    assert len({id(reply) for reply in script.ran_after}) == len(script.ran)
