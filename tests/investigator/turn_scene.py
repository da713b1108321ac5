"""The agent's activities on Postgres and git: with the real CLI and a scripted model, or with a
scripted agent.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from tests.investigator.investigator_scene import InvestigatorScene
from tests.support.case_store import Scene
from threadline.cases.contract import TurnRequest
from threadline.cases.model import CaseLimits, TurnEnded, session_id
from threadline.cases.outcome import Outcome
from threadline.db.engine import Database
from threadline.investigator.activities import LiveAgentActivities
from threadline.investigator.runner import Investigator, InvestigatorConfig, TurnInput
from threadline.investigator.store import AgentStore, TurnOutcome
from threadline.investigator.stream import SessionUsage
from threadline.investigator.workspace import Workspaces
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.sample_repository import make_sample_repository


def findings(_: TurnInput) -> dict[str, Any]:
    """The default answer of a scripted agent."""
    return InvestigatorScene.outcome(
        title="The bulk price", summary="cart.py adds list prices.", for_reporter=""
    )


class ScriptedAgent(Investigator):
    """An agent without its CLI: `play` makes the agent's changes in a turn, and returns its
    answer.
    """

    def __init__(self) -> None:
        super().__init__(InvestigatorConfig("claude-sonnet-5", "sk-test"))
        self.turns: list[TurnInput] = []
        self.play: Callable[[TurnInput], dict[str, Any]] = findings
        self.cost = 0.01

    async def run(self, turn: TurnInput, usage: SessionUsage) -> TurnOutcome:
        self.turns.append(turn)
        usage.cost_usd += self.cost
        outcome = Outcome.model_validate(self.play(turn))
        return TurnOutcome(outcome.action, outcome.model_dump(mode="json"))


@dataclass
class TurnScene:
    scene: Scene
    activities: LiveAgentActivities
    root: Path

    def request(self, turn: int = 1, attempt: int = 1, **changes: Any) -> TurnRequest:
        session = session_id(self.scene.bug_id, turn, attempt)
        limits = changes.pop("limits", CaseLimits())
        return TurnRequest(self.scene.bug_id, turn, attempt, session, limits, **changes)

    async def run(self, turn: int = 1, attempt: int = 1, **changes: Any) -> TurnEnded:
        """One attempt, as a worker would run it."""
        request = self.request(turn, attempt, **changes)
        run = (
            self.activities.run_agent_investigation
            if turn == 1
            else self.activities.run_continuation_investigation
        )
        ended: TurnEnded = await ActivityEnvironment().run(run, request)
        return ended


@asynccontextmanager
async def _scene(
    database: Database, agent_database: Database, folder: Path, investigator: Investigator
) -> AsyncIterator[TurnScene]:
    repository = folder / "sample-shop.git"
    make_sample_repository(repository)
    root = folder / "workspaces"
    activities = LiveAgentActivities(
        agent_database, Workspaces(root, [str(repository)]), investigator
    )
    yield TurnScene(Scene(database, AgentStore(agent_database)), activities, root)


@pytest.fixture
async def cli_model() -> AsyncIterator[ModelSandbox]:
    """The model that the CLI of `cli_turns` calls."""
    async with ModelSandbox.running() as model:
        yield model


@pytest.fixture
async def cli_turns(
    database: Database, agent_database: Database, tmp_path: Path, cli_model: ModelSandbox
) -> AsyncIterator[TurnScene]:
    """Turns of the real CLI."""
    config = InvestigatorConfig("claude-sonnet-5", "sk-test", cli_model.url)
    async with _scene(database, agent_database, tmp_path, Investigator(config)) as scene:
        yield scene


@pytest.fixture
def agent() -> ScriptedAgent:
    return ScriptedAgent()


@pytest.fixture
async def turns(
    database: Database, agent_database: Database, tmp_path: Path, agent: ScriptedAgent
) -> AsyncIterator[TurnScene]:
    """Turns of a scripted agent."""
    async with _scene(database, agent_database, tmp_path, agent) as scene:
        yield scene
