"""Customers and emails: tools that find, read and change records, draft emails, and send them as
drafted.

Members of the workspace see and change all customers, as far as their roles go. Other people reach
only their own record. If several people ask, the strictest of their limits holds.
"""

from collections.abc import Sequence
from datetime import UTC
from typing import Annotated, Any

from pydantic import BaseModel, Field

from threadline.approvals.model import MAX_REASON
from threadline.db.engine import Database, Transaction
from threadline.db.rate_limits import RateLimits
from threadline.errors import NotDone, Permanent
from threadline.models.model import ToolKind
from threadline.privacy.redaction import redact
from threadline.rfps.store import TeamMemberStore
from threadline.sales.email import EmailSettings, SmtpMailer, compose_message, make_message_id
from threadline.sales.model import (
    COMPANY_FIELDS,
    LEAD_FIELDS,
    MAX_BODY,
    MAX_COMPANY,
    MAX_SUBJECT,
    MAX_SUMMARY,
    DraftStatus,
    EmailDraft,
    Interaction,
    InteractionKind,
    Lead,
    NewEmail,
    Stage,
    check_email,
    format_customer,
    without_company_details,
)
from threadline.sales.store import EmailDraftStore, LeadStore
from threadline.slack.model import User, refusal_of
from threadline.tools.context import ToolContext
from threadline.tools.model import (
    ErrorCode,
    FieldChange,
    RecordGroup,
    Risk,
    ToolResult,
    error_result,
    record_group,
)
from threadline.tools.output import counted
from threadline.tools.policy import Assessment
from threadline.tools.registry import tool
from threadline.tools.roles import RecordKind, RecordRefused

RECENT_INTERACTIONS = 3
"""Interactions in the decision engine's prompt."""
MAX_LISTED = 20
"""Leads in one answer; a more specific search finds the others."""
_MAX_INTERACTIONS = 10
"""Interactions in one answer about a lead."""
_OUTSIDERS = (
    "people outside the workspace can see and change only their own record: leave lead_id out"
)
_OWN_NEEDS_NO_ID = "Your own record needs no lead_id."
_INTERNAL = ("stage", "notes", *COMPANY_FIELDS)
"""Fields that only people with the role see and change, also in an asker's own record."""
_NAME_LEAD = "Find the one who is meant, and give the lead_id."
BEYOND_DOMAINS = "The address is outside the allowed domains, so this email needs an approval."
_SETTLE_SECONDS = 45.0
"""Longer than one attempt to send, so that another attempt does not take it for lost while it is
under way.
"""


def _text(max_length: int, description: str) -> Any:
    return Field(
        max_length=max_length,
        description=f"{description} Null leaves it, an empty text takes it away.",
    )


LeadId = Annotated[
    str | None, Field(max_length=40, description="Such as LEAD-7. Null: whoever asks.")
]


class UpdateLead(BaseModel):
    lead_id: LeadId = None
    name: Annotated[str | None, _text(LEAD_FIELDS["name"], "The person's name.")] = None
    email: Annotated[str | None, _text(LEAD_FIELDS["email"], "One address.")] = None
    title: Annotated[str | None, _text(LEAD_FIELDS["title"], "What they do there.")] = None
    phone: Annotated[str | None, _text(LEAD_FIELDS["phone"], "With the country's code.")] = None
    stage: Annotated[Stage | None, Field(description="How far it has come. Null leaves it.")] = (
        None
    )
    notes: Annotated[
        str | None, _text(LEAD_FIELDS["notes"], "Instead of the notes that are there.")
    ] = None
    company: Annotated[
        str | None, _text(MAX_COMPANY, "Name of the company that they belong to.")
    ] = None
    website: Annotated[str | None, _text(COMPANY_FIELDS["website"], "Of the company.")] = None
    industry: Annotated[str | None, _text(COMPANY_FIELDS["industry"], "Of the company.")] = None
    company_notes: Annotated[
        str | None, _text(COMPANY_FIELDS["company_notes"], "About the company.")
    ] = None

    def fields(self) -> dict[str, str]:
        """Return the fields to change, with their new values."""
        return {
            name: str(value)
            for name, value in self.model_dump(exclude={"lead_id"}, exclude_none=True).items()
        }


