"""The log of a request's events: what happened, as JSON, for ever."""

import json
from typing import Annotated, Any

from pydantic import BaseModel, Field

from threadline.models.model import ToolKind
from threadline.rfps.journal_entries import LONGEST_TYPE, MOST_PAYLOAD, EntryRefused, Event, NewEvent
from threadline.rfps.json_documents import Document, flaw
from threadline.rfps.record_ports import OpportunityBook
from threadline.rfps.tool_parameters import Before, CorrelationId, RfpId, author, counted, json_object, moment
from threadline.tools.context import ToolContext
from threadline.tools.effects import by_effect
from threadline.tools.model import RecordGroup, Risk, ToolResult
from threadline.tools.registry import tool

PAGE = 20
"""Events of one answer, at most; older ones are asked for by the lowest number."""
_EXAMPLE = '{"amount": 120000, "currency": "EUR"}'


def _checked(payload: object) -> None:
    if fault := flaw(payload, MOST_PAYLOAD):
        raise EntryRefused(f"an event's payload {fault}: nothing was logged")


class Append(BaseModel):
    rfp_id: RfpId
    event_type: Annotated[
        str, Field(min_length=1, max_length=LONGEST_TYPE, description="What happened, such as proposal_sent.")
    ]
    payload: Annotated[
        dict[str, Any],
        json_object(_checked, _EXAMPLE),
        Field(default_factory=dict, description=f"Its details, as the text of a JSON object: {_EXAMPLE}."),
    ]
    correlation_id: CorrelationId


async def _append(context: ToolContext, given: Append) -> ToolResult:
    new, by = NewEvent(given.event_type, given.payload), author(context, given.correlation_id)
    event = await context.services[OpportunityBook].log(context.change, given.rfp_id, new, by)
    return ToolResult(
        data={"rfp_id": event.rfp_id, "event": event.id},
        display_text=f"Logged for {event.rfp_id}: {event.event_type}.",
    )


@tool(
    "event.append",
    "Log an event of a loaded RFP, for other systems to read. It stays for ever. What people are to read goes into the "
    "journal.",
    kind=ToolKind.EVENT,
    risk=Risk.LOW,
    needs=(OpportunityBook,),
    rate_limit_key=lambda given: f"events:{given.rfp_id}",
    look_up=by_effect(OpportunityBook, _append),
    remote=True,
)
async def append(context: ToolContext, given: Append) -> ToolResult:
    return await _append(context, given)


@tool("event.list", "The log of an RFP's events, the newest first.", needs=(OpportunityBook,), remote=True)
async def list_events(
    context: ToolContext,
    *,
    rfp_id: RfpId,
    limit: Annotated[int, Field(ge=1, le=PAGE)] = PAGE,
    before: Before = None,
) -> ToolResult:
    found = await context.services[OpportunityBook].events(context.team, rfp_id, limit + 1, before)
    events, more = [event_record(each) for each in found[:limit]], len(found) > limit
    older = " older" if before else ""
    none = f"The log of {rfp_id} has no{older} event."
    return ToolResult(
        data={"rfp_id": rfp_id, "events": events, "more": more},
        display_text=f"{counted(len(events), 'event', more=more)} of {rfp_id}." if events else none,
        structured=(RecordGroup("rfp_events", tuple(map(_shown, events))),) if events else (),
    )


TOOLS = [append, list_events]


def event_record(event: Event) -> Document:
    return {
        "event": event.id,
        "at": moment(event.at),
        "type": event.event_type,
        "payload": event.payload,
        "by": event.author.user_id,
    }


def _shown(event: Document) -> Document:
    details = {"details": json.dumps(event["payload"], ensure_ascii=False)} if event["payload"] else {}
    return {"event": event["event"], "at": event["at"], "type": event["type"], **details}
