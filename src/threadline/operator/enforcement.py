"""Enforces the operator's protocol on tool calls; the rules themselves are in `model/protocol.py`.

The state comes with the call and is not changed here: `record_result` returns the next state,
which goes back to the turn with the result. A retried call starts from the same state, and so gets
the same verdict. See docs/adr/0005-the-protocol-where-tools-run.md.
"""

import json

from threadline.models.model import ToolCall, ToolKind
from threadline.operator.model import protocol
from threadline.operator.model.protocol import ProtocolState, ToolRequest
from threadline.rfps.model import RFP_ID, named_rfp
from threadline.tools.arguments import InvalidArguments, InvalidTool, parse_arguments
from threadline.tools.model import ErrorCode, ToolResult, ToolStatus, error_result
from threadline.tools.registry import ToolRegistry
from threadline.tools.runner import Invocation, ToolPolicy

SPEECH = ("text", "question")
"""The parameters that hold the text of a speaking tool; each such tool has one of them."""


def check_tool_declarations(registry: ToolRegistry) -> None:
    """Raise `InvalidTool` for a tool whose parameters lack its RFP or its text, since the protocol
    cannot check it.
    """
    for tool in registry.all():
        kind = tool.kind
        fields = tool.parameters.model_fields
        if (kind.changes_rfp or kind is ToolKind.LOAD) and RFP_ID not in fields:
            raise InvalidTool(f"{tool.name} must have the parameter {RFP_ID}, which names its RFP")
        if kind is ToolKind.SPEAK and not fields.keys() & set(SPEECH):
            raise InvalidTool(
                f"{tool.name} must take its text in a parameter {' or '.join(SPEECH)}"
            )


def record_result(
    registry: ToolRegistry, state: ProtocolState, call: ToolCall, result: ToolResult
) -> ProtocolState:
    """Return the turn's state after a call with this result, also if it was found on record."""
    tool = registry.get(call.name)
    if tool is None:  # an unknown tool neither does nor says anything
        return state
    # A call that waits for an approval is a proposal, regardless of its tool.
    kind = ToolKind.PROPOSE if result.status is ToolStatus.PENDING else tool.kind
    try:
        seen = ToolRequest(kind, named_rfp(parse_arguments(tool.parameters, call.arguments)))
    except InvalidArguments:
        seen = ToolRequest(kind)
    unknown = result.error is not None and result.error.code in _UNKNOWN
    return protocol.record_outcome(state, seen, None if unknown else result.success)


def protocol_policy(state: ProtocolState) -> ToolPolicy:
    """Return the policy that refuses calls out of order and names the call that must come first.
    `state`: the turn's state before the call.
    """

    def check(invocation: Invocation) -> ToolResult | None:
        refusal = protocol.check(
            state, ToolRequest(invocation.tool.kind, named_rfp(invocation.arguments))
        )
        return (
            error_result(ErrorCode.PROTOCOL, refusal.message, refusal.suggestion)
            if refusal
            else None
        )

    return check


def approved_call_policy(rfp_id: str) -> ToolPolicy:
    """Return the protocol policy for an approved call: its RFP counts as loaded."""
    loaded = (rfp_id,) if rfp_id else ()
    return protocol_policy(ProtocolState(scope=rfp_id, loaded=loaded, did_load=bool(loaded)))


def final_tool_text(arguments_: str) -> str:
    """Return the text of a speaking call, from the model's raw arguments; empty without one."""
    try:
        given = json.loads(arguments_ or "{}")
    except (ValueError, RecursionError):
        return ""
    said = (given.get(name) for name in SPEECH) if isinstance(given, dict) else ()
    return next((each.strip() for each in said if isinstance(each, str) and each.strip()), "")


_UNKNOWN = (ErrorCode.OUTCOME_UNKNOWN, ErrorCode.TOOL_EXECUTION_FAILED)
"""Our own failure may have come before or after the change."""
