"""The status, the note and the criticality of a tool call that ended."""

import pytest

from threadline.conversations.act import describe_execution
from threadline.conversations.model.conversation import Execution
from threadline.models.model import ToolCall, ToolKind
from threadline.tools.context import ToolContext
from threadline.tools.model import ErrorCode, ToolResult, ToolStatus, error_result
from threadline.tools.registry import ToolRegistry, tool


@tool("stage.look", "Look.", remote=True)
async def look(context: ToolContext) -> None: ...


@tool("stage.clear", "Clear.", kind=ToolKind.CHANGE, remote=True)
async def clear(context: ToolContext) -> None: ...


@tool("stage.light", "Light it.", kind=ToolKind.CHANGE, critical=True, remote=True)
async def light(context: ToolContext) -> None: ...


REGISTRY = ToolRegistry([look, clear, light])
OK = ToolStatus.OK
ERROR = ToolStatus.ERROR
BLOCKED = ToolStatus.BLOCKED


@pytest.mark.parametrize(
    ("result", "status", "critical"),
    [
        (ToolResult(), OK, True),
        (ToolResult(status=ToolStatus.CACHED), ToolStatus.CACHED, True),
        (error_result(ErrorCode.SERVICE_UNAVAILABLE), ERROR, True),
        (error_result(ErrorCode.TOOL_EXECUTION_FAILED), ERROR, True),
        (error_result(ErrorCode.OUTCOME_UNKNOWN), ToolStatus.UNKNOWN, True),
        (error_result(ErrorCode.REFUSED), ERROR, False),
        (error_result(ErrorCode.INVALID_ARGUMENTS), ERROR, False),
        (error_result(ErrorCode.TOO_MANY_CHANGES), ERROR, False),
        (error_result(ErrorCode.NOT_ALLOWED), BLOCKED, False),
        (error_result(ErrorCode.PROTOCOL), BLOCKED, False),
    ],
)
def test_result_has_its_status_and_a_refusal_is_not_critical(
    result: ToolResult, status: ToolStatus, critical: bool
) -> None:
    ended = describe_execution(ToolCall("1", "stage.light"), result, REGISTRY)
    assert (ended.status, ended.critical) == (status, critical)
    assert not describe_execution(ToolCall("1", "stage.clear"), result, REGISTRY).critical


def test_tool_is_named_by_its_own_name_and_an_unknown_one_is_not() -> None:
    done = ToolResult(display_text="Cleared:\n3 chairs, see https://stage.example/1")
    told = describe_execution(ToolCall("1", "stage_clear", "{}"), done, REGISTRY)
    assert told == Execution("1", "stage.clear", OK, "Cleared: 3 chairs, see [address]")
    made_up = describe_execution(
        ToolCall("2", "/etc/passwd"), error_result(ErrorCode.UNKNOWN_TOOL), REGISTRY
    )
    assert (made_up.tool, made_up.read_only) == ("", False)
    assert describe_execution(ToolCall("3", "stage.look"), done, REGISTRY).read_only


def test_hint_to_the_model_is_not_in_the_note_for_people() -> None:
    refused = error_result(
        ErrorCode.PROTOCOL, "Nothing was loaded yet.", "Call opportunity_load first."
    )
    assert (
        describe_execution(ToolCall("1", "stage.clear"), refused, REGISTRY).note
        == "Nothing was loaded yet."
    )
