"""How a model's reply is kept, told to the workflow, and read for a question."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conversations.dialogues import REGISTRY
from threadline.conversations import replies
from threadline.conversations.model.answers import is_blank
from threadline.estimates import tools as estimates
from threadline.models.chat_model import Answer
from threadline.models.model import ModelReply, Role, ToolCall
from threadline.tools.registry import Registry


def test_a_reply_is_kept_whole_with_the_tools_own_names() -> None:
    wire = [ToolCall("1", "tickets_search", '{"words": "a"}'), ToolCall("2", REGISTRY.all()[1].wire_name, "{}")]
    kept = replies.message(ModelReply("I look.", (*wire, ToolCall("3", "made_up")), opaque="o"), REGISTRY)
    assert (kept.role, kept.content, kept.opaque) == (Role.ASSISTANT, "I look.", "o")
    assert [(each.name, each.read_only) for each in kept.calls] == [
        ("tickets.search", True),
        ("tickets.close_one", False),
        ("made_up", False),
    ]
    assert kept.calls[0].arguments == '{"words": "a"}'


def test_a_call_that_may_bind_the_thread_travels_as_one() -> None:
    registry = Registry(estimates.TOOLS)
    wire = [ToolCall(each.name, each.wire_name) for each in registry.all() if not each.mutating]
    told = replies.told(replies.message(ModelReply("", tuple(wire)), registry))
    assert {each.name for each in told.calls if not each.binds} == {"estimates.listProjects"}
    assert all(each.read_only for each in told.calls)


def test_what_travels_is_the_beginning_and_no_arguments() -> None:
    calls = tuple(ToolCall(str(number), "x" * 5_000, "y" * 100_000) for number in range(50))
    told = replies.told(replies.message(ModelReply("z" * 100_000, calls), REGISTRY))
    assert (len(told.text), len(told.calls)) == (300, 20)
    assert {(len(each.name), each.arguments) for each in told.calls} == {(100, "")}
    assert len(json.dumps(told, default=vars)) < 6_000


def test_a_text_that_begins_with_nothing_to_see_is_no_blank_one() -> None:
    kept = replies.message(ModelReply(" \u200b" * 400 + "Here it is."), REGISTRY)
    assert replies.told(kept).text == "Here it is."


@settings(max_examples=200)
@given(st.text(st.characters(), max_size=800), st.text(st.characters(), max_size=20))
def test_what_travels_can_travel_and_is_blank_when_the_whole_is(text: str, name: str) -> None:
    kept = replies.message(ModelReply(text, (ToolCall(name, name, name),)), REGISTRY)
    told = replies.told(kept)
    json.dumps(told, default=vars, ensure_ascii=False).encode()
    assert is_blank(told.text) == is_blank(kept.content)


@pytest.mark.parametrize("text", ["NO_REPLY", " NO_REPLY\n", "`NO_REPLY`", "**NO_REPLY**", '"NO_REPLY".'])
def test_silence_is_the_word_alone_and_its_text_goes_nowhere(text: str) -> None:
    told = replies.told(replies.message(ModelReply(text), REGISTRY))
    assert (told.silent, told.text) == (True, "")


@pytest.mark.parametrize("text", ["", "no reply", "NO_REPLY is what I write", "I say NO_REPLY", "NO_REPLY?"])
def test_anything_else_is_no_silence(text: str) -> None:
    told = replies.told(replies.message(ModelReply(text), REGISTRY))
    assert (told.silent, told.text) == (False, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("NO_REPLY: this is between Ann and Ben", "this is between Ann and Ben"),
        ("**NO_REPLY**\n\n- one\n- two", "- one\n- two"),
        ("`NO_REPLY` - they talk", "they talk"),
        ("NO_REPLY? Yes.", "Yes."),
        ("They talk with each other.\n\nNO_REPLY.", "They talk with each other."),
    ],
)
def test_the_word_for_silence_is_silence_or_goes_whatever_stands_beside_it(text: str, words: str) -> None:
    answer = Answer(ModelReply(text))
    assert replies.clear(answer, addressed=False) == ModelReply("NO_REPLY")
    assert replies.clear(answer, addressed=True) == ModelReply(words)
    with_a_call = ModelReply(text, (ToolCall("1", "a"),))
    assert replies.clear(Answer(with_a_call), addressed=False).text == words


@pytest.mark.parametrize("text", ["", "Yes.", "NO_REPLY_TO is the setting", "NO_REPLYING", "It writes NO_REPLY then"])
def test_another_reply_stays_as_it_is(text: str) -> None:
    for addressed in (True, False):
        assert replies.clear(Answer(ModelReply(text)), addressed=addressed).text == text


def test_nothing_but_the_word_stays_where_the_bot_was_spoken_to() -> None:
    assert replies.clear(Answer(ModelReply("NO_REPLY\nNO_REPLY")), addressed=True).text == "NO_REPLY"


def test_an_answer_that_was_cut_off_by_the_model_says_so() -> None:
    assert (
        replies.clear(Answer(ModelReply("The first"), cut=True), addressed=True).text == f"The first\n\n{replies.CUT}"
    )
    assert replies.clear(Answer(ModelReply(""), cut=True), addressed=True).text == ""
    call = ModelReply("I look", (ToolCall("1", "a"),))
    assert replies.clear(Answer(call, cut=True), addressed=True) == call


def test_who_asks_for_a_tool_is_not_silent() -> None:
    assert not replies.told(replies.message(ModelReply("NO_REPLY", (ToolCall("1", "a"),)), REGISTRY)).silent


@pytest.mark.parametrize(
    "text", ["Which one?", "I found two.\n\n**Which one do you mean?**", "Gehst du? :smile:", "何？"]
)
def test_an_answer_that_ends_with_a_question_mark_asks(text: str) -> None:
    assert replies.question(text) == " ".join(text.split())


@pytest.mark.parametrize("text", ["", "Done.", "Why? Because.", "See https://a.example/?q=1", "?!."])
def test_another_does_not(text: str) -> None:
    assert replies.question(text) == ""


def test_of_a_long_question_the_beginning_is_told() -> None:
    told = replies.question("word " * 100 + "which?")
    assert (len(told), told[-1]) == (200, "…")
