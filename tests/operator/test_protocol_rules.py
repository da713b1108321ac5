"""The operator's protocol, rule by rule."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from threadline.operator.model.protocol import (
    KINDS,
    MAX_STEPS,
    MOST_LOADED,
    Asked,
    Ending,
    Final,
    FinalText,
    Kind,
    Permit,
    ProtocolState,
    after,
    before_final_text,
    check,
    ending,
    kind_of,
)
from threadline.operator.model.protocol_refusals import Refusal
from threadline.tools.public_text import sentence

A, B = "rfp_a", "rfp_b"
FREE, SCOPED = ProtocolState(), ProtocolState(scope=A)
LOAD, READ, GLOBAL, SPEAK = (Asked(kind) for kind in (Kind.LOAD, Kind.READ, Kind.GLOBAL, Kind.SPEAK))
PROPOSE = Asked(Kind.PROPOSE)
WRITES = (Kind.PATCH, Kind.JOURNAL, Kind.EVENT)


def told(state: ProtocolState, call: Asked) -> str:
    """What the model reads of a refusal; empty when the call may run."""
    verdict = check(state, call)
    return f"{verdict.message} {verdict.suggestion}" if isinstance(verdict, Refusal) else ""


def having(state: ProtocolState, *done: tuple[Kind, str, bool | None]) -> ProtocolState:
    for kind, rfp_id, succeeded in done:
        state = after(state, Asked(kind, rfp_id), succeeded)
    return state


LOADED = having(SCOPED, (Kind.LOAD, A, True))
BOTH_LOADED = having(FREE, (Kind.LOAD, A, True), (Kind.LOAD, B, True))


@pytest.mark.parametrize("kind", WRITES)
@pytest.mark.parametrize(
    ("state", "rfp_id", "refused"),
    [
        (SCOPED, A, "Call opportunity_load with rfp_id rfp_a first."),
        (SCOPED, B, "Call opportunity_load with rfp_id rfp_a first."),
        (SCOPED, "", "Call opportunity_load with rfp_id rfp_a first."),
        (having(SCOPED, (Kind.LOAD, B, True)), B, "This turn is about rfp_a"),
        (having(SCOPED, (Kind.LOAD, B, True)), A, "Call opportunity_load with rfp_id rfp_a first."),
        (having(SCOPED, (Kind.LOAD, A, False)), A, "Call opportunity_load with rfp_id rfp_a first."),
        (having(SCOPED, (Kind.LOAD, A, None)), A, "Call opportunity_load with rfp_id rfp_a first."),
        (LOADED, A, ""),
        (LOADED, B, "This turn is about rfp_a"),
        (LOADED, "RFP_A", "This turn is about rfp_a"),
        (LOADED, "", "This turn is about rfp_a"),
        (FREE, A, "No RFP was loaded in this turn"),
        (FREE, "", "No RFP was loaded in this turn"),
        (having(FREE, (Kind.LOAD, A, True)), A, ""),
        (having(FREE, (Kind.LOAD, A, True)), B, "Only what was loaded in this turn can be changed: rfp_a."),
        (having(FREE, (Kind.LOAD, A, True)), "", "Only what was loaded"),
        (BOTH_LOADED, A, ""),
        (BOTH_LOADED, B, ""),
        (BOTH_LOADED, "rfp_c", "rfp_a, rfp_b"),
    ],
)
def test_a_change_names_the_scope_or_what_was_loaded(
    kind: Kind, state: ProtocolState, rfp_id: str, refused: str
) -> None:
    words = told(state, Asked(kind, rfp_id))
    assert refused in words
    assert bool(words) == bool(refused)
    assert not refused or "opportunity_load" in words or state.did_load


@pytest.mark.parametrize(
    ("done", "verdict"),
    [
        ((), "status"),
        (((Kind.LOAD, A, True),), "status"),
        (((Kind.READ, "", True), (Kind.READ, "", False)), "status"),
        (((Kind.LOAD, A, True), (Kind.SPEAK, "", False)), "status"),
        (((Kind.LOAD, A, True), (Kind.PATCH, A, True)), "free"),
        (((Kind.LOAD, A, True), (Kind.JOURNAL, A, True)), "free"),
        (((Kind.LOAD, A, True), (Kind.PATCH, A, False), (Kind.JOURNAL, A, True)), "free"),
        (((Kind.LOAD, A, True), (Kind.PATCH, A, True), (Kind.JOURNAL, A, False)), "free"),
        (((Kind.LOAD, A, True), (Kind.PATCH, A, False)), "A change was tried"),
        (((Kind.LOAD, A, True), (Kind.PATCH, A, None)), "A change was tried"),
        (((Kind.PATCH, A, False), (Kind.LOAD, A, True)), "A change was tried"),
        (((Kind.PATCH, B, False),), "Call opportunity_load with rfp_id rfp_a first."),
        (((Kind.LOAD, A, True), (Kind.EVENT, A, True)), "A change was tried"),
        (((Kind.GLOBAL, "", True),), "Nothing of this turn is written down"),
        (((Kind.GLOBAL, "", False),), "Call opportunity_load with rfp_id rfp_a first."),
        (((Kind.PROPOSE, "", False),), "Nothing of this turn is written down"),
    ],
)
def test_with_a_scope_nothing_is_said_before_something_is_written_save_in_a_status_turn(
    done: tuple[tuple[Kind, str, bool | None], ...], verdict: str
) -> None:
    state = having(SCOPED, *done)
    if verdict in ("status", "free"):
        assert check(state, SPEAK) == Permit(journal_in=A if verdict == "status" else "")
    else:
        assert verdict in told(state, SPEAK)
        assert "journal_append" in told(state, SPEAK)


@pytest.mark.parametrize(
    ("done", "refused"),
    [
        ((), False),
        (((Kind.LOAD, A, True), (Kind.GLOBAL, "", True)), False),
        (((Kind.PATCH, A, False),), False),
        (((Kind.LOAD, A, True), (Kind.PATCH, B, False)), False),
        (((Kind.LOAD, A, True), (Kind.PATCH, A, False)), True),
        (((Kind.LOAD, A, True), (Kind.PATCH, A, None)), True),
        (((Kind.LOAD, A, True), (Kind.PATCH, A, False), (Kind.JOURNAL, A, True)), False),
    ],
)
def test_without_a_scope_only_a_change_that_was_tried_has_to_be_written_down(
    done: tuple[tuple[Kind, str, bool | None], ...], refused: bool
) -> None:
    """Else nobody could ask which RFP is meant."""
    assert ("write down with journal_append for rfp_a" in told(having(FREE, *done), SPEAK)) == refused
    assert isinstance(check(having(FREE, *done), SPEAK), Permit) != refused


@pytest.mark.parametrize("call", [READ, LOAD, GLOBAL, SPEAK, PROPOSE, Asked(Kind.JOURNAL, A)])
@pytest.mark.parametrize("state", [FREE, SCOPED, LOADED])
@pytest.mark.parametrize("end", [SPEAK, PROPOSE])
@pytest.mark.parametrize("succeeded", [True, None])
def test_behind_its_message_or_proposal_a_turn_runs_nothing(
    call: Asked, state: ProtocolState, end: Asked, succeeded: bool | None
) -> None:
    assert "the turn is over" in told(after(state, end, succeeded), call)


@pytest.mark.parametrize("call", [READ, GLOBAL, PROPOSE, Asked(Kind.LOAD, A), Asked(Kind.LOAD, B)])
@pytest.mark.parametrize("state", [FREE, SCOPED, LOADED, BOTH_LOADED])
def test_what_belongs_to_no_rfp_runs_at_any_time(call: Asked, state: ProtocolState) -> None:
    assert check(state, call) == Permit()


def test_a_proposal_that_names_an_rfp_is_held_to_the_rules_of_a_change() -> None:
    assert "opportunity_load" in told(SCOPED, Asked(Kind.PROPOSE, A))
    assert told(LOADED, Asked(Kind.PROPOSE, B))
    assert check(LOADED, Asked(Kind.PROPOSE, A)) == Permit()


def test_a_turn_without_a_scope_loads_only_so_many() -> None:
    state = having(FREE, *((Kind.LOAD, f"rfp_{number}", True) for number in range(MOST_LOADED)))
    assert check(state, Asked(Kind.LOAD, "rfp_0")) == Permit()
    assert "rfp_get" in told(state, Asked(Kind.LOAD, "rfp_more"))


@pytest.mark.parametrize(
    ("state", "final"),
    [
        (FREE, Final(FinalText.AS_IT_IS)),
        (having(FREE, (Kind.LOAD, A, True), (Kind.GLOBAL, "", True)), Final(FinalText.AS_IT_IS)),
        (having(FREE, (Kind.LOAD, A, True), (Kind.PATCH, A, False)), Final(FinalText.WITH_FAILURES, (A,))),
        (having(BOTH_LOADED, (Kind.PATCH, A, False), (Kind.PATCH, B, True)), Final(FinalText.AS_IT_IS)),
        (having(BOTH_LOADED, (Kind.PATCH, "", None)), Final(FinalText.WITH_FAILURES, (A, B))),
        (SCOPED, Final(FinalText.JOURNALLED, (A,))),
        (LOADED, Final(FinalText.JOURNALLED, (A,))),
        (having(LOADED, (Kind.GLOBAL, "", True)), Final(FinalText.JOURNALLED, (A,))),
        (having(LOADED, (Kind.EVENT, A, True)), Final(FinalText.JOURNALLED, (A,))),
        (having(LOADED, (Kind.PATCH, A, True)), Final(FinalText.AS_IT_IS)),
        (having(LOADED, (Kind.JOURNAL, A, True)), Final(FinalText.AS_IT_IS)),
        (having(LOADED, (Kind.PATCH, A, False)), Final(FinalText.WITH_FAILURES, (A,))),
        (having(LOADED, (Kind.PATCH, A, None)), Final(FinalText.WITH_FAILURES, (A,))),
        (having(SCOPED, (Kind.PATCH, B, False)), Final(FinalText.WITH_FAILURES, (A,))),
        (having(LOADED, (Kind.PATCH, A, False), (Kind.JOURNAL, A, True)), Final(FinalText.AS_IT_IS)),
        (having(LOADED, (Kind.SPEAK, "", True)), Final(FinalText.JOURNALLED, (A,))),
        (having(LOADED, (Kind.PATCH, A, False), (Kind.SPEAK, "", None)), Final(FinalText.WITH_FAILURES, (A,))),
        (having(LOADED, (Kind.PATCH, A, True), (Kind.SPEAK, "", True)), Final(FinalText.AS_IT_IS)),
        (having(LOADED, (Kind.PROPOSE, "", True)), Final(FinalText.JOURNALLED, (A,))),
        (having(LOADED, (Kind.PATCH, A, False), (Kind.PROPOSE, "", True)), Final(FinalText.WITH_FAILURES, (A,))),
        (having(FREE, (Kind.PROPOSE, "", True)), Final(FinalText.AS_IT_IS)),
    ],
)
def test_what_becomes_of_the_words_that_end_a_turn(state: ProtocolState, final: Final) -> None:
    assert before_final_text(state) == final


@pytest.mark.parametrize(
    ("state", "step", "calls", "end"),
    [
        (LOADED, 1, True, None),
        (LOADED, 1, False, Ending.TEXT),
        (LOADED, MAX_STEPS - 1, True, None),
        (LOADED, MAX_STEPS, True, Ending.STEP_LIMIT),
        (LOADED, MAX_STEPS, False, Ending.TEXT),
        (replace(LOADED, did_post=True), 1, True, Ending.SPOKEN),
        (replace(LOADED, did_post=True), MAX_STEPS, True, Ending.SPOKEN),
        (replace(LOADED, proposed=True), 1, True, Ending.PROPOSED),
    ],
)
def test_a_turn_ends_on_text_on_speaking_on_a_proposal_or_behind_its_last_step(
    state: ProtocolState, step: int, calls: bool, end: Ending | None
) -> None:
    assert ending(state, step, calls=calls) is end
    assert MAX_STEPS == 8


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_a_tool_is_known_by_its_name_with_dots_or_without(name: str, kind: Kind) -> None:
    assert kind_of(name, read_only=False) is kind
    assert kind_of(name.replace("_", ".", 1), read_only=True) is kind


def test_what_the_protocol_does_not_know_reads_or_is_global() -> None:
    assert kind_of("rfp_get", read_only=True) is Kind.READ
    assert kind_of("schedule_job", read_only=False) is Kind.GLOBAL


def test_example_1_of_the_design_ends_with_one_message() -> None:
    state = SCOPED
    for call in (Asked(Kind.LOAD, A), Asked(Kind.PATCH, A), Asked(Kind.JOURNAL, A), SPEAK):
        assert check(state, call) == Permit()
        state = after(state, call, True)
    assert (state.did_load, state.did_patch, state.did_journal, state.did_post) == (True, True, True, True)


def test_example_4_of_the_design_is_a_status_turn() -> None:
    assert check(after(SCOPED, Asked(Kind.LOAD, A), True), SPEAK) == Permit(journal_in=A)


CALLS = st.builds(Asked, st.sampled_from(Kind), st.sampled_from([A, B, ""]))
RESULTS = st.sampled_from([True, False, None])
STATES = st.builds(
    having, st.sampled_from([FREE, SCOPED]), st.tuples(st.sampled_from(Kind), st.sampled_from([A, B, ""]), RESULTS)
)
HISTORIES = st.lists(st.tuples(CALLS, RESULTS), max_size=8)


def played(state: ProtocolState, history: list[tuple[Asked, bool | None]]) -> ProtocolState:
    for call, succeeded in history:
        state = after(state, call, succeeded)
    return state


@given(STATES, HISTORIES, CALLS, RESULTS)
def test_the_same_result_twice_is_the_same_once(
    state: ProtocolState, history: list[tuple[Asked, bool | None]], call: Asked, succeeded: bool | None
) -> None:
    state = played(state, history)
    once = after(state, call, succeeded)
    assert after(once, call, succeeded) == once
    assert once.joined(once) == once.joined(state) == state.joined(once) == once


@given(STATES, st.tuples(HISTORIES, HISTORIES, HISTORIES))
def test_what_calls_learn_side_by_side_is_joined_in_any_order(
    state: ProtocolState, histories: tuple[list[tuple[Asked, bool | None]], ...]
) -> None:
    one, other, third = (played(state, each) for each in histories)
    assert one.joined(other) == other.joined(one)
    assert one.joined(other).joined(third) == one.joined(other.joined(third))
    assert one.joined(state) == one


def test_states_of_turns_about_different_rfps_are_not_joined() -> None:
    with pytest.raises(ValueError, match="cannot be joined"):
        SCOPED.joined(FREE)


@given(STATES, HISTORIES)
def test_a_state_survives_json(state: ProtocolState, history: list[tuple[Asked, bool | None]]) -> None:
    state, kind = played(state, history), TypeAdapter(ProtocolState)
    assert kind.validate_json(kind.dump_json(state)) == state
    assert kind.validate_json("{}") == ProtocolState()


@given(STATES, HISTORIES, CALLS)
def test_what_a_model_is_told_reaches_it_whole(
    state: ProtocolState, history: list[tuple[Asked, bool | None]], call: Asked
) -> None:
    verdict = check(played(state, history), call)
    if isinstance(verdict, Refusal):
        assert sentence(verdict.message, "") == verdict.message
        assert sentence(verdict.suggestion, "") == verdict.suggestion
