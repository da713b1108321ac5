"""Requests for proposals (RFPs), looked up: which there are, which are about something, and one of them."""

from typing import Annotated

from pydantic import Field

from threadline.rfps.model import OPEN, RfpStatus
from threadline.rfps.record_ports import RfpBook, RfpQuery
from threadline.rfps.tool_parameters import RfpId, counted, in_words, moment, named, rfp_record, shown_rfps
from threadline.tools.context import ToolContext
from threadline.tools.model import ToolResult
from threadline.tools.registry import tool

MOST = 30
"""RFPs of one answer; further ones are found by words, a status or an owner."""
LONGEST_PART = 6_000
"""Characters of a file's text in one answer; the rest is asked for by where it begins."""
LONGEST_TEXT = 1_000_000
"""Characters of a file's text that are kept."""


@tool("rfp.list", "The team's RFPs with their ids, the soonest due first.", needs=(RfpBook,), remote=True)
async def list_rfps(
    context: ToolContext,
    *,
    status: Annotated[RfpStatus | None, Field(description="Only those of this status.")] = None,
    owner: Annotated[str | None, Field(max_length=100, description="Only those of this owner.")] = None,
    open_only: Annotated[
        bool, Field(description="Leave out won, lost and dropped ones, unless the status asks for them.")
    ] = True,
) -> ToolResult:
    query = RfpQuery(open_only and status in (None, *OPEN), status, owner or "")
    found = await context.services[RfpBook].listed(context.team, query, MOST + 1)
    records, more = [rfp_record(each) for each in found[:MOST]], len(found) > MOST
    return ToolResult(
        data={"rfps": records, "more": more},
        display_text=f"{counted(len(records), 'RFP', more=more)}." if records else "There is no such RFP.",
        structured=shown_rfps(records),
    )


@tool(
    "rfp.search", "RFPs whose title, client or file has these words, the likest first.", needs=(RfpBook,), remote=True
)
async def search(
    context: ToolContext,
    *,
    words: Annotated[str, Field(min_length=1, max_length=300, description="What it is about, a client, or an id.")],
    limit: Annotated[int, Field(ge=1, le=MOST)] = 10,
) -> ToolResult:
    found = await context.services[RfpBook].search(context.team, words, limit + 1)
    records, more = [rfp_record(each) for each in found[:limit]], len(found) > limit
    return ToolResult(
        data={"rfps": records, "more": more},
        display_text=f"Found {counted(len(records), 'RFP', more=more)}." if records else "No RFP has these words.",
        structured=shown_rfps(records),
    )


@tool(
    "rfp.get",
    "One RFP: its facts, and what its file says. Its state is loaded by opportunity.load.",
    needs=(RfpBook,),
    remote=True,
)
async def get(
    context: ToolContext,
    *,
    rfp_id: RfpId,
    text_from: Annotated[
        int,
        Field(
            ge=0, le=LONGEST_TEXT, description=f"At which character of the file to begin; it shows {LONGEST_PART:,}."
        ),
    ] = 0,
) -> ToolResult:
    found = await context.services[RfpBook].get(context.team, rfp_id, text_from, LONGEST_PART)
    rfp, record = found.rfp, rfp_record(found.rfp)
    made = {"created_at": moment(rfp.created_at), "created_by": rfp.created_by, "file": rfp.source_name}
    file = {"file_characters": found.length, "text_from": text_from, "text": found.text} if found.length else {}
    due = f", due {rfp.due_date}" if rfp.due_date else ""
    return ToolResult(
        data=record | {name: value for name, value in made.items() if value} | file,
        display_text=f"{named(rfp.rfp_id, rfp.title)} is {in_words(rfp.status)}{due}.",
        structured=shown_rfps([record]),
    )


TOOLS = [list_rfps, search, get]
