"""The state of an opportunity: loaded before it is changed, and patched without ever writing over somebody else."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from threadline.models.model import ToolKind
from threadline.rfps import model as rfps
from threadline.rfps import opportunity_state as opportunity
from threadline.rfps.event_tools import event_record
from threadline.rfps.journal_tools import entry_record
from threadline.rfps.json_documents import Document
from threadline.rfps.model import FACTS, RfpStatus
from threadline.rfps.opportunity_state import OpportunityState, patch_risk
from threadline.rfps.record_ports import OpportunityBook
from threadline.rfps.tool_parameters import (
    CorrelationId,
    RfpId,
    author,
    in_words,
    json_object,
    moment,
    named,
    rfp_record,
    shown_rfps,
)
from threadline.tools.context import ToolContext
from threadline.tools.effects import by_effect
from threadline.tools.model import ToolResult
from threadline.tools.registry import tool

RECENT = 8
"""Entries of the journal, and events, that a load shows; their lists show the others."""
_TOLD = 5
"""Changed fields that people are told by name."""
_STATUSES = ", ".join(in_words(each) for each in RfpStatus)
_PATCH = (
    'The change as a JSON merge patch, written as text: {"status": "proposal submitted", "budget": {"total": 120000}}. '
    "It names only what changes; null removes a field; a list is replaced whole. title, client, owner, status and "
    f"due_date (2026-03-31) are texts and show in all lists. The status is one of: {_STATUSES}. "
    "Other fields are as the state has them, or new."
)


class Patch(BaseModel):
    rfp_id: RfpId
    patch: Annotated[
        dict[str, Any],
        json_object(opportunity.checked, '{"status": "proposal submitted"}'),
        Field(description=_PATCH),
    ]
    version: Annotated[
        int | None,
        Field(
            ge=1,
            le=10**9,
            description="The version you have loaded, where the change holds for that one alone, such as a list or a "
            "text that you add to: when somebody has changed the state since, nothing is changed. Null: the newest.",
        ),
    ] = None
    correlation_id: CorrelationId


@tool(
    "opportunity.load",
    "Load an RFP's opportunity: its facts, its state with the version, the newest of its journal and its events. To be "
    "called first, before anything of it is changed.",
    kind=ToolKind.LOAD,
    needs=(OpportunityBook,),
    remote=True,
)
async def load(context: ToolContext, *, rfp_id: RfpId) -> ToolResult:
    loaded = await context.services[OpportunityBook].load(context.team, rfp_id, RECENT)
    record = rfp_record(loaded.rfp)
    data = {
        "rfp": record,
        **_version(loaded.state),
        "state": loaded.state.document,
        "newest_journal_entries": [entry_record(each) for each in loaded.journal],
        "newest_events": [event_record(each) for each in loaded.events],
    }
    return ToolResult(data=data, display_text=_stands(record), structured=shown_rfps([record]))


async def _patch(context: ToolContext, given: Patch) -> ToolResult:
    by = author(context, given.correlation_id)
    book = context.services[OpportunityBook]
    state = await book.patch(context.change, given.rfp_id, given.patch, by, given.version)
    record = {"rfp_id": state.rfp_id} | rfps.in_document(rfps.facts_of(state.document))
    changed = {name: state.document.get(name) for name in given.patch}
    return ToolResult(
        data={"rfp": record, **_version(state), "now": changed},
        display_text=f"{named(state.rfp_id, record['title'])}: {_changes(changed)}.",
        structured=shown_rfps([record]),
    )


@tool(
    "opportunity.patch",
    "Change the state of a loaded RFP, its status or its due date among it. A change that others make at the same time "
    "is kept.",
    kind=ToolKind.PATCH,
    risk=lambda given: patch_risk(given.patch),
    needs=(OpportunityBook,),
    rate_limit_key=lambda given: f"rfp:{given.rfp_id}",
    look_up=by_effect(OpportunityBook, _patch),
    remote=True,
)
async def patch(context: ToolContext, given: Patch) -> ToolResult:
    return await _patch(context, given)


TOOLS = [load, patch]


def _version(state: OpportunityState) -> Document:
    last = {"changed_by": state.updated_by, "changed_at": moment(state.updated_at)} if state.updated_by else {}
    return {"version": state.version, **last}


def _stands(record: Document) -> str:
    due = f", due {record['due_date']}" if "due_date" in record else ""
    return f"{named(record['rfp_id'], record['title'])} is {in_words(record['status'])}{due}."


def _changes(changed: Document) -> str:
    told = [_change(name, value) for name, value in list(changed.items())[:_TOLD]]
    more = len(changed) - len(told)
    return ", ".join([*told, *([f"and {more} more"] if more else [])])


def _change(name: str, value: object) -> str:
    words = name.replace("_", " ")
    if value is None:
        return f"{words} removed"
    if name not in FACTS:
        return f"{words} changed"
    return f"{words} is {in_words(str(value)) if name == 'status' else value}"
