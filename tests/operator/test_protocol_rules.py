"""The operator's protocol, rule by rule."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from threadline.models.model import ToolKind
from threadline.operator.model.protocol import (
    MAX_STEPS,
    MOST_LOADED,
    Asked,
    Ending,
    Final,
    FinalText,
    Permit,
    ProtocolState,
    after,
    before_final_text,
    check,
    ending,
)
from threadline.operator.model.protocol_refusals import Refusal
from threadline.tools.public_text import public_sentence

Result = tuple[ToolKind, str, bool | None]
"""What came of a call: its kind, the RFP that it names, and whether it succeeded."""

A, B = "rfp_a", "rfp_b"
FREE, SCOPED = ProtocolState(), ProtocolState(scope=A)
LOAD, READ, GLOBAL, SPEAK, PROPOSE = map(
    Asked, (ToolKind.LOAD, ToolKind.READ, ToolKind.CHANGE, ToolKind.SPEAK, ToolKind.PROPOSE)
)
LOADED_A, LOADED_B = (ToolKind.LOAD, A, True), (ToolKind.LOAD, B, True)
PATCHED, PATCH_FAILED, PATCH_UNKNOWN = (ToolKind.PATCH, A, True), (ToolKind.PATCH, A, False), (ToolKind.PATCH, A, None)
JOURNALLED, EVENT_ADDED, GLOBAL_DONE = (
    (ToolKind.JOURNAL, A, True),
    (ToolKind.EVENT, A, True),
    (ToolKind.CHANGE, "", True),
)


def having(state: ProtocolState, *done: Result) -> ProtocolState:
    for kind, rfp_id, succeeded in done:
        state = after(state, Asked(kind, rfp_id), succeeded)
    return state


def refused(state: ProtocolState, call: Asked) -> str:
    """What the model reads of a refusal; empty when the call may run."""
    verdict = check(state, call)
    return f"{verdict.message} {verdict.suggestion}" if isinstance(verdict, Refusal) else ""


LOADED, BOTH_LOADED = having(SCOPED, LOADED_A), having(FREE, LOADED_A, LOADED_B)
LOAD_FIRST = "Call opportunity_load with rfp_id rfp_a first."
OTHER_RFP = "This turn is about rfp_a"


@pytest.mark.parametrize(
    ("state", "rfp_id", "words"),
    [
        (SCOPED, A, LOAD_FIRST),
        (SCOPED, B, LOAD_FIRST),
        (having(SCOPED, LOADED_B), B, LOAD_FIRST),
        (having(SCOPED, (ToolKind.LOAD, A, False)), A, LOAD_FIRST),
        (having(SCOPED, (ToolKind.LOAD, A, None)), A, LOAD_FIRST),
        (LOADED, A, ""),
        (LOADED, B, OTHER_RFP),
        (LOADED, "RFP_A", OTHER_RFP),
        (LOADED, "", OTHER_RFP),
        (FREE, A, "call opportunity_load with its id"),
        (having(FREE, LOADED_A), A, ""),
        (having(FREE, LOADED_A), "", "rfp_a"),
        (BOTH_LOADED, A, ""),
        (BOTH_LOADED, B, ""),
        (BOTH_LOADED, "rfp_c", "rfp_a, rfp_b"),
    ],
)
def test_change_names_the_scope_or_a_loaded_rfp(state: ProtocolState, rfp_id: str, words: str) -> None:
    for kind in (ToolKind.PATCH, ToolKind.JOURNAL, ToolKind.EVENT):
        told = refused(state, Asked(kind, rfp_id))
        assert words in told
        assert bool(told) == bool(words)


TRIED, NOT_WRITTEN = "A change was tried", "Nothing of this turn is written down"


@pytest.mark.parametrize(
    ("done", "words"),
    [
        pytest.param((LOADED_A, PATCH_FAILED), TRIED, id="patch failed"),
        pytest.param((LOADED_A, PATCH_UNKNOWN), TRIED, id="patch unknown"),
        pytest.param((PATCH_FAILED, LOADED_A), TRIED, id="patch failed before the load"),
        pytest.param(((ToolKind.PATCH, B, False),), LOAD_FIRST, id="patch of another RFP failed"),
        pytest.param((LOADED_A, EVENT_ADDED), TRIED, id="event only"),
        pytest.param((GLOBAL_DONE,), NOT_WRITTEN, id="global"),
        pytest.param(((ToolKind.CHANGE, "", False),), LOAD_FIRST, id="global failed"),
        pytest.param(((ToolKind.PROPOSE, "", False),), NOT_WRITTEN, id="proposal failed"),
    ],
)
def test_scoped_turn_says_nothing_before_something_is_written(done: tuple[Result, ...], words: str) -> None:
    told = refused(having(SCOPED, *done), SPEAK)
    assert words in told
    assert "journal_append" in told


def test_scoped_turn_that_only_read_speaks_by_way_of_the_journal() -> None:
    read = ((ToolKind.READ, "", True), (ToolKind.READ, "", False))
    for done in ((), (LOADED_A,), read, (LOADED_A, (ToolKind.SPEAK, "", False))):
        assert check(having(SCOPED, *done), SPEAK) == Permit(journal_in=A)


def test_scoped_turn_speaks_freely_once_something_is_written() -> None:
    for done in ((PATCHED,), (JOURNALLED,), (PATCH_FAILED, JOURNALLED), (PATCHED, (ToolKind.JOURNAL, A, False))):
        assert check(having(LOADED, *done), SPEAK) == Permit()


def test_turn_without_a_scope_writes_down_only_a_change_that_it_tried() -> None:
    """Else nobody could ask which RFP is meant."""
    for done in (
        (),
        (LOADED_A, GLOBAL_DONE),
        (PATCH_FAILED,),
        (LOADED_A, (ToolKind.PATCH, B, False)),
        (LOADED_A, PATCH_FAILED, JOURNALLED),
    ):
        assert check(having(FREE, *done), SPEAK) == Permit()
    for tried in (PATCH_FAILED, PATCH_UNKNOWN):
        assert "journal_append for rfp_a" in refused(having(FREE, LOADED_A, tried), SPEAK)


def test_turn_that_has_spoken_or_proposed_runs_nothing_more() -> None:
    calls = (READ, LOAD, GLOBAL, SPEAK, PROPOSE, Asked(ToolKind.JOURNAL, A))
    for call, state, end, succeeded in product(calls, (FREE, SCOPED, LOADED), (SPEAK, PROPOSE), (True, None)):
        assert "the turn is over" in refused(after(state, end, succeeded), call)


def test_call_that_changes_no_rfp_runs_at_any_time() -> None:
    for state in (FREE, SCOPED, LOADED, BOTH_LOADED):
        for call in (READ, GLOBAL, PROPOSE, Asked(ToolKind.LOAD, A), Asked(ToolKind.LOAD, B)):
            assert check(state, call) == Permit()


def test_proposal_that_names_an_rfp_is_held_to_the_rules_of_a_change() -> None:
    assert LOAD_FIRST in refused(SCOPED, Asked(ToolKind.PROPOSE, A))
    assert OTHER_RFP in refused(LOADED, Asked(ToolKind.PROPOSE, B))
    assert check(LOADED, Asked(ToolKind.PROPOSE, A)) == Permit()


def test_turn_without_a_scope_loads_a_limited_number_of_rfps() -> None:
    state = having(FREE, *((ToolKind.LOAD, f"rfp_{number}", True) for number in range(MOST_LOADED)))
    assert check(state, Asked(ToolKind.LOAD, "rfp_0")) == Permit()
    assert "rfp_get" in refused(state, Asked(ToolKind.LOAD, "rfp_more"))


@pytest.mark.parametrize(
    ("state", "final"),
    [
        (FREE, Final(FinalText.AS_IT_IS)),
        (having(FREE, LOADED_A, GLOBAL_DONE), Final(FinalText.AS_IT_IS)),
        (having(FREE, LOADED_A, PATCH_FAILED), Final(FinalText.WITH_FAILURES, (A,))),
        (having(BOTH_LOADED, PATCH_FAILED, (ToolKind.PATCH, B, True)), Final(FinalText.AS_IT_IS)),
        (having(BOTH_LOADED, (ToolKind.PATCH, "", None)), Final(FinalText.WITH_FAILURES, (A, B))),
        (SCOPED, Final(FinalText.JOURNALLED, (A,))),
        (having(LOADED, GLOBAL_DONE), Final(FinalText.JOURNALLED, (A,))),
        (having(LOADED, EVENT_ADDED), Final(FinalText.JOURNALLED, (A,))),
        (having(LOADED, PATCHED), Final(FinalText.AS_IT_IS)),
        (having(LOADED, JOURNALLED), Final(FinalText.AS_IT_IS)),
        (having(LOADED, PATCH_UNKNOWN), Final(FinalText.WITH_FAILURES, (A,))),
        (having(SCOPED, (ToolKind.PATCH, B, False)), Final(FinalText.WITH_FAILURES, (A,))),
        (having(LOADED, PATCH_FAILED, JOURNALLED), Final(FinalText.AS_IT_IS)),
        (having(LOADED, (ToolKind.SPEAK, "", True)), Final(FinalText.JOURNALLED, (A,))),
        (having(LOADED, PATCH_FAILED, (ToolKind.PROPOSE, "", True)), Final(FinalText.WITH_FAILURES, (A,))),
    ],
)
def test_final_text_is_posted_journalled_or_preceded_by_failures(state: ProtocolState, final: Final) -> None:
    assert before_final_text(state) == final


def test_turn_ends_on_text_speech_proposal_or_its_last_step() -> None:
    spoken, proposed = replace(LOADED, did_post=True), replace(LOADED, proposed=True)
    assert ending(LOADED, MAX_STEPS - 1, calls=True) is None
    assert ending(LOADED, MAX_STEPS, calls=True) is Ending.STEP_LIMIT
    assert {ending(LOADED, step, calls=False) for step in (1, MAX_STEPS)} == {Ending.TEXT}
    assert {ending(spoken, step, calls=True) for step in (1, MAX_STEPS)} == {Ending.SPOKEN}
    assert ending(proposed, 1, calls=True) is Ending.PROPOSED
    assert MAX_STEPS == 8


STATES = st.sampled_from([FREE, SCOPED])
CALLS = st.builds(Asked, st.sampled_from(list(ToolKind)), st.sampled_from([A, B, ""]))
RESULTS = st.sampled_from([True, False, None])
HISTORIES = st.lists(st.tuples(CALLS, RESULTS), max_size=8)
History = list[tuple[Asked, bool | None]]


def played(state: ProtocolState, history: History) -> ProtocolState:
    for call, succeeded in history:
        state = after(state, call, succeeded)
    return state


@given(STATES, HISTORIES, CALLS, RESULTS)
def test_result_that_comes_twice_counts_once(
    state: ProtocolState, history: History, call: Asked, succeeded: bool | None
) -> None:
    state = played(state, history)
    once = after(state, call, succeeded)
    assert after(once, call, succeeded) == once
    assert once.joined(once) == once.joined(state) == state.joined(once) == once


@given(STATES, st.tuples(HISTORIES, HISTORIES, HISTORIES))
def test_states_of_parallel_calls_are_joined_in_any_order(
    state: ProtocolState, histories: tuple[History, History, History]
) -> None:
    one, other, third = (played(state, each) for each in histories)
    assert one.joined(other) == other.joined(one)
    assert one.joined(other).joined(third) == one.joined(other.joined(third))
    assert one.joined(state) == one


def test_states_of_turns_about_different_rfps_are_not_joined() -> None:
    with pytest.raises(ValueError, match="cannot be joined"):
        SCOPED.joined(FREE)


@given(STATES, HISTORIES)
def test_state_survives_json(state: ProtocolState, history: History) -> None:
    state, kind = played(state, history), TypeAdapter(ProtocolState)
    assert kind.validate_json(kind.dump_json(state)) == state
    assert kind.validate_json("{}") == ProtocolState()


@given(STATES, HISTORIES, CALLS)
def test_refusal_reaches_the_model_whole(state: ProtocolState, history: History, call: Asked) -> None:
    verdict = check(played(state, history), call)
    if isinstance(verdict, Refusal):
        assert public_sentence(verdict.message, "") == verdict.message
        assert public_sentence(verdict.suggestion, "") == verdict.suggestion
