"""A call that is proposed rather than made: rehearsed by the policies that could refuse it, and made when it may be.

A turn that proposes is given both ways by the port `TURN`, since what it may do is the turn's own.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from threadline.models.model import ToolCall
from threadline.operator import enforcement as protocol
from threadline.operator.enforcement import RFP_ID, Rules
from threadline.operator.model.protocol import Kind, kind_of
from threadline.tools import arguments, policies
from threadline.tools.access import Allowed
from threadline.tools.calls import Run
from threadline.tools.context import Port, ToolContext
from threadline.tools.model import Code, ToolError, ToolResult, failure
from threadline.tools.registry import CORRELATION_ID, Registry, Tool
from threadline.tools.runner import Guards, pipeline


@dataclass(frozen=True)
class Turn:
    """`rehearse` says what would refuse a call, and does nothing; `perform` makes it, through everything."""

    registry: Registry
    rehearse: Run
    perform: Run


TURN = Port[Turn]("Proposals", "They belong to the operator's turns, and are made in those alone.")


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


def turn(registry: Registry, allowed: Allowed, guards: Guards, rules: Rules | None = None) -> Turn:
    """What a turn may do, for the tool that proposes; the arguments are those of `execution.pipeline`."""
    return Turn(registry, _rehearsing(registry, allowed, rules), pipeline(registry, allowed, guards, rules))


async def rehearsed(turn: Turn, call: ToolCall, context: ToolContext) -> Rehearsed | ToolResult:
    """The call as it would be made, or why it would not."""
    tool = turn.registry.get(call.name)
    if tool and (refused := _unfit(tool)):
        return refused
    result = await turn.rehearse(call, context)
    if result.error or tool is None:
        error = result.error or ToolError(Code.UNKNOWN_TOOL)
        return failure(error.code, f"The proposed call would fail: {error.message}", error.suggestion)
    given = arguments.read(tool.parameters, tool.schema, _with_correlation(tool, call, context).arguments)
    named = getattr(given, RFP_ID, "")
    # As they were written: so they are read once more when the call is made, be it days later.
    kept = json.loads(call.arguments or "{}")
    kept.pop(CORRELATION_ID, None)  # it is the turn's, and given to the call when it is made
    return Rehearsed(tool, kept, named if isinstance(named, str) else "")


def call_of(action: Mapping[str, Any], call_id: str) -> ToolCall:
    """The call that was proposed, under an id of its own."""
    return ToolCall(call_id, str(action.get("tool", "")), json.dumps(action.get("arguments", {}), ensure_ascii=False))


def _rehearsing(registry: Registry, allowed: Allowed, rules: Rules | None) -> Run:
    async def nothing(call: ToolCall, context: ToolContext) -> ToolResult:
        return ToolResult()

    run: Run = nothing
    if rules:
        run = protocol.enforced(run, registry, rules.state)
    run = policies.restricted(policies.validated(run, registry), registry, allowed)
    return protocol.traced(policies.known(run, registry), registry)


def _with_correlation(tool: Tool, call: ToolCall, context: ToolContext) -> ToolCall:
    if CORRELATION_ID not in tool.parameters.model_fields:
        return call
    given = json.loads(call.arguments or "{}") | {CORRELATION_ID: context.correlation_id}
    return replace(call, arguments=json.dumps(given))


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
