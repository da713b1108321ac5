"""Tickets of an issue tracker, as tools show them; times as the tracker writes them, in ISO 8601 with an offset."""

from dataclasses import dataclass


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


@dataclass(frozen=True)
class TicketQuery:
    """What is empty does not narrow the search. `assignee` may be `nobody`."""

    words: str = ""
    project: str = ""
    status: str = ""
    type: str = ""
    assignee: str = ""
    open_only: bool = False
    updated_within_days: int | None = None


@dataclass(frozen=True)
class NewTicket:
    project: str
    type: str
    summary: str
    description: str = ""
    priority: str = ""
    labels: tuple[str, ...] = ()