class SendEmail(BaseModel):
    draft_id: Annotated[str, Field(min_length=1, max_length=40, description="Such as MAIL-7.")]
    reason: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_REASON,
            description="Why, in a sentence for who approves it.",
        ),
    ]


@tool(
    "crm.find",
    "Find customers by a part of their name, mail address or company, or by Slack id.",
    needs_requester=True,
    partial_records=(RecordKind.CUSTOMERS,),
)
async def find(
    context: ToolContext,
    *,
    words: Annotated[str, Field(max_length=300, description="Empty: all of them.")] = "",
) -> ToolResult:
    if limit := _limit_to_own(context):
        own = await _own_lead(context)
        found = [own] if own and not context.co_requesters else []
    else:
        found = await LeadStore(context.tx).find(context.team, words, MAX_LISTED + 1)
    leads = [_lead_record(context, each) for each in found[:MAX_LISTED]]
    more = len(found) > MAX_LISTED
    data: dict[str, Any] = {"leads": leads, "more": more}
    said = (
        f"{counted(len(leads), 'customer', more=more)}."
        if leads
        else "No such customer is on record."
    )
    if limit and context.requester.are_members:
        data["hidden"] = f"Other customers are not shown. {limit}"
        said = f"{said} {limit}" if leads else limit
    return ToolResult(data=data, display_text=said, structured=_lead_group(leads))


@tool(
    "crm.get",
    "What is on record of a customer, with what passed between us lately.",
    needs_requester=True,
    partial_records=(RecordKind.CUSTOMERS,),
)
async def get(context: ToolContext, *, lead_id: LeadId = None) -> ToolResult:
    if not lead_id and (refused := context.unclear_requester(_NAME_LEAD)):
        return refused
    store = LeadStore(context.tx)
    await _require_lead_access(context, lead_id or "")
    lead = await store.get(context.team, lead_id) if lead_id else await _own_lead(context)
    if lead is None:
        raise Permanent(
            "the person asking has no record yet: find a lead by name, or change a field"
        )
    record = _lead_record(context, lead)
    is_limited = bool(context.access.refusal(RecordKind.CUSTOMERS))
    recent = [
        {
            "at": each.at.isoformat(timespec="minutes"),
            "kind": each.kind.value,
            "summary": each.summary,
            "by": each.user_id,
        }
        for each in await store.interactions(lead.lead_id, _MAX_INTERACTIONS)
        if not is_limited or context.only_asker(each.user_id)
    ]
    return ToolResult(data=record | {"interactions": recent}, structured=_lead_group([record]))


_FINAL_STAGES = (Stage.WON, Stage.LOST)


async def _assess_update(context: ToolContext, given: UpdateLead) -> Assessment:
    """Assess an update: to set or to leave a final stage is of high risk."""
    await _require_lead_access(context, given.lead_id or "", to_change=True)
    _check_fields(context, given)
    store = LeadStore(context.tx)
    lead = (
        await store.get(context.team, given.lead_id) if given.lead_id else await _own_lead(context)
    )
    before = vars(lead) if lead else {}
    changes = tuple(
        FieldChange(name, str(before.get(name) or "") or None, value or None)
        for name, value in given.fields().items()
        if value != str(before.get(name) or "")
    )
    final = given.stage in _FINAL_STAGES or (given.stage and before.get("stage") in _FINAL_STAGES)
    risk = Risk.HIGH if final and any(each.field == "stage" for each in changes) else Risk.MEDIUM
    return Assessment(risk, changes, {"customer": _label(lead) if lead else "the requester"})


@tool(
    "crm.update",
    (
        "Change what is on record of a customer or of their company. Whoever asks is put on "
        "record where they are not yet."
    ),
    kind=ToolKind.CHANGE,
    assess=_assess_update,
    critical=True,
    needs_requester=True,
    partial_records=(RecordKind.CUSTOMERS,),
)
async def update(context: ToolContext, given: UpdateLead) -> ToolResult:
    if not given.lead_id and (refused := context.unclear_requester(_NAME_LEAD)):
        return refused
    _check_fields(context, given)
    fields = given.fields()
    lead, is_new = await _hold_lead(context, given.lead_id or "")
    made_for = context.requester.user if is_new else None
    lead, changes = await LeadStore(context.tx).update(context.change, lead, fields, made_for)
    record = _lead_record(context, lead)
    label = _label(lead)
    changed = [
        {"of": each.record_id, "field": each.field, "from": each.old, "to": each.new}
        for each in changes
    ]
    new = f"{label} is now on record. " if is_new else ""
    names = ", ".join(each.field.replace("_", " ") for each in changes)
    said = (
        f"Changed for {label}: {names}."
        if changes
        else f"{label} already has all of this on record."
    )
    return ToolResult(
        data={"lead": record, "changed": changed, "created": is_new},
        display_text=f"{new}{said}",
        structured=_lead_group([record]),
    )


