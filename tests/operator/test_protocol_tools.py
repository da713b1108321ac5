"""The operator's protocol around tools: what is refused does not run, and what is said is in the journal."""

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.operator.protocol_scene import CORRELATION, REGISTRY, TOOLS, Goes, Office, Turn
from threadline.models.model import ToolCall
from threadline.operator import enforcement as protocol
from threadline.tools.context import ToolContext
from threadline.tools.model import Code, Status, ToolResult
from threadline.tools.registry import BadTool, Registry, tool

A, B = "rfp_a", "rfp_b"
_count = iter(range(10_000))


def call(name: str, /, **given: Any) -> ToolCall:
    return ToolCall(f"call_{next(_count)}", name, json.dumps(given))


def load(rfp_id: str = A) -> ToolCall:
    return call("opportunity_load", rfp_id=rfp_id)


def patch(rfp_id: str = A, **given: Any) -> ToolCall:
    return call("opportunity_patch", rfp_id=rfp_id, **given)


def journal(rfp_id: str = A) -> ToolCall:
    return call("journal_append", rfp_id=rfp_id, text="It was done.")


def say(text: str = "Done.") -> ToolCall:
    return call("slack_post_summary", text=text)


async def play(office: Office, *calls: ToolCall, scope: str = A) -> tuple[list[ToolResult], Turn]:
    """Each call in a reply of its own."""
    turn = Turn(office, scope)
    with capture_logs():
        return [(await turn.reply(each))[0] for each in calls], turn


def codes(results: list[ToolResult]) -> list[str]:
    return [each.error.code if each.error else "ok" for each in results]


async def test_a_change_before_a_load_does_not_run_and_the_model_is_told_to_load() -> None:
    office = Office()
    (refused, _, done), turn = await play(office, patch(), load(), patch())
    assert refused.status is Status.BLOCKED
    assert refused.error
    assert refused.error.code is Code.PROTOCOL
    assert "Call opportunity_load with rfp_id rfp_a first." in refused.text
    assert done.success
    assert office.executed == ["opportunity_load", "opportunity_patch"]
    assert (turn.state.did_load, turn.state.did_patch) == (True, True)


async def test_another_rfp_is_not_changed_though_it_was_loaded() -> None:
    office = Office()
    results, _ = await play(office, load(B), load(A), patch(B), patch(A))
    assert codes(results) == ["ok", "ok", "PROTOCOL", "ok"]
    assert [each.rfp_id for each in office.events if each.what == "opportunity_patch" and not each.called] == [A]


async def test_without_a_scope_what_was_loaded_is_changed() -> None:
    results, _ = await play(Office(), patch(A), load(A), load(B), patch(A), patch(B), patch("rfp_c"), scope="")
    assert codes(results) == ["PROTOCOL", "ok", "ok", "ok", "ok", "PROTOCOL"]


async def test_what_a_status_turn_says_is_journalled_first() -> None:
    office = Office()
    results, turn = await play(office, load(), say("It is open."))
    assert codes(results) == ["ok", "ok"]
    assert office.executed == ["opportunity_load", "journalled", "slack_post_summary"]
    (entry,) = office.entries.values()
    assert (entry.rfp_id, entry.words, entry.correlation_id, entry.user_id) == (A, "It is open.", CORRELATION, "U1")
    assert turn.state.did_post


async def test_a_question_is_journalled_as_well() -> None:
    office = Office()
    await play(office, call("slack_ask_clarifying_question", question="Which date?"))
    assert [each.words for each in office.entries.values()] == ["Which date?"]
    assert office.executed == ["journalled", "slack_ask_clarifying_question"]


async def test_without_its_entry_nothing_is_said() -> None:
    for goes in (Goes.REFUSED, Goes.AWAY, Goes.BROKEN):
        office = Office(journal_goes=[goes] * 9)
        (result,), turn = await play(office, say())
        assert not result.success
        assert "nothing was posted" in result.text
        assert office.executed == []
        assert not turn.state.did_post


async def test_a_journal_that_comes_back_lets_the_same_call_speak() -> None:
    office = Office(journal_goes=[Goes.AWAY, Goes.BROKEN])
    (result,), _ = await play(office, say())
    assert result.success
    assert office.executed == ["journalled", "slack_post_summary"]


async def test_once_a_change_was_tried_one_has_to_succeed_before_anything_is_said() -> None:
    office = Office(goes=[Goes.WELL, Goes.REFUSED])
    results, _ = await play(office, load(), patch(), say(), journal(), say())
    assert codes(results) == ["ok", "REFUSED", "PROTOCOL", "ok", "ok"]
    assert office.entries == {}
    assert office.executed[-2:] == ["journal_append", "slack_post_summary"]


