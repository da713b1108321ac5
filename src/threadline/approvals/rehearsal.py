"""A call that is proposed rather than made: what could refuse it is asked now, and it is made when it may be."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threadline.models.model import ToolCall
from threadline.operator.enforcement import RFP_ID
from threadline.operator.model.protocol import Kind, kind_of
from threadline.tools.context import Port, ToolContext
from threadline.tools.model import Code, ToolError, ToolResult, failure
from threadline.tools.registry import CORRELATION_ID, Tool
from threadline.tools.runner import ToolRunner

TURN = Port[ToolRunner]("Proposals", "They belong to the operator's turns, and are made in those alone.")
"""Runs the calls of the turn that proposes, since what it may do is the turn's own."""


@dataclass(frozen=True)
class Rehearsed:
    """A call that nothing refused: the tool, its arguments as JSON, shown and kept so, and the RFP that it names."""

    tool: Tool
    arguments: dict[str, Any]
    rfp_id: str

    @property
    def action(self) -> dict[str, Any]:
        """What is put on record, and what an approval is bound to."""
        return {"tool": self.tool.name, "arguments": self.arguments}


def rehearsed(runner: ToolRunner, call: ToolCall, context: ToolContext) -> Rehearsed | ToolResult:
    """The call as it would be made, or why it would not."""
    tool = runner.registry.get(call.name)
    if tool and (refused := _unfit(tool)):
        return refused
    checked = runner.check(call, context)
    if isinstance(checked, ToolResult):
        error = checked.error or ToolError(Code.REFUSED)
        return failure(error.code, f"The proposed call would fail: {error.message}", error.suggestion)
    named = getattr(checked.arguments, RFP_ID, "")
    # As they were written: so they are read once more when the call is made, be it days later.
    kept = json.loads(call.arguments or "{}")
    kept.pop(CORRELATION_ID, None)  # it is the turn's, and given to the call when it is made
    return Rehearsed(checked.tool, kept, named if isinstance(named, str) else "")


def call_of(action: Mapping[str, Any], call_id: str) -> ToolCall:
    """The call that was proposed, under an id of its own."""
    return ToolCall(call_id, str(action.get("tool", "")), json.dumps(action.get("arguments", {}), ensure_ascii=False))


def _unfit(tool: Tool) -> ToolResult | None:
    """Why a tool cannot be proposed at all."""
    if kind_of(tool.name, read_only=not tool.mutating) in (Kind.SPEAK, Kind.PROPOSE):
        return failure(Code.REFUSED, f"{tool.wire_name} cannot be proposed.", "Propose a call that changes something.")
    if tool.asks:
        said = f"{tool.wire_name} waits for its approval by itself, and so is not proposed."
        return failure(Code.REFUSED, said, "Call it yourself.")
    if not tool.mutating:
        return failure(Code.REFUSED, f"{tool.wire_name} only reads, so nobody has to approve it.", "Call it yourself.")
    return None
