"""Tickets of an issue tracker, as tools show them; times as the tracker writes them, in ISO 8601 with an offset."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field, StringConstraints

MAX_FOUND = 25
MAX_TEXT = 30_000
"""Characters; Jira takes 32,767."""


@dataclass(frozen=True)
class Ticket:
    """`type` is the tracker's issue type. What the tracker does not tell is empty."""

    key: str
    summary: str
    type: str = ""
    status: str = ""
    priority: str = ""
    assignee: str = ""
    updated: str = ""
    url: str = ""


@dataclass(frozen=True)
class TicketComment:
    """`ticket` is the key of the ticket that it is on."""

    ticket: str
    author: str
    created: str
    text: str


@dataclass(frozen=True)
class TicketDetails:
    """A ticket with its newest comments, the oldest of them first, and the statuses that its `transitions` lead to."""

    ticket: Ticket
    description: str
    reporter: str
    labels: tuple[str, ...]
    comments: tuple[TicketComment, ...]
    comment_count: int
    transitions: tuple[str, ...] = ()


ProjectKey = Annotated[
    str,
    StringConstraints(to_upper=True, pattern=r"^[A-Za-z][A-Za-z0-9_]{0,30}$"),
    Field(description="Its key, such as SHOP."),
]


class TicketQuery(BaseModel):
    """All that is given must hold."""

    words: Annotated[str, Field(max_length=500, description="Words in the summary, description or comments.")] = ""
    project: ProjectKey | None = None
    status: Annotated[str, Field(max_length=100, description="Its name, such as In Progress.")] = ""
    type: Annotated[str, Field(max_length=100, description="Its name, such as Bug.")] = ""
    assignee: Annotated[str, Field(max_length=200, description="A name, or nobody.")] = ""
    open_only: Annotated[bool, Field(description="Without what is done.")] = False
    updated_within_days: Annotated[int, Field(ge=1, le=3650)] | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND)] = 10


class NewTicket(BaseModel):
    project: ProjectKey
    type: Annotated[str, Field(min_length=1, max_length=100, description="Its name, such as Task or Bug.")]
    summary: Annotated[str, Field(min_length=1, max_length=250, description="One line.")]
    description: Annotated[str, Field(max_length=MAX_TEXT)] = ""
    priority: Annotated[str, Field(max_length=100, description="Its name, such as High.")] = ""
    labels: Annotated[list[Annotated[str, Field(pattern=r"^\S{1,100}$")]], Field(max_length=20)] = []
