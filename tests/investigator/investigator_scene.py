"""One case of an investigator: its records in memory, its workspace, the real CLI and the model
sandbox.
"""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from claude_agent_sdk import InMemorySessionStore, SessionKey, SessionStoreEntry

from tests.support.patience import patient
from threadline.cases.contract import TurnRequest
from threadline.cases.model import CaseLimits, ConversationPage, Entry, Service, WorkflowState
from threadline.investigator.runner import Investigator, InvestigatorConfig, TurnInput
from threadline.investigator.session_store import TurnSessionStore
from threadline.investigator.store import CaseReader, TurnClaim, TurnOutcome
from threadline.investigator.stream import SessionUsage
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.models.script import ScriptTurn

API_KEY = "sk-ant-test-0123456789abcdef"
BUG = "BUG-12"


_OUTCOME: dict[str, Any] = {
    "action": "post_findings",
    "title": "The total ignores the bulk price",
    "summary": "The total adds list prices.",
    "root_cause": "cart.py sums the wrong field",
    "evidence": [{"file": "sample-shop/cart.py", "line": 2, "note": "here"}],
    "severity": "S2",
    "confidence": 0.9,
    "clarification_question": "",
    "reply": "",
    "for_reporter": "The total ignored your discount for many pieces.",
    "recommended_actions": ["Sum the totals."],
    "affected_components": ["cart"],
    "fix_requested": False,
}


def a_claim(**changes: Any) -> TurnClaim:
    """The claim of a case's first turn, without messages."""
    claim = TurnClaim(
        bug_id=BUG,
        turn=1,
        attempt=1,
        token=1,
        session_id="s",
        parent_session=None,
        state=WorkflowState.INVESTIGATING,
        entries=(),
        questions=0,
        cost_usd=0.0,
        base={},
        diffs={},
        fix_requested_by="",
    )
    return replace(claim, **changes)


@dataclass
class MemoryCase(CaseReader):
    """The records of one case."""

    bug_id: str = BUG
    entries: list[Entry] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    known_services: list[Service] = field(default_factory=list)
    failing: Exception | None = None
    """Raised by every read of the conversation."""

    async def conversation(self, cursor: str | None, limit: int) -> ConversationPage:
        if self.failing:
            raise self.failing
        start = int(cursor or 0)
        end = start + limit
        return ConversationPage(
            self.entries[start:end], str(end) if end < len(self.entries) else None
        )

    async def case(self) -> dict[str, Any]:
        return {
            "bug_id": BUG,
            "title": "Wrong total",
            "reporter_id": "U1",
            "opened_at": datetime(2026, 11, 21, tzinfo=UTC),
        }

    async def similar(self, text: str, limit: int) -> Sequence[dict[str, Any]]:
        return [{"bug_id": "BUG-3", "title": f"Like {text}", "similarity": 0.7}][:limit]

    async def record_finding(
        self, title: str, detail: str, file: str, line: int, severity: str
    ) -> None:
        self.findings.append(
            {"title": title, "detail": detail, "file": file, "line": line, "severity": severity}
        )

    async def services(self) -> Sequence[Service]:
        return self.known_services

    async def service(self, name: str) -> Service | None:
        return next((service for service in self.known_services if service.name == name), None)


class MemorySessions(TurnSessionStore):
    """Keeps the transcripts in memory."""

    def __init__(self, memory: InMemorySessionStore) -> None:
        self._memory = memory
        self._failed = None
        self._dropped = False

    async def _write(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        await self._memory.append(key, entries)

    async def _read(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        return await self._memory.load(key)


@dataclass
class InvestigatorScene:
    """One case, with the real CLI and the model sandbox."""

    model: ModelSandbox
    workspace: Path
    config: InvestigatorConfig
    case: MemoryCase = field(default_factory=MemoryCase)
    store: InMemorySessionStore = field(default_factory=InMemorySessionStore)
    usage: SessionUsage = field(default_factory=SessionUsage)
    """The usage of all turns."""

    @property
    def investigator(self) -> Investigator:
        return Investigator(self.config)

    def turn(
        self,
        *,
        number: int = 1,
        may_ask: bool = True,
        may_fix: bool = False,
        unanswered: bool = False,
        timeout: float = 60.0,
        budget_usd: float = 5.0,
        workspace: Path | None = None,
        sessions: InMemorySessionStore | None = None,
        **claim: Any,
    ) -> TurnInput:
        """A turn about the case's entries, each time with a new session; `claim` holds changes to
        its claim.
        """
        held = a_claim(
            turn=number, entries=tuple(self.case.entries), fix_requested_by="m1" if may_fix else ""
        )
        held = replace(held, session_id=str(uuid.uuid4()), questions=0 if may_ask else 3)
        held = replace(held, **claim)
        limits = CaseLimits(turn_timeout=timeout, max_questions=3)
        request = TurnRequest(BUG, number, 1, held.session_id, limits, unanswered)
        kept = MemorySessions(sessions or self.store)
        return TurnInput(request, held, workspace or self.workspace, budget_usd, self.case, kept)

    async def run(self, **changes: Any) -> TurnOutcome:
        """Run `turn(**changes)`."""
        return await self.investigator.run(self.turn(**changes), self.usage)

    def answers(self, **changes: Any) -> None:
        """Let the model answer at once."""

        async def script(turn: ScriptTurn) -> None:
            await turn.finish(**self.outcome(**changes))

        self.model.script(script)

    def prompts(self) -> list[str]:
        """The last prompt of each request to the model."""
        return [exchange.conversation.prompt for exchange in self.model.log]

    @staticmethod
    def entry(seq: int, text: str, sender: str = "reporter") -> Entry:
        return Entry(
            seq, sender, f"U{seq}", "message", text, datetime(2026, 11, 21, 10, 4, 5, tzinfo=UTC)
        )

    @staticmethod
    def outcome(action: str = "post_findings", **changes: Any) -> dict[str, Any]:
        """A complete outcome, as the model returns it."""
        return _OUTCOME | {"action": action} | changes

    @staticmethod
    async def eventually(condition: Callable[[], bool], within: float = 10.0) -> None:
        """Return once `condition` holds."""
        deadline = time.monotonic() + patient(within)
        while not condition():
            assert time.monotonic() < deadline, "the condition never came true"
            await asyncio.sleep(0.02)


def running_agents() -> list[int]:
    """The processes below this one that were started as the agent's CLI, including one that is
    still the wrapper.
    """
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.status() != psutil.STATUS_ZOMBIE and any(
                "--session-id" in word for word in child.cmdline()
            ):
                found.append(child.pid)
    return found
