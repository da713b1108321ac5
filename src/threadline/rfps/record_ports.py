"""What the operator's tools need of the records: requests, their states, their journals and logs, people, memories."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from threadline.operator.model.memory import Memory, MemoryKind
from threadline.rfps.journal_entries import Event, JournalEntry, NewEntry, NewEvent
from threadline.rfps.model import Rfp, RfpStatus
from threadline.rfps.opportunity_state import OpportunityState
from threadline.rfps.team_members import TeamMember
from threadline.tools.model import Author, Change, Effect, Operation

_FILLED = "Kept in the database: set DATABASE_URL, and fill it with `threadline records load FILE`."


@dataclass(frozen=True)
class Opportunity:
    """All that a turn begins with. `journal` and `events` are the newest, newest first."""

    rfp: Rfp
    state: OpportunityState
    journal: Sequence[JournalEntry]
    events: Sequence[Event]


@dataclass(frozen=True)
class RfpFile:
    """A part of what could be read in the file that a request was made from; `length`: characters of the whole."""

    rfp: Rfp
    text: str
    length: int


@dataclass(frozen=True)
class RfpQuery:
    """What is empty does not matter; `owner` is compared in any case."""

    open_only: bool = True
    status: RfpStatus | None = None
    owner: str = ""


class RfpBook(Protocol):
    """A team's requests. One that was deleted is not there.

    Raises:
        RfpNotFound: the message names the nearest ids.
    """

    async def listed(self, team: str, query: RfpQuery, limit: int) -> Sequence[Rfp]:
        """By when they are due, those without a date last."""
        ...

    async def search(self, team: str, words: str, limit: int) -> Sequence[Rfp]:
        """The likest first."""
        ...

    async def get(self, team: str, rfp_id: str, start: int, length: int) -> RfpFile:
        """The request, and `length` characters of its file's text from `start` on."""
        ...


class OpportunityBook(Protocol):
    """The states, journals and logs of a team's requests. The same operation changes nothing twice.

    Raises:
        RfpNotFound: the message names the nearest ids.
        PatchRefused, RfpRefused, EntryRefused, RateExceeded: of a change; nothing was changed.
    """

    async def load(self, team: str, rfp_id: str, recent: int) -> Opportunity:
        """With `recent` entries and events at most; the state is begun where there is none yet."""
        ...

    async def patch(
        self, change: Change, rfp_id: str, patch: Mapping[str, Any], author: Author, version: int | None
    ) -> OpportunityState:
        """Apply a merge patch to the newest state, or only to `version` where that is given.

        Raises:
            StateMoved: `version` is not the newest.
            NotDone: others were faster again and again; nothing was changed.
        """
        ...

    async def append(self, change: Change, rfp_id: str, new: NewEntry, author: Author) -> JournalEntry: ...

    async def log(self, change: Change, rfp_id: str, new: NewEvent, author: Author) -> Event: ...

    async def journal(self, team: str, rfp_id: str, limit: int, before: int | None) -> Sequence[JournalEntry]:
        """The newest first; `before` an entry's id, for older ones."""
        ...

    async def events(self, team: str, rfp_id: str, limit: int, before: int | None) -> Sequence[Event]:
        """As `journal`."""
        ...

    async def effect(self, operation: Operation) -> Effect | None:
        """What the operation did; None when it changed nothing."""
        ...


class TeamBook(Protocol):
    async def listed(self, team: str, skill: str, limit: int) -> Sequence[TeamMember]:
        """By name; `skill` a part of one, or nothing."""
        ...

    async def named(self, team: str, words: str) -> Sequence[TeamMember]:
        """Everybody of this name or Slack id. Raises `MemberNotFound`."""
        ...


class MemoryBook(Protocol):
    async def recall(
        self, team: str, channel: str, question: str, kinds: Collection[MemoryKind], limit: int
    ) -> Mapping[MemoryKind, Sequence[Memory]]:
        """What may be told in `channel` and has the question's words, the likest first, `limit` of each kind."""
        ...
