"""Runs turns of the real agent concurrently, and prints their costs: `… ours|bare CONFIGURATION`,
which is JSON.

`ours` is the activity as the agents' worker runs it: claim, workspace, CLI with tools, hooks and
transcript, outcome. `bare` is the SDK's `query()` with the same model, prompt and schema.
"""

import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query
from temporalio.testing import ActivityEnvironment

from threadline.cases.contract import TurnRequest
from threadline.cases.model import CaseLimits, session_id
from threadline.cases.outcome import output_format
from threadline.db.agent_role import agent_database
from threadline.investigator.activities import LiveAgentActivities
from threadline.investigator.runner import Investigator, InvestigatorConfig
from threadline.investigator.workspace import Workspaces

MODEL = "claude-sonnet-5"
PROMPT = "The total in the cart is wrong. Find out why, and hand over what you found."


@dataclass(frozen=True)
class Given:
    """The configuration. `cases` are one for each turn, and one more that is not measured: the
    first turn copies the repository.
    """

    database: str
    model_url: str
    folder: str
    repository: str
    cases: list[str]


Turn = Callable[[str], Awaitable[None]]


async def _ours(given: Given) -> None:
    async with agent_database(given.database, pool_size=2 * len(given.cases) + 2) as database:
        investigator = Investigator(InvestigatorConfig(MODEL, "none", given.model_url))
        workspaces = Workspaces(Path(given.folder) / "workspaces", (given.repository,))
        activities = LiveAgentActivities(database, workspaces, investigator)

        async def turn(bug_id: str) -> None:
            request = TurnRequest(bug_id, 1, 1, session_id(bug_id, 1, 1), CaseLimits())
            await ActivityEnvironment().run(activities.run_agent_investigation, request)

        await _measured(turn, given.cases)


async def _bare(given: Given) -> None:
    place = Path(given.folder) / "bare"
    place.mkdir(parents=True, exist_ok=True)

    async def turn(_: str) -> None:
        options = ClaudeAgentOptions(
            model=MODEL,
            cwd=place,
            env={
                "ANTHROPIC_BASE_URL": given.model_url,
                "ANTHROPIC_API_KEY": "none",
                "HOME": str(place),
                "CLAUDE_CONFIG_DIR": str(place / "config"),
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_TELEMETRY": "1",
            },
            output_format=output_format(),
        )
        results = [
            each
            async for each in query(prompt=PROMPT, options=options)
            if isinstance(each, ResultMessage)
        ]
        if not results or results[-1].structured_output is None:
            raise RuntimeError(f"the bare turn came to nothing: {results}")

    await _measured(turn, given.cases)


async def _measured(turn: Turn, cases: list[str]) -> None:
    await turn(cases[0])
    walls: list[float] = []
    before = _cpu()

    async def timed(case: str) -> None:
        began = time.perf_counter()
        await turn(case)
        walls.append(time.perf_counter() - began)

    await asyncio.gather(*(timed(case) for case in cases[1:]))
    told: dict[str, Any] = {"walls": walls, "cpu": _cpu() - before}
    sys.stdout.write(json.dumps(told) + "\n")


def _cpu() -> float:
    """Return the CPU seconds of this process, and of the CLIs that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    given = Given(**json.loads(sys.argv[2]))
    asyncio.run(_ours(given) if sys.argv[1] == "ours" else _bare(given))
