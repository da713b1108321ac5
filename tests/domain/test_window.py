"""What a model is sent of a transcript: whole turns, paired calls, and always what a person said last."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from threadline.domain.dialogue import Message, Role, ToolCall
from threadline.domain.window import ROOM, TURNS, window

IDS = st.sampled_from(["", "1", "2", "3", "4", "5"])
CALLS = st.builds(ToolCall, id=IDS, name=st.sampled_from(["a", "b"]))
ANYTHING = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(Role),
        content=st.sampled_from(["", " ", "hello", "[Side Effect] told"]),
        calls=st.just(()) | st.lists(CALLS, max_size=3).map(tuple),
        call_id=IDS,
        opaque=st.sampled_from(["", "{}"]),
    ),
    max_size=40,
)
SIZES = st.integers(1, 12).flatmap(lambda turns: st.tuples(st.just(turns), st.integers(0, turns - 1)))


def user(text: str) -> Message:
    return Message(Role.USER, text)


def said(text: str) -> Message:
    return Message(Role.ASSISTANT, text)


def note(text: str) -> Message:
    return Message(Role.SYSTEM, text)


def asks(*ids: str, text: str = "", opaque: str = "") -> Message:
    return Message(Role.ASSISTANT, text, tuple(ToolCall(each, "a") for each in ids), opaque=opaque)


def result(call_id: str, text: str = "result") -> Message:
    return Message(Role.TOOL, text, call_id=call_id)


def talk(count: int) -> list[Message]:
    return [message for number in range(count) for message in (user(f"q{number}"), said(f"a{number}"))]


def is_paired(messages: Sequence[Message]) -> bool:
    """Whether the results of each message's calls, and no others, directly follow it in their order."""
    due: list[str] = []
    for message in messages:
        if (message.call_id if message.role is Role.TOOL else None) != (due.pop(0) if due else None):
            return False
        due = due or [call.id for call in message.calls]
    return not due


def test_a_short_dialogue_is_sent_whole() -> None:
    messages = [user("q"), asks("1", "2"), result("1"), result("2"), note("[Side Effect] done"), said("a"), user("r")]
    assert window(messages) == messages
    assert window([]) == []


def test_of_a_long_one_the_newest_turns_are_sent() -> None:
    messages = [*talk(30), user("now")]
    assert window(messages) == messages[-(TURNS - ROOM) :]


def test_calls_with_results_and_notes_count_as_one_turn() -> None:
    messages = [user("q")]
    for step in range(4):
        ids = [f"{step}.{number}" for number in range(8)]
        messages += [asks(*ids), *(result(each) for each in ids), note("[Side Effect] done")]
    assert window(messages, turns=5, room=4) == messages


def test_a_note_behind_anything_else_is_a_turn_of_its_own() -> None:
    messages = [user("q"), note("The project is locked."), said("a"), note("The project is free."), user("r")]
    assert window(messages, turns=3, room=0) == messages[2:]


@pytest.mark.promise("memory:context:prefix")
def test_the_window_does_not_move_while_an_answer_is_worked_on() -> None:
    messages = [*talk(30), user("now")]
    first = window(messages)
    for step in range(ROOM):
        messages += [asks(str(step)), result(str(step)), note("[Side Effect] done")]
        sent = window(messages)
        assert sent[: len(first)] == first
        assert sent[len(first) :] == messages[61:]


def test_when_the_room_is_used_up_the_oldest_make_way_and_the_question_stays() -> None:
    messages = [*talk(30), user("now"), *(said(f"step {number}") for number in range(50))]
    assert window(messages) == [user("now"), *messages[-(TURNS - 1) :]]
    assert window(messages[: 61 + 8]) == [*messages[61 - 12 : 61], *messages[61 : 61 + 8]]


def test_a_message_that_came_while_tools_ran_stands_behind_their_results() -> None:
    late = user("and the total?")
    assert window([user("q"), asks("1", "2"), late, result("2"), result("1")]) == [
        user("q"),
        asks("1", "2"),
        result("1"),
        result("2"),
        late,
    ]


def test_a_result_without_its_call_is_left_out() -> None:
    assert window([result("1"), user("q"), result("2")]) == [user("q")]


def test_a_call_without_its_result_is_left_out_and_what_was_said_with_it_stays() -> None:
    messages = [user("q"), asks("1", "2", text="Looking.", opaque="[]"), result("2"), asks("3"), asks("4", text="And.")]
    assert window(messages) == [user("q"), asks("2", text="Looking."), result("2"), said("And.")]


def test_what_a_provider_handed_out_goes_back_with_calls_that_are_whole() -> None:
    messages = [user("q"), asks("1", opaque="[]"), result("1")]
    assert window(messages) == messages


def test_an_id_belongs_to_the_first_call_that_has_it() -> None:
    messages = [user("q"), asks("1", "1"), result("1", "first"), result("1", "second"), asks("1", "2"), result("2")]
    assert window(messages) == [user("q"), asks("1"), result("1", "first"), asks("2"), result("2")]


def test_a_call_that_fell_out_takes_its_result_along() -> None:
    messages = [asks("1"), result("1"), *talk(8)]
    assert window(messages, turns=16, room=0) == messages[2:]
    assert window(messages, turns=17, room=0) == messages


def test_a_dialogue_without_a_person_is_sent_from_its_end() -> None:
    messages = [said(str(number)) for number in range(30)]
    assert window(messages) == messages[-TURNS:]


@pytest.mark.parametrize(("turns", "room"), [(0, 0), (5, 5), (5, -1)])
def test_a_window_without_room_for_the_question_is_refused(turns: int, room: int) -> None:
    with pytest.raises(ValueError, match="window"):
        window([user("q")], turns, room)


@pytest.mark.promise("memory:context:in-order")
@given(ANYTHING, SIZES)
def test_whatever_there_is_results_follow_their_calls_and_each_id_is_there_once(
    messages: list[Message], sizes: tuple[int, int]
) -> None:
    sent = window(messages, *sizes)
    assert is_paired(sent)
    ids = [call.id for message in sent for call in message.calls]
    assert len(ids) == len(set(ids))


@pytest.mark.promise("memory:context:in-order")
@given(ANYTHING, SIZES)
def test_whatever_there_is_the_newest_message_of_a_person_is_sent(
    messages: list[Message], sizes: tuple[int, int]
) -> None:
    asked = [message.content for message in messages if message.role is Role.USER]
    sent = [message.content for message in window(messages, *sizes) if message.role is Role.USER]
    assert sent[-1:] == asked[-1:]


@pytest.mark.promise("memory:context:bounded")
@given(ANYTHING, SIZES)
def test_whatever_there_is_the_number_of_turns_is_bounded(messages: list[Message], sizes: tuple[int, int]) -> None:
    sent = window(messages, *sizes)
    notes = sum(message.role is Role.SYSTEM for message in messages)
    assert sum(message.role is not Role.TOOL for message in sent) <= sizes[0] + notes


@given(ANYTHING, SIZES)
def test_a_window_of_a_window_is_the_same(messages: list[Message], sizes: tuple[int, int]) -> None:
    sent = window(messages, *sizes)
    assert window(sent, *sizes) == sent


@given(ANYTHING)
def test_a_message_survives_json(messages: list[Message]) -> None:
    transcript = TypeAdapter(list[Message])
    assert transcript.validate_json(transcript.dump_json(messages)) == messages
