"""The journal of a request: what was done, decided or did not succeed, in words, for ever."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from threadline.models.model import ToolKind
from threadline.rfps.journal_entries import LONGEST_ENTRY, EntryKind, JournalEntry, NewEntry
from threadline.rfps.json_documents import Document
from threadline.rfps.record_ports import OpportunityBook
from threadline.rfps.tool_parameters import Before, CorrelationId, RfpId, author, counted, in_words, moment
from threadline.tools.context import ToolContext
from threadline.tools.effects import by_effect
from threadline.tools.model import RecordGroup, Risk, ToolResult
from threadline.tools.registry import tool

PAGE = 20
"""Entries of one answer, at most; older ones are asked for by the lowest number."""


class Append(BaseModel):
    rfp_id: RfpId
    text: Annotated[
        str,
        Field(
            min_length=1,
            max_length=LONGEST_ENTRY,
            description="What was done or decided, and why, as somebody is to read it in a year: whole sentences, at "
            f"most {LONGEST_ENTRY:,} characters.",
        ),
    ]
    kind: Annotated[
        Literal["note", "decision", "failed"], Field(description="failed: what was tried and did not succeed.")
    ] = "note"
    correlation_id: CorrelationId


async def _append(context: ToolContext, given: Append) -> ToolResult:
    new, by = NewEntry(given.text, EntryKind(given.kind)), author(context, given.correlation_id)
    entry = await context.services[OpportunityBook].append(context.change, given.rfp_id, new, by)
    return ToolResult(
        data={"rfp_id": entry.rfp_id, "entry": entry.id},
        display_text=f"Written into the journal of {entry.rfp_id}.",
    )


@tool(
    "journal.append",
    "Write an entry into the journal of a loaded RFP. It stays for ever: nothing is changed or deleted there.",
    kind=ToolKind.JOURNAL,
    risk=Risk.LOW,
    needs=(OpportunityBook,),
    rate_limit_key=lambda given: f"journal:{given.rfp_id}",
    look_up=by_effect(OpportunityBook, _append),
    remote=True,
)
async def append(context: ToolContext, given: Append) -> ToolResult:
    return await _append(context, given)


@tool("journal.list", "The journal of an RFP, the newest entries first.", needs=(OpportunityBook,), remote=True)
async def list_entries(
    context: ToolContext,
    *,
    rfp_id: RfpId,
    limit: Annotated[int, Field(ge=1, le=PAGE)] = PAGE,
    before: Before = None,
) -> ToolResult:
    found = await context.services[OpportunityBook].journal(context.team, rfp_id, limit + 1, before)
    entries, more = [entry_record(each) for each in found[:limit]], len(found) > limit
    older = " older" if before else ""
    none = f"The journal of {rfp_id} has no{older} entry."
    return ToolResult(
        data={"rfp_id": rfp_id, "entries": entries, "more": more},
        display_text=f"{counted(len(entries), 'entry', 'entries', more=more)} of {rfp_id}." if entries else none,
        structured=(RecordGroup("journal_entries", tuple(map(_shown, entries))),) if entries else (),
    )


TOOLS = [append, list_entries]


def entry_record(entry: JournalEntry) -> Document:
    return {
        "entry": entry.id,
        "at": moment(entry.at),
        "kind": entry.kind.value,
        "text": entry.text,
        "by": entry.author.user_id,
    }


def _shown(entry: Document) -> Document:
    """Whose words they are is told by the bot, by name: an id says nothing to people."""
    return {"entry": entry["entry"], "at": entry["at"], "kind": in_words(entry["kind"]), "text": entry["text"]}
