"""A call that is proposed rather than made: what could refuse it is asked now, and it is made when it may be."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threadline.models.model import ToolCall, ToolKind
from threadline.operator.enforcement import RFP_ID
from threadline.tools.context import ToolContext
from threadline.tools.model import ErrorCode, Risk, ToolError, ToolResult, error_result
from threadline.tools.registry import CORRELATION_ID, Tool
from threadline.tools.runner import ToolRunner


@dataclass(frozen=True)
class DryRun:
    """A call that nothing refused: the tool, its arguments as JSON, shown and kept so, and the RFP that it names."""

    tool: Tool
    arguments: dict[str, Any]
    rfp_id: str
    risk: Risk

    @property
    def action(self) -> dict[str, Any]:
        """What is put on record, and what an approval is bound to."""
        return {"tool": self.tool.name, "arguments": self.arguments}


def dry_run(runner: ToolRunner, call: ToolCall, context: ToolContext) -> DryRun | ToolResult:
    """The call as it would be made, or why it would not."""
    tool = runner.registry.get(call.name)
    if tool and (refused := _unfit(tool)):
        return refused
    checked = runner.check(call, context)
    if isinstance(checked, ToolResult):
        error = checked.error or ToolError(ErrorCode.REFUSED)
        return error_result(error.code, f"The proposed call would fail: {error.message}", error.suggestion)
    named = getattr(checked.arguments, RFP_ID, "")
    # As they were written: so they are read once more when the call is made, be it days later.
    kept = json.loads(call.arguments or "{}")
    kept.pop(CORRELATION_ID, None)  # it is the turn's, and given to the call when it is made
    return DryRun(checked.tool, kept, named if isinstance(named, str) else "", checked.tool.risk_of(checked.arguments))


def call_of(action: Mapping[str, Any], call_id: str) -> ToolCall:
    """The call that was proposed, under an id of its own."""
    return ToolCall(call_id, str(action.get("tool", "")), json.dumps(action.get("arguments", {}), ensure_ascii=False))


def _unfit(tool: Tool) -> ToolResult | None:
    """Why a tool cannot be proposed at all."""
    if tool.kind in (ToolKind.SPEAK, ToolKind.PROPOSE):
        return error_result(
            ErrorCode.REFUSED, f"{tool.wire_name} cannot be proposed.", "Propose a call that changes something."
        )
    if tool.needs_approval:
        said = f"{tool.wire_name} waits for its approval by itself, and so is not proposed."
        return error_result(ErrorCode.REFUSED, said, "Call it yourself.")
    if not tool.mutating:
        return error_result(
            ErrorCode.REFUSED, f"{tool.wire_name} only reads, so nobody has to approve it.", "Call it yourself."
        )
    return None
