"""Tools of RFPs: search RFPs, load and patch opportunities, write journals and events, and list
the team.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from threadline.models.model import ToolKind
from threadline.rfps.model import (
    FACTS,
    MAX_ENTRY,
    MAX_EVENT_TYPE,
    MAX_SOURCE_TEXT,
    OPEN,
    EntryKind,
    Event,
    JournalEntry,
    JsonObject,
    OpportunityState,
    RfpId,
    RfpStatus,
    TeamMember,
    apply_patch,
    event_risk,
    facts_from_document,
    facts_to_document,
    is_owned_by,
    not_read,
    patch_changes,
    patch_risk,
    rfp_group,
    rfp_record,
    status_risk,
    status_words,
    title_line,
    validate_patch,
    validate_payload,
)
from threadline.rfps.store import RfpStore, TeamMemberStore
from threadline.tools.arguments import json_object
from threadline.tools.context import ToolContext
from threadline.tools.model import Risk, ToolResult, record_group
from threadline.tools.output import counted, moment
from threadline.tools.policy import Assessment
from threadline.tools.registry import tool
from threadline.tools.roles import RecordKind

MAX_LISTED = 30
"""RFPs of one answer; the model finds further ones by words, a status or an owner."""
TEXT_PART = 6_000
"""Characters of a file's text in one answer; the model asks for the rest by its position."""
RECENT = 8
"""Journal entries, and events, in a loaded opportunity; the list tools return the others."""
PAGE = 20
"""Journal entries, or events, of one answer; the model asks for older ones by the lowest
number.
"""
MAX_MEMBERS = 50
"""People of one answer; the model narrows the list by a skill."""
_MAX_CHANGES = 5  # changed fields that a message to people names
_PAYLOAD_EXAMPLE = '{"amount": 120000, "currency": "EUR"}'
_PATCH_EXAMPLE = '{"status": "proposal submitted"}'


TextFrom = Annotated[
    int,
    Field(
        ge=0,
        le=MAX_SOURCE_TEXT,
        description=f"At which character of the file to begin; it shows {TEXT_PART:,}.",
    ),
]
PageSize = Annotated[int, Field(ge=1, le=PAGE)]
Before = Annotated[
    int | None,
    Field(
        ge=1,
        le=10**15,
        description="Only what is older: the lowest number of the page before. Null: the newest.",
    ),
]
_STATUSES = ", ".join(status_words(each) for each in RfpStatus)
_PATCH = (
    'The change as a JSON merge patch, written as text: {"status": "proposal submitted", '
    '"budget": {"total": 120000}}. '
    "It names only what changes; null removes a field; a list is replaced whole. title, client, "
    "owner, status and "
    f"due_date (2026-03-31) are texts and show in all lists. The status is one of: {_STATUSES}. "
    "Other fields are as the state has them, or new."
)


class AppendEvent(BaseModel):
    rfp_id: RfpId
    event_type: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_EVENT_TYPE,
            description="What happened, such as proposal_sent.",
        ),
    ]
    payload: Annotated[
        dict[str, Any],
        json_object(validate_payload, _PAYLOAD_EXAMPLE),
        Field(
            default_factory=dict,
            description=f"Its details, as the text of a JSON object: {_PAYLOAD_EXAMPLE}.",
        ),
    ]


# ---- RFPs


@tool(
    "rfp.list",
    "The team's RFPs with their ids, the soonest due first.",
    records=(RecordKind.RFPS,),
)
async def list_rfps(
    context: ToolContext,
    *,
    status: Annotated[RfpStatus | None, Field(description="Only those of this status.")] = None,
    owner: Annotated[
        str | None, Field(max_length=100, description="Only those of this owner.")
    ] = None,
    open_only: Annotated[
        bool,
        Field(
            description="Leave out won, lost and dropped ones, unless the status asks for them."
        ),
    ] = True,
) -> ToolResult:
    only_open = open_only and status in (None, *OPEN)
    found = await RfpStore(context.tx).listed(
        context.team, open_only=only_open, status=status, owner=owner or "", limit=MAX_LISTED + 1
    )
    records = [rfp_record(each) for each in found[:MAX_LISTED]]
    more = len(found) > MAX_LISTED
    return ToolResult(
        data={"rfps": records, "more": more},
        display_text=f"{counted(len(records), 'RFP', more=more)}."
        if records
        else "There is no such RFP.",
        structured=rfp_group(records),
    )