@tool(
    "crm.log",
    "Put down what passed between us and a customer: a call, a meeting, a message.",
    kind=ToolKind.CHANGE,
    risk=Risk.LOW,
    needs_requester=True,
    partial_records=(RecordKind.CUSTOMERS,),
)
async def log(
    context: ToolContext,
    *,
    lead_id: LeadId = None,
    kind: InteractionKind,
    summary: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_SUMMARY,
            description="What was said or done, in a few sentences.",
        ),
    ],
) -> ToolResult:
    if not lead_id and (refused := context.unclear_requester(_NAME_LEAD)):
        return refused
    lead, _ = await _hold_lead(context, lead_id or "")
    interaction = Interaction(kind, summary, context.clock(), context.user_id)
    await LeadStore(context.tx).add_interaction(lead.lead_id, interaction)
    return ToolResult(
        data={"lead_id": lead.lead_id}, display_text=f"Recorded for {_label(lead)}: a {kind}."
    )


@tool(
    "email.draft",
    (
        "Draft a mail, such as a follow-up, and show the person its whole text. Nothing is sent. "
        "To change it, draft anew."
    ),
    kind=ToolKind.CHANGE,
    risk=Risk.LOW,
    needs=(EmailSettings,),
    records=(RecordKind.EMAILS,),
)
async def draft(
    context: ToolContext,
    *,
    to: Annotated[str, Field(min_length=3, max_length=254, description="One mail address.")],
    subject: Annotated[str, Field(min_length=1, max_length=MAX_SUBJECT, description="One line.")],
    body: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_BODY,
            description="The whole text, with greeting and signature.",
        ),
    ],
) -> ToolResult:
    settings = context.services[EmailSettings]
    new = check_email(NewEmail(to, redact(subject), redact(body)))
    preview = EmailDraft("MAIL-0000000000", context.user_id, new.recipient, new.subject, new.body)
    if not settings.fits_approval(preview.fields):
        raise Permanent("the mail is too long to show in full for approval: shorten the text")
    await context.count_change(f"mail:{new.recipient}")
    drafted = await EmailDraftStore(context.tx).add(
        context.thread, context.user_id, new, context.clock()
    )
    quoted = "\n".join(f"> {line}" for line in drafted.body.split("\n"))
    head = (
        f"{drafted.draft_id} is drafted but not sent yet.\n> To: {drafted.recipient}\n> Subject: "
        f"{drafted.subject}"
    )
    return ToolResult(
        data=drafted.fields | {"sent": False},
        display_text=f"{head}\n{quoted}",
        structured=record_group("mails", [drafted.fields]),
    )


async def _find_sent(context: ToolContext, _given: SendEmail) -> ToolResult | None:
    """Return the outcome of an earlier attempt. An email whose sending broke off may have been
    sent, and mail servers offer no look-up: it is never sent again automatically.
    """
    async with context.services[Database].begin() as tx:
        claimed = await EmailDraftStore(tx).claimed_by(context.operation_key)
    if claimed is None:
        return None
    if claimed.status is DraftStatus.SENT:
        return _sent_result(claimed)
    return error_result(
        ErrorCode.OUTCOME_UNKNOWN,
        (
            f"The mail server did not confirm {claimed.draft_id}: it may have gone out or not. "
            "It is not sent again."
        ),
        "Say so, and ask whether it has arrived before another mail is drafted.",
    )


async def _assess_sending(context: ToolContext, given: SendEmail) -> Assessment:
    settings = context.services[EmailSettings]
    drafted = await EmailDraftStore(context.tx).get(context.thread, given.draft_id)
    if drafted.status is not DraftStatus.DRAFT:  # already sent, or to be refused by the claim
        return Assessment(Risk.LOW)
    beyond = {} if settings.is_allowed(drafted.recipient) else {"note": BEYOND_DOMAINS}
    risk = await _recipient_risk(context.tx, context, settings, drafted.recipient)
    return Assessment(risk, shown=drafted.fields | beyond)


