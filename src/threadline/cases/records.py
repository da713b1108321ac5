"""What is on record about a case, as plain values: the memory answers with them, and the agent's tools show them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from threadline.cases.model import CaseStatus, Severity


@dataclass(frozen=True)
class Entry:
    """One message as it reads now. `seq` numbers what people wrote; the bot's own posts have 0.

    `read`: a settled turn has used it, or has at least read it through its tool.
    """

    seq: int
    sender_type: str
    sender_id: str
    kind: str
    text: str
    at: datetime
    read: bool = False


@dataclass(frozen=True)
class ConversationPage:
    """`next_cursor` is None on the last page."""

    entries: Sequence[Entry]
    next_cursor: str | None


@dataclass(frozen=True)
class Service:
    name: str
    description: str
    owner: str
    channel: str
    repository: str


@dataclass(frozen=True)
class CaseCard:
    """What may be told of a case where somebody asks about it.

    `told`: what its reporter was told or asked last, empty when nothing was; `link`: of the thread it was reported in.
    What is for developers (`components`, `findings`, `pull_request`) is empty where others read as well.
    """

    bug_id: str
    title: str
    status: CaseStatus
    severity: Severity
    opened_at: datetime
    status_since: datetime
    link: str
    told: str = ""
    components: Sequence[str] = ()
    findings: str = ""
    pull_request: str = ""
