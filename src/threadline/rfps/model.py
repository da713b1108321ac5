"""Requests for proposals: their ids, what is known of each, and what they are bound to a thread as."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from threadline.errors import Permanent

BINDING = "rfp"
"""The kind of binding by which a thread is about a request."""
LONGEST_TITLE, LONGEST_CLIENT, LONGEST_OWNER = 300, 200, 100
"""Characters; what is longer is refused."""

_ID = re.compile(r"rfp_[a-z0-9]{3,40}")


class RfpStatus(StrEnum):
    NEW = "new"
    IN_PROGRESS = "in_progress"
    PROPOSAL_SUBMITTED = "proposal_submitted"
    SHORTLISTED = "shortlisted"
    WON = "won"
    LOST = "lost"
    NO_BID = "no_bid"
    CANCELLED = "cancelled"


OPEN = (RfpStatus.NEW, RfpStatus.IN_PROGRESS, RfpStatus.PROPOSAL_SUBMITTED, RfpStatus.SHORTLISTED)
"""As long as it has one of these, somebody may have something to do."""


@dataclass(frozen=True)
class Facts:
    """What lists of requests show. They stand in the state's document, under these names, and are changed there."""

    title: str
    client: str = ""
    due_date: date | None = None
    status: RfpStatus = RfpStatus.NEW
    owner: str = ""


@dataclass(frozen=True, kw_only=True)
class Rfp(Facts):
    """`source_name`: the file that it was made from; empty when there was none."""

    rfp_id: str
    source_name: str
    created_by: str
    created_at: datetime


@dataclass(frozen=True)
class SourceFile:
    """`sha256`: of the file's bytes, in hexadecimal; `text`: what could be read in it."""

    name: str
    sha256: str
    text: str


@dataclass(frozen=True)
class NewRfp:
    facts: Facts
    source: SourceFile | None = None


@dataclass(frozen=True)
class Created:
    """`new` is False where the team had made a request from the same file before: it is that one."""

    rfp: Rfp
    new: bool


@dataclass(frozen=True)
class Bound:
    """`before`: what the thread was bound to, also when it is the same; None when it was bound to nothing."""

    rfp: Rfp
    before: str | None


@dataclass(frozen=True)
class Traces:
    """What is kept of a request.

    `characters`: of its file's text; `version`: of its state, 0 without one; `memories`: what is remembered of turns
    about it; `entries`, `events`: in its journal and its log. `threads`: those that are bound to it, as CHANNEL/TS,
    the one that was bound last first; `jobs`: those that are not over; `actions`: those that nobody has decided.
    """

    rfp: Rfp
    characters: int
    version: int
    memories: int
    entries: int
    events: int
    threads: tuple[str, ...]
    jobs: tuple[str, ...]
    actions: tuple[str, ...]


class RfpNotFound(Permanent):
    """The team has no request of the id `sought`, or has it no more; `nearest` are the ids that look most like it."""

    def __init__(self, sought: str, nearest: Sequence[str] = (), *, deleted: bool = False) -> None:
        self.sought, self.nearest, self.deleted = sought, tuple(nearest), deleted
        said = f"{sought} was deleted" if deleted else f"there is no RFP {sought}"
        hint = f"did you mean {' or '.join(nearest)}?" if nearest else "list the RFPs to find its id"
        super().__init__(f"{said}; {hint}")


class RfpRefused(Permanent):
    """What was given is no request: it lacks a title, or a field does not have the form that it needs."""


def is_rfp_id(text: str) -> bool:
    """Whether it has the form of an id; there may be none such."""
    return _ID.fullmatch(text) is not None


def status_of(words: str) -> RfpStatus:
    """The status that is named, as `Proposal submitted`. Raises `RfpRefused`."""
    try:
        return RfpStatus("_".join(re.split(r"[\s_-]+", words.strip().lower())))
    except ValueError as exc:
        raise RfpRefused(f"{words[:60]!r} is not an RFP status: use one of {', '.join(RfpStatus)}") from exc


def due_date_of(words: str) -> date:
    """The day, from `2026-03-31`. Raises `RfpRefused`."""
    try:
        return date.fromisoformat(words.strip())
    except ValueError as exc:
        raise RfpRefused(f"{words[:60]!r} is not a due date: write it as 2026-03-31") from exc


def checked(facts: Facts) -> Facts:
    """The facts with white space normalised. Raises `RfpRefused`."""
    title = _line("title", facts.title, LONGEST_TITLE)
    if not title:
        raise RfpRefused("an RFP needs a title")
    client, owner = _line("client", facts.client, LONGEST_CLIENT), _line("owner", facts.owner, LONGEST_OWNER)
    return Facts(title, client, facts.due_date, facts.status, owner)


def facts_of(document: Mapping[str, object]) -> Facts:
    """The facts that a state's document holds. Raises `RfpRefused`: one is gone that must be, or has another form."""
    title, status = _text(document, "title"), _text(document, "status")
    if not status.strip():
        raise RfpRefused(f"an RFP needs a status: one of {', '.join(RfpStatus)}")
    due = _text(document, "due_date").strip()
    client, owner = _text(document, "client"), _text(document, "owner")
    return checked(Facts(title, client, due_date_of(due) if due else None, status_of(status), owner))


def in_document(facts: Facts) -> dict[str, str]:
    """The facts as a state's document holds them: what is empty is not there."""
    due = facts.due_date.isoformat() if facts.due_date else ""
    named = {"title": facts.title, "client": facts.client, "due_date": due}
    return {name: text for name, text in (named | {"status": facts.status, "owner": facts.owner}).items() if text}


FACTS = ("title", "client", "due_date", "status", "owner")
"""The names of the facts in a state's document."""


def _text(document: Mapping[str, object], name: str) -> str:
    value = document.get(name, "")
    if not isinstance(value, str):
        raise RfpRefused(f"{name} must be text")
    return value


def _line(name: str, text: str, longest: int) -> str:
    line = " ".join(text.split())
    if len(line) > longest:
        raise RfpRefused(f"the {name} of an RFP has at most {longest} characters")
    return line
