"""The agent's activities on Postgres and git: with the real CLI and a scripted model, or with a scripted agent."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from tests.support.case_store import Scene
from threadline.cases.contract import TurnEnded, TurnRequest
from threadline.cases.model import Limits
from threadline.cases.outcome import Outcome
from threadline.db.engine import Database
from threadline.db.values import agent_pool
from threadline.investigator.activities import LiveAgentActivities
from threadline.investigator.ports import TurnBrief, TurnResult
from threadline.investigator.runner import Investigator, InvestigatorConfig
from threadline.investigator.store import AgentTurns
from threadline.investigator.stream import SessionUsage
from threadline.investigator.workspace import Workspaces
from threadline.threads import addressing
from threadline.wiring.agent_worker import CaseAccess
from threadline_devstack.models import ModelSandbox
from threadline_devstack.models.investigation import _outcome
from threadline_devstack.sample_repository import make_sample_repository


def findings(_: TurnBrief) -> dict[str, Any]:
    """What a scripted agent answers by itself."""
    return _outcome(action="post_findings", title="The bulk price", summary="cart.py adds list prices.")


class ScriptedAgent(Investigator):
    """An agent without its CLI: `play` does what the agent would do in a turn, and gives its answer."""

    def __init__(self) -> None:
        super().__init__(InvestigatorConfig("claude-sonnet-5", "sk-test"))
        self.briefs: list[TurnBrief] = []
        self.play: Callable[[TurnBrief], dict[str, Any]] = findings
        self.cost = 0.01

    async def run_investigation(
        self, brief: TurnBrief, records: object, store: object, usage: SessionUsage, **_: object
    ) -> TurnResult:
        self.briefs.append(brief)
        usage.cost_usd += self.cost
        outcome = Outcome.model_validate(self.play(brief))
        return TurnResult(outcome, duration_s=0.1, read=frozenset())

    run_continuation = run_investigation


@dataclass
class TurnScene:
    scene: Scene
    activities: LiveAgentActivities
    root: Path

    def request(self, turn: int = 1, attempt: int = 1, **changes: Any) -> TurnRequest:
        session = addressing.session_id(self.scene.bug_id, turn, attempt)
        limits = changes.pop("limits", Limits())
        return TurnRequest(self.scene.bug_id, turn, attempt, session, limits, **changes)

    async def run(self, turn: int = 1, attempt: int = 1, **changes: Any) -> TurnEnded:
        """One attempt, as a worker would run it."""
        request = self.request(turn, attempt, **changes)
        run = self.activities.run_agent_investigation if turn == 1 else self.activities.run_continuation_investigation
        ended: TurnEnded = await ActivityEnvironment().run(run, request)
        return ended


@asynccontextmanager
async def _scene(
    database: Database, agent_url: str, folder: Path, investigator: Investigator
) -> AsyncIterator[TurnScene]:
    repository = folder / "sample-shop.git"
    make_sample_repository(repository)
    root = folder / "workspaces"
    async with agent_pool(agent_url) as pool:
        store = AgentTurns(pool)
        activities = LiveAgentActivities(
            store, CaseAccess(pool, agent_url), Workspaces(root, [str(repository)]), investigator
        )
        yield TurnScene(Scene(database, store), activities, root)


@pytest.fixture
async def cli_model() -> AsyncIterator[ModelSandbox]:
    """The model behind the CLI of `cli_turns`."""
    async with ModelSandbox.running() as model:
        yield model


@pytest.fixture
async def cli_turns(
    database: Database, agent_url: str, tmp_path: Path, cli_model: ModelSandbox
) -> AsyncIterator[TurnScene]:
    """Turns of the real CLI."""
    config = InvestigatorConfig("claude-sonnet-5", "sk-test", cli_model.url)
    async with _scene(database, agent_url, tmp_path, Investigator(config)) as scene:
        yield scene


@pytest.fixture
def agent() -> ScriptedAgent:
    return ScriptedAgent()


@pytest.fixture
async def turns(database: Database, agent_url: str, tmp_path: Path, agent: ScriptedAgent) -> AsyncIterator[TurnScene]:
    """Turns of a scripted agent."""
    async with _scene(database, agent_url, tmp_path, agent) as scene:
        yield scene