async def test_a_change_whose_arguments_did_not_fit_was_tried_too() -> None:
    results, _ = await play(Office(), load(), call("opportunity_patch", rfp_id=A, patch=3), say())
    assert codes(results) == ["ok", "INVALID_ARGUMENTS", "PROTOCOL"]


async def test_a_tool_that_does_not_exist_changes_nothing() -> None:
    results, turn = await play(Office(), call("opportunity_delete"), say())
    assert codes(results) == ["UNKNOWN_TOOL", "ok"]
    assert turn.state.only_reads


async def test_one_reply_may_load_change_and_speak() -> None:
    office = Office()
    turn = Turn(office, A)
    results = await turn.reply(load(), patch(), journal(), say(), say("Again."), load())
    assert codes(results) == ["ok", "ok", "ok", "ok", "PROTOCOL", "PROTOCOL"]
    assert office.executed == ["opportunity_load", "opportunity_patch", "journal_append", "slack_post_summary"]


async def test_what_is_loaded_side_by_side_is_known_behind_it() -> None:
    office = Office()
    turn = Turn(office)
    await turn.reply(load(B), load(A), call("rfp_list"))
    assert turn.state.loaded == (A, B)
    assert codes(await turn.reply(patch(A), patch(B))) == ["ok", "ok"]


async def test_a_message_that_may_have_been_posted_is_the_only_one() -> None:
    for goes in (Goes.UNKNOWN, Goes.BROKEN):
        results, turn = await play(Office(goes=[goes]), call("slack_ask_clarifying_question", question="?"), say())
        assert results[1].error
        assert results[1].error.code is Code.PROTOCOL
        assert turn.state.did_post


async def test_a_message_that_was_refused_may_be_mended() -> None:
    results, _ = await play(Office(goes=[Goes.REFUSED]), say("Long."), say("Short."))
    assert codes(results) == ["REFUSED", "ok"]


async def test_behind_a_proposal_nothing_runs() -> None:
    office = Office()
    results, turn = await play(office, call("propose_action", action="x"), say(), load())
    assert codes(results) == ["ok", "PROTOCOL", "PROTOCOL"]
    assert turn.state.proposed
    assert office.executed == ["propose_action"]


async def test_after_a_crash_the_call_meets_the_same_state_and_changes_nothing_twice() -> None:
    office = Office()
    turn = Turn(office, A, crashes=[False, True, True])
    with capture_logs():
        results = [*await turn.reply(load(), patch()), *await turn.reply(say())]
    assert codes(results) == ["ok", "OUTCOME_UNKNOWN", "PROTOCOL"]
    assert office.executed == ["opportunity_load", "opportunity_patch"]
    assert (turn.state.write_attempted, turn.state.write_succeeded) == (True, False)


async def test_after_a_crash_a_message_is_found_and_not_said_twice() -> None:
    office = Office()
    turn = Turn(office, A, crashes=[True])
    (result,) = await turn.reply(say())
    assert result.success
    assert office.executed == ["journalled", "slack_post_summary"]
    assert turn.state.did_post


@pytest.mark.parametrize("written", ["", "forged", None, 7, {"a": 1}])
async def test_the_turns_correlation_id_stands_whatever_the_model_writes(written: Any) -> None:
    office = Office()
    results, turn = await play(office, load(), patch(correlation_id=written), call("schedule_job"))
    assert codes(results) == ["ok", "ok", "ok"]
    assert [each.correlation_id for each in office.events if not each.called][1:] == [CORRELATION] * 2
    assert turn.log.entries[1].arguments["correlation_id"] == CORRELATION


@pytest.mark.parametrize("arguments", ["[]", "{", "x" * 1_000_001, '{"rfp_id": NaN}', "[" * 100_000, "1" * 5_000])
async def test_arguments_that_are_none_stay_refused(arguments: str) -> None:
    results, _ = await play(Office(), load(), ToolCall("1", "opportunity_patch", arguments))
    assert codes(results) == ["ok", "INVALID_ARGUMENTS"]


def test_the_model_is_not_shown_the_correlation_id() -> None:
    assert "correlation_id" not in json.dumps(REGISTRY.definitions())
    patching = next(each for each in REGISTRY.definitions() if "patch" in each["name"])
    assert patching["parameters"]["required"] == ["rfp_id", "patch"]


def test_tools_that_the_protocol_could_not_hold_are_refused_at_the_start() -> None:
    @tool("journal_append", "No RFP.", mutating=True)
    async def nameless(context: ToolContext, *, text: str) -> None: ...

    @tool("slack_post_summary", "No words.", mutating=True)
    async def speechless(context: ToolContext, *, thing: str) -> None: ...

    @tool("propose_action", "Beside others.")
    async def beside(context: ToolContext) -> None: ...

    protocol.demand(Registry(TOOLS))
    for bad in (nameless, speechless, beside):
        with pytest.raises(BadTool, match=bad.name):
            protocol.demand(Registry([bad]))
