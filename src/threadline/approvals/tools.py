"""The tool `propose.action`: a call of low risk is made at once, every other waits for an approval."""

import json
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from threadline.approvals.model import MAX_REASON, NewAction, Proposals, ProposedAction, max_risk, pending_result
from threadline.models.model import ToolCall, ToolKind
from threadline.rfps.model import named_rfp
from threadline.tools.context import ToolContext
from threadline.tools.model import Author, ErrorCode, Risk, ToolError, ToolResult, error_result
from threadline.tools.public_text import public_sentence
from threadline.tools.registry import CORRELATION_ID, Tool, tool
from threadline.tools.runner import ToolRunner


class Proposal(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tool: Annotated[
        str, Field(min_length=1, max_length=100, description="Name of the tool to call, such as opportunity_patch.")
    ]
    arguments: Annotated[str, Field(description="The arguments of that call, as the text of one JSON object.")]
    reason: Annotated[
        str, Field(min_length=1, max_length=MAX_REASON, description="Why, in a sentence for who decides.")
    ]
    rfp_id: Annotated[str, Field(max_length=60, description="The RFP that it is about; empty when about none.")] = ""
    risk: Annotated[
        Risk | None, Field(description="Only to have it treated as riskier than its tool is by itself.")
    ] = None
    correlation_id: Annotated[str, Field(max_length=300)] = ""

    @field_validator("arguments", mode="before")
    @classmethod
    def _as_text(cls, given: object) -> object:
        """Some models write the object itself."""
        return json.dumps(given) if isinstance(given, dict) else given


async def _repeatable(context: ToolContext, given: Proposal) -> None:
    """Look nothing up: recording, starting and executing are each done once under keys of their own."""


@tool(
    "propose.action",
    "Propose one call of another tool that changes something, instead of making it: for what somebody else should "
    "decide. What is of low risk is done at once; everything else waits for an approval by buttons in the thread. "
    "It ends the turn.",
    kind=ToolKind.PROPOSE,
    needs=(Proposals,),
    look_up=_repeatable,
    timeout=60.0,
    remote=True,
)
async def propose_action(context: ToolContext, given: Proposal) -> ToolResult:
    runner = context.services[ToolRunner]
    call = ToolCall(f"{context.call_id}:proposed", given.tool, given.arguments)
    call_context = replace(context, call_id=call.id)
    proposed = await dry_run(runner, call, call_context)
    if isinstance(proposed, ToolResult):
        return proposed
    if given.rfp_id and proposed.rfp_id and given.rfp_id != proposed.rfp_id:
        return error_result(
            ErrorCode.REFUSED,
            "The proposed call names another RFP than the proposal does.",
            "Name the same one in rfp_id and in arguments.",
        )
    new = NewAction(
        proposed.action,
        max_risk(proposed.risk, given.risk),
        Author(context.user_id, context.correlation_id),
        given.rfp_id or proposed.rfp_id,
        context.actor,
        context.co_requesters,
    )
    proposals = context.services[Proposals]
    action = await proposals.propose(context.change, new)
    if action.risk is Risk.LOW:
        return await _execute(runner, call, call_context, action, proposals)
    summary = proposed.tool.description.split(". ")[0].rstrip(".")
    return pending_result(summary, proposed.arguments, action, given.reason)


async def _execute(
    runner: ToolRunner, call: ToolCall, context: ToolContext, action: ProposedAction, proposals: Proposals
) -> ToolResult:
    """Make a call of low risk at once; its records are shown as those of any call."""
    result = await runner.run(call, context)
    if result.error:
        status = "unknown" if result.error.code is ErrorCode.OUTCOME_UNKNOWN else "error"
        await proposals.record_failure(action, status, context.change.now)
        return replace(result, structured=(), notes=())
    data = {"action_id": action.action_id, "risk": action.risk.value, "done": result.data}
    done = public_sentence(result.display_text, "It is done.")
    text = f"I have done this at once, because it is low risk ({action.action_id}): {done}"
    return ToolResult(data=data, display_text=text, notes=result.notes)


@dataclass(frozen=True)
class DryRun:
    """A call that nothing refused: the tool, its arguments as JSON, the RFP that it names, and its risk."""

    tool: Tool
    arguments: dict[str, Any]
    rfp_id: str
    risk: Risk

    @property
    def action(self) -> dict[str, Any]:
        """What is put on record, and what an approval is bound to."""
        return {"tool": self.tool.name, "arguments": self.arguments}


async def dry_run(runner: ToolRunner, call: ToolCall, context: ToolContext) -> DryRun | ToolResult:
    """Check a call as if it were made now.

    Returns:
        The call as it would be made, or the result that says why it would be refused.

    Raises:
        Transient: Slack does not say for now who asks.
    """
    tool = runner.registry.get(call.name)
    if tool and (refusal := _refuse_proposal(tool)):
        return refusal
    checked = await runner.check(call, context)
    if isinstance(checked, ToolResult):
        error = checked.error or ToolError(ErrorCode.REFUSED)
        return error_result(error.code, f"The proposed call would fail: {error.message}", error.suggestion)
    # As the model wrote them: they are parsed again when the call is made, be it days later.
    arguments = json.loads(call.arguments or "{}")
    arguments.pop(CORRELATION_ID, None)  # the runner sets it when the call is made
    return DryRun(checked.tool, arguments, named_rfp(checked.arguments), checked.tool.risk_of(checked.arguments))


def _refuse_proposal(tool: Tool) -> ToolResult | None:
    """Return why a tool cannot be proposed at all."""
    if tool.kind in (ToolKind.SPEAK, ToolKind.PROPOSE):
        return error_result(
            ErrorCode.REFUSED, f"{tool.wire_name} cannot be proposed.", "Propose a call that changes something."
        )
    if tool.needs_approval:
        text = f"{tool.wire_name} waits for its approval by itself, and so is not proposed."
        return error_result(ErrorCode.REFUSED, text, "Call it yourself.")
    if not tool.mutating:
        return error_result(
            ErrorCode.REFUSED, f"{tool.wire_name} only reads, so nobody has to approve it.", "Call it yourself."
        )
    return None


TOOLS = (propose_action,)
