"""The operator's protocol, rule by rule."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from threadline.models.model import ToolKind
from threadline.operator.model.protocol import (
    MAX_LOADED,
    FinalText,
    FinalTextRule,
    ProtocolRefusal,
    ProtocolState,
    ToolRequest,
    check,
    final_text_rule,
    record_outcome,
)
from threadline.tools.public_text import public_sentence

Result = tuple[ToolKind, str, bool | None]
"""The result of a call: its kind, the RFP that it names, and whether it succeeded."""

A = "rfp_a"
B = "rfp_b"
FREE = ProtocolState()
SCOPED = ProtocolState(scope=A)
LOAD, READ, GLOBAL, SPEAK, PROPOSE = map(
    ToolRequest, (ToolKind.LOAD, ToolKind.READ, ToolKind.CHANGE, ToolKind.SPEAK, ToolKind.PROPOSE)
)
LOADED_A = (ToolKind.LOAD, A, True)
LOADED_B = (ToolKind.LOAD, B, True)
PATCHED = (ToolKind.PATCH, A, True)
PATCH_FAILED = (ToolKind.PATCH, A, False)
PATCH_UNKNOWN = (ToolKind.PATCH, A, None)
JOURNALLED = (ToolKind.JOURNAL, A, True)
EVENT_ADDED = (ToolKind.EVENT, A, True)
GLOBAL_DONE = (ToolKind.CHANGE, "", True)


def having(state: ProtocolState, *done: Result) -> ProtocolState:
    for kind, rfp_id, succeeded in done:
        state = record_outcome(state, ToolRequest(kind, rfp_id), succeeded)
    return state


def refused(state: ProtocolState, call: ToolRequest) -> str:
    """The refusal that the model reads; empty if the call may run."""
    refusal = check(state, call)
    return f"{refusal.message} {refusal.suggestion}" if refusal else ""


LOADED = having(SCOPED, LOADED_A)
BOTH_LOADED = having(FREE, LOADED_A, LOADED_B)
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
def test_change_names_the_scope_or_a_loaded_rfp(
    state: ProtocolState, rfp_id: str, words: str
) -> None:
    for kind in (ToolKind.PATCH, ToolKind.JOURNAL, ToolKind.EVENT):
        told = refused(state, ToolRequest(kind, rfp_id))
        assert words in told
        assert bool(told) == bool(words)


TRIED = "A change was tried"
NOT_WRITTEN = "Nothing of this turn is written down"


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
def test_scoped_turn_says_nothing_before_something_is_written(
    done: tuple[Result, ...], words: str
) -> None:
    told = refused(having(SCOPED, *done), SPEAK)
    assert words in told
    assert "journal_append" in told


def test_scoped_turn_that_only_read_speaks_by_way_of_the_journal() -> None:
    read = ((ToolKind.READ, "", True), (ToolKind.READ, "", False))
    for done in ((), (LOADED_A,), read, (LOADED_A, (ToolKind.SPEAK, "", False))):
        state = having(SCOPED, *done)
        assert (check(state, SPEAK), final_text_rule(state).journal_in) == (None, (A,))


def test_scoped_turn_speaks_freely_once_something_is_written() -> None:
    for done in (
        (PATCHED,),
        (JOURNALLED,),
        (PATCH_FAILED, JOURNALLED),
        (PATCHED, (ToolKind.JOURNAL, A, False)),
    ):
        state = having(LOADED, *done)
        assert (check(state, SPEAK), final_text_rule(state).journal_in) == (None, ())


def test_turn_without_a_scope_writes_down_only_a_change_that_it_tried() -> None:
    """Otherwise the operator could not ask which RFP is meant."""
    for done in (
        (),
        (LOADED_A, GLOBAL_DONE),
        (PATCH_FAILED,),
        (LOADED_A, (ToolKind.PATCH, B, False)),
        (LOADED_A, PATCH_FAILED, JOURNALLED),
    ):
        state = having(FREE, *done)
        assert (check(state, SPEAK), final_text_rule(state).journal_in) == (None, ())
    for tried in (PATCH_FAILED, PATCH_UNKNOWN):
        assert "journal_append for rfp_a" in refused(having(FREE, LOADED_A, tried), SPEAK)


def test_turn_that_has_spoken_or_proposed_runs_nothing_more() -> None:
    calls = (READ, LOAD, GLOBAL, SPEAK, PROPOSE, ToolRequest(ToolKind.JOURNAL, A))
    for call, state, end, succeeded in product(
        calls, (FREE, SCOPED, LOADED), (SPEAK, PROPOSE), (True, None)
    ):
        assert "the turn is over" in refused(record_outcome(state, end, succeeded), call)


def test_call_that_changes_no_rfp_runs_at_any_time() -> None:
    for state in (FREE, SCOPED, LOADED, BOTH_LOADED):
        for call in (
            READ,
            GLOBAL,
            PROPOSE,
            ToolRequest(ToolKind.LOAD, A),
            ToolRequest(ToolKind.LOAD, B),
        ):
            assert check(state, call) is None


def test_proposal_that_names_an_rfp_is_held_to_the_rules_of_a_change() -> None:
    assert LOAD_FIRST in refused(SCOPED, ToolRequest(ToolKind.PROPOSE, A))
    assert OTHER_RFP in refused(LOADED, ToolRequest(ToolKind.PROPOSE, B))
    assert check(LOADED, ToolRequest(ToolKind.PROPOSE, A)) is None


def test_turn_without_a_scope_loads_a_limited_number_of_rfps() -> None:
    state = having(FREE, *((ToolKind.LOAD, f"rfp_{number}", True) for number in range(MAX_LOADED)))
    assert check(state, ToolRequest(ToolKind.LOAD, "rfp_0")) is None
    assert "rfp_get" in refused(state, ToolRequest(ToolKind.LOAD, "rfp_more"))


@pytest.mark.parametrize(
    ("state", "final"),
    [
        (FREE, FinalTextRule(FinalText.AS_IT_IS)),
        (having(FREE, LOADED_A, GLOBAL_DONE), FinalTextRule(FinalText.AS_IT_IS)),
        (having(FREE, LOADED_A, PATCH_FAILED), FinalTextRule(FinalText.WITH_FAILURES, (A,))),
        (
            having(BOTH_LOADED, PATCH_FAILED, (ToolKind.PATCH, B, True)),
            FinalTextRule(FinalText.AS_IT_IS),
        ),
        (
            having(BOTH_LOADED, (ToolKind.PATCH, "", None)),
            FinalTextRule(FinalText.WITH_FAILURES, (A, B)),
        ),
        (SCOPED, FinalTextRule(FinalText.JOURNALLED, (A,), checked=False)),
        (
            having(SCOPED, (ToolKind.LOAD, A, False)),
            FinalTextRule(FinalText.JOURNALLED, (A,), checked=False),
        ),
        (having(SCOPED, LOADED_B), FinalTextRule(FinalText.JOURNALLED, (A,), checked=False)),
        (LOADED, FinalTextRule(FinalText.JOURNALLED, (A,))),
        (having(LOADED, GLOBAL_DONE), FinalTextRule(FinalText.JOURNALLED, (A,))),
        (having(LOADED, EVENT_ADDED), FinalTextRule(FinalText.JOURNALLED, (A,))),
        (having(LOADED, PATCHED), FinalTextRule(FinalText.AS_IT_IS)),
        (having(LOADED, JOURNALLED), FinalTextRule(FinalText.AS_IT_IS)),
        (having(LOADED, PATCH_UNKNOWN), FinalTextRule(FinalText.WITH_FAILURES, (A,))),
        (
            having(SCOPED, (ToolKind.PATCH, B, False)),
            FinalTextRule(FinalText.WITH_FAILURES, (A,), checked=False),
        ),
        (having(LOADED, PATCH_FAILED, JOURNALLED), FinalTextRule(FinalText.AS_IT_IS)),
        (having(LOADED, (ToolKind.SPEAK, "", True)), FinalTextRule(FinalText.JOURNALLED, (A,))),
        (
            having(LOADED, PATCH_FAILED, (ToolKind.PROPOSE, "", True)),
            FinalTextRule(FinalText.WITH_FAILURES, (A,)),
        ),
    ],
)
def test_final_text_is_posted_journalled_or_preceded_by_failures(
    state: ProtocolState, final: FinalTextRule
) -> None:
    assert final_text_rule(state) == final


STATES = st.sampled_from([FREE, SCOPED])
CALLS = st.builds(ToolRequest, st.sampled_from(list(ToolKind)), st.sampled_from([A, B, ""]))
RESULTS = st.sampled_from([True, False, None])
HISTORIES = st.lists(st.tuples(CALLS, RESULTS), max_size=8)
History = list[tuple[ToolRequest, bool | None]]


def played(state: ProtocolState, history: History) -> ProtocolState:
    for call, succeeded in history:
        state = record_outcome(state, call, succeeded)
    return state


@given(STATES, HISTORIES, CALLS, RESULTS)
def test_result_that_comes_twice_counts_once(
    state: ProtocolState, history: History, call: ToolRequest, succeeded: bool | None
) -> None:
    state = played(state, history)
    once = record_outcome(state, call, succeeded)
    assert record_outcome(once, call, succeeded) == once
    assert once.merge(once) == once.merge(state) == state.merge(once) == once


@given(STATES, st.tuples(HISTORIES, HISTORIES, HISTORIES))
def test_states_of_parallel_calls_are_joined_in_any_order(
    state: ProtocolState, histories: tuple[History, History, History]
) -> None:
    one, other, third = (played(state, each) for each in histories)
    assert one.merge(other) == other.merge(one)
    assert one.merge(other).merge(third) == one.merge(other.merge(third))
    assert one.merge(state) == one


def test_states_of_turns_about_different_rfps_are_not_merged() -> None:
    with pytest.raises(ValueError, match="cannot be merged"):
        SCOPED.merge(FREE)


@given(STATES, HISTORIES)
def test_state_survives_json(state: ProtocolState, history: History) -> None:
    state = played(state, history)
    kind = TypeAdapter(ProtocolState)
    assert kind.validate_json(kind.dump_json(state)) == state
    assert kind.validate_json("{}") == ProtocolState()


@given(STATES, HISTORIES, CALLS)
def test_refusal_reaches_the_model_whole(
    state: ProtocolState, history: History, call: ToolRequest
) -> None:
    verdict = check(played(state, history), call)
    if isinstance(verdict, ProtocolRefusal):
        assert public_sentence(verdict.message, "") == verdict.message
        assert public_sentence(verdict.suggestion, "") == verdict.suggestion
