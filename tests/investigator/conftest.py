"""What the agents' tests run on: the real CLI, the model sandbox, and a case that lives in memory."""

import asyncio
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
import pytest_asyncio
from claude_agent_sdk import InMemorySessionStore

from tests.devstack.model_reset import reset
from tests.investigator.turn_scene import agent, cli_model, cli_turns, turns
from threadline.cases.records import CaseFacts, ConversationPage, Entry, Finding, Service, SimilarCase
from threadline.investigator.ports import TurnBrief, TurnResult
from threadline.investigator.runner import Investigator, InvestigatorConfig
from threadline_devstack.models import ModelSandbox, Turn

__all__ = ["agent", "cli_model", "cli_turns", "turns"]

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
class Bench:
    """One case on real parts."""

    model: ModelSandbox
    workspace: Path
    config: InvestigatorConfig
    case: MemoryCase = field(default_factory=MemoryCase)
    store: InMemorySessionStore = field(default_factory=InMemorySessionStore)

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
        return await self.investigator.run_investigation(self.brief(**changes), self.case, self.store)

    @staticmethod
    def running() -> list[int]:
        """The ids of the processes below this one that run the CLI."""
        return [child.pid for child in psutil.Process().children(recursive=True) if is_cli(child.pid)]

    @staticmethod
    async def eventually(condition: Callable[[], bool], within: float = 10.0) -> None:
        """Return once `condition` holds."""
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline, "the condition never came true"
            await asyncio.sleep(0.02)


def is_cli(pid: int) -> bool:
    """Whether `pid` is alive and was started as the agent's CLI; also while the wrapper has not become it yet."""
    try:
        process = psutil.Process(pid)
        return process.status() != psutil.STATUS_ZOMBIE and any("--session-id" in word for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served_model() -> AsyncIterator[ModelSandbox]:
    async with ModelSandbox.running(api_key=API_KEY) as sandbox:
        yield sandbox


@pytest.fixture
def model(served_model: ModelSandbox) -> ModelSandbox:
    """One server for the tests of a module, which run in one event loop: `asyncio(loop_scope="module")`."""
    return reset(served_model)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with one small repository in it."""
    folder = tmp_path / "workspace"
    (folder / "sample-shop").mkdir(parents=True)
    (folder / "attachments").mkdir()
    (folder / "sample-shop" / "cart.py").write_text(
        "def total(lines):\n    return sum(line.list_total for line in lines)\n"
    )
    return folder


@pytest.fixture
def bench(model: ModelSandbox, workspace: Path) -> Bench:
    config = InvestigatorConfig(model="claude-sonnet-5", api_key=API_KEY, base_url=model.url)
    made = Bench(model, workspace, config)
    made.case.entries.append(made.entry(1, "The total in the cart is wrong"))
    return made


@pytest.fixture
def leftovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """What turns have left in the temporary directory, which is the test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return lambda: [path.name for path in folder.iterdir()]
