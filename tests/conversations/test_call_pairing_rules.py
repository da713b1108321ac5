"""Whatever a transcript holds, calls and results are paired, and nothing that was said is lost."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from threadline.conversations.call_pairing import paired
from threadline.models.model import Message, Role, ToolCall

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


def is_paired(messages: Sequence[Message]) -> bool:
    """Whether the results of each message's calls, and no others, directly follow it in their order."""
    due: list[str] = []
    for message in messages:
        if (message.call_id if message.role is Role.TOOL else None) != (due.pop(0) if due else None):
            return False
        due = due or [call.id for call in message.calls]
    return not due


def test_a_whole_dialogue_stays_as_it_is() -> None:
    messages = [user("q"), asks("1", "2"), result("1"), result("2"), note("[Side Effect] done"), said("a"), user("r")]
    assert paired(messages) == messages
    assert paired([]) == []


def test_a_message_that_came_while_tools_ran_stands_behind_their_results() -> None:
    late = user("and the total?")
    assert paired([user("q"), asks("1", "2"), late, result("2"), result("1")]) == [
        user("q"),
        asks("1", "2"),
        result("1"),
        result("2"),
        late,
    ]


def test_a_result_without_its_call_is_left_out() -> None:
    assert paired([result("1"), user("q"), result("2")]) == [user("q")]


def test_a_call_without_its_result_is_left_out_and_what_was_said_with_it_stays() -> None:
    messages = [user("q"), asks("1", "2", text="Looking.", opaque="[]"), result("2"), asks("3"), asks("4", text="And.")]
    assert paired(messages) == [user("q"), asks("2", text="Looking."), result("2"), said("And.")]


def test_what_a_provider_handed_out_goes_back_with_calls_that_are_whole() -> None:
    messages = [user("q"), asks("1", opaque="[]"), result("1")]
    assert paired(messages) == messages


def test_an_id_belongs_to_the_first_call_that_has_it() -> None:
    messages = [user("q"), asks("1", "1"), result("1", "first"), result("1", "second"), asks("1", "2"), result("2")]
    assert paired(messages) == [user("q"), asks("1"), result("1", "first"), asks("2"), result("2")]


@given(ANYTHING)
def test_whatever_there_is_results_follow_their_calls_and_each_id_is_there_once(messages: list[Message]) -> None:
    sent = paired(messages)
    assert is_paired(sent)
    ids = [call.id for message in sent for call in message.calls]
    assert len(ids) == len(set(ids))


@given(ANYTHING)
def test_whatever_there_is_all_that_was_said_is_sent_in_order(messages: list[Message]) -> None:
    def words(of: Sequence[Message]) -> list[tuple[Role, str]]:
        spoken = (each for each in of if each.role is not Role.TOOL)
        return [(each.role, each.content) for each in spoken if each.role is not Role.ASSISTANT or each.content.strip()]

    assert words(paired(messages)) == words(messages)


@given(ANYTHING)
def test_what_is_paired_stays_as_it_is(messages: list[Message]) -> None:
    sent = paired(messages)
    assert paired(sent) == sent


@given(ANYTHING)
def test_a_message_survives_json(messages: list[Message]) -> None:
    transcript = TypeAdapter(list[Message])
    assert transcript.validate_json(transcript.dump_json(messages)) == messages
