"""What an investigation is given and gives back: values, and the ports through which it reaches the case.

Every port is bound to one case before the agent sees it; none takes a bug id. Their methods raise `Permanent` or
`Transient` with sentences that the model may read, so no message holds a secret.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from threadline.cases.outcome import Outcome
from threadline.cases.records import CaseFacts, ConversationPage, Entry, Finding, Service, SimilarCase, Table


class CaseRecords(Protocol):
    """The case's own records."""

    async def conversation(self, cursor: str | None, limit: int) -> ConversationPage:
        """At most `limit` entries from `cursor` on (None: from the first); a cursor always gives the same first one."""
        ...

    async def case(self) -> CaseFacts: ...

    async def similar(self, text: str, limit: int) -> Sequence[SimilarCase]: ...

    async def record_finding(self, finding: Finding) -> None:
        """Keep a finding once, also when a later attempt of the turn records it again."""
        ...

    async def services(self) -> Sequence[Service]: ...

    async def service(self, name: str) -> Service | None: ...


class QuerySource(Protocol):
    """Read-only databases, by name."""

    @property
    def names(self) -> Sequence[str]: ...

    async def query(self, source: str, sql: str, limit: int) -> Table: ...


class LogSearch(Protocol):
    """Log lines, newest first."""

    async def search(self, query: str, minutes: int, limit: int) -> Sequence[str]: ...


@dataclass(frozen=True)
class TurnBrief:
    """All that one attempt of one turn is told.

    `session_id` is new for every attempt; `parent_session` is the session of the last settled turn, or None. `entries`
    is the batch of this turn. `budget_usd` and `timeout` (seconds) bound this attempt.
    """

    bug_id: str
    turn: int
    attempt: int
    session_id: str
    parent_session: str | None
    state: str
    entries: Sequence[Entry]
    workspace: Path
    may_ask: bool
    may_fix: bool
    unanswered: bool
    budget_usd: float
    timeout: float


@dataclass(frozen=True)
class TurnResult:
    """What a turn came to. `read` holds the `seq` of every message that the model certainly saw through its tool."""

    outcome: Outcome
    duration_s: float
    read: frozenset[int]
