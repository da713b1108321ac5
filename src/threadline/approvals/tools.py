"""Actions are proposed: what is of low risk is done at once, and everything else waits for somebody's word."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, field_validator

from threadline.approvals.model import ProposedAction, deciders, max_risk
from threadline.approvals.rehearsal import dry_run
from threadline.models.model import ToolCall, ToolKind
from threadline.tools.context import ToolContext
from threadline.tools.model import Author, Change, ErrorCode, RecordGroup, Risk, ToolResult, error_result
from threadline.tools.public_text import public_sentence
from threadline.tools.registry import tool
from threadline.tools.runner import ToolRunner

KIND = "approval"
"""Of the record that is shown with its buttons; see `approvals.blocks`."""
LONGEST_REASON = 500


class Proposals(Protocol):
    """Where proposed actions are on record, and wait."""

    async def propose(
        self, change: Change, action: Mapping[str, Any], risk: Risk, author: Author, rfp_id: str, others: Sequence[str]
    ) -> ProposedAction:
        """Put an action on record, once for each operation; one that waits is waited for when this returns.

        Args:
            others: who else has asked; of a high risk none of them decides.

        Raises:
            ActionRefused: nobody may decide it here, or it is too large.
        """
        ...

    async def failed(self, team: str, action: ProposedAction, status: str, now: float) -> None:
        """One of low risk, which is on record as approved, did not succeed: keep that too. Safe to repeat.

        Args:
            status: `error`, or `unknown` where nobody knows whether it took effect.
        """
        ...


class Proposal(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tool: Annotated[
        str, Field(min_length=1, max_length=100, description="Name of the tool to call, such as opportunity_patch.")
    ]
    arguments: Annotated[str, Field(description="The arguments of that call, as the text of one JSON object.")]
    reason: Annotated[
        str, Field(min_length=1, max_length=LONGEST_REASON, description="Why, in a sentence for who decides.")
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
    """Nothing to look up: the action is put on record once, waited for once and made once, each under its own key."""


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
    made = replace(context, call_id=call.id)
    meant = dry_run(runner, call, made)
    if isinstance(meant, ToolResult):
        return meant
    if given.rfp_id and meant.rfp_id and given.rfp_id != meant.rfp_id:
        return error_result(
            ErrorCode.REFUSED,
            "The proposed call names another RFP than the proposal does.",
            "Name the same one in rfp_id and in arguments.",
        )
    risk = max_risk(meant.risk, given.risk)
    author = Author(context.user_id, given.correlation_id or context.correlation_id)
    rfp_id = given.rfp_id or meant.rfp_id
    proposals, others = context.services[Proposals], context.co_requester_ids
    action = await proposals.propose(context.change, meant.action, risk, author, rfp_id, others)
    if action.risk is Risk.LOW:
        return await _done(runner, call, made, action, proposals)
    return waiting(meant.tool.description.split(". ")[0].rstrip("."), meant.arguments, action, given.reason)


async def _done(
    runner: ToolRunner, call: ToolCall, context: ToolContext, action: ProposedAction, proposals: Proposals
) -> ToolResult:
    """What came of the call itself; its records are shown as those of any call."""
    result = await runner.run(call, context)
    if result.error:
        status = "unknown" if result.error.code is ErrorCode.OUTCOME_UNKNOWN else "error"
        await proposals.failed(context.team, action, status, context.change.now)
        return replace(result, structured=(), notes=())
    told = {"action_id": action.action_id, "risk": action.risk.value, "done": result.data}
    said = public_sentence(result.display_text, "It is done.")
    words = f"I have done this at once, because it is low risk ({action.action_id}): {said}"
    return ToolResult(data=told, display_text=words, notes=result.notes)


def waiting(does: str, arguments: Mapping[str, Any], action: ProposedAction, reason: str) -> ToolResult:
    """What is said of an action that waits, with its card: what the call does, what it is given, and why."""
    waits_for = list(deciders(action.risk, action.author.user_id, action.approvers))
    told = {
        "action_id": action.action_id,
        "risk": action.risk.value,
        "waits_for": waits_for,
        "until": action.expires_at.isoformat(),
        "done": False,
    }
    record = {
        "action_id": action.action_id,
        "action_hash": action.action_hash,
        "does": does,
        "arguments": dict(arguments),
        "risk": action.risk.value,
        "reason": reason,
        "asked_by": action.author.user_id,
        "deciders": waits_for,
        "expires_at": action.expires_at.timestamp(),
    }
    words = f"I propose this and will do it once it is approved. It is {action.risk} risk ({action.action_id})."
    return ToolResult(data=told, display_text=words, structured=(RecordGroup(KIND, (record,)),))


TOOLS = (propose_action,)
