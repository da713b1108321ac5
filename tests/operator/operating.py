"""Records, Slack, a model and tools for the tests of the operator's context, prompt and memory."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import partial

from threadline.models.model import ChatModel, Completion, ModelReply, Prompt, Usage
from threadline.operator.context import (
    TOKENS,
    Context,
    ContextRequest,
    Layer,
    LayerName,
    Records,
    RelatedThread,
    SlackContext,
    build_context,
    events_layer,
    journal_layer,
    memories_layer,
    mentions_team,
    other_threads_layer,
    related_layer,
    rfp_layer,
    team_layer,
)
from threadline.operator.store import MemoryKind, StoredMemory
from threadline.rfps.model import (
    EntryKind,
    Event,
    JournalEntry,
    OpportunityState,
    Rfp,
    RfpStatus,
    TeamMember,
)
from threadline.slack.history import RawMessage
from threadline.slack.model import Thread, User, UserProfile
from threadline.tools.model import Author
from threadline.wiring import toolsets

THREAD = Thread("T1", "C1", "1700000000.000100")
AT = datetime(2026, 2, 25, 6, 13, tzinfo=UTC)
WHEN = datetime.fromtimestamp(1_700_000_000, UTC)
EVERYTHING = ContextRequest(THREAD, "U1", "Which skills does our team have?", "rfp_abc123")
"""Needs every layer."""
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


def remembered(
    kind: MemoryKind, text: str, search_text: str = "update status | a", failure: str = ""
) -> StoredMemory:
    return StoredMemory(kind, search_text, text, "U1", "C1", "rfp_abc123", failure, created_at=AT)


class Told(SlackContext):
    """Slack's part of the context: it answers after `barrier`, never (`slow`), or with an error
    (`fail`).
    """

    def __init__(
        self,
        rows: int = 3,
        words: str = "words",
        fail: Mapping[LayerName, Exception] | None = None,
        slow: Sequence[LayerName] = (),
        barrier: asyncio.Barrier | None = None,
    ) -> None:
        self._rows = rows
        self._words = words
        self._fail = fail or {}
        self._slow = slow
        self._barrier = barrier

    async def _wait(self, name: LayerName) -> None:
        if self._barrier:
            await self._barrier.wait()
        if name in self._slow:
            await asyncio.Event().wait()
        if name in self._fail:
            raise self._fail[name]

    async def profile(self, request: ContextRequest, stored: UserProfile | None) -> UserProfile:
        await self._wait(LayerName.USER)
        return UserProfile("U1", "ann@x.test", "Ann", "ann@x.test", 0.0)

    async def messages_before(
        self, request: ContextRequest
    ) -> tuple[Sequence[RawMessage], Mapping[str, User | None]]:
        await self._wait(LayerName.THREAD)
        said = [
            (f"{WHEN.timestamp():.6f}", f"U{n}", f"{self._words} said {n}")
            for n in range(self._rows)
        ]
        files = [{"id": "F1", "name": "a.pdf"}]
        return [
            {"ts": ts, "user": user, "text": text, "files": files} for ts, user, text in said
        ], {user: User(THREAD.team, name="Bob") for _, user, _ in said}


def records(request: ContextRequest, rows: int = 3, words: str = "words") -> Records:
    """The records of `read_records` for a request, with this many rows for each layer."""
    where = (AUTHOR, AT)
    document = {"extra": words, "status": "new", "title": "Website relaunch"}
    document |= {f"field {n}": f"{words} {n}" for n in range(rows)}
    members = [TeamMember(f"U{n}", f"Member {n}", biography=words) for n in range(rows)]
    layers: dict[LayerName, Callable[[], Layer]] = {
        LayerName.RELATED: partial(
            related_layer, [rfp(f"rfp_other{n}", f"{words} {n}") for n in range(rows)]
        ),
        LayerName.MEMORIES: partial(memories_layer, memories(rows, words)),
    }
    if mentions_team(request.question):
        layers[LayerName.TEAM] = partial(team_layer, members, request.user_id)
    if request.rfp_id:
        entries = [
            JournalEntry(n, "rfp_abc123", EntryKind.NOTE, f"{words} entry {n}.", *where)
            for n in range(rows, 0, -1)
        ]
        events = [
            Event(n, "rfp_abc123", f"event_{n}", {"said": words}, *where)
            for n in range(rows, 0, -1)
        ]
        layers |= {
            LayerName.RFP: partial(
                rfp_layer, OpportunityState("rfp_abc123", 7, document, "U1", "corr-1", AT)
            ),
            LayerName.JOURNAL: partial(journal_layer, entries),
            LayerName.EVENTS: partial(events_layer, events),
            LayerName.OTHER_THREADS: partial(other_threads_layer, request.other_threads),
        }
    return Records(
        layers, TeamMember("U1", "Ann", "ann@x.test", "Lead", f"Biography {words}", ("Rust",), 12)
    )


def memories(rows: int = 3, words: str = "words") -> Mapping[MemoryKind, Sequence[StoredMemory]]:
    return {
        kind: [remembered(kind, f"{words} {kind} {n}", failure="external") for n in range(rows)]
        for kind in MemoryKind
    }


async def built(
    request: ContextRequest,
    rows: int = 3,
    words: str = "words",
    tokens: int = TOKENS,
    slack: Told | None = None,
    timeout: float = 30.0,
) -> Context:
    threads = [RelatedThread("C1", f"{words} answered {n}", WHEN) for n in range(rows)]
    request = replace(request, other_threads=[*threads, RelatedThread("C2"), RelatedThread("C2")])
    return await build_context(
        request, records(request, rows, words), slack or Told(rows, words), (), tokens, timeout
    )


@dataclass
class Answering(ChatModel):
    """A model that gives one answer, raises it, or never returns."""

    text: str | Exception | None = "Ann wants the status changed."
    asked: list[Prompt] = field(default_factory=list)

    async def ask(self, prompt: Prompt, *, attempt: int = 1) -> Completion:
        self.asked.append(prompt)
        if self.text is None:
            await asyncio.Event().wait()
        if isinstance(self.text, Exception):
            raise self.text
        return Completion(ModelReply(str(self.text)), Usage("gpt", 100, 0, 20, 0, 0.01))


_NAMES = (
    "opportunity.load",
    "opportunity.patch",
    "schedule.job",
    "slack.post.summary",
    "propose.action",
    "team.list",
)
TOOLS = tuple(each for each in toolsets.TOOLS if each.name in _NAMES)
