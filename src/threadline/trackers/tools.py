"""Tools for tickets in Jira: find, read, create, comment and move. Created objects carry a mark of
their operation, so that a retry finds them.
"""

import hashlib
from dataclasses import asdict
from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints

from threadline.models.model import ToolKind
from threadline.tools.context import ToolContext
from threadline.tools.model import ErrorCode, Risk, ToolResult, error_result, record_group
from threadline.tools.registry import tool
from threadline.tools.roles import RecordKind
from threadline.trackers.jira import (
    MAX_TEXT,
    JiraClient,
    NewTicket,
    Ticket,
    TicketComment,
    TicketQuery,
)

_SETTLES = 45.0
"""Seconds until a change has settled: longer than the client's timeout, plus half a minute for a
slow Jira.
"""
Key = Annotated[
    str,
    StringConstraints(to_upper=True, pattern=r"^[A-Za-z][A-Za-z0-9_]{0,30}-[0-9]{1,10}$"),
    Field(description="Such as SHOP-12."),
]
Name = Annotated[str, Field(min_length=1, max_length=100)]


class AddComment(BaseModel):
    key: Key
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]


class MoveTicket(BaseModel):
    key: Key
    status: Annotated[
        Name,
        Field(description="The status it is to be in, by its name; jira.get tells which can be."),
    ]


@tool(
    "jira.search",
    "Find tickets in Jira, those that changed last first.",
    needs=(JiraClient,),
    remote=True,
    records=(RecordKind.TICKETS,),
)
async def search(context: ToolContext, given: TicketQuery) -> ToolResult:
    found = await context.services[JiraClient].search(given)
    shown = [_record(each) for each in found]
    more = " or more" if len(found) == given.limit else ""
    tickets = "ticket was" if len(found) == 1 and not more else "tickets were"
    text = f"{len(found)}{more} {tickets} found." if found else "No ticket was found."
    return ToolResult(
        data={"tickets": shown}, display_text=text, structured=record_group("tickets", shown)
    )


@tool(
    "jira.get",
    "Read one Jira ticket: its fields, newest comments, and the statuses it can be moved to.",
    needs=(JiraClient,),
    remote=True,
    records=(RecordKind.TICKETS,),
)
async def get(context: ToolContext, *, key: Key) -> ToolResult:
    details = await context.services[JiraClient].ticket(key)
    record = _record(details.ticket)
    data = record | {
        "reporter": details.reporter,
        "labels": list(details.labels),
        "can_be_moved_to": list(details.transitions),
        "comment_count": details.comment_count,
        "description": details.description,
        "newest_comments": [asdict(each) for each in details.comments],
    }
    return ToolResult(data=data, structured=record_group("tickets", [record]))


async def _find_created(context: ToolContext, given: NewTicket) -> ToolResult:
    """Find the ticket of an earlier attempt. Jira's search lags, so an unfound ticket may exist:
    it is never created again without asking.
    """
    ticket = await context.services[JiraClient].find_created(
        given.project, operation_mark(context)
    )
    if ticket is None:
        return error_result(
            ErrorCode.OUTCOME_UNKNOWN, "Jira did not confirm the ticket, and it was not found."
        )
    return _ticket_result(ticket, "is created")


@tool(
    "jira.create",
    "Create a Jira ticket. Ask the person first when the project or the type is not clear.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    needs=(JiraClient,),
    rate_limit_key=lambda given: f"jira:{given.project}",
    look_up=_find_created,
    settle_seconds=_SETTLES,
    remote=True,
    records=(RecordKind.TICKETS,),
)
async def create(context: ToolContext, given: NewTicket) -> ToolResult:
    changed = {
        "summary": " ".join(given.summary.split()),
        "description": _signed(given.description, context),
    }
    new = given.model_copy(update=changed)
    return _ticket_result(
        await context.services[JiraClient].create(new, operation_mark(context)), "is created"
    )


async def _find_comment(context: ToolContext, given: AddComment) -> ToolResult | None:
    comment = await context.services[JiraClient].find_comment(given.key, operation_mark(context))
    return _said(comment) if comment else None


@tool(
    "jira.comment",
    "Write a comment on a Jira ticket.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    needs=(JiraClient,),
    rate_limit_key=lambda given: f"jira:{given.key}",
    look_up=_find_comment,
    settle_seconds=_SETTLES,
    remote=True,
    records=(RecordKind.TICKETS,),
)
async def comment(context: ToolContext, given: AddComment) -> ToolResult:
    text = _signed(given.text, context)
    return _said(
        await context.services[JiraClient].comment(given.key, text, operation_mark(context))
    )


async def _find_moved(context: ToolContext, given: MoveTicket) -> ToolResult:
    """Check whether an earlier attempt moved the ticket. If it has another status, a person may
    have moved it back, which is not undone without asking.
    """
    ticket = (await context.services[JiraClient].ticket(given.key)).ticket
    if ticket.status.casefold() != given.status.strip().casefold():
        return error_result(
            ErrorCode.OUTCOME_UNKNOWN,
            f"Jira did not confirm the move; {ticket.key} is in {ticket.status} now.",
        )
    return _ticket_result(ticket, f"is in {ticket.status}")


@tool(
    "jira.transition",
    "Move a Jira ticket to another status.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    needs=(JiraClient,),
    rate_limit_key=lambda given: f"jira:{given.key}",
    look_up=_find_moved,
    settle_seconds=_SETTLES,
    remote=True,
    records=(RecordKind.TICKETS,),
)
async def transition(context: ToolContext, given: MoveTicket) -> ToolResult:
    moved = await context.services[JiraClient].move(given.key, given.status)
    return _ticket_result(moved, f"is in {moved.status}")


TOOLS = [search, get, create, comment, transition]


def operation_mark(context: ToolContext) -> str:
    """Return the mark of this one call at the tracker; it does not reveal the thread."""
    return hashlib.sha256(context.operation_key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _signed(text: str, context: ToolContext) -> str:
    """Append who asked, since the account is the bot's; with ids, since names are not unique. In a
    thread with several people only they know who asked, so all are named.
    """
    *people, last = context.requester_labels
    asked = (
        f"in a Slack thread by {', '.join(people)} and {last}" if people else f"by {last} in Slack"
    )
    return f"{text}\n\nAsked for {asked}.".strip()


def _record(ticket: Ticket) -> dict[str, str]:
    return {name: value for name, value in asdict(ticket).items() if value}


def _ticket_result(ticket: Ticket, state: str) -> ToolResult:
    record = _record(ticket)
    text = f"{ticket.key} {state}."
    return ToolResult(data=record, display_text=text, structured=record_group("tickets", [record]))


def _said(comment: TicketComment) -> ToolResult:
    return ToolResult(data=asdict(comment), display_text=f"The comment is on {comment.ticket}.")
