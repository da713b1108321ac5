"""Tool calls of a transcript are paired with their results before the model gets them."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.conversations.dialogues import bot, person, result
from threadline.conversations.prompt import pair_tool_results
from threadline.models.model import Message, Role, ToolCall

IDS = st.sampled_from(["", "1", "2", "3", "4", "5"])
CALLS = st.builds(ToolCall, id=IDS, name=st.sampled_from(["a", "b"]))
ANYTHING = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(Role),
        content=st.sampled_from(["", " ", "any news", "[Side Effect] told"]),
        calls=st.just(()) | st.lists(CALLS, max_size=3).map(tuple),
        call_id=IDS,
        provider_data=st.sampled_from(["", "{}"]),
    ),
    max_size=40,
)


def asks(*ids: str, text: str = "", provider_data: str = "") -> Message:
    return bot(text, *(ToolCall(each, "a") for each in ids), provider_data=provider_data)


def is_paired(messages: Sequence[Message]) -> bool:
    """Whether each message's calls are directly followed by their results, in order, and by no
    others.
    """
    due: list[str] = []
    for message in messages:
        if (message.call_id if message.role is Role.TOOL else None) != (
            due.pop(0) if due else None
        ):
            return False
        due = due or [call.id for call in message.calls]
    return not due


def test_paired_dialogue_is_unchanged() -> None:
    note = Message(Role.SYSTEM, "[Side Effect] done")
    messages = [
        person("q"),
        asks("1", "2", provider_data="[]"),
        result("1"),
        result("2"),
        note,
        bot("a"),
        person("r"),
    ]
    assert pair_tool_results(messages) == messages
    assert pair_tool_results([]) == []


def test_message_sent_while_tools_ran_comes_after_their_results() -> None:
    late = person("and the total?")
    ordered = [person("q"), asks("1", "2"), result("1"), result("2"), late]
    assert (
        pair_tool_results([person("q"), asks("1", "2"), late, result("2"), result("1")]) == ordered
    )


def test_result_without_its_call_is_left_out() -> None:
    assert pair_tool_results([result("1"), person("q"), result("2")]) == [person("q")]


def test_call_without_its_result_is_left_out_and_its_text_stays() -> None:
    given = [
        person("q"),
        asks("1", "2", text="Looking.", provider_data="[]"),
        result("2"),
        asks("3"),
        asks("4", text="And."),
    ]
    assert pair_tool_results(given) == [
        person("q"),
        asks("2", text="Looking."),
        result("2"),
        bot("And."),
    ]


def test_id_belongs_to_the_first_call_that_has_it() -> None:
    given = [
        person("q"),
        asks("1", "1"),
        result("1", "first"),
        result("1", "second"),
        asks("1", "2"),
        result("2"),
    ]
    assert pair_tool_results(given) == [
        person("q"),
        asks("1"),
        result("1", "first"),
        asks("2"),
        result("2"),
    ]


@given(ANYTHING)
def test_any_dialogue_is_paired_and_keeps_all_words(messages: list[Message]) -> None:
    def spoken(dialogue: Sequence[Message]) -> list[tuple[Role, str]]:
        said = [each for each in dialogue if each.role is not Role.TOOL]
        return [
            (each.role, each.content)
            for each in said
            if each.role is not Role.ASSISTANT or each.content.strip()
        ]

    sent = pair_tool_results(messages)
    assert is_paired(sent)
    assert pair_tool_results(sent) == sent
    assert spoken(sent) == spoken(messages)
    ids = [call.id for message in sent for call in message.calls]
    assert len(ids) == len(set(ids))


@given(ANYTHING)
def test_message_survives_json(messages: list[Message]) -> None:
    transcript = TypeAdapter(list[Message])
    assert transcript.validate_json(transcript.dump_json(messages)) == messages
