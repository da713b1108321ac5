"""The status, the note and the criticality of a tool call that ended."""

import pytest

from threadline.conversations.tool_execution import execution
from threadline.models.model import Execution, ExecutionStatus, ToolCall
from threadline.tools.context import ToolContext
from threadline.tools.model import Code, Status, ToolResult, failure
from threadline.tools.registry import Registry, tool


@tool("stage.look", "Look.")
async def look(context: ToolContext) -> None: ...


@tool("stage.clear", "Clear.", mutating=True)
async def clear(context: ToolContext) -> None: ...


@tool("stage.light", "Light it.", mutating=True, critical=True)
async def light(context: ToolContext) -> None: ...


REGISTRY = Registry([look, clear, light])


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (ToolResult(), ExecutionStatus.OK),
        (ToolResult(status=Status.CACHED), ExecutionStatus.CACHED),
        (failure(Code.REFUSED), ExecutionStatus.ERROR),
        (failure(Code.NOT_ALLOWED), ExecutionStatus.BLOCKED),
        (failure(Code.PROTOCOL), ExecutionStatus.BLOCKED),
        (failure(Code.OUTCOME_UNKNOWN), ExecutionStatus.UNKNOWN),
    ],
)
def test_every_result_has_its_status(result: ToolResult, status: ExecutionStatus) -> None:
    assert execution(ToolCall("1", "stage.look"), result, REGISTRY).status is status


@pytest.mark.parametrize(
    ("result", "critical"),
    [
        (ToolResult(), True),
        (failure(Code.SERVICE_UNAVAILABLE), True),
        (failure(Code.OUTCOME_UNKNOWN), True),
        (failure(Code.TOOL_EXECUTION_FAILED), True),
        (failure(Code.REFUSED), False),
        (failure(Code.INVALID_ARGUMENTS), False),
        (failure(Code.TOO_MANY_CHANGES), False),
    ],
)
def test_a_refusal_of_a_critical_tool_is_an_answer(result: ToolResult, critical: bool) -> None:
    assert execution(ToolCall("1", "stage.light"), result, REGISTRY).critical is critical
    assert not execution(ToolCall("1", "stage.clear"), result, REGISTRY).critical


def test_a_tool_is_named_by_its_own_name_and_a_name_that_was_made_up_is_not() -> None:
    done = ToolResult(display_text="Cleared:\n3 chairs, see https://stage.example/1")
    told = execution(ToolCall("1", "stage_clear", "{}"), done, REGISTRY)
    assert told == Execution("1", "stage.clear", ExecutionStatus.OK, "Cleared: 3 chairs, see [address]")
    made_up = execution(ToolCall("2", "/etc/passwd"), failure(Code.UNKNOWN_TOOL), REGISTRY)
    assert (made_up.tool, made_up.read_only) == ("", False)
    assert execution(ToolCall("3", "stage.look"), done, REGISTRY).read_only


def test_which_call_the_model_is_to_make_first_is_not_told_to_people() -> None:
    refused = failure(Code.PROTOCOL, "Nothing was loaded yet.", "Call opportunity_load first.")
    assert execution(ToolCall("1", "stage.clear"), refused, REGISTRY).note == "Nothing was loaded yet."
