"""The operator's tools as its protocol sees them, over a scripted `Office`; `Turn` drives them as
a workflow does.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from tests.support.tool_fakes import MemoryLedger, context, unheld
from threadline.errors import Permanent, Transient
from threadline.models.model import ToolCall, ToolKind
from threadline.operator import enforcement as protocol
from threadline.operator.model.protocol import ProtocolState
from threadline.tools.context import ToolContext
from threadline.tools.model import ErrorCode, ToolResult, error_result
from threadline.tools.registry import ToolRegistry, allowed_tools, tool
from threadline.tools.runner import ToolRunner

CORRELATION = "turn-1"
ATTEMPTS = 3


class Goes(StrEnum):
    WELL = "well"
    REFUSED = "refused"
    AWAY = "away"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class Crash(Exception):
    """The worker dies once the tool has run, before its result is on record."""


@dataclass(frozen=True)
class Event:
    """A tool was `called` by the model or was executed."""

    what: str
    rfp_id: str = ""
    correlation_id: str = ""
    words: str = ""
    goes: Goes = Goes.WELL
    called: bool = False


@dataclass
class Office:
    """The state that the tools work on: the next calls go as `goes` says, later ones well."""

    goes: list[Goes] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    said: dict[str, str] = field(default_factory=dict)

    @property
    def executed(self) -> list[str]:
        return [each.what for each in self.events if not each.called]

    def does(
        self, what: str, rfp_id: str = "", correlation_id: str = "", words: str = ""
    ) -> ToolResult:
        goes = self.goes.pop(0) if self.goes else Goes.WELL
        self.events.append(Event(what, rfp_id, correlation_id, words, goes))
        if goes is Goes.UNKNOWN:
            return error_result(ErrorCode.OUTCOME_UNKNOWN)
        _raise(goes)
        return ToolResult(data="done")


FAULTS = {Goes.REFUSED: Permanent, Goes.AWAY: Transient, Goes.BROKEN: RuntimeError}


def _raise(goes: Goes) -> None:
    if goes in FAULTS:
        raise FAULTS[goes]("It cannot be done.")


RfpId = Annotated[str, Field(description="The RFP.")]


@tool("rfp_list", "List.", remote=True)
async def rfp_list(context: ToolContext) -> ToolResult:
    return context.services[Office].does("rfp_list")


@tool("opportunity_load", "Load.", kind=ToolKind.LOAD, remote=True)
async def opportunity_load(context: ToolContext, *, rfp_id: RfpId) -> ToolResult:
    return context.services[Office].does("opportunity_load", rfp_id)


@tool("opportunity_patch", "Patch.", kind=ToolKind.PATCH, remote=True)
async def opportunity_patch(context: ToolContext, *, rfp_id: RfpId, patch: str = "") -> ToolResult:
    return context.services[Office].does("opportunity_patch", rfp_id, context.correlation_id)


@tool("journal_append", "Journal.", kind=ToolKind.JOURNAL, remote=True)
async def journal_append(context: ToolContext, *, rfp_id: RfpId, text: str) -> ToolResult:
    return context.services[Office].does("journal_append", rfp_id, context.correlation_id)


@tool("event_append", "Event.", kind=ToolKind.EVENT, remote=True)
async def event_append(context: ToolContext, *, rfp_id: RfpId) -> ToolResult:
    return context.services[Office].does("event_append", rfp_id, context.correlation_id)


@tool("schedule_job", "Schedule.", kind=ToolKind.CHANGE, remote=True)
async def schedule_job(context: ToolContext, *, job: str = "") -> ToolResult:
    return context.services[Office].does("schedule_job", "", context.correlation_id)


async def _was_said(context: ToolContext, given: object) -> ToolResult | None:
    return (
        ToolResult(data="done") if context.operation_key in context.services[Office].said else None
    )


@tool("slack_post_summary", "Say.", kind=ToolKind.SPEAK, look_up=_was_said, remote=True)
async def slack_post_summary(context: ToolContext, *, text: str) -> ToolResult:
    result = context.services[Office].does("slack_post_summary", "", context.correlation_id, text)
    context.services[Office].said[context.operation_key] = text
    return result


@tool("slack_ask_clarifying_question", "Ask.", kind=ToolKind.SPEAK, remote=True)
async def slack_ask_clarifying_question(context: ToolContext, *, question: str) -> ToolResult:
    return context.services[Office].does(
        "slack_ask_clarifying_question", "", context.correlation_id, question
    )


@tool("propose_action", "Propose.", kind=ToolKind.PROPOSE, remote=True)
async def propose_action(
    context: ToolContext, *, action: str = "", rfp_id: str = ""
) -> ToolResult:
    return context.services[Office].does("propose_action", rfp_id, context.correlation_id)


TOOLS = (
    rfp_list,
    opportunity_load,
    opportunity_patch,
    journal_append,
    event_append,
    schedule_job,
    slack_post_summary,
    slack_ask_clarifying_question,
    propose_action,
)
REGISTRY = ToolRegistry(TOOLS)


class Turn:
    """A turn of the operator without its model. `crashes` holds for each execution whether its
    worker dies then.
    """

    def __init__(self, office: Office, scope: str = "", crashes: Sequence[bool] = ()) -> None:
        self.office = office
        self.state = ProtocolState(scope=scope)
        self.ledger = MemoryLedger()
        self.step = 0
        self._crashes = list(crashes)

    async def reply(self, *calls: ToolCall) -> list[ToolResult]:
        """Run the calls of one reply."""
        self.step += 1
        alone = any(
            tool is None or tool.mutating for tool in (REGISTRY.get(each.name) for each in calls)
        )
        results: list[ToolResult] = []
        for group in [[each] for each in calls] if alone else [list(calls)]:
            done = await asyncio.gather(*(self._act(self.state, each) for each in group))
            for result, state in done:
                results.append(result)
                self.state = self.state.merge(state)
        return results

    async def _act(self, state: ProtocolState, call: ToolCall) -> tuple[ToolResult, ProtocolState]:
        """One call as its activity makes it, with Temporal's retries; each attempt has the state
        of the first.
        """
        known = REGISTRY.get(call.name)
        self.office.events.append(Event(known.name if known else "", called=True))
        self.ledger.lost = Crash() if self._crashes and self._crashes.pop(0) else None
        left = ATTEMPTS
        while True:
            left -= 1
            try:
                result = await self._run(state, call, left)
                break
            except Crash:
                left = max(left, 1)
            except Transient:
                if not left:
                    result = error_result(ErrorCode.OUTCOME_UNKNOWN)
                    break
        self.ledger.lost = None
        return result, protocol.record_result(REGISTRY, state, call, result)

    async def _run(self, state: ProtocolState, call: ToolCall, left: int) -> ToolResult:
        services = unheld().with_service(Office, self.office)
        everything = allowed_tools(REGISTRY, services, operator=True, read_only=False)
        run = ToolRunner(REGISTRY, everything, self.ledger, protocol.protocol_policy(state)).run
        where = context(
            services=services,
            step=self.step,
            call_id=call.id,
            correlation_id=CORRELATION,
            retries_left=left,
        )
        return await run(call, where)
