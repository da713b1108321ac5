"""The loop's own property: whatever a model, its tools and the person do, there is one end, and it is soon."""

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.conversations.scripted_turn import Script
from threadline.conversations.model import answers
from threadline.conversations.react_loop import MAX_TURNS
from threadline.models.model import (
    Execution,
    ExecutionStatus,
    ModelReply,
    Outcome,
    OutcomeKind,
    StepFailed,
    ToolCall,
    ToolChoice,
)

OUTCOME = TypeAdapter(Outcome)

BLANK = st.sampled_from(["", " ", "\n\n", "\u200b", "\x00\ufeff"])
TEXT = BLANK | st.sampled_from(["no_reply", "Done.", "x" * 5_000, "`a`\n# b"]) | st.text(max_size=3)
IDS = st.sampled_from(["", "1", "2", "3", "4", "5", "6", "call_0"])
CALLS = st.builds(ToolCall, id=IDS, name=TEXT, read_only=st.booleans())
REPLIES = st.builds(ModelReply, text=TEXT, calls=st.lists(CALLS, max_size=3).map(tuple), silent=st.booleans())
FAILURES = st.builds(StepFailed, TEXT)
EXECUTIONS = st.builds(Execution, IDS, TEXT, st.sampled_from(ExecutionStatus), TEXT, st.booleans())
RESULTS = st.lists(EXECUTIONS, max_size=3)
ASKING = st.builds(ModelReply, text=TEXT, calls=st.lists(CALLS, min_size=1, max_size=3).map(tuple))
MODELS: st.SearchStrategy[list[ModelReply | StepFailed]] = st.lists(ASKING | REPLIES | FAILURES, max_size=8)
ASKERS: st.SearchStrategy[list[ModelReply | StepFailed]] = st.lists(ASKING, min_size=3, max_size=8)
"""They would rather call tools than talk, since any other is soon done."""
STOPS: st.SearchStrategy[list[bool]] = st.just([]) | st.lists(st.booleans(), max_size=10)
TURNS = st.just(MAX_TURNS) | st.integers(-1, 9)


def played(
    replies: list[ModelReply | StepFailed],
    results: list[list[Execution]],
    stops: list[bool],
    max_turns: int,
    silence: bool,
) -> tuple[Script, Outcome]:
    script, left = Script(replies, results), list(stops)
    outcome = script.play(
        max_turns=max_turns, stopping=lambda: left.pop(0) if left else False, may_be_silent=lambda: silence
    )
    return script, outcome


@settings(max_examples=150)
@given(MODELS | ASKERS, st.lists(RESULTS, max_size=4), STOPS, TURNS)
def test_the_person_gets_one_message_that_can_be_seen(
    replies: list[ModelReply | StepFailed], results: list[list[Execution]], stops: list[bool], max_turns: int
) -> None:
    _, outcome = played(replies, results, stops, max_turns, silence=False)
    assert not answers.is_blank(outcome.text)
    assert outcome.kind is not OutcomeKind.SILENT
    assert (outcome.kind is OutcomeKind.ANSWERED) == (outcome.step > 0)
    assert outcome.step or len(outcome.text) <= answers.LIMIT


@settings(max_examples=150)
@given(MODELS | ASKERS, st.lists(RESULTS, max_size=4), STOPS, TURNS, st.booleans())
def test_the_model_is_called_at_most_once_more_than_it_may_ask_for_tools(
    replies: list[ModelReply | StepFailed],
    results: list[list[Execution]],
    stops: list[bool],
    max_turns: int,
    silence: bool,
) -> None:
    script, outcome = played(replies, results, stops, max_turns, silence)
    assert len(script.asked) == outcome.model_calls <= max(max_turns, 0) + 1
    assert ToolChoice.NONE not in script.asked[:-1]
    assert script.asked.count(ToolChoice.AUTO) <= max(max_turns, 0)


@settings(max_examples=150)
@given(MODELS | ASKERS, st.lists(RESULTS, max_size=4), STOPS, TURNS, st.booleans())
def test_only_calls_of_the_newest_reply_are_run_and_no_id_twice(
    replies: list[ModelReply | StepFailed],
    results: list[list[Execution]],
    stops: list[bool],
    max_turns: int,
    silence: bool,
) -> None:
    script, _ = played(replies, results, stops, max_turns, silence)
    ids = [call.id for calls in script.ran for call in calls]
    assert len(ids) == len(set(ids))
    assert all(script.ran)
    for calls, reply in zip(script.ran, script.ran_after, strict=True):
        assert set(calls) <= set(reply.calls)
    assert len({id(reply) for reply in script.ran_after}) == len(script.ran)


@settings(max_examples=150)
@given(MODELS | ASKERS, st.lists(RESULTS, max_size=4), STOPS, TURNS)
def test_silence_is_kept_only_by_a_model_that_has_touched_nothing(
    replies: list[ModelReply | StepFailed], results: list[list[Execution]], stops: list[bool], max_turns: int
) -> None:
    _, outcome = played(replies, results, stops, max_turns, silence=True)
    assert answers.is_blank(outcome.text) == (outcome.kind is OutcomeKind.SILENT)
    if outcome.kind is OutcomeKind.SILENT:
        assert all(each.read_only or each.status is ExecutionStatus.BLOCKED for each in outcome.executions)


@settings(max_examples=150)
@given(MODELS | ASKERS, st.lists(RESULTS, max_size=4), STOPS, TURNS, st.booleans())
def test_the_same_steps_lead_to_the_same_end_and_it_survives_json(
    replies: list[ModelReply | StepFailed],
    results: list[list[Execution]],
    stops: list[bool],
    max_turns: int,
    silence: bool,
) -> None:
    _, outcome = played(replies, results, stops, max_turns, silence)
    assert played(replies, results, stops, max_turns, silence)[1] == outcome
    assert OUTCOME.validate_json(OUTCOME.dump_json(outcome)) == outcome