@tool(
    "email.send",
    "Send a drafted mail as it is. For when a person wants it sent: where its risk asks for it, "
    "buttons in the thread wait for somebody's approval first.",
    kind=ToolKind.CHANGE,
    assess=_assess_sending,
    critical=True,
    needs=(Database, EmailSettings, SmtpMailer),
    needs_requester=True,
    partial_records=(RecordKind.CUSTOMERS, RecordKind.TEAM),
    rate_limit_key=lambda given: f"draft:{given.draft_id.strip().upper()}",
    look_up=_find_sent,
    timeout=40.0,
    settle_seconds=_SETTLE_SECONDS,
    remote=True,
    records=(RecordKind.EMAILS,),
)
async def send(context: ToolContext, given: SendEmail) -> ToolResult:
    settings = context.services[EmailSettings]
    async with context.services[Database].begin() as tx:
        drafted = await EmailDraftStore(tx).get(context.thread, given.draft_id)
    if not settings.is_allowed(drafted.recipient) and not context.approved_action_id:
        raise Permanent(f"Mail to this domain needs an approval. {drafted.draft_id} was not sent.")
    return _sent_result(await _send_once(context, settings, drafted))


async def _recipient_risk(
    tx: Transaction, context: ToolContext, settings: EmailSettings, recipient: str
) -> Risk:
    """Return the risk of an email: low to the only asker, medium to a person on record, else high.

    An address is on record if the asker did not enter it. Records that the askers may not see do
    not count, since the risk would reveal them. An address outside the allowed domains is always
    of high risk.
    """
    if context.co_requesters or not settings.is_allowed(recipient):
        return Risk.HIGH
    user = context.requester.user
    if user and user.email and recipient == user.email.strip().lower():
        return Risk.LOW
    sees_customers = not context.access.refusal(RecordKind.CUSTOMERS)
    if sees_customers and await LeadStore(tx).is_vouched_for(
        context.team, recipient, context.user_id
    ):
        return Risk.MEDIUM
    sees_team = not context.access.refusal(RecordKind.TEAM)
    if sees_team and await TeamMemberStore(tx).has_address(context.team, recipient):
        return Risk.MEDIUM
    return Risk.HIGH


async def _send_once(
    context: ToolContext, settings: EmailSettings, draft: EmailDraft
) -> EmailDraft:
    """Send a draft at most once over all attempts: it is claimed before it is handed to the mail
    server.

    Raises:
        Permanent: it was not sent.
        RateExceeded: it was not sent.
        NotDone: it was not sent.
        Transient: it may have been sent.
    """
    database = context.services[Database]
    key = context.operation_key
    if not settings.sender:
        raise Permanent("No sender is set: THREADLINE_SMTP_FROM is empty. Nothing was sent.")
    now = context.clock().astimezone(UTC)
    message_id = make_message_id(key, settings.sender)
    try:  # a draft never changes, so it can be composed before it is claimed
        message = compose_message(
            settings.sender, draft.recipient, draft.subject, draft.body, message_id, now
        )
    except ValueError as unlike:
        raise Permanent(
            f"{draft.draft_id} cannot be sent as drafted. Nothing was sent. Draft it again, "
            "with a subject and an address in plain characters"
        ) from unlike
    async with database.begin() as tx:
        if settings.rate:
            record = f"sent:{draft.recipient}"
            await RateLimits(tx).count_change(
                context.team, record, key, now.timestamp(), settings.rate
            )
        await EmailDraftStore(tx).claim(context.thread, draft.draft_id, key)
    try:
        await context.services[SmtpMailer].send(message)
    except (Permanent, NotDone):
        async with database.begin() as tx:
            await EmailDraftStore(tx).release(key)
        raise
    async with database.begin() as tx:
        sent = await EmailDraftStore(tx).mark_sent(key, message_id, now)
        if lead := await LeadStore(tx).by_email(context.team, sent.recipient):
            interaction = Interaction(InteractionKind.EMAIL, sent.subject, now, sent.user_id)
            await LeadStore(tx).add_interaction(lead.lead_id, interaction)
    return sent