@tool(
    "rfp.search",
    "RFPs whose title, client or file has these words, the likest first.",
    records=(RecordKind.RFPS,),
)
async def search(
    context: ToolContext,
    *,
    words: Annotated[
        str,
        Field(min_length=1, max_length=300, description="What it is about, a client, or an id."),
    ],
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED)] = 10,
) -> ToolResult:
    found = await RfpStore(context.tx).search(context.team, words, limit + 1)
    records = [rfp_record(each) for each in found[:limit]]
    more = len(found) > limit
    return ToolResult(
        data={"rfps": records, "more": more},
        display_text=f"Found {counted(len(records), 'RFP', more=more)}."
        if records
        else "No RFP has these words.",
        structured=rfp_group(records),
    )


@tool(
    "rfp.get",
    "One RFP: its facts, and what its file says. Its state is loaded by opportunity.load.",
    records=(RecordKind.RFPS,),
)
async def get(context: ToolContext, *, rfp_id: RfpId, text_from: TextFrom = 0) -> ToolResult:
    store = RfpStore(context.tx)
    rfp = await store.get(context.team, rfp_id)
    part = await store.part_of_text(context.team, rfp_id, text_from, TEXT_PART)
    record = rfp_record(rfp)
    made = {
        "created_at": moment(rfp.created_at),
        "created_by": rfp.created_by,
        "file": rfp.source_name,
    }
    file = (
        {"file_characters": part.characters, "text_from": text_from, "text": part.text}
        if part.characters
        else {}
    )
    missing = {"file_not_read": list(part.unread)} if part.unread else {}
    return ToolResult(
        data=record | {name: value for name, value in made.items() if value} | file | missing,
        display_text=f"{_summary(record)}{not_read(part.unread)}",
        structured=rfp_group([record]),
    )


# ---- Opportunities


@tool(
    "opportunity.load",
    "Load an RFP's opportunity: its facts, its state with the version, the newest of its "
    "journal and its events. To be called first, before anything of it is changed.",
    kind=ToolKind.LOAD,
    records=(RecordKind.RFPS,),
)
async def load(context: ToolContext, *, rfp_id: RfpId) -> ToolResult:
    store = RfpStore(context.tx)
    state = await store.ensure_state_exists(context.team, rfp_id)
    record = _state_record(state)
    data = {
        "rfp": record,
        **_version(state),
        "state": state.document,
        "newest_journal_entries": [
            _entry(each) for each in await store.journal(context.team, rfp_id, RECENT)
        ],
        "newest_events": [
            _event(each) for each in await store.events(context.team, rfp_id, RECENT)
        ],
    }
    return ToolResult(data=data, display_text=_summary(record), structured=rfp_group([record]))


async def _assess_patch(context: ToolContext, given: Any) -> Assessment:
    state = await RfpStore(context.tx).ensure_state_exists(context.team, given.rfp_id)
    document = state.document
    # Raises for an invalid patch, which is then never proposed.
    _, facts = apply_patch(document, given.patch)
    is_own = await _is_own(context, str(document.get("owner") or ""))
    risk = patch_risk(given.patch, document, is_own)
    of_status = status_risk(facts_from_document(document).status, facts.status)
    risk = of_status if of_status.exceeds(risk) else risk
    shown = {"RFP": f"{state.rfp_id} ({document.get('title', '')})"}
    return Assessment(risk, patch_changes(document, given.patch), shown)


async def _is_own(context: ToolContext, owner: str) -> bool:
    """Return whether an RFP has no owner, or belongs to the only asker."""
    if not owner:
        return True
    if context.co_requesters:
        return False
    if is_owned_by(owner, context.user_id):
        return True
    member = await TeamMemberStore(context.tx).get(context.team, context.user_id)
    return member is not None and is_owned_by(owner, context.user_id, member.name)


