"""What became of a call, as the turn's account and the person are told it."""

from threadline.models.model import Execution, ExecutionStatus, ToolCall
from threadline.tools.model import Code, Status, ToolResult
from threadline.tools.public_text import sentence
from threadline.tools.registry import Registry

_STATUS = {
    Status.OK: ExecutionStatus.OK,
    Status.CACHED: ExecutionStatus.CACHED,
    Status.ERROR: ExecutionStatus.ERROR,
    Status.BLOCKED: ExecutionStatus.BLOCKED,
}


def execution(call: ToolCall, result: ToolResult, registry: Registry) -> Execution:
    """A line for people: without a place, a secret or a program's words, and without a name that the model made up."""
    tool = registry.get(call.name)
    code = result.error.code if result.error else None
    # Which call the model is to make first is nothing for people.
    said = result.error.message if result.error and code is Code.PROTOCOL else result.text
    return Execution(
        call.id,
        tool.name if tool else "",
        ExecutionStatus.UNKNOWN if code is Code.OUTCOME_UNKNOWN else _STATUS[result.status],
        note=sentence(said, ""),
        read_only=tool is not None and not tool.mutating,
        critical=tool is not None and tool.critical and (code is None or code.breaks),
    )
