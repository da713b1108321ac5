"""Customers on record: found, read, and changed with a trace of each field."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from threadline.models.model import ToolKind
from threadline.rfps.model import JsonObject
from threadline.sales.model import (
    COMPANY_FIELDS,
    LEAD_FIELDS,
    LONGEST_COMPANY,
    LONGEST_SUMMARY,
    FieldChange,
    Interaction,
    InteractionKind,
    Lead,
    Stage,
    Updated,
)
from threadline.tools.context import ToolContext
from threadline.tools.effects import by_effect
from threadline.tools.model import Change, Effect, ErrorCode, Operation, RecordGroup, Risk, ToolResult, error_result
from threadline.tools.registry import tool
from threadline.tools.rendering import counted, moment

MOST = 20
"""Leads of one answer; fewer are found by more words."""
RECENT = 10
"""Interactions that are told with a lead."""


@dataclass(frozen=True)
class Dossier:
    """`recent`: the newest first."""

    lead: Lead
    recent: Sequence[Interaction]


@dataclass(frozen=True)
class Asker:
    """`user_id` asks; `others` are the ids of those who have asked in the same turn."""

    user_id: str
    others: tuple[str, ...] = ()


class CrmBook(Protocol):
    """A team's customers, as far as somebody may see them: a guest, or somebody of another company, only themselves.

    What one of several askers may not see or change, all of them may not. An empty `lead_id` is whoever asks. Raises
    `LeadNotFound`, `LeadRefused`, and of a change `RateExceeded`.
    """

    async def find(self, team: str, asker: Asker, words: str, limit: int) -> Sequence[Lead]: ...

    async def get(self, team: str, asker: Asker, lead_id: str, recent: int) -> Dossier: ...

    async def update(
        self, change: Change, asker: Asker, correlation_id: str, lead_id: str, fields: Mapping[str, str]
    ) -> Updated:
        """Change a lead and its company, once for each operation; whoever asks is made a lead where they are none."""
        ...

    async def log(self, change: Change, asker: Asker, lead_id: str, kind: InteractionKind, summary: str) -> Lead: ...

    async def effect(self, operation: Operation) -> Effect | None: ...


def _text(longest: int, description: str) -> Any:
    return Field(max_length=longest, description=f"{description} Null leaves it, an empty text takes it away.")


LeadId = Annotated[str | None, Field(max_length=40, description="Such as LEAD-7. Null: whoever asks.")]


class Update(BaseModel):
    model_config = ConfigDict(extra="forbid")

    lead_id: LeadId = None
    name: Annotated[str | None, _text(LEAD_FIELDS["name"], "The person's name.")] = None
    email: Annotated[str | None, _text(LEAD_FIELDS["email"], "One address.")] = None
    title: Annotated[str | None, _text(LEAD_FIELDS["title"], "What they do there.")] = None
    phone: Annotated[str | None, _text(LEAD_FIELDS["phone"], "With the country's code.")] = None
    stage: Annotated[Stage | None, Field(description="How far it has come. Null leaves it.")] = None
    notes: Annotated[str | None, _text(LEAD_FIELDS["notes"], "Instead of the notes that are there.")] = None
    company: Annotated[str | None, _text(LONGEST_COMPANY, "Name of the company that they belong to.")] = None
    website: Annotated[str | None, _text(COMPANY_FIELDS["website"], "Of the company.")] = None
    industry: Annotated[str | None, _text(COMPANY_FIELDS["industry"], "Of the company.")] = None
    company_notes: Annotated[str | None, _text(COMPANY_FIELDS["company_notes"], "About the company.")] = None

    def fields(self) -> dict[str, str]:
        """What is to change."""
        given = self.model_dump(exclude={"lead_id"}, exclude_none=True)
        return {name: str(value) for name, value in given.items()}


class Log(BaseModel):
    model_config = ConfigDict(extra="forbid")

    lead_id: LeadId = None
    kind: InteractionKind
    summary: Annotated[
        str, Field(min_length=1, max_length=LONGEST_SUMMARY, description="What was said or done, in a few sentences.")
    ]


@tool(
    "crm.find",
    "Find customers by a part of their name, mail address or company, or by Slack id.",
    needs=(CrmBook,),
    remote=True,
)
async def find(
    context: ToolContext, *, words: Annotated[str, Field(max_length=300, description="Empty: all of them.")] = ""
) -> ToolResult:
    found = await context.services[CrmBook].find(context.team, _asker(context), words, MOST + 1)
    leads, more = [_told(each) for each in found[:MOST]], len(found) > MOST
    return ToolResult(
        data={"leads": leads, "more": more},
        display_text=f"{counted(len(leads), 'customer', more=more)}." if leads else "No such customer is on record.",
        structured=_shown(leads),
    )


@tool("crm.get", "What is on record of a customer, with what passed between us lately.", needs=(CrmBook,), remote=True)
async def get(context: ToolContext, *, lead_id: LeadId = None) -> ToolResult:
    if refused := _whose(context, lead_id):
        return refused
    dossier = await context.services[CrmBook].get(context.team, _asker(context), lead_id or "", RECENT)
    told = _told(dossier.lead)
    recent = [
        {"at": moment(each.at), "kind": each.kind.value, "summary": each.summary, "by": each.by}
        for each in dossier.recent
    ]
    return ToolResult(data=told | {"interactions": recent}, structured=_shown([told]))


def _record_of(given: Update | Log) -> str:
    """Without an id the thread is what is limited here, and the lead where it is changed."""
    return f"lead:{given.lead_id.strip().upper()}" if given.lead_id else ""


async def _update(context: ToolContext, given: Update) -> ToolResult:
    if refused := _whose(context, given.lead_id):
        return refused
    asker, lead_id = _asker(context), given.lead_id or ""
    done = await context.services[CrmBook].update(
        context.change, asker, context.correlation_id, lead_id, given.fields()
    )
    told = _told(done.lead)
    return ToolResult(
        data={"lead": told, "changed": [_change(each) for each in done.changes], "created": done.created},
        display_text=_said(done),
        structured=_shown([told]),
    )


@tool(
    "crm.update",
    "Change what is on record of a customer or of their company. Whoever asks is put on record where they are not yet.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    critical=True,
    needs=(CrmBook,),
    rate_limit_key=_record_of,
    look_up=by_effect(CrmBook, _update),
    remote=True,
)
async def update(context: ToolContext, given: Update) -> ToolResult:
    return await _update(context, given)


async def _log(context: ToolContext, given: Log) -> ToolResult:
    if refused := _whose(context, given.lead_id):
        return refused
    crm = context.services[CrmBook]
    lead = await crm.log(context.change, _asker(context), given.lead_id or "", given.kind, given.summary)
    return ToolResult(data={"lead_id": lead.lead_id}, display_text=f"Put down for {_called(lead)}: a {given.kind}.")


@tool(
    "crm.log",
    "Put down what passed between us and a customer: a call, a meeting, a message.",
    kind=ToolKind.CHANGE,
    risk=Risk.LOW,
    needs=(CrmBook,),
    rate_limit_key=_record_of,
    look_up=by_effect(CrmBook, _log),
    remote=True,
)
async def log(context: ToolContext, given: Log) -> ToolResult:
    return await _log(context, given)


TOOLS = [find, get, update, log]


def _asker(context: ToolContext) -> Asker:
    return Asker(context.user_id, context.co_requester_ids)


def _whose(context: ToolContext, lead_id: str | None) -> ToolResult | None:
    """Where several have written, nobody is plainly the one who asks."""
    if lead_id or not context.co_requesters:
        return None
    names = ", ".join(context.requester_labels)
    said = f"Several people have written: {names}. Find the one who is meant, and give the lead_id."
    return error_result(ErrorCode.INVALID_ARGUMENTS, said)


def _told(lead: Lead) -> JsonObject:
    """Only what there is to tell."""
    return {name: str(value) for name, value in vars(lead).items() if value}


def _change(change: FieldChange) -> JsonObject:
    return {"of": change.of, "field": change.field, "from": change.was, "to": change.became}


def _said(done: Updated) -> str:
    new = f"{_called(done.lead)} is on record now. " if done.created else ""
    if not done.changes:
        return f"{new}{_called(done.lead)} has all of this on record already."
    fields = ", ".join(each.field.replace("_", " ") for each in done.changes)
    return f"{new}Changed for {_called(done.lead)}: {fields}."


def _called(lead: Lead) -> str:
    return f"{lead.lead_id} ({lead.name})" if lead.name else lead.lead_id


def _shown(leads: Sequence[JsonObject]) -> tuple[RecordGroup, ...]:
    left_out = ("notes", "company_notes")
    rows = tuple({name: each[name] for name in each if name not in left_out} for each in leads)
    return (RecordGroup("leads", rows),) if rows else ()