@tool(
    "opportunity.patch",
    "Change the state of a loaded RFP, its status or its due date among it. A change that "
    "others make at the same time is kept.",
    kind=ToolKind.PATCH,
    assess=_assess_patch,
    records=(RecordKind.RFPS,),
)
async def patch_opportunity(
    context: ToolContext,
    *,
    rfp_id: RfpId,
    patch: Annotated[
        dict[str, Any], json_object(validate_patch, _PATCH_EXAMPLE), Field(description=_PATCH)
    ],
    version: Annotated[
        int | None,
        Field(
            ge=1,
            le=10**9,
            description=(
                "The version you have loaded, where the change holds for that one alone, such as "
                "a list or a text that you add to: when somebody has changed the state since, "
                "nothing is changed. Null: the newest."
            ),
        ),
    ] = None,
) -> ToolResult:
    await context.count_change(f"rfp:{rfp_id}")
    state = await RfpStore(context.tx).patch_state(context.change, rfp_id, patch, version)
    record = _state_record(state)
    changed = {name: state.document.get(name) for name in patch}
    return ToolResult(
        data={"rfp": record, **_version(state), "now": changed},
        display_text=f"{title_line(record)}: {_changes(changed)}.",
        structured=rfp_group([record]),
    )


# ---- Journal and events


@tool(
    "journal.append",
    (
        "Write an entry into the journal of a loaded RFP. It stays for ever: nothing is changed "
        "or deleted there."
    ),
    kind=ToolKind.JOURNAL,
    risk=Risk.LOW,
    records=(RecordKind.RFPS,),
)
async def append_entry(
    context: ToolContext,
    *,
    rfp_id: RfpId,
    text: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_ENTRY,
            description=(
                "What was done or decided, and why, as somebody is to read it in a year: whole "
                f"sentences, at most {MAX_ENTRY:,} characters."
            ),
        ),
    ],
    kind: Annotated[
        Literal["note", "decision", "failed"],
        Field(description="failed: what was tried and did not succeed."),
    ] = "note",
) -> ToolResult:
    await context.count_change(f"journal:{rfp_id}")
    entry = await RfpStore(context.tx).append_entry(context.change, rfp_id, text, EntryKind(kind))
    told = f"Written into the journal of {entry.rfp_id}."
    return ToolResult(data={"rfp_id": entry.rfp_id, "entry": entry.id}, display_text=told)


@tool(
    "journal.list", "The journal of an RFP, the newest entries first.", records=(RecordKind.RFPS,)
)
async def list_entries(
    context: ToolContext, *, rfp_id: RfpId, limit: PageSize = PAGE, before: Before = None
) -> ToolResult:
    store = RfpStore(context.tx)
    await store.get(context.team, rfp_id)
    found = await store.journal(context.team, rfp_id, limit + 1, before)
    entries = [_entry(each) for each in found[:limit]]
    more = len(found) > limit
    none = f"The journal of {rfp_id} has no{' older' if before else ''} entry."
    return ToolResult(
        data={"rfp_id": rfp_id, "entries": entries, "more": more},
        display_text=f"{counted(len(entries), 'entry', 'entries', more=more)} of {rfp_id}."
        if entries
        else none,
        structured=record_group("journal_entries", [_shown_entry(each) for each in entries]),
    )


@tool(
    "event.append",
    "Log an event of a loaded RFP, for other systems to read. It stays for ever. What people "
    "are to read goes into the journal.",
    kind=ToolKind.EVENT,
    risk=lambda given: event_risk(given.event_type, given.payload),
    records=(RecordKind.RFPS,),
)
async def append_event(context: ToolContext, given: AppendEvent) -> ToolResult:
    await context.count_change(f"events:{given.rfp_id}")
    event = await RfpStore(context.tx).append_event(
        context.change, given.rfp_id, given.event_type, given.payload
    )
    told = f"Logged for {event.rfp_id}: {event.event_type}."
    return ToolResult(data={"rfp_id": event.rfp_id, "event": event.id}, display_text=told)


@tool("event.list", "The log of an RFP's events, the newest first.", records=(RecordKind.RFPS,))
async def list_events(
    context: ToolContext, *, rfp_id: RfpId, limit: PageSize = PAGE, before: Before = None
) -> ToolResult:
    store = RfpStore(context.tx)
    await store.get(context.team, rfp_id)
    found = await store.events(context.team, rfp_id, limit + 1, before)
    events = [_event(each) for each in found[:limit]]
    more = len(found) > limit
    none = f"The log of {rfp_id} has no{' older' if before else ''} event."
    return ToolResult(
        data={"rfp_id": rfp_id, "events": events, "more": more},
        display_text=f"{counted(len(events), 'event', more=more)} of {rfp_id}."
        if events
        else none,
        structured=record_group("rfp_events", [_shown_event(each) for each in events]),
    )


