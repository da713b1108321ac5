"""A model's reply is kept, passed to the workflow, and checked for silence and questions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conversations.dialogues import REGISTRY
from tests.support.examples import examples
from threadline.conversations.replies import (
    CUT_OFF_NOTICE,
    clean_reply,
    closing_question,
    reply_for_workflow,
    reply_to_message,
)
from threadline.estimates import tools as estimates
from threadline.models.model import Completion, Ended, ModelReply, Role, ToolCall
from threadline.slack.text import is_blank
from threadline.tools.registry import ToolRegistry

CALL = ToolCall("1", "a")


def told(text: str, *calls: ToolCall) -> ModelReply:
    """A reply as the workflow gets it."""
    return reply_for_workflow(reply_to_message(ModelReply(text, calls), REGISTRY))


def test_reply_is_kept_whole_with_the_tools_own_names() -> None:
    wire = [
        ToolCall("1", "tickets_search", '{"words": "a"}'),
        ToolCall("2", REGISTRY.all()[1].wire_name, "{}"),
    ]
    kept = reply_to_message(
        ModelReply("I look.", (*wire, ToolCall("3", "made_up")), provider_data="o"), REGISTRY
    )
    assert (kept.role, kept.content, kept.provider_data) == (Role.ASSISTANT, "I look.", "o")
    assert [(each.name, each.read_only) for each in kept.calls] == [
        ("tickets.search", True),
        ("tickets.close_one", False),
        ("made_up", False),
    ]
    assert kept.calls[0].arguments == '{"words": "a"}'


def test_call_that_may_bind_the_thread_is_passed_on_as_one() -> None:
    registry = ToolRegistry(estimates.TOOLS)
    wire = [ToolCall(each.name, each.wire_name) for each in registry.all() if not each.mutating]
    calls = reply_for_workflow(reply_to_message(ModelReply("", tuple(wire)), registry)).calls
    assert {each.name for each in calls if not each.binds_record} == {"estimates.listProjects"}
    assert all(each.read_only for each in calls)


def test_workflow_gets_the_beginning_of_a_reply_and_no_arguments() -> None:
    reply = told(
        "z" * 100_000, *(ToolCall(str(number), "x" * 5_000, "y" * 100_000) for number in range(50))
    )
    assert (len(reply.text), len(reply.calls)) == (300, 20)
    assert {(len(each.name), each.arguments) for each in reply.calls} == {(100, "")}
    assert len(json.dumps(reply, default=vars)) < 6_000
    assert told(" \u200b" * 400 + "Here it is.").text == "Here it is."


@examples(2)
@given(st.text(st.characters(), max_size=800), st.text(st.characters(), max_size=20))
def test_reply_is_valid_json_and_blank_only_when_the_whole_is(text: str, name: str) -> None:
    reply = told(text, ToolCall(name, name, name))
    json.dumps(reply, default=vars, ensure_ascii=False).encode()
    assert is_blank(reply.text) == is_blank(text)


SILENT = [
    "NO_REPLY",
    " NO_REPLY\n",
    "`NO_REPLY`",
    "**NO_REPLY**",
    '"NO_REPLY".',
    "“NO_REPLY”",
    "(NO_REPLY)",
    "[NO_REPLY]",
    "<NO_REPLY>",
    "no_reply",
    "No_Reply.",
    ".NO_REPLY",
    "...NO_REPLY...",
    "NO REPLY",
    "NO-REPLY",
    "NO_REPLY NO_REPLY",
    "NO_REPLY\nNO_REPLY",
    "```\nNO_REPLY\n```",
    "```text\nNO_REPLY\n```",
    '{"action": "NO_REPLY"}',
]


def test_silence_is_the_word_alone() -> None:
    for text in SILENT:
        assert told(text) == ModelReply("", silent=True), text
    for text in ("", "no reply", "NO_REPLY is what I write", "I say NO_REPLY", "NO_REPLY?"):
        assert told(text) == ModelReply(text)
    assert not told("NO_REPLY", CALL).silent


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("NO_REPLY: this is between Ann and Ben", "this is between Ann and Ben"),
        ("**NO_REPLY**\n\n- one\n- two", "- one\n- two"),
        ("`NO_REPLY` - they talk", "they talk"),
        ("NO_REPLY? Yes.", "Yes."),
        ("They talk with each other.\n\nNO_REPLY.", "They talk with each other."),
        ("This is for Bob. NO_REPLY", "This is for Bob."),
        ("This is for Bob. (NO_REPLY)", "This is for Bob."),
        ("This is for Bob (NO_REPLY).", "This is for Bob"),
        ("This is for Bob: no_reply", "This is for Bob:"),
        ("This is for Bob — NO_REPLY", "This is for Bob"),
        ("这是给 Bob 的。 NO_REPLY", "这是给 Bob 的。"),
        ("This is for Bob.\n\n[NO_REPLY]", "This is for Bob."),
        ("(NO_REPLY) This is for Bob.", "This is for Bob."),
        ("no_reply: this is for Bob", "this is for Bob"),
        ("no_reply\n\nThis is for Bob.", "This is for Bob."),
        ("NO_REPLYThe user talks to Bob.", "The user talks to Bob."),
    ],
)
def test_word_for_silence_beside_a_text_is_silence_or_is_removed(text: str, rest: str) -> None:
    answer = Completion(ModelReply(text))
    assert clean_reply(answer, addressed=False) == ModelReply("NO_REPLY")
    assert clean_reply(answer, addressed=True) == ModelReply(rest)
    assert clean_reply(Completion(ModelReply(text, (CALL,))), addressed=False).text == rest


SPOKEN = [
    "",
    "Yes.",
    "NO_REPLY_TO is the setting",
    "NO_REPLYING",
    "It writes NO_REPLY then",
    "I say NO_REPLY",
    "no_reply is the name of the setting",
    "no_reply@shop.example wrote it.",
    "The sender is no_reply@shop.example",
    "No reply.",
    "We asked Bob twice. NO REPLY.",
    "NO REPLY from Bob: I asked twice.",
]


def test_reply_without_the_word_for_silence_is_unchanged() -> None:
    for text in SPOKEN:
        for addressed in (True, False):
            assert clean_reply(Completion(ModelReply(text)), addressed=addressed).text == text


def test_answer_that_was_cut_off_says_so() -> None:
    for reply, text in (
        (ModelReply("The first"), f"The first\n\n{CUT_OFF_NOTICE}"),
        (ModelReply(""), ""),
        (ModelReply("I look", (CALL,)), "I look"),
    ):
        assert clean_reply(Completion(reply, ended=Ended.LENGTH), addressed=True).text == text


def test_answer_that_ends_with_a_question_mark_is_a_question() -> None:
    for text in (
        "Which one?",
        "I found two.\n\n**Which one do you mean?**",
        "Gehst du? :smile:",
        "何？",
    ):
        assert closing_question(text) == " ".join(text.split())
    for text in ("", "Done.", "Why? Because.", "See https://a.example/?q=1", "?!."):
        assert closing_question(text) == ""
    long = closing_question("word " * 100 + "which?")
    assert (len(long), long[-1]) == (200, "…")
