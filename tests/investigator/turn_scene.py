"""The agent's activities on real parts: Postgres, git, the Claude Code CLI. Only the model is scripted."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from tests.support.case_store import Scene
from threadline.cases.contract import TurnEnded, TurnRequest
from threadline.cases.model import Limits
from threadline.db.engine import Database
from threadline.db.values import agent_pool
from threadline.investigator.activities import LiveAgentActivities
from threadline.investigator.runner import Investigator, InvestigatorConfig
from threadline.investigator.store import AgentTurns
from threadline.investigator.workspace import Workspaces
from threadline.threads import addressing
from threadline.wiring.agent_worker import CaseAccess
from threadline_devstack.models import ModelSandbox
from threadline_devstack.sample_repository import make_sample_repository


@dataclass
class TurnScene:
    scene: Scene
    model: ModelSandbox
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


@pytest.fixture
async def turns(database: Database, agent_url: str, tmp_path: Path) -> AsyncIterator[TurnScene]:
    repository = tmp_path / "sample-shop.git"
    make_sample_repository(repository)
    async with ModelSandbox.running() as model, agent_pool(agent_url) as pool:
        store = AgentTurns(pool)
        activities = LiveAgentActivities(
            store,
            CaseAccess(pool, agent_url),
            Workspaces(tmp_path / "workspaces", [str(repository)]),
            Investigator(InvestigatorConfig("claude-sonnet-5", "sk-test", model.url)),
        )
        yield TurnScene(Scene(database, store), model, activities, tmp_path / "workspaces")
