"""The journal of a request, in people's words, and its log of events: both only grow."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from threadline.errors import Permanent
from threadline.tools.model import Author

LONGEST_ENTRY = 10_000
"""Characters of an entry; a longer one is refused."""
MOST_PAYLOAD = 64_000
"""Bytes of an event's payload as JSON; a larger one is refused."""
LONGEST_TYPE = 100


class EntryKind(StrEnum):
    NOTE = "note"
    DECISION = "decision"
    SAID = "said"
    """What the bot told in a thread without having changed anything."""
    FAILED = "failed"
    """What was attempted and did not succeed."""


@dataclass(frozen=True)
class NewEntry:
    text: str
    kind: EntryKind = EntryKind.NOTE


@dataclass(frozen=True)
class JournalEntry:
    """`channel` and `thread_ts` say in which thread it came about."""

    id: int
    rfp_id: str
    kind: EntryKind
    text: str
    author: Author
    channel: str
    thread_ts: str
    at: datetime


@dataclass(frozen=True)
class NewEvent:
    event_type: str
    payload: dict[str, Any]


@dataclass(frozen=True)
class Event:
    """As a journal's entry, with JSON in the place of words."""

    id: int
    rfp_id: str
    event_type: str
    payload: dict[str, Any]
    author: Author
    channel: str
    thread_ts: str
    at: datetime


class EntryRefused(Permanent):
    """There is nothing to write, or too much of it."""
