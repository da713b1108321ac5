"""One case of an investigator: its records in memory, its workspace, the real CLI and the model sandbox."""

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
from claude_agent_sdk import InMemorySessionStore

from threadline.cases.records import CaseFacts, ConversationPage, Entry, Finding, Service, SimilarCase
from threadline.investigator.ports import TurnBrief, TurnResult
from threadline.investigator.runner import Investigator, InvestigatorConfig
from threadline.investigator.stream import SessionUsage
from threadline_devstack.models import ModelSandbox, Turn

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
    "for_reporter": "The total ignored your discount for many pieces.",
    "recommended_actions": ["Sum the totals."],
    "affected_components": ["cart"],
    "fix_requested": False,
}


@dataclass
class MemoryCase:
    """The records of one case."""

    entries: list[Entry] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    known_services: list[Service] = field(default_factory=list)
    failing: Exception | None = None
    """Raised by every read of the conversation."""

    async def conversation(self, cursor: str | None, limit: int) -> ConversationPage:
        if self.failing:
            raise self.failing
        start = int(cursor or 0)
        end = start + limit
        return ConversationPage(self.entries[start:end], str(end) if end < len(self.entries) else None)

    async def case(self) -> CaseFacts:
        opened = datetime(2026, 11, 21, tzinfo=UTC)
        return CaseFacts(BUG, "Wrong total", "investigating", "S3", ["cart"], "U1", opened, 0, [], "")

    async def similar(self, text: str, limit: int) -> Sequence[SimilarCase]:
        return [SimilarCase("BUG-3", f"Like {text}", "resolved", "An old one", 0.7)][:limit]

    async def record_finding(self, finding: Finding) -> None:
        self.findings.append(finding)

    async def services(self) -> Sequence[Service]:
        return self.known_services

    async def service(self, name: str) -> Service | None:
        return next((service for service in self.known_services if service.name == name), None)


@dataclass
class InvestigatorScene:
    """One case, with the real CLI and the model sandbox."""

    model: ModelSandbox
    workspace: Path
    config: InvestigatorConfig
    case: MemoryCase = field(default_factory=MemoryCase)
    store: InMemorySessionStore = field(default_factory=InMemorySessionStore)
    usage: SessionUsage = field(default_factory=SessionUsage)
    """Of all turns."""

    @property
    def investigator(self) -> Investigator:
        return Investigator(self.config)

    def brief(self, **changes: Any) -> TurnBrief:
        """The brief of a first turn about the case's entries; a new session each time."""
        brief = TurnBrief(
            bug_id=BUG,
            turn=1,
            attempt=1,
            session_id=str(uuid.uuid4()),
            parent_session=None,
            state="investigating",
            entries=tuple(self.case.entries),
            workspace=self.workspace,
            may_ask=True,
            may_fix=False,
            unanswered=False,
            budget_usd=5.0,
            timeout=60.0,
        )
        return replace(brief, **changes)

    def answers(self, **changes: Any) -> None:
        """Let the model answer at once."""

        async def script(turn: Turn) -> None:
            await turn.finish(**self.outcome(**changes))

        self.model.script(script)

    def prompts(self) -> list[str]:
        """The last prompt of each request to the model."""
        return [exchange.conversation.prompt for exchange in self.model.log]

    @staticmethod
    def entry(seq: int, text: str, sender: str = "reporter") -> Entry:
        return Entry(seq, sender, f"U{seq}", "message", text, datetime(2026, 11, 21, 10, 4, 5, tzinfo=UTC))

    @staticmethod
    def outcome(action: str = "post_findings", **changes: Any) -> dict[str, Any]:
        """A complete answer of the model."""
        return _OUTCOME | {"action": action} | changes

    async def first_turn(self, **changes: Any) -> TurnResult:
        return await self.investigator.run_investigation(self.brief(**changes), self.case, self.store, self.usage)

    @staticmethod
    async def eventually(condition: Callable[[], bool], within: float = 10.0) -> None:
        """Return once `condition` holds."""
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline, "the condition never came true"
            await asyncio.sleep(0.02)


def running_agents() -> list[int]:
    """The processes below this one that were started as the agent's CLI, also while one is still the wrapper."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.status() != psutil.STATUS_ZOMBIE and any("--session-id" in word for word in child.cmdline()):
                found.append(child.pid)
    return found