# ---- The team


@tool(
    "team.list",
    "The people of the team with their roles, skills and hours per week, by name.",
    records=(RecordKind.TEAM,),
)
async def list_members(
    context: ToolContext,
    *,
    skill: Annotated[
        str | None, Field(max_length=100, description="Only those with this in a skill of theirs.")
    ] = None,
) -> ToolResult:
    found = await TeamMemberStore(context.tx).listed(context.team, skill or "", MAX_MEMBERS + 1)
    members = [_member(each) for each in found[:MAX_MEMBERS]]
    more = len(found) > MAX_MEMBERS
    none = (
        f"Nobody on the team has the skill {skill}."
        if skill
        else "No team members are on record yet."
    )
    return ToolResult(
        data={"members": members, "more": more},
        display_text=f"{counted(len(members), 'person', 'people', more=more)}."
        if members
        else none,
        structured=record_group("team_members", members),
    )


@tool("team.get", "Somebody of the team, with the biography.", records=(RecordKind.TEAM,))
async def get_member(
    context: ToolContext,
    *,
    name: Annotated[
        str, Field(min_length=1, max_length=300, description="The whole name, or the Slack id.")
    ],
) -> ToolResult:
    found = await TeamMemberStore(context.tx).named(context.team, name)
    members = [_member(each) for each in found]
    full = [
        _member(each) | ({"biography": each.biography} if each.biography else {}) for each in found
    ]
    return ToolResult(data={"members": full}, structured=record_group("team_members", members))


TOOLS = [list_rfps, search, get, load, patch_opportunity]
TOOLS += [append_entry, list_entries, append_event, list_events, list_members, get_member]


# ---- Records as the model and people read them


def _summary(record: JsonObject) -> str:
    due = f", due {record['due_date']}" if "due_date" in record else ""
    return f"{title_line(record)} is {status_words(record['status'])}{due}."


def _state_record(state: OpportunityState) -> JsonObject:
    """Return the same as `rfp_record`: the RFP's row has the same facts."""
    return {"rfp_id": state.rfp_id} | facts_to_document(facts_from_document(state.document))


def _version(state: OpportunityState) -> JsonObject:
    last = (
        {"changed_by": state.updated_by, "changed_at": moment(state.updated_at)}
        if state.updated_by
        else {}
    )
    return {"version": state.version, **last}


def _changes(changed: JsonObject) -> str:
    told = []
    for name, value in list(changed.items())[:_MAX_CHANGES]:
        what = "removed" if value is None else "changed"
        if value is not None and name in FACTS:
            what = f"is {status_words(str(value)) if name == 'status' else value}"
        told.append(f"{status_words(name)} {what}")
    if more := len(changed) - len(told):
        told.append(f"and {more} more")
    return ", ".join(told)


def _entry(entry: JournalEntry) -> JsonObject:
    told = {
        "entry": entry.id,
        "at": moment(entry.created_at),
        "kind": entry.kind.value,
        "text": entry.text,
    }
    return told | {"by": entry.author.user_id}


def _event(event: Event) -> JsonObject:
    told = {
        "event": event.id,
        "at": moment(event.created_at),
        "type": event.event_type,
        "payload": event.payload,
    }
    return told | {"by": event.author.user_id}


def _shown_entry(entry: JsonObject) -> JsonObject:
    """Return an entry for people, without its author's id: the bot names the author, and an id
    means nothing to people.
    """
    return {
        "entry": entry["entry"],
        "at": entry["at"],
        "kind": status_words(entry["kind"]),
        "text": entry["text"],
    }


def _shown_event(event: JsonObject) -> JsonObject:
    details = (
        {"details": json.dumps(event["payload"], ensure_ascii=False)} if event["payload"] else {}
    )
    return {"event": event["event"], "at": event["at"], "type": event["type"], **details}


def _member(member: TeamMember) -> JsonObject:
    """Return the member's fields; omits empty ones."""
    told: JsonObject = {
        "name": member.name,
        "user_id": member.user_id,
        "role": member.role,
        "skills": list(member.skills),
    }
    told |= {"hours_per_week": member.hours_per_week, "email": member.email}
    return {name: value for name, value in told.items() if value not in ("", [])}
