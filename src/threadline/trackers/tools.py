"""Tickets in Jira: found, read, created, commented and moved.

What is made carries a mark of its operation, so that a call which is tried again finds it.
"""

import hashlib
from dataclasses import asdict
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from threadline.models.model import ToolKind
from threadline.tools.context import ToolContext
from threadline.tools.model import ErrorCode, RecordGroup, Risk, ToolResult, error_result
from threadline.tools.registry import tool
from threadline.trackers.jira import JiraClient
from threadline.trackers.model import NewTicket, Ticket, TicketComment, TicketQuery

MAX_FOUND = 25
_MAX_TEXT = 30_000
"""Characters; Jira takes 32,767."""
_SETTLES = 45.0
"""Seconds: longer than the client waits for an answer, and half a minute for a Jira that is slow."""


Key = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,30}-[0-9]{1,10}$", description="Such as SHOP-12.")]
Project = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,30}$", description="Its key, such as SHOP.")]
Name = Annotated[str, Field(min_length=1, max_length=100)]


class Search(BaseModel):
    """All that is given must hold."""

    model_config = ConfigDict(extra="forbid")

    words: Annotated[str, Field(max_length=500, description="Words in the summary, description or comments.")] = ""
    project: Project | None = None
    status: Annotated[str, Field(max_length=100, description="Its name, such as In Progress.")] = ""
    type: Annotated[str, Field(max_length=100, description="Its name, such as Bug.")] = ""
    assignee: Annotated[str, Field(max_length=200, description="A name, or nobody.")] = ""
    open_only: Annotated[bool, Field(description="Without what is done.")] = False
    updated_within_days: Annotated[int, Field(ge=1, le=3650)] | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND)] = 10


class Create(BaseModel):
    model_config = ConfigDict(extra="forbid")

    project: Project
    type: Annotated[str, Field(min_length=1, max_length=100, description="Its name, such as Task or Bug.")]
    summary: Annotated[str, Field(min_length=1, max_length=250, description="One line.")]
    description: Annotated[str, Field(max_length=_MAX_TEXT)] = ""
    priority: Annotated[str, Field(max_length=100, description="Its name, such as High.")] = ""
    labels: Annotated[list[Annotated[str, Field(pattern=r"^\S{1,100}$")]], Field(max_length=20)] = []


class AddComment(BaseModel):
    model_config = ConfigDict(extra="forbid")

    key: Key
    text: Annotated[str, Field(min_length=1, max_length=_MAX_TEXT)]


class MoveTicket(BaseModel):
    model_config = ConfigDict(extra="forbid")

    key: Key
    status: Annotated[Name, Field(description="The status it is to be in, by its name; jira.get tells which can be.")]


@tool("jira.search", "Find tickets in Jira, those that changed last first.", needs=(JiraClient,), remote=True)
async def search(context: ToolContext, given: Search) -> ToolResult:
    query = TicketQuery(
        words=given.words,
        project=(given.project or "").upper(),
        status=given.status,
        type=given.type,
        assignee=given.assignee,
        open_only=given.open_only,
        updated_within_days=given.updated_within_days,
    )
    found = await context.services[JiraClient].search(query, given.limit)
    shown = [_record(each) for each in found]
    text = _counted(len(found), at_most=given.limit)
    return ToolResult(data={"tickets": shown}, display_text=text, structured=_structured(shown))


@tool(
    "jira.get",
    "Read one Jira ticket: its fields, newest comments, and the statuses it can be moved to.",
    needs=(JiraClient,),
    remote=True,
)
async def get(context: ToolContext, *, key: Key) -> ToolResult:
    details = await context.services[JiraClient].ticket(key.upper())
    record = _record(details.ticket)
    data = record | {
        "reporter": details.reporter,
        "labels": list(details.labels),
        "can_be_moved_to": list(details.transitions),
        "comment_count": details.comment_count,
        "description": details.description,
        "newest_comments": [asdict(each) for each in details.comments],
    }
    return ToolResult(data=data, structured=_structured([record]))


