"""The scripted agent: a turn with the product's own claims, leases and heartbeats, and no model behind it."""

import asyncio
import errno
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, cast

from temporalio.exceptions import ApplicationError

from threadline.cases.contract import TurnEnded, TurnRequest
from threadline.cases.model import Action
from threadline.db.values import agent_pool
from threadline.errors import Transient
from threadline.investigator.activities import LiveAgentActivities
from threadline.investigator.store import AgentTurns, Claim, TurnOutcome
from threadline.investigator.workspace import Workspaces
from threadline.settings import AgentSettings, RepositorySettings
from threadline.wiring.agent_worker import sweeping

READS_ON = 0.2
"""Share of the turns that read the next message as well, as an agent does through its tool."""

_ACTIONS = {Action.POST_FINDINGS: 60, Action.ASK_REPORTER: 20, Action.RESOLVED: 15, Action.ESCALATE: 5}


@dataclass(frozen=True)
class Mood:
    """Shares of the attempts that end in one way or another, and how long a turn takes, in seconds."""

    lost_before: float = 0.0
    lost_after: float = 0.0
    overloaded: float = 0.0
    broken_off: float = 0.0
    disk_full: float = 0.0
    shortest: float = 0.1
    longest: float = 0.8
    seed: str = ""

    @classmethod
    def now(cls, home: Path) -> "Mood":
        return cls(**json.loads((home / "chaos.json").read_text()).get("agent", {}))


class ScriptedActivities(LiveAgentActivities):
    """A turn says what it has seen, decides by a dice, and is hit by what the mood says."""

    def __init__(self, turns: AgentTurns, workspaces: Workspaces, root: Path, home: Path) -> None:
        super().__init__(turns, cast(Any, None), workspaces, cast(Any, None))  # neither records nor an agent are used
        self._root, self._home = root, home

    async def _work(self, request: TurnRequest, claim: Claim) -> TurnEnded:
        mood = Mood.now(self._home)
        seed = f"{mood.seed}:{claim.bug_id}:{claim.turn}:{claim.attempt}"
        dice = Random(seed)  # noqa: S311 - no secret depends on it
        self._lay_workspace(claim, full=dice.random() < mood.disk_full)
        await asyncio.sleep(dice.uniform(mood.shortest, mood.longest))
        fate = dice.random()
        for share, error in self._ends(mood):
            if fate < share:
                raise error
            fate -= share
        outcome = _outcome(request, claim, dice)
        await self._turns.finish(claim, outcome)
        if fate < mood.lost_after:
            raise _lost()
        assert outcome.action
        return TurnEnded(outcome.action)

    def _ends(self, mood: Mood) -> list[tuple[float, Exception]]:
        return [
            (mood.lost_before, _lost()),
            (mood.overloaded, Transient("The model is overloaded.", retry_after=0.5)),
            (mood.broken_off, Transient("The model's answer broke off.")),
        ]

    def _lay_workspace(self, claim: Claim, *, full: bool) -> None:
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        folder = self._root / "cases" / claim.bug_id
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "notes").write_text(f"turn {claim.turn}, attempt {claim.attempt}")


@asynccontextmanager
async def scripted_activities(
    settings: AgentSettings, repository: RepositorySettings, *, alone: bool
) -> AsyncIterator[ScriptedActivities]:
    """In the place of `threadline.wiring.agent_worker.agent_activities`."""
    root = repository.workspace_root
    async with agent_pool(settings.database_url.get_secret_value(), size=settings.slots + 2) as pool:
        turns, workspaces = AgentTurns(pool), Workspaces(root, repository.repo)
        async with sweeping(workspaces, turns):  # what a run leaves that is terminated between its end and its cleanup
            yield ScriptedActivities(turns, workspaces, root, repository.home)


def _outcome(request: TurnRequest, claim: Claim, dice: Random) -> TurnOutcome:
    seen = [entry.seq for entry in claim.entries]
    (action,) = dice.choices(list(_ACTIONS), list(_ACTIONS.values()))
    if action is Action.ASK_REPORTER and (request.unanswered or claim.questions >= request.limits.max_questions):
        action = Action.POST_FINDINGS
    read = [max(seen) + 1] if seen and dice.random() < READS_ON else []
    result = {
        "summary": f"turn {claim.turn}",
        "clarification_question": "Which browser?",
        "for_reporter": "We know more about it now, and will tell you when it works again.",
        "seen": seen,
        "said": [entry.text for entry in claim.entries],
    }
    return TurnOutcome(action, result=result, read=read)


def _lost() -> ApplicationError:
    return ApplicationError("the worker was shut down", type="WorkerShutdown")
