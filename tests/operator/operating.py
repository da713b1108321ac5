"""Sources, a model and tools for the tests of the operator's context, prompt and memory."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from threadline.models.chat_model import Answer, ChatModel, Prompt
from threadline.models.model import ModelReply, Usage
from threadline.operator.context_sources import OtherThread, Person, Request, RfpState, Said, Sources, TeamFound
from threadline.operator.model.memory import Memory, MemoryKind
from threadline.rfps.model import EntryKind, Event, JournalEntry, OpportunityState, Rfp, RfpStatus, TeamMember
from threadline.slack.model import Thread, UserProfile
from threadline.tools.model import Author
from threadline.wiring import toolset_list

THREAD = Thread("T1", "C1", "1700000000.000100")
AT = datetime(2026, 2, 25, 6, 13, tzinfo=UTC)
EVERYTHING = Request(THREAD, "U1", "Which skills does our team have? Look at the web for competitors.", "rfp_abc123")
"""Calls for each layer."""
AUTHOR = Author("U1", "corr-1")


def rfp(rfp_id: str = "rfp_abc123", title: str = "Website relaunch") -> Rfp:
    return Rfp(
        rfp_id=rfp_id,
        title=title,
        client="Acme",
        due_date=date(2026, 3, 1),
        status=RfpStatus.NEW,
        owner="Ann",
        source_name="",
        created_by="U1",
        created_at=AT,
    )


def remembered(kind: MemoryKind, text: str, cue: str = "update status | a", failure: str = "") -> Memory:
    return Memory(kind, cue, text, failure, "U1", "rfp_abc123", AT)


@dataclass
class Told(Sources):
    """Answers each question at once, after `barrier`, never (`slow`), or with an error (`fail`)."""

    rows: int = 3
    words: str = "words"
    fail: Mapping[str, Exception] = field(default_factory=dict)
    barrier: asyncio.Barrier | None = None
    slow: Sequence[str] = ()
    asked: list[str] = field(default_factory=list)

    async def _ask(self, name: str) -> None:
        self.asked.append(name)
        if self.barrier:
            await self.barrier.wait()
        if name in self.slow:
            await asyncio.Event().wait()
        if name in self.fail:
            raise self.fail[name]

    async def person(self, request: Request) -> Person:
        await self._ask("person")
        member = TeamMember("U1", "Ann", "ann@x.test", "Lead", f"Biography {self.words}", ("Rust",), 12)
        return Person(UserProfile("U1", "ann@x.test", "Ann", "ann@x.test", 0.0), member)

    async def said_before(self, request: Request) -> Sequence[Said]:
        await self._ask("said_before")
        return [
            Said(f"Bob (U{n})", 1_700_000_000.0 + n, f"{self.words} said {n}", ("a.pdf",)) for n in range(self.rows)
        ]

    async def rfp(self, request: Request) -> RfpState:
        await self._ask("rfp")
        document = {"extra": self.words, "status": "new", "title": "Website relaunch"}
        document |= {f"field {n}": f"{self.words} {n}" for n in range(self.rows)}
        return RfpState(rfp(), OpportunityState("rfp_abc123", 7, document, "U1", "corr-1", AT))

    async def journal(self, request: Request) -> Sequence[JournalEntry]:
        await self._ask("journal")
        where = (AUTHOR, "C1", "1.1", AT)
        return [
            JournalEntry(n, "rfp_abc123", EntryKind.NOTE, f"{self.words} entry {n}.", *where)
            for n in range(self.rows, 0, -1)
        ]

    async def events(self, request: Request) -> Sequence[Event]:
        await self._ask("events")
        where = (AUTHOR, "C1", "1.1", AT)
        return [Event(n, "rfp_abc123", f"event_{n}", {"said": self.words}, *where) for n in range(self.rows, 0, -1)]

    async def related(self, request: Request) -> Sequence[Rfp]:
        await self._ask("related")
        return [rfp(f"rfp_other{n}", f"{self.words} {n}") for n in range(self.rows)]

    async def other_threads(self, request: Request) -> Sequence[OtherThread]:
        await self._ask("other_threads")
        told = [OtherThread("C1", f"{self.words} answered {n}", 1_700_000_000.0) for n in range(self.rows)]
        return [*told, OtherThread("C2"), OtherThread("C2")]

    async def memories(self, request: Request) -> Mapping[MemoryKind, Sequence[Memory]]:
        await self._ask("memories")
        return {
            kind: [remembered(kind, f"{self.words} {kind} {n}", failure="external") for n in range(self.rows)]
            for kind in MemoryKind
        }

    async def team(self, request: Request) -> TeamFound:
        await self._ask("team")
        members = [TeamMember(f"U{n}", f"Member {n}", biography=self.words) for n in range(self.rows)]
        return TeamFound(members, more=True)


@dataclass
class Answering(ChatModel):
    """A model that gives one answer, raises it, or never comes to one."""

    text: str | Exception | None = "Ann wants the status changed."
    asked: list[Prompt] = field(default_factory=list)

    async def ask(self, prompt: Prompt, *, attempt: int = 1) -> Answer:
        self.asked.append(prompt)
        if self.text is None:
            await asyncio.Event().wait()
        if isinstance(self.text, Exception):
            raise self.text
        return Answer(ModelReply(str(self.text)), Usage("gpt", 100, 0, 20, 0, 0.01))


_NAMES = ("opportunity.load", "opportunity.patch", "schedule.job", "slack.post.summary", "propose.action", "team.list")
TOOLS = tuple(each for each in toolset_list.TOOLS if each.name in _NAMES)
