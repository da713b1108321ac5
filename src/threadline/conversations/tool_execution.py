"""What became of a call, as the turn's account and the person are told it."""

from threadline.conversations.model.conversation import Execution, ExecutionStatus
from threadline.models.model import ToolCall, ToolKind
from threadline.tools.model import ErrorCode, ToolResult, ToolStatus
from threadline.tools.public_text import public_sentence
from threadline.tools.registry import ToolRegistry

_STATUS = {
    ToolStatus.OK: ExecutionStatus.OK,
    ToolStatus.CACHED: ExecutionStatus.CACHED,
    ToolStatus.ERROR: ExecutionStatus.ERROR,
    ToolStatus.BLOCKED: ExecutionStatus.BLOCKED,
}


def execution(call: ToolCall, result: ToolResult, registry: ToolRegistry) -> Execution:
    """A line for people: without a place, a secret or a program's words, and without a name that the model made up."""
    tool = registry.get(call.name)
    code = result.error.code if result.error else None
    # Which call the model is to make first is nothing for people.
    said = result.error.message if result.error and code is ErrorCode.PROTOCOL else result.user_text
    return Execution(
        call.id,
        tool.name if tool else "",
        ExecutionStatus.UNKNOWN if code is ErrorCode.OUTCOME_UNKNOWN else _STATUS[result.status],
        note=public_sentence(said, ""),
        kind=tool.kind if tool else ToolKind.CHANGE,
        critical=tool is not None and tool.critical and (code is None or code.is_fault),
    )
