"""What became of a call, as the turn's account and the person are told it."""

from threadline.domain.dialogue import Execution, ExecutionStatus, ToolCall
from threadline.tools.registry import Registry
from threadline.tools.results import Code, Status, ToolResult
from threadline.tools.words import sentence

_STATUS = {
    Status.OK: ExecutionStatus.OK,
    Status.CACHED: ExecutionStatus.CACHED,
    Status.ERROR: ExecutionStatus.ERROR,
    Status.BLOCKED: ExecutionStatus.BLOCKED,
}


def execution(call: ToolCall, result: ToolResult, registry: Registry) -> Execution:
    """A line for people: without a place, a secret or a program's words, and without a name that the model made up."""
    tool = registry.get(call.name)
    unknown = result.error is not None and result.error.code is Code.OUTCOME_UNKNOWN
    return Execution(
        call.id,
        tool.name if tool else "",
        ExecutionStatus.UNKNOWN if unknown else _STATUS[result.status],
        note=sentence(result.text, ""),
        read_only=tool is not None and not tool.mutating,
    )
