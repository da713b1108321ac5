"""The operator's protocol where tools are executed: the rules are the domain's, and here calls are held to them.

The state comes with the call and is not changed here: `record_result` gives the next one, which goes back to the turn
with the result. A call that is tried again meets the state that it met at first, and so the same verdict. See
docs/adr/0005-the-protocol-where-tools-run.md.
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
"""The parameters that hold what a speaking tool is to say; each has one of them."""


def check_tool_declarations(registry: ToolRegistry) -> None:
    """Raises `InvalidTool` for a tool that the protocol cannot hold, since it does not say what it is about."""
    for tool in registry.all():
        kind, fields = tool.kind, tool.parameters.model_fields
        if (kind.changes_rfp or kind is ToolKind.LOAD) and RFP_ID not in fields:
            raise InvalidTool(f"{tool.name} must have the parameter {RFP_ID}, which names its RFP")
        if kind is ToolKind.SPEAK and not fields.keys() & set(SPEECH):
            raise InvalidTool(f"{tool.name} must take its text in a parameter {' or '.join(SPEECH)}")


def record_result(registry: ToolRegistry, state: ProtocolState, call: ToolCall, result: ToolResult) -> ProtocolState:
    """The turn's state once the call has come to its result, also one that was found on record."""
    tool = registry.get(call.name)
    if tool is None:  # it can neither do nor say anything
        return state
    # A call that waits for an approval is a proposal, whichever tool was called.
    kind = ToolKind.PROPOSE if result.status is ToolStatus.PENDING else tool.kind
    try:
        seen = ToolRequest(kind, named_rfp(parse_arguments(tool.parameters, call.arguments)))
    except InvalidArguments:
        seen = ToolRequest(kind)
    unknown = result.error is not None and result.error.code in _UNKNOWN
    return protocol.record_outcome(state, seen, None if unknown else result.success)


def protocol_policy(state: ProtocolState) -> ToolPolicy:
    """Return the policy that refuses what is not in order, with the call that is to come first. `state` is that of the
    turn before the call."""

    def check(invocation: Invocation) -> ToolResult | None:
        refusal = protocol.check(state, ToolRequest(invocation.tool.kind, named_rfp(invocation.arguments)))
        return error_result(ErrorCode.PROTOCOL, refusal.message, refusal.suggestion) if refusal else None

    return check


def approved_call_policy(rfp_id: str) -> ToolPolicy:
    """Return the protocol for an approved call: its RFP counts as loaded."""
    loaded = (rfp_id,) if rfp_id else ()
    return protocol_policy(ProtocolState(scope=rfp_id, loaded=loaded, did_load=bool(loaded)))


def final_tool_text(arguments_: str) -> str:
    """What a speaking call was to say, by its arguments as the model wrote them; empty where there is nothing."""
    try:
        given = json.loads(arguments_ or "{}")
    except (ValueError, RecursionError):
        return ""
    said = (given.get(name) for name in SPEECH) if isinstance(given, dict) else ()
    return next((each.strip() for each in said if isinstance(each, str) and each.strip()), "")


_UNKNOWN = (ErrorCode.OUTCOME_UNKNOWN, ErrorCode.TOOL_EXECUTION_FAILED)
"""A fault of ours may come before a change or behind it."""