async def _find_created(context: ToolContext, given: Create) -> ToolResult:
    """Jira's search lags, so a ticket that was not found may be there: it is never created again unasked."""
    ticket = await context.services[JiraClient].find_created(given.project.upper(), operation_mark(context))
    if ticket is None:
        return error_result(ErrorCode.OUTCOME_UNKNOWN, "Jira did not confirm the ticket, and it was not found.")
    return _made(ticket)


@tool(
    "jira.create",
    "Create a Jira ticket. Ask the person first when the project or the type is not clear.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    needs=(JiraClient,),
    rate_limit_key=lambda given: f"jira:{given.project.upper()}",
    look_up=_find_created,
    settle_seconds=_SETTLES,
    remote=True,
)
async def create(context: ToolContext, given: Create) -> ToolResult:
    new = NewTicket(
        project=given.project.upper(),
        type=given.type,
        summary=" ".join(given.summary.split()),
        description=_signed(given.description, context),
        priority=given.priority,
        labels=tuple(given.labels),
    )
    return _made(await context.services[JiraClient].create(new, operation_mark(context)))


async def _find_comment(context: ToolContext, given: AddComment) -> ToolResult | None:
    comment = await context.services[JiraClient].find_comment(given.key.upper(), operation_mark(context))
    return _said(comment) if comment else None


@tool(
    "jira.comment",
    "Write a comment on a Jira ticket.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    needs=(JiraClient,),
    rate_limit_key=lambda given: f"jira:{given.key.upper()}",
    look_up=_find_comment,
    settle_seconds=_SETTLES,
    remote=True,
)
async def comment(context: ToolContext, given: AddComment) -> ToolResult:
    text = _signed(given.text, context)
    return _said(await context.services[JiraClient].comment(given.key.upper(), text, operation_mark(context)))


async def _find_moved(context: ToolContext, given: MoveTicket) -> ToolResult:
    """A ticket that is elsewhere may have been moved and put back by a person, whose word is not undone unasked."""
    ticket = (await context.services[JiraClient].ticket(given.key.upper())).ticket
    if ticket.status.casefold() != given.status.strip().casefold():
        return error_result(
            ErrorCode.OUTCOME_UNKNOWN, f"Jira did not confirm the move; {ticket.key} is in {ticket.status} now."
        )
    return _moved(ticket)


@tool(
    "jira.transition",
    "Move a Jira ticket to another status.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    needs=(JiraClient,),
    rate_limit_key=lambda given: f"jira:{given.key.upper()}",
    look_up=_find_moved,
    settle_seconds=_SETTLES,
    remote=True,
)
async def transition(context: ToolContext, given: MoveTicket) -> ToolResult:
    return _moved(await context.services[JiraClient].move(given.key.upper(), given.status))


TOOLS = [search, get, create, comment, transition]


def operation_mark(context: ToolContext) -> str:
    """Stands for this one call at the tracker, which is not told the thread."""
    return hashlib.sha256(context.operation_key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _signed(text: str, context: ToolContext) -> str:
    """The account is the bot's, so the text says who asked, with the ids, since anybody may take any name. Where
    several have written, only they know whose wish it was."""
    *people, last = context.requester_labels
    asked = f"in a Slack thread by {', '.join(people)} and {last}" if people else f"by {last} in Slack"
    return f"{text}\n\nAsked for {asked}.".strip()


def _record(ticket: Ticket) -> dict[str, str]:
    return {name: value for name, value in asdict(ticket).items() if value}


def _structured(records: list[dict[str, str]]) -> tuple[RecordGroup, ...]:
    return (RecordGroup("tickets", tuple(records)),) if records else ()


def _made(ticket: Ticket) -> ToolResult:
    record = _record(ticket)
    return ToolResult(data=record, display_text=f"{ticket.key} is created.", structured=_structured([record]))


def _moved(ticket: Ticket) -> ToolResult:
    record, told = _record(ticket), f"{ticket.key} is in {ticket.status}."
    return ToolResult(data=record, display_text=told, structured=_structured([record]))


def _said(comment: TicketComment) -> ToolResult:
    return ToolResult(data=asdict(comment), display_text=f"The comment is on {comment.ticket}.")


def _counted(count: int, at_most: int) -> str:
    if not count:
        return "No ticket was found."
    more = " or more" if count == at_most else ""
    return f"{count}{more} {'ticket was' if count == 1 and not more else 'tickets were'} found."
