"""What the context of a turn is made of: values, and the port that fetches them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from threadline.operator.model.memory import Memory, MemoryKind
from threadline.rfps.model import Event, JournalEntry, OpportunityState, Rfp, TeamMember
from threadline.slack.model import Thread, UserProfile


@dataclass(frozen=True)
class Request:
    """What somebody asks in a thread. `rfp_id` is the RFP that it is about; empty: none."""

    thread: Thread
    user_id: str
    question: str
    rfp_id: str = ""


@dataclass(frozen=True)
class Person:
    """Who asks; `member` is None for somebody who is not known to the team."""

    actor: UserProfile
    member: TeamMember | None = None


@dataclass(frozen=True)
class Said:
    """A message in Slack. `author`: with the id, as `name_with_id` names them; `at`: seconds since 1970."""

    author: str
    at: float
    text: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class RfpState:
    rfp: Rfp
    state: OpportunityState


@dataclass(frozen=True)
class OtherThread:
    """A thread about the same RFP. `answered`: what was last answered there, where this thread's readers read it too.

    `at`: when, in seconds since 1970.
    """

    channel: str
    answered: str = ""
    at: float = 0.0


@dataclass(frozen=True)
class TeamFound:
    """`members` in the order of their names; `more`: there are others, whom nobody has read."""

    members: Sequence[TeamMember]
    more: bool = False


class Sources(Protocol):
    """Each question stands for itself: all of them are asked at once. What cannot be answered raises.

    Of an RFP that is not there `Permanent` says which are like it.
    """

    async def person(self, request: Request) -> Person: ...

    async def said_before(self, request: Request) -> Sequence[Said]:
        """What was said in the thread before the bot was called, oldest first: the dialogue does not hold it."""
        ...

    async def rfp(self, request: Request) -> RfpState: ...

    async def journal(self, request: Request) -> Sequence[JournalEntry]:
        """The newest first, as events are."""
        ...

    async def events(self, request: Request) -> Sequence[Event]: ...

    async def related(self, request: Request) -> Sequence[Rfp]:
        """Others of the same client or with a title like it; without an RFP, those that have the question's words."""
        ...

    async def other_threads(self, request: Request) -> Sequence[OtherThread]: ...

    async def memories(self, request: Request) -> Mapping[MemoryKind, Sequence[Memory]]:
        """The likest to the question first, of each kind."""
        ...

    async def team(self, request: Request) -> TeamFound: ...
