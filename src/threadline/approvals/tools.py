"""The tool `propose.action`: a call for which the model requests approval, although the policy
might allow it at once.
"""

import json
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, Field, field_validator

from threadline.approvals.model import MAX_REASON
from threadline.models.model import ToolCall, ToolKind
from threadline.rfps.model import named_rfp
from threadline.tools.context import ToolContext
from threadline.tools.model import ErrorCode, Risk, ToolError, ToolResult, ToolStatus, error_result
from threadline.tools.policy import WantedApproval
from threadline.tools.proposals import Proposals
from threadline.tools.public_text import public_sentence
from threadline.tools.registry import Tool, tool
from threadline.tools.roles import RecordKind
from threadline.tools.runner import ToolRunner


class Proposal(BaseModel):
    tool: Annotated[
        str,
        Field(
            min_length=1,
            max_length=100,
            description="Name of the tool to call, such as opportunity_patch.",
        ),
    ]
    arguments: Annotated[
        str, Field(description="The arguments of that call, as the text of one JSON object.")
    ]
    reason: Annotated[
        str,
        Field(
            min_length=1, max_length=MAX_REASON, description="Why, in a sentence for who decides."
        ),
    ]
    rfp_id: Annotated[
        str, Field(max_length=60, description="The RFP that it is about; empty when about none.")
    ] = ""
    risk: Annotated[
        Risk | None,
        Field(description="Only to have it treated as riskier than its tool is by itself."),
    ] = None

    @field_validator("arguments", mode="before")
    @classmethod
    def _as_text(cls, given: object) -> object:
        """Accept the object itself, which some models write, as its JSON text."""
        return json.dumps(given) if isinstance(given, dict) else given


async def _repeatable(context: ToolContext, given: Proposal) -> None:
    """Look nothing up: the proposed call is recorded under its own id."""


@tool(
    "propose.action",
    "Propose one call of another tool that changes something, instead of making it: for what "
    "somebody else should decide. What is of low risk is done at once; everything else waits "
    "for an approval by buttons in the thread. It ends the turn.",
    kind=ToolKind.PROPOSE,
    needs=(Proposals,),
    look_up=_repeatable,
    timeout=60.0,
    remote=True,
    partial_records=(RecordKind.RFPS,),
)
async def propose_action(context: ToolContext, given: Proposal) -> ToolResult:
    if given.rfp_id:  # the proposal is an event in the RFP's log
        context.access.check(RecordKind.RFPS)
    runner = context.services[ToolRunner]
    call = ToolCall(f"{context.call_id}:proposed", given.tool, given.arguments)
    wanted = WantedApproval(given.reason, given.risk or Risk.LOW, given.rfp_id)
    call_context = replace(context, call_id=call.id, wanted=wanted)
    if (proposed := runner.registry.get(call.name)) and (refusal := _refuse_proposal(proposed)):
        return refusal
    checked = await runner.check(call, call_context)
    if isinstance(checked, ToolResult):
        error = checked.error or ToolError(ErrorCode.REFUSED)
        return error_result(
            error.code, f"The proposed call would fail: {error.message}", error.suggestion
        )
    rfp_id = named_rfp(checked.arguments)
    if given.rfp_id and rfp_id and given.rfp_id != rfp_id:
        return error_result(
            ErrorCode.REFUSED,
            "The proposed call and the proposal name different RFPs.",
            "Name the same one in rfp_id and in arguments.",
        )
    result = await runner.run(call, call_context)
    if result.status is ToolStatus.PENDING:
        return result
    if result.error:
        return replace(result, structured=(), notes=())
    done = public_sentence(result.display_text, "It is done.")
    text = f"I have done this at once, because it is low risk: {done}"
    return ToolResult(data={"done": result.data}, display_text=text, notes=result.notes)


def _refuse_proposal(tool: Tool) -> ToolResult | None:
    if tool.kind in (ToolKind.SPEAK, ToolKind.PROPOSE):
        text = f"{tool.wire_name} cannot be proposed."
        suggestion = "Propose a call that changes something."
    elif not tool.mutating:
        text = f"{tool.wire_name} only reads, so it needs no approval."
        suggestion = "Call it yourself."
    else:
        return None
    return error_result(ErrorCode.REFUSED, text, suggestion)


TOOLS = (propose_action,)