TOOLS = [find, get, update, log, draft, send]


def _limit_to_own(context: ToolContext, *, to_change: bool = False) -> str:
    """Return why the askers reach only their own record; empty if they reach all."""
    if not context.requester.are_members:
        return _OUTSIDERS
    return context.access.refusal(RecordKind.CUSTOMERS, to_change=to_change)


async def _require_lead_access(
    context: ToolContext, lead_id: str, *, to_change: bool = False
) -> None:
    """Check that the askers may see (or change) a lead; an empty `lead_id` is their own. Raises
    `Permanent`.
    """
    limit = _limit_to_own(context, to_change=to_change)
    if not limit or not lead_id:
        return
    # With several askers, one's own record is not the others'.
    own = None if context.co_requesters else await _own_lead(context)
    if own and own.lead_id == lead_id.strip().upper():
        return
    if not context.requester.are_members:
        raise Permanent(limit)
    raise RecordRefused(f"{limit} {_OWN_NEEDS_NO_ID}")


def _check_fields(context: ToolContext, given: UpdateLead) -> None:
    """Check that the askers may change these fields. Raises `Permanent` for one that they may not
    change in any record.
    """
    fields = given.fields().keys()
    of_company = sorted(fields & COMPANY_FIELDS.keys())
    if of_company and not context.requester.are_members:
        raise Permanent(
            "only members of the workspace can change the record of a company: leave out "
            f"{', '.join(of_company)}, and keep the rest of the call"
        )
    internal = [each for each in _INTERNAL if each in fields]
    refusal = context.access.refusal(RecordKind.CUSTOMERS, to_change=True)
    if internal and refusal:
        raise RecordRefused(f"{refusal} In your own record, leave out {', '.join(internal)}.")


async def _own_lead(context: ToolContext) -> Lead | None:
    user = context.requester.user
    return await LeadStore(context.tx).find_by_contact(
        context.team, context.user_id, user.email if user else ""
    )


async def describe_customer(tx: Transaction, team: str, user_id: str, user: User | None) -> str:
    """Return a person's record in at most `MAX_CONTEXT` characters; empty if there is none.
    `user`: the person, from Slack.
    """
    store = LeadStore(tx)
    lead = await store.find_by_contact(team, user_id, user.email if user else "")
    if lead is None:
        return ""
    shown = lead if refusal_of(user, team) is None else without_company_details(lead)
    return format_customer(shown, await store.interactions(lead.lead_id, RECENT_INTERACTIONS))


async def _hold_lead(context: ToolContext, lead_id: str) -> tuple[Lead, bool]:
    """Return a lead that the askers may change, locked and counted as a change; and whether it was
    created. Raises `Permanent`, `RateExceeded`: it may not be changed.
    """
    await _require_lead_access(context, lead_id, to_change=True)
    store = LeadStore(context.tx)
    lead, is_new = await store.hold(
        context.team, lead_id, context.user_id, context.requester.user, context.clock()
    )
    await context.count_change(f"lead:{lead.lead_id}")
    return lead, is_new


def _lead_record(context: ToolContext, lead: Lead) -> dict[str, str]:
    """Return the fields that have a value, as the askers may see them."""
    shown = lead if context.requester.are_members else without_company_details(lead)
    hidden = _INTERNAL if context.access.refusal(RecordKind.CUSTOMERS) else ()
    return {
        name: str(value) for name, value in vars(shown).items() if value and name not in hidden
    }


def _label(lead: Lead) -> str:
    return f"{lead.lead_id} ({lead.name})" if lead.name else lead.lead_id


def _lead_group(leads: Sequence[dict[str, str]]) -> tuple[RecordGroup, ...]:
    hidden = ("notes", "company_notes")
    return record_group(
        "leads", ({name: each[name] for name in each if name not in hidden} for each in leads)
    )


def _sent_result(drafted: EmailDraft) -> ToolResult:
    at = drafted.sent_at.isoformat(timespec="minutes") if drafted.sent_at else ""
    data = {"draft_id": drafted.draft_id, "to": drafted.recipient, "sent": True, "at": at}
    return ToolResult(
        data=data | {"message_id": drafted.message_id},
        display_text=f"{drafted.draft_id} was sent.",
    )
