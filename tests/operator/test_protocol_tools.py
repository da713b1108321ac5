"""The operator's protocol around its tools: a refused call does not run."""

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.operator.protocol_scene import CORRELATION, TOOLS, Goes, Office, Turn
from threadline.models.model import ToolCall, ToolKind
from threadline.operator import enforcement as protocol
from threadline.operator.model.protocol import FinalText, FinalTextRule, final_text_rule
from threadline.tools.arguments import InvalidTool
from threadline.tools.context import ToolContext
from threadline.tools.model import ErrorCode, ToolResult
from threadline.tools.registry import ToolRegistry, tool

A = "rfp_a"
_count = iter(range(10_000))


def call(name: str, /, **given: Any) -> ToolCall:
    return ToolCall(f"call_{next(_count)}", name, json.dumps(given))


def load() -> ToolCall:
    return call("opportunity_load", rfp_id=A)


def patch(**given: Any) -> ToolCall:
    return call("opportunity_patch", rfp_id=A, **given)


def journal() -> ToolCall:
    return call("journal_append", rfp_id=A, text="It was done.")


def say(text: str = "Done.") -> ToolCall:
    return call("slack_post_summary", text=text)


async def play(office: Office, *calls: ToolCall) -> tuple[list[ToolResult], Turn]:
    """Each call in a reply of its own, in a turn about an RFP."""
    turn = Turn(office, A)
    with capture_logs():
        return [(await turn.reply(each))[0] for each in calls], turn


def codes(results: list[ToolResult]) -> list[str]:
    return [each.error.code if each.error else "ok" for each in results]


@pytest.mark.parametrize(
    "speaking", [say("It is open."), call("slack_ask_clarifying_question", question="It is open.")]
)
async def test_status_turn_may_speak_and_its_words_are_journalled_when_it_ends(
    speaking: ToolCall,
) -> None:
    office = Office()
    results, turn = await play(office, load(), speaking)
    assert codes(results) == ["ok", "ok"]
    assert office.executed == ["opportunity_load", speaking.name]
    assert turn.state.did_post
    assert final_text_rule(turn.state) == FinalTextRule(FinalText.JOURNALLED, (A,))


async def test_change_that_failed_needs_a_journal_entry_before_words() -> None:
    office = Office(goes=[Goes.WELL, Goes.REFUSED])
    results, _ = await play(office, load(), patch(), say(), journal(), say())
    assert codes(results) == ["ok", "REFUSED", "PROTOCOL", "ok", "ok"]
    assert office.executed[-2:] == ["journal_append", "slack_post_summary"]


async def test_change_with_wrong_arguments_counts_as_tried() -> None:
    results, _ = await play(Office(), load(), patch(patch=3), say())
    assert codes(results) == ["ok", "INVALID_ARGUMENTS", "PROTOCOL"]


async def test_unknown_tool_changes_nothing() -> None:
    results, turn = await play(Office(), call("opportunity_delete"), say())
    assert codes(results) == ["UNKNOWN_TOOL", "ok"]
    assert turn.state.only_reads


async def test_one_reply_may_load_change_and_speak_once() -> None:
    office = Office()
    results = await Turn(office, A).reply(load(), patch(), journal(), say(), say("Again."), load())
    assert codes(results) == ["ok", "ok", "ok", "ok", "PROTOCOL", "PROTOCOL"]
    assert office.executed == [
        "opportunity_load",
        "opportunity_patch",
        "journal_append",
        "slack_post_summary",
    ]


@pytest.mark.parametrize("goes", [Goes.UNKNOWN, Goes.BROKEN])
async def test_message_that_may_have_been_posted_is_the_only_one(goes: Goes) -> None:
    results, turn = await play(
        Office(goes=[goes]), call("slack_ask_clarifying_question", question="?"), say()
    )
    assert codes(results)[1] == ErrorCode.PROTOCOL
    assert turn.state.did_post


async def test_message_that_was_refused_may_be_corrected() -> None:
    results, _ = await play(Office(goes=[Goes.REFUSED]), say("Long."), say("Short."))
    assert codes(results) == ["REFUSED", "ok"]


async def test_call_after_a_crash_meets_the_same_state_and_runs_once() -> None:
    office = Office()
    turn = Turn(office, A, crashes=[False, True, True])
    with capture_logs():
        results = [*await turn.reply(load(), patch()), *await turn.reply(say())]
    assert codes(results) == ["ok", "OUTCOME_UNKNOWN", "PROTOCOL"]
    assert office.executed == ["opportunity_load", "opportunity_patch"]
    assert (turn.state.write_attempted, turn.state.write_succeeded) == (True, False)


async def test_message_is_found_after_a_crash_and_not_posted_twice() -> None:
    office = Office()
    turn = Turn(office, A, crashes=[True])
    (result,) = await turn.reply(say())
    assert result.success
    assert office.executed == ["slack_post_summary"]
    assert turn.state.did_post


@pytest.mark.parametrize("written", ["forged", None, {"a": 1}])
async def test_model_cannot_set_the_correlation_id(written: Any) -> None:
    office = Office()
    results, _ = await play(office, load(), patch(correlation_id=written), call("schedule_job"))
    assert codes(results) == ["ok"] * 3
    assert [each.correlation_id for each in office.events if not each.called][1:] == [
        CORRELATION
    ] * 2


async def test_arguments_that_are_no_json_object_are_refused() -> None:
    for arguments in ("[]", "{", "x" * 1_000_001, '{"rfp_id": NaN}', "[" * 100_000, "1" * 5_000):
        results, _ = await play(Office(), load(), ToolCall("1", "opportunity_patch", arguments))
        assert codes(results) == ["ok", "INVALID_ARGUMENTS"]


def test_tools_that_the_protocol_cannot_hold_are_refused_at_the_start() -> None:
    @tool("journal_append", "No RFP.", kind=ToolKind.JOURNAL, remote=True)
    async def nameless(context: ToolContext, *, text: str) -> None: ...

    @tool("slack_post_summary", "No words.", kind=ToolKind.SPEAK, remote=True)
    async def speechless(context: ToolContext, *, thing: str) -> None: ...

    protocol.check_tool_declarations(ToolRegistry(TOOLS))
    for bad in (nameless, speechless):
        with pytest.raises(InvalidTool, match=bad.name):
            protocol.check_tool_declarations(ToolRegistry([bad]))
